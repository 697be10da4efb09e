"""Read results back, and say plainly what is wrong with a file that can't be used.

Rules of this file: every error names the file; nothing is guessed about a file that another suite or a newer version
has written.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyperf

from .common import SUITE_VERSION, fail

SUITES = ("bench_cells", "bench_native", "bench_onion", "study")
#: What a row says of itself and we count or compare with, where it says it: words, and numbers above 0.
WORDS = (
    "name",
    "kind",
    "backend",
    "path",
    "group",
    "kernel",
    "native_kernel",
    "sweep",
    "series",
    "measured",
    "clock_how",
)
NUMBERS = ("payload_len", "native_payload_len", "cells", "duration", "clock_mhz")


class BadResults(ValueError):
    """A file that can't be used; the message names it and says why."""


@dataclass(frozen=True)
class Results:
    """One file of results."""

    path: str
    suite: Any  # pyperf.BenchmarkSuite
    metadata: dict[str, Any]

    @property
    def kind(self) -> str:
        """The suite that wrote it."""
        return str(self.metadata["suite"])

    def rows(self) -> Iterator[tuple[str, Any]]:
        """Yield every row that has values: its name and pyperf's Benchmark."""
        for benchmark in self.suite:
            if benchmark.get_nvalue():
                yield benchmark.get_name(), benchmark

    def get(self, name: str) -> Any | None:
        """Return pyperf's Benchmark of a row, or None."""
        try:
            return self.suite.get_benchmark(name)
        except KeyError:
            return None

    def clock(self) -> tuple[float, str] | None:
        """Return the clock rate in Hz, and how it is known: the median over all processes. None where none knew it."""
        known = [run.get_metadata() for _, row in self.rows() for run in row.get_runs()]
        rates = [meta["clock_mhz"] for meta in known if "clock_mhz" in meta]
        if not rates:
            return None
        return statistics.median(rates) * 1e6, str(next(meta["clock_how"] for meta in known if "clock_mhz" in meta))


def load(path: str) -> Results:
    """Read a file that one of our suites has written.

    Raises:
        BadResults: it is missing, empty, damaged, not pyperf's, not of our suites, or from a newer version.
    """
    if Path(path).is_dir():
        raise BadResults(f"{path}: is a folder; results are a file (of a study: study.json in its folder)")
    if not Path(path).is_file():
        raise BadResults(f"{path}: there is no such file")
    if not Path(path).stat().st_size:
        raise BadResults(f"{path}: the file is empty")
    try:
        suite = pyperf.BenchmarkSuite.load(str(path))
    except (json.JSONDecodeError, UnicodeDecodeError, EOFError, OSError) as error:
        raise BadResults(f"{path}: the file is damaged, no JSON can be read from it: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadResults(f"{path}: {_why_not_pyperf(path, error)}") from None
    metadata = _common(suite)
    if metadata.get("suite") not in SUITES:
        raise BadResults(
            f"{path}: written by another suite ({metadata.get('suite', 'no name')}), "
            f"this reads those of {', '.join(SUITES)}"
        )
    version = metadata.get("suite_version")
    if not isinstance(version, int):
        raise BadResults(f"{path}: it does not say one version of its suite, got {version!r}")
    if version > SUITE_VERSION:
        raise BadResults(f"{path}: written by a newer version ({version}), this reads up to {SUITE_VERSION}")
    if not any(benchmark.get_nvalue() for benchmark in suite):
        raise BadResults(f"{path}: there are no values in it")
    for benchmark in suite:
        if not all(map(math.isfinite, benchmark.get_values())):
            raise BadResults(f"{path}: the file is damaged: a value of {benchmark.get_name()} is no finite number")
        for run in benchmark.get_runs():
            _check_kinds(path, run.get_metadata())
    try:
        suite.get_dates()
    except (TypeError, ValueError) as error:
        raise BadResults(f"{path}: the file is damaged: a date can't be read: {error}") from None
    return Results(str(path), suite, metadata)


def _check_kinds(path: str, metadata: dict[str, Any]) -> None:
    """Raise BadResults unless every one of WORDS is a word and every one of NUMBERS a number above 0."""
    wrong = [(field, "a word") for field in WORDS if not isinstance(metadata.get(field, ""), str)]
    for field in NUMBERS:
        number = metadata.get(field, 1)
        if not isinstance(number, int | float) or not 0 < number < math.inf:
            wrong.append((field, "a number above 0"))
    for field, wanted in wrong:
        row, got = metadata.get("name"), metadata[field]
        raise BadResults(f"{path}: the file is damaged: {field} of row {row} must be {wanted}, got {got!r}")


def part_of(run: Any) -> str:
    """Return what names the part that a run belongs to: the rows of a part were measured together."""
    metadata = run.get_metadata()
    return str(metadata.get("part", metadata.get("date")))


class Growing:
    """A file of results that grows part by part, and is whole at any moment. `suite` is pyperf's; None before any part.

    Two programs may have been given the same file: the second to write it notices, and leaves its own beside it.
    """

    def __init__(self, path: str, there: Results | None = None) -> None:
        self.path = path
        self.suite: Any | None = there and there.suite
        self._seen = _identity(path) if there else None

    def add(self, part: Path) -> None:
        """Add what a process has left in `part`, which then is gone: it becomes the file.

        Each run says to which part it belongs: the date of its first run.

        Raises:
            BadResults: `part` is not whole; nothing has changed. SystemExit: another program has written the file.
        """
        found = load(str(part)).suite
        began = min(run.get_metadata()["date"] for row in found for run in row.get_runs())
        for row in found:
            row.update_metadata({"part": began})
        if self.suite is None:
            self.suite = found
        else:
            self.suite.add_runs(found)
        self.suite.dump(str(part), replace=True)
        if _identity(self.path) != self._seen:
            own = f"{self.path}.{os.getpid()}.json"
            os.replace(part, own)
            fail(f"{self.path} was written by another program meanwhile; what this one measured is in {own}")
        os.replace(part, self.path)
        self._seen = _identity(self.path)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what is another number for another file, or the same file written again; None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _common(suite: Any) -> dict[str, Any]:
    """Return the metadata that all rows share."""
    shared: dict[str, Any] | None = None
    for benchmark in suite:
        found = benchmark.get_metadata()
        shared = found if shared is None else {name: item for name, item in shared.items() if found.get(name) == item}
    return shared or {}


def _why_not_pyperf(path: str, error: Exception) -> str:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        return f"the file is damaged: {error}"
    if not isinstance(data, dict) or "benchmarks" not in data:
        return "the file is JSON, but not pyperf's"
    version = data.get("version")
    if version != "1.0":
        return f"written by another version of pyperf (format {version!r}; this one, {pyperf.__version__}, reads '1.0')"
    return f"the file is damaged: {type(error).__name__}: {error}"
