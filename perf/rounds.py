"""Run a suite in rounds: in each round one process measures each row, so that a machine's drift meets all rows alike.

    python -m perf.rounds -o out/cells.json --rounds 20 bench_cells --backend native

pyperf's own order measures a row in all its processes before it begins the next; minutes lie between two rows then, and
a ratio of them carries what the machine did meanwhile. Everything else is pyperf's: each round is the suite itself with
one process, appended to one JSON file, which is whole after every row.

With --until-stable N, up to N more rounds follow while `pyperf check` would find a row unstable.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyperf

from .common import check_output, fail

SUITES = ("bench_cells",)
#: pyperf's own number of processes; and the fewest that give a spread.
ROUNDS, QUICK_ROUNDS = 20, 3
#: `pyperf check` warns from this share of the mean on.
MAX_STDEV = 0.10


def unstable(path: str) -> list[str]:
    """Return the rows that `pyperf check` would warn about for want of rounds."""
    found = []
    for benchmark in pyperf.BenchmarkSuite.load(path):
        needed = benchmark.required_nprocesses()
        spread = benchmark.stdev() / benchmark.mean() if benchmark.get_nvalue() > 1 else 0.0
        if spread >= MAX_STDEV or (needed is not None and needed > benchmark.get_nrun()):
            found.append(benchmark.get_name())
    return found


def one_round(suite: str, output: str, options: Sequence[str]) -> None:
    """Measure every row of a suite once, into `output`."""
    command = [sys.executable, "-m", f"perf.{suite}", "--processes=1", "--quiet", f"--append={output}", *options]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        kept = f"; {output} keeps what was measured" if Path(output).exists() else ""
        fail(f"perf.{suite} failed with exit code {done.returncode}{kept}")


def run(suite: str, output: str, rounds: int, extra: int, options: Sequence[str]) -> None:
    """Measure `rounds` rounds, then up to `extra` more while a row is unstable."""
    check_output(output)
    start = time.monotonic()
    for number in range(1, rounds + extra + 1):
        if number > rounds:
            left = unstable(output)
            if not left:
                break
            print(f"{len(left)} rows are not stable yet: {', '.join(left[:4])} …", file=sys.stderr)
        elif number > 1:
            so_far = time.monotonic() - start
            left_s = so_far / (number - 1) * (rounds - number + 1)
            print(f"{so_far:.0f} s so far, about {left_s:.0f} s left", file=sys.stderr)
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        one_round(suite, output, options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in rounds."""
    parser = argparse.ArgumentParser(prog="python -m perf.rounds", description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", required=True, help="JSON file to write; must not exist")
    parser.add_argument("--rounds", type=int, help=f"default: {ROUNDS}, or {QUICK_ROUNDS} with --quick")
    parser.add_argument("--until-stable", type=int, default=0, metavar="N", help="up to N more rounds (default: 0)")
    parser.add_argument("suite", choices=SUITES)
    options, of_suite = parser.parse_known_args(arguments)
    rounds = options.rounds or (QUICK_ROUNDS if "--quick" in of_suite else ROUNDS)
    if rounds < 1:
        fail(f"--rounds must be at least 1, got {rounds}")
    run(options.suite, options.output, rounds, options.until_stable, of_suite)
    print(f"written: {options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
