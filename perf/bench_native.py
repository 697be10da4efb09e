"""How near do the native backend's kernels come to the AES units, and how far ahead of a library's call are they?

    python -m perf.bench_native -o native.json          what `make bench-native` does: some minutes
    python -m perf.bench_native -o native.json --quick  three processes
    python -m perf.bench_native --table native.json     the table of a run that is there already

Rows that are compared are measured alternately in one process (interleave.py says why); the rows stand in
native_rows.py, what is asked of them in asked.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cellcrypt import backends
from cellcrypt.compiled import core, reason

from . import timer
from .asked import BEST, NATIVE_LINES, asked_table
from .bench_cells import _payload_len, _positive
from .common import check_output, fail, general_metadata
from .interleave import Plan, run_group
from .native_rows import groups
from .report import report
from .results import BadResults, load

PROCESSES, QUICK_PROCESSES = 10, 3
CELLS = 1_000_000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.bench_native", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("-o", "--output", help="JSON file to write; must not exist, unless --resume")
    add("-p", "--processes", type=_positive, help=f"default: {PROCESSES}, or {QUICK_PROCESSES} with --quick")
    add("-n", "--values", type=_positive, default=1, help="values a process (default: 1)")
    add("--cells", type=_positive, default=CELLS, help=f"cells in one value (default: {CELLS})")
    add("--payload-len", type=_payload_len, default=509, help="bytes (default: 509)")
    add("--kernel", action="append", help="only this one; repeatable; default: all that this processor has")
    add("--only", action="append", help="only the group of this name; repeatable")
    add("--quick", action="store_true")
    add("--cpu-time", action="store_true", help="measure processor time, on a machine with neighbours")
    add("--resume", action="store_true", help="go on with what the output has")
    add("--table", metavar="FILE", help="measure nothing, show the table of FILE")
    add("--group", help=argparse.SUPPRESS)
    add("--group-output", help=argparse.SUPPRESS)
    return parser


def show(path: str) -> None:
    """Print the table of a run, and everything that was measured."""
    try:
        results = load(path)
    except BadResults as error:
        fail(str(error))
    if results.kind != "bench_native":
        fail(f"{path}: written by suite {results.kind}, this shows those of bench_native")
    payload_len, kernel = int(results.metadata["native_payload_len"]), str(results.metadata["native_kernel"])
    print(asked_table(results, NATIVE_LINES, payload_len, kernel))
    print()
    print(report(results, None))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)
    timer.use(options.cpu_time)
    if options.table:
        show(options.table)
        return
    state = backends()["native"]
    if core is None or not state.usable:
        fail(f"the native backend can't be measured here: {state.reason or reason}")
    for kernel in options.kernel or ():
        if kernel not in state.kernels:
            fail(f"--kernel must be one of {', '.join(state.kernels)}, got {kernel}")
    kernels = tuple(kernel for kernel in state.kernels if not options.kernel or kernel in options.kernel)
    found = groups(kernels, options.payload_len, options.cells)
    if options.group:
        metadata = general_metadata("bench_native")
        metadata.update(native_payload_len=options.payload_len, native_kernel=BEST if BEST in kernels else kernels[0])
        (group,) = (group for group in found if group.name == options.group)
        run_group(group, options.values, metadata).dump(options.group_output)
        return
    names = [group.name for group in found]
    for name in options.only or ():
        if name not in names:
            fail(f"--only: there is no group {name!r}; there are {', '.join(names)}")
    if options.output is None:
        fail("-o FILE is needed: results are kept")
    if not options.resume:
        check_output(options.output)
    plan = Plan(
        groups=[group for group in found if not options.only or group.name in options.only],
        rounds=options.processes or (QUICK_PROCESSES if options.quick else PROCESSES),
        command=[sys.executable, "-m", "perf.bench_native", *arguments],
        output=options.output,
        resume=options.resume,
    )
    for kernel in ("vaes512", "vaes256", "aesni"):
        if kernel not in state.kernels:
            print(f"this processor can't measure kernel {kernel}", file=sys.stderr)
    plan.run()
    show(options.output)


if __name__ == "__main__":
    main()
