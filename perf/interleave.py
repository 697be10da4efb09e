"""Rows measured alternately in one process, and their results as pyperf's.

Rules of this file: a ratio is worth what its two sides have in common. pyperf gives each benchmark processes of its
own, seconds or minutes apart; here one process opens all rows of a group, and goes round them in slices of some
milliseconds, so that clock rate, neighbours and interrupts meet each alike. Each row is still a benchmark of its own:
one pyperf.Run a process, with the metadata that pyperf collects, in a JSON file that pyperf reads, checks and compares.

The file is whole at any moment (it is written beside its place and moved there after each group), so that a run that
was killed keeps what it has, and `resume` goes on behind it: but only where nothing has changed in between.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from glob import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyperf

from . import timer
from .common import check_output, fail, positive, run_child, stop, time_slice
from .results import BadResults, Growing, Results, load
from .rows import Row, describe

#: What must be as it was for a run to go on, beside what the suite and each row say of themselves: all that pyperf asks
#: of the runs of one row.
INSTALLATION = (
    "aslr",
    "cpu_count",
    "cpu_model_name",
    "hostname",
    "platform",
    "python_executable",
    "python_implementation",
    "python_version",
)
#: What measures: this Python, by the straight way to it, since pyperf takes the path for a part of what was measured.
PYTHON = os.path.normpath(sys.executable)
#: What a suite says of itself that may change.
PASSING = ("clock_mhz", "clock_how", "command")

#: Of what has changed, so many are told.
TOLD = 8


@dataclass(frozen=True)
class Amount:
    """How much a suite measures unless it is told: processes, and cells in a value."""

    processes: int
    cells: int


def add_options(parser: argparse.ArgumentParser, full: Amount, quick: Amount, output: str, show: str) -> None:
    """Add the options of every suite that measures by a Plan; `output` helps -o, `show` names what sets `shown`."""
    add = parser.add_argument
    add("-o", "--output", help=output)
    add("-p", "--processes", type=positive, help=f"default: {full.processes}, or {quick.processes} with --quick")
    add("-n", "--values", type=positive, default=1, help="values a process (default: 1)")
    fewer = f", or {quick.cells} with --quick" if quick.cells != full.cells else ""
    add("--cells", type=positive, help=f"cells in one value (default: {full.cells}{fewer})")
    add("--quick", action="store_true", help="a rough picture soon")
    add("--cpu-time", action="store_true", help="measure processor time, on a machine with neighbours")
    add("--resume", action="store_true", help="go on with what the output has")
    add(show, dest="shown", metavar="FILE", help="measure nothing, show what FILE has")
    add("--group", help=argparse.SUPPRESS)
    add("--group-output", help=argparse.SUPPRESS)


def settle(options: argparse.Namespace, full: Amount, quick: Amount) -> None:
    """Fill in the amounts that were not asked for, and choose the clock."""
    if options.shown:
        for given, option in ((options.output, "-o"), (getattr(options, "only", None), "--only")):
            if given:
                fail(f"{option} is for measuring; {options.shown} is shown as a whole")
    timer.use(options.cpu_time)
    amount = quick if options.quick else full
    options.processes = options.processes or amount.processes
    options.cells = options.cells or amount.cells


@dataclass(frozen=True)
class Group:
    """Rows that are measured alternately, since they are compared with each other."""

    name: str
    rows: tuple[Row, ...]


def measure(rows: Sequence[Row], values: int) -> dict[str, list[float]]:
    """Return `values` values for every row, in seconds a cell."""
    rng = random.Random(os.urandom(8))
    works = [row.open(rng) for row in rows]
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
                    seconds[i] += time_slice(works[i], share)
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


def measure_one(options: argparse.Namespace, groups: Sequence[Group], metadata: dict[str, Any]) -> None:
    """Measure the group that a Plan's process was told, into the file that it was told."""
    (group,) = (group for group in groups if group.name == options.group)
    run_group(group, options.values, metadata).dump(options.group_output)


