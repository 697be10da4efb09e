"""Rows measured alternately in one process, and their results as pyperf's.

Rules of this file: a ratio is worth what its two sides have in common. pyperf gives each benchmark processes of its
own, seconds or minutes apart; here one process opens all rows of a group, and goes round them in slices of some
milliseconds, so that clock rate, neighbours and interrupts meet each alike. Each row is still a benchmark of its own:
one pyperf.Run a process, with the metadata that pyperf collects, in a JSON file that pyperf reads, checks and compares.

The file is whole at any moment (it is written beside its place and moved there after each group), so that a run that
was killed keeps what it has, and `resume` goes on behind it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyperf

from .common import WARM_UP, fail
from .results import BadResults, load
from .rows import Row, describe


@dataclass(frozen=True)
class Group:
    """Rows that are measured alternately, since they are compared with each other."""

    name: str
    rows: tuple[Row, ...]


def measure(rows: Sequence[Row], values: int) -> dict[str, list[float]]:
    """Return `values` values for every row, in seconds a cell."""
    rng = random.Random(os.urandom(8))
    works = [row.open(rng) for row in rows]
    for row, work in zip(rows, works, strict=True):
        work.run(min(WARM_UP, row.cells))
    found: dict[str, list[float]] = {row.name: [] for row in rows}
    parts = max(row.slices for row in rows)
    for _ in range(values):
        seconds = [0.0] * len(rows)
        for part in range(parts):
            for turn in range(len(rows)):
                i = (turn + part) % len(rows)  # nobody always follows the same neighbour
                share = _share(rows[i], part, parts)
                if share:
                    works[i].move(rng)
                    seconds[i] += works[i].run(share)
        for row, taken in zip(rows, seconds, strict=True):
            found[row.name].append(taken / row.cells)
    for work in works:
        work.check()
    return found


def _share(row: Row, part: int, parts: int) -> int:
    """Return how many cells of a row fall into one of `parts` parts: its slices are spread over them."""
    before, after = part * row.slices // parts, (part + 1) * row.slices // parts
    return row.cells * after // row.slices - row.cells * before // row.slices


def run_group(group: Group, values: int, metadata: dict[str, Any]) -> Any:
    """Measure a group in this process; return pyperf's BenchmarkSuite with one run a row."""
    start = time.monotonic()
    found = measure(group.rows, values)
    duration = time.monotonic() - start
    benchmarks = []
    for row in group.rows:
        meta = {
            **metadata,
            **describe(row),
            "name": row.name,
            "group": group.name,
            "unit": "second",
            "loops": 1,
            "inner_loops": row.cells,
            "duration": duration,
        }
        benchmarks.append(pyperf.Benchmark([pyperf.Run(found[row.name], metadata=meta, collect_metadata=True)]))
    return pyperf.BenchmarkSuite(benchmarks)


@dataclass
class Plan:
    """What is to be measured: every group once a round, each time in a process of its own.

    `command` starts such a process when a group's name is added to it; it writes JSON to the file named next.
    """

    groups: Sequence[Group]
    rounds: int
    command: Sequence[str]
    output: str
    resume: bool = False
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    suite: Any = None
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Measure what is not in the output yet, and keep the output whole."""
        if self.resume and Path(self.output).exists():
            try:
                self.suite = load(self.output).suite
            except BadResults as error:
                fail(f"can't resume: {error}")
        todo = [
            (number, group) for number in range(self.rounds) for group in self.groups if self._runs(group) <= number
        ]
        skipped = self.rounds * len(self.groups) - len(todo)
        if skipped:
            self.say(f"{skipped} of {self.rounds * len(self.groups)} parts are there already")
        start = time.monotonic()
        for done, (number, group) in enumerate(todo):
            self.say(f"round {number + 1} of {self.rounds}, {group.name}{self._left(start, done, len(todo))}")
            began = time.monotonic()
            self._one(group)
            self.seconds[group.name] = time.monotonic() - began

    def _left(self, start: float, done: int, parts: int) -> str:
        if done < len(self.groups):
            return f" [{done + 1}/{parts}]"
        so_far = time.monotonic() - start
        return f" [{done + 1}/{parts}, {so_far:.0f} s so far, about {so_far / done * (parts - done):.0f} s left]"

    def _runs(self, group: Group) -> int:
        if self.suite is None:
            return 0
        counts = []
        for row in group.rows:
            try:
                counts.append(self.suite.get_benchmark(row.name).get_nrun())
            except KeyError:
                counts.append(0)
        return min(counts, default=0)

    def _one(self, group: Group) -> None:
        part = Path(f"{self.output}.part")
        part.unlink(missing_ok=True)
        done = subprocess.run([*self.command, f"--group={group.name}", f"--group-output={part}"], check=False)
        if done.returncode or not part.exists():
            kept = f"; {self.output} keeps what was measured" if self.suite else ""
            fail(f"group {group.name} failed with exit code {done.returncode}{kept}")
        found = pyperf.BenchmarkSuite.load(str(part))
        if self.suite is None:
            self.suite = found
        else:
            self.suite.add_runs(found)
        self.suite.dump(str(part), replace=True)
        os.replace(part, self.output)
