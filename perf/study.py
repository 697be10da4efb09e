"""What does a cell format cost? The design study: sweeps over the choices of a format's designer, and a report.

    python -m perf.study -o out/study                   everything; at most forty minutes on two cores
    python -m perf.study -o out/study --quick           a rough picture in three minutes
    python -m perf.study -o out/study --resume          go on where it was interrupted
    python -m perf.study -o out/mine --format 4+508 --format 6+1018 --baseline 5+509 --only formats
    python -m perf.study --report out/study/study.json  only the report, from results that are there

A value covers a million cells (--quick: 100,000); a tenth of them on pycryptodome and the portable kernel.

-o is a folder: study.json (pyperf's, written as results come), report.html, report.md, and the plots.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from cellcrypt import TOR_V4, BackendUnavailable, CellFormat, backends
from cellcrypt.__main__ import program
from cellcrypt.backend import load as load_backend
from cellcrypt.backend import names

from .bench_cells import ON_REQUEST
from .cold import circuits_needed, last_cache
from .common import fail, general_metadata, positive
from .interleave import PYTHON, Amount, Group, Plan, add_options, measure_one, settle
from .results import BadResults, load
from .sweeps import SWEEPS, Asked, text
from .tables import count

FULL, QUICK = Amount(6, 1_000_000), Amount(3, 100_000)
#: For the estimate: ns a cell by backend, and seconds to start a process and open its rows.
GUESS = {"native": 120, "cryptography": 600, "pycryptodome": 6000, "core": 60}
COLD_GUESS, SCHEME_GUESS, PROCESS_S = 1200, 3000, 1.0


def cell_format(given: str) -> CellFormat:
    """Return the format that is meant by header+payload, such as 4+508."""
    found = re.fullmatch(r"(\d+)\+(\d+)", given)
    if not found:
        raise argparse.ArgumentTypeError(f"must be header+payload in bytes, such as 4+508, got {given!r}")
    try:
        return CellFormat(int(found[1]), int(found[2]))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.study", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, FULL, QUICK, "folder for results and report", "--report")
    add = parser.add_argument
    add("--only", action="append", choices=[sweep.name for sweep in SWEEPS], help="only this sweep; repeatable")
    add("--backend", action="append", choices=names(), help="repeatable; default: every usable one but afalg")
    add("--format", action="append", type=cell_format, help="a format of your own, such as 4+508; repeatable")
    add("--baseline", type=cell_format, default=TOR_V4, help="what formats are compared with (default: 5+509)")
    add("--circuits", type=positive, help="circuits in a cold row; default: by the size of the last cache")
    return parser


def _check_formats(options: argparse.Namespace) -> None:
    """Stop where a format of one's own would be compared with itself, or not at all."""
    seen = [options.baseline]
    for one in options.format or ():
        if one in seen:
            what = "the baseline itself: there is nothing to compare" if one == options.baseline else "given twice"
            fail(f"--format {text(one)} is {what}")
        seen.append(one)
    if options.format and options.only and "formats" not in options.only:
        fail("--format is measured by the sweep formats, which --only leaves out")


def _asked(options: argparse.Namespace) -> Asked:
    found = backends()
    if options.backend:
        for name in options.backend:
            try:
                load_backend(name)
            except BackendUnavailable as error:
                fail(str(error))
        chosen = tuple(dict.fromkeys(options.backend))
    else:
        chosen = tuple(name for name, state in found.items() if state.usable and name not in ON_REQUEST)
    return Asked(
        cells=options.cells,
        quick=options.quick,
        backends=chosen,
        kernels=found["native"].kernels,
        formats=tuple(options.format or ()),
        baseline=options.baseline,
        circuits=options.circuits or circuits_needed(),
    )


def _caches() -> dict[str, int]:
    """Return the sizes of this machine's caches in bytes, for the metadata."""
    found = {"cache_last": last_cache()}
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, kind = ((path / name).read_text().strip() for name in ("level", "type"))
        size = re.fullmatch(r"(\d+)K", (path / "size").read_text().strip())
        if size and kind in ("Data", "Unified"):
            found[f"cache_L{level}{'d' if kind == 'Data' else ''}"] = int(size[1]) << 10
    return found


def seconds(groups: Sequence[Group], values: int = 1) -> float:
    """Return about how long one round takes on two slow cores."""
    total = 0.0
    for group in groups:
        total += PROCESS_S
        for row in group.rows:
            guess = GUESS.get(str(row.metadata["backend"]), 1000)
            if row.metadata["kind"] == "cold":
                guess = COLD_GUESS
                total += int(row.metadata["circuits"]) * 5e-6
            if row.metadata["sweep"] == "schemes":
                guess = SCHEME_GUESS
            total += values * row.cells * guess * 1e-9 * int(row.metadata.get("hops", 1))
    return total


def _minutes(time: float) -> str:
    return count(round(time / 60), "minute") if time >= 120 else count(round(time), "second")


def _check_packages() -> None:
    """Stop before anything is measured where the report could not be written after it."""
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            fail(f"the report needs {package}, which is not installed: pip install -e '.[bench]' brings it")


def report(path: str) -> None:
    """Write the report on results, beside them."""
    from .study_report import FILES, write  # draws: not needed where something is measured

    folder = Path(path).parent
    try:
        parts = write(load(path), folder)
    except BadResults as error:
        fail(str(error))
    for part in parts:
        print(f"## {part.title}", *(f"- {sentence}" for sentence in part.answer), sep="\n")
    print(f"report: {', '.join(str(folder / name) for name in FILES)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the report."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    settle(options, FULL, QUICK)
    _check_packages()
    if options.shown:
        report(options.shown)
        return
    _check_formats(options)
    asked = _asked(options)
    sweeps = [sweep for sweep in SWEEPS if not options.only or sweep.name in options.only]
    groups = [group for sweep in sweeps for group in sweep.groups(asked) if group.rows]
    metadata = {**general_metadata("study"), **_caches()}
    if options.group:
        told = " ".join(one for one in arguments if not one.startswith("--group") and one != "--resume")
        measure_one(options, groups, {**metadata, "command": f"python -m perf.study {told}"})
        return
    if options.output is None:
        fail("-o FOLDER is needed: results are kept")
    folder = Path(options.output)
    target = folder / "study.json"
    if target.exists() and not options.resume:
        fail(f"{target} exists already: go on with it by --resume, or choose another folder")
    if folder.exists() and not folder.is_dir():
        fail(f"-o must be a folder, {folder} is none")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{folder} can't be made: {error}")
    rows = sum(len(group.rows) for group in groups)
    time = seconds(groups, options.values) * options.processes
    print(
        f"{count(len(sweeps), 'question')}, {count(rows, 'row')}, {count(options.processes, 'process', 'processes')} "
        f"each: about {_minutes(time)} on slow cores",
        file=sys.stderr,
    )
    command = [PYTHON, "-m", "perf.study", *arguments]
    Plan(
        metadata=metadata,
        groups=groups,
        rounds=options.processes,
        values=options.values,
        command=command,
        output=str(target),
        resume=options.resume,
        show="--report",
    ).run()
    report(str(target))


if __name__ == "__main__":
    program(main)