def _changes(group: Group, results: Results, values: int) -> dict[str, tuple[Any, Any]]:
    """Return by name what a group's rows were and are, in pairs: nothing where the results have none of them.

    Another set of rows, or another order (a baseline comes first), would leave rows that were not measured together.
    """
    wanted = [row.name for row in group.rows]
    there = {
        name: row for name, row in results.rows() if name in wanted or row.get_metadata().get("group") == group.name
    }
    if not there:
        return {}
    for number, pair in enumerate(zip_longest(there, wanted, fillvalue="none"), 1):
        if pair[0] != pair[1]:
            return {f"row {number} of group {group.name}": pair}
    found: dict[str, tuple[Any, Any]] = {}
    for row in group.rows:
        old = there[row.name].get_metadata()
        found.update({f"{name} of {row.name}": (old.get(name), now) for name, now in describe(row).items()})
        counts = sorted({len(run.values) for run in there[row.name].get_runs()})
        found[f"values a process of {row.name}"] = (" or ".join(map(str, counts)), str(values))
    return found


@dataclass
class Plan:
    """What a suite is to measure: every group once a round, each time in a process of its own, `values` values a row.

    `metadata` is what is the same for all rows. `command` starts such a process when a group's name is added to it; it
    writes JSON to the file named next. `show` is the suite's option that shows such a file.
    """

    metadata: dict[str, Any]
    groups: Sequence[Group]
    rounds: int
    values: int
    command: Sequence[str]
    output: str
    resume: bool = False
    show: str = "--table"
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    _file: Growing = field(init=False)

    def run(self) -> None:
        """Measure what is not in the output yet, and keep the output whole."""
        if self.resume and Path(self.output).exists():
            try:
                results = load(self.output)
                self._check_unchanged(results)
            except BadResults as error:
                fail(f"can't resume: {error}")
            self._file = Growing(self.output, results)
        else:
            check_output(self.output)
            self._file = Growing(self.output)
        todo = [
            (number, group) for number in range(self.rounds) for group in self.groups if self._runs(group) <= number
        ]
        skipped = self.rounds * len(self.groups) - len(todo)
        if skipped:
            self.say(f"{skipped} of {self.rounds * len(self.groups)} parts are there already")
        try:
            self._all(todo)
        except KeyboardInterrupt:
            stop(self.output, f"--resume goes on, {self.show} {self.output} shows it")
        for left in Path(self.output).absolute().parent.glob(f"{escape(Path(self.output).name)}.*.part"):
            left.unlink()  # a group's that went on after its manager was killed

    def _all(self, todo: Sequence[tuple[int, Group]]) -> None:
        start = time.monotonic()
        for done, (number, group) in enumerate(todo):
            self.say(f"round {number + 1} of {self.rounds}, {group.name}{self._left(start, done, len(todo))}")
            self._one(group)

    def _check_unchanged(self, results: Results) -> None:
        """Raise BadResults where another suite or installation measured the output, or other rows or values."""
        if results.kind != self.metadata["suite"]:
            raise BadResults(f"{results.path}: written by suite {results.kind}, this is {self.metadata['suite']}")
        here = pyperf.Run([1.0], metadata=self.metadata, collect_metadata=True).get_metadata()
        was = results.metadata
        names = {*self.metadata, *INSTALLATION, *(name for name in was if name.startswith("env_"))}
        changed = {name: (was.get(name), here.get(name)) for name in sorted(names.difference(PASSING))}
        changed["python_executable"] = (was.get("python_executable"), PYTHON)
        for group in self.groups:
            changed.update(_changes(group, results, self.values))
        told = [f"{name} was {old}, is {now}" for name, (old, now) in changed.items() if old != now]
        if told:
            more = f"; and {len(told) - TOLD} more" if len(told) > TOLD else ""
            raise BadResults(f"{results.path}: measured otherwise: {'; '.join(told[:TOLD])}{more}")

    def _left(self, start: float, done: int, parts: int) -> str:
        if done < len(self.groups):
            return f" [{done + 1}/{parts}]"
        so_far = time.monotonic() - start
        return f" [{done + 1}/{parts}, {so_far:.0f} s so far, about {so_far / done * (parts - done):.0f} s left]"

    def _runs(self, group: Group) -> int:
        if self._file.suite is None:
            return 0
        counts = []
        for row in group.rows:
            try:
                counts.append(self._file.suite.get_benchmark(row.name).get_nrun())
            except KeyError:
                counts.append(0)
        return min(counts, default=0)

    def _one(self, group: Group) -> None:
        part = Path(f"{self.output}.{os.getpid()}.part")  # a group whose manager was killed writes elsewhere
        part.unlink(missing_ok=True)
        code = run_child([*self.command, f"--group={group.name}", f"--group-output={part}"])
        if code or not part.exists():
            kept = f"; {self.output} keeps what was measured" if self._file.suite else ""
            fail(f"group {group.name} failed with exit code {code}{kept}")
        self._file.add(part)
