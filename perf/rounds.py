"""Run a suite in rounds: in each round one process measures each row, so that a machine's drift meets all rows alike.

    python -m perf.rounds -o out/cells.json --rounds 20 bench_cells --backend native

pyperf's own order measures a row in all its processes before it begins the next; minutes lie between two rows then, and
a ratio of them carries what the machine did meanwhile. Everything else is pyperf's: each round is the suite itself with
one process, and is added to one JSON file, which is whole at any moment. A round that is interrupted adds the rows that
it has.

With --until-stable MINUTES, more rounds follow of those rows alone that `pyperf check` would find unstable, as long as
the time suffices for all the processes that it asks for.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .common import check_output, fail, positive, run_child, stop
from .results import BadResults, Growing

SUITES = ("bench_cells",)
#: pyperf's own number of processes; and the fewest that give a spread.
ROUNDS, QUICK_ROUNDS = 20, 3
#: What a process takes besides its values, in seconds.
PROCESS_S = 0.5


def wanted(suite: Any, seconds: float) -> tuple[list[str], list[str]]:
    """Return the rows that `pyperf check` would warn about: those that `seconds` suffice for, and the others."""
    needs = []
    for benchmark in suite:
        runs, needed = benchmark.get_nrun(), benchmark.required_nprocesses() or 0
        if needed > runs:
            each = sum(run.get_metadata()["duration"] for run in benchmark.get_runs()) / runs + PROCESS_S
            needs.append(((needed - runs) * each, benchmark.get_name()))
    within: list[str] = []
    beyond: list[str] = []
    for need, name in sorted(needs):
        seconds -= need
        (within if seconds > 0 else beyond).append(name)
    return within, beyond


def one_round(file: Growing, suite: str, options: Sequence[str]) -> None:
    """Measure every row of a suite once, and add it to `file`."""
    part = Path(f"{file.path}.{os.getpid()}.part")
    command = [sys.executable, "-m", f"perf.{suite}", "--processes=1", "--quiet", f"--output={part}", *options]
    try:
        code = run_child(command, stdout=subprocess.DEVNULL)
    finally:
        with suppress(BadResults):  # it has no row yet, or was stopped in the middle of writing
            file.add(part)
        part.unlink(missing_ok=True)
    if code:
        kept = f"; {file.path} keeps what was measured" if file.suite is not None else ""
        fail(f"perf.{suite} failed with exit code {code}{kept}")


def run(suite: str, output: str, rounds: int, minutes: float, options: Sequence[str]) -> None:
    """Measure `rounds` rounds, then for up to `minutes` more the rows that are not stable."""
    check_output(output)
    start, file = time.monotonic(), Growing(output)
    for number in range(1, rounds + 1):
        if number > 1:
            so_far = time.monotonic() - start
            left_s = so_far / (number - 1) * (rounds - number + 1)
            print(f"{so_far:.0f} s so far, about {left_s:.0f} s left", file=sys.stderr)
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        one_round(file, suite, options)
    end = time.monotonic() + minutes * 60
    while minutes:
        left_s = end - time.monotonic()
        within, beyond = wanted(file.suite, left_s)
        print(f"{len(within) + len(beyond)} rows are not stable yet, {left_s:.0f} s left", file=sys.stderr, flush=True)
        if not within:
            if beyond:
                print(f"the time does not suffice for {', '.join(beyond)}", file=sys.stderr)
            break
        one_round(file, suite, [*options, *(f"--only={name}" for name in within)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in rounds."""
    parser = argparse.ArgumentParser(prog="python -m perf.rounds", description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", required=True, help="JSON file to write; must not exist")
    parser.add_argument("--rounds", type=positive, help=f"default: {ROUNDS}, or {QUICK_ROUNDS} with --quick")
    parser.add_argument(
        "--until-stable", type=float, default=0, metavar="MINUTES", help="go on for so long at most (default: 0)"
    )
    parser.add_argument("suite", choices=SUITES)
    options, of_suite = parser.parse_known_args(arguments)
    rounds = options.rounds or (QUICK_ROUNDS if "--quick" in of_suite else ROUNDS)
    if not 0 <= options.until_stable < math.inf:
        fail(f"--until-stable must be at least 0 minutes, got {options.until_stable:g}")
    try:
        run(options.suite, options.output, rounds, options.until_stable, of_suite)
    except KeyboardInterrupt:
        stop(options.output, f"python -m perf.report {options.output} shows it")
    print(f"written: {options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
