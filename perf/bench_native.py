"""How near do the native backend's kernels come to the AES units, and how far ahead of a library's call are they?

    python -m perf.bench_native -o native.json          what `make bench-native` does: some minutes
    python -m perf.bench_native -o native.json --quick  three processes
    python -m perf.bench_native --table native.json     the table of a run that is there already

Rows that are compared are measured alternately in one process (interleave.py says why); the rows stand in
native_rows.py, what is asked of them in asked.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from cellcrypt import backends
from cellcrypt.__main__ import program
from cellcrypt.compiled import core, reason

from .asked import BEST, NATIVE_LINES, asked_table
from .common import fail, general_metadata, payload_len
from .interleave import PYTHON, Amount, Plan, add_options, measure_one, settle
from .native_rows import BATCHES, CIRCUITS, PAUSES, groups
from .report import report
from .results import BadResults, load

FULL, QUICK = Amount(10, 1_000_000), Amount(3, 1_000_000)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.bench_native", description=__doc__.partition("\n")[0])
    add_options(parser, FULL, QUICK, "JSON file to write; must not exist, unless --resume", "--table")
    add = parser.add_argument
    add("--payload-len", type=payload_len, default=509, help="bytes (default: 509)")
    add("--kernel", action="append", help="only this one; repeatable; default: all that this processor has")
    add(
        "--only",
        action="append",
        metavar="GROUP",
        help=f"only these rows; repeatable: calls; batches of N ({', '.join(map(str, BATCHES))}); N circuits "
        f"({', '.join(map(str, CIRCUITS))}); making; pauses; threads",
    )
    return parser


def show(path: str) -> None:
    """Print the table of a run, and everything that was measured."""
    try:
        results = load(path)
    except BadResults as error:
        fail(str(error))
    if results.kind != "bench_native":
        fail(f"{path}: written by suite {results.kind}, this shows those of bench_native")
    for field in ("native_payload_len", "native_kernel"):
        if field not in results.metadata:
            fail(f"{path}: the rows do not say one {field}")
    payload_len, kernel = results.metadata["native_payload_len"], results.metadata["native_kernel"]
    print(asked_table(results, NATIVE_LINES, payload_len, kernel))
    print()
    if any(name.startswith("pause[") for name, _ in results.rows()):
        print(PAUSES, end="\n\n")
    print(report(results, None))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)
    settle(options, FULL, QUICK)
    if options.shown:
        show(options.shown)
        return
    state = backends()["native"]
    if core is None or not state.usable:
        fail(f"the native backend can't be measured here: {state.reason or reason}")
    for kernel in options.kernel or ():
        if kernel not in state.kernels:
            fail(f"--kernel must be one of {', '.join(state.kernels)}, got {kernel}")
    kernels = tuple(kernel for kernel in state.kernels if not options.kernel or kernel in options.kernel)
    found = groups(kernels, options.payload_len, options.cells)
    metadata = general_metadata("bench_native")
    metadata.update(native_payload_len=options.payload_len, native_kernel=BEST if BEST in kernels else kernels[0])
    if options.group:
        measure_one(options, found, metadata)
        return
    names = [group.name for group in found]
    for name in options.only or ():
        if name not in names:
            fail(f"--only: with {options.cells} cells a value there is no group {name!r}; there are {', '.join(names)}")
    if options.output is None:
        fail("-o FILE is needed: results are kept")
    plan = Plan(
        metadata=metadata,
        groups=[group for group in found if not options.only or group.name in options.only],
        rounds=options.processes,
        values=options.values,
        command=[PYTHON, "-m", "perf.bench_native", *arguments],
        output=options.output,
        resume=options.resume,
    )
    for kernel in ("vaes512", "vaes256", "aesni"):
        if kernel not in state.kernels:
            print(f"this processor can't measure kernel {kernel}", file=sys.stderr)
    if len(os.sched_getaffinity(0)) < 2 and any(group.name == "threads" for group in plan.groups):
        print("this run is allowed one processor, and can't measure two threads", file=sys.stderr)
    plan.run()
    show(options.output)


if __name__ == "__main__":
    program(main)
