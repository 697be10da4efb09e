"""What the values say: spread, noise floor, differences, and 2007's question.

Rules of this file: a difference has one estimate, from which its nanoseconds, its percentage and its verb all follow:
the median over processes of new / old, since in a process both met the same machine. Which process measured what, each
run says itself (results.part_of), never the order of runs in a file. A difference is claimed only where its whole
95% interval (Student's t of the logarithms) lies beyond the noise floor that the run shows between halves of one row
(A/A): a t-test alone would find each drift of the machine significant. So three processes must agree closely before
they show anything, one shows nothing, and a saving needs the same factor as a cost. Medians, MADs and t are pyperf's.

Theory: the gain from "509 by bytes" to "508 by uint32" goes through one of two half-way points, 509 by uint32 or 508
by bytes. The word's part is the mean of its two steps, the length's the mean of its two; together they are the whole,
so that no remainder is left to explain (Shapley's value for two players).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyperf
from pyperf._utils import tdist95conf_level

from .results import Results, part_of
from .tables import give, ns
from .tables import ratio as ratio_text

#: Rows that a group needs for the drift of a process to be more than one row's own noise.
STEADY = 6


@dataclass(frozen=True)
class Summary:
    """A row in figures, in seconds a cell."""

    median: float
    mad: float | None  # None for one value
    best: float
    worst: float
    values: int


def summary(benchmark: Any) -> Summary:
    """Return what pyperf says about a row."""
    values = benchmark.get_values()
    mad = benchmark.median_abs_dev() if len(values) > 1 else None
    return Summary(benchmark.median(), mad, min(values), max(values), len(values))


def _halves(values: Sequence[float]) -> Iterable[tuple[Sequence[float], Sequence[float]]]:
    middle = len(values) // 2
    yield values[::2], values[1::2]
    yield values[:middle], values[len(values) - middle :]


def factor(ratio: float) -> float:
    """Return how many times the smaller of two the larger is, whichever of them `ratio` is divided by."""
    return max(ratio, 1 / ratio)


def noise_of(benchmark: Any) -> float | None:
    """Return how far two halves of a row lie apart, as a share: odd against even values, early against late ones.

    None where there are fewer than two values.
    """
    values = benchmark.get_values()
    if len(values) < 2:
        return None
    return max(factor(statistics.median(a) / statistics.median(b)) - 1 for a, b in _halves(values))


def noise_floor(results: Results) -> float:
    """Return the A/A difference that nine rows in ten of a run stay below, as a share; infinite if it can't be known.

    Without what the machine did to a whole process (steadied), since rows are compared without it too.
    """
    return noise_floor_of(steadied(results).values())


def floor_text(floor: float) -> str:
    """Return a noise floor as reports state it."""
    return f"{floor:.1%}" if math.isfinite(floor) else "not known, since no row has two values"


def noise_floor_of(rows: Iterable[Any]) -> float:
    """Return the same for some rows of a run."""
    found = sorted(noise for row in rows if (noise := noise_of(row)) is not None)
    if not found:
        return math.inf
    return found[min(len(found) - 1, int(len(found) * 0.9))]


def steadied(results: Results) -> dict[str, Any]:
    """Return every row by name, without what the machine did to a whole process.

    Rows of one group were measured alternately: what made a process slow, made it slow for all of them. The values of
    each process are divided by its drift, the median over the group's rows of its time to their median. A process that
    measured fewer than STEADY rows of a group stays as it is: there, a row would be divided by itself.
    """
    groups: dict[str, dict[str, Any]] = {}
    for name, row in results.rows():
        groups.setdefault(str(row.get_metadata().get("group")), {})[name] = row
    found: dict[str, Any] = {}
    for rows in groups.values():
        found.update(_steadied(rows))
    return {name: found[name] for name, _ in results.rows()}


def _steadied(rows: dict[str, Any]) -> dict[str, Any]:
    slower: dict[str, list[float]] = {}
    for row in rows.values():
        for part, time in _times(row).items():
            slower.setdefault(part, []).append(time / row.median())
    drift = {part: statistics.median(times) if len(times) >= STEADY else 1.0 for part, times in slower.items()}

    def steady(run: Any) -> Any:
        values = [value / drift[part_of(run)] for value in run.values]
        return pyperf.Run(values, metadata=run.get_metadata(), collect_metadata=False)

    return {name: pyperf.Benchmark([steady(run) for run in row.get_runs() if run.values]) for name, row in rows.items()}


@dataclass(frozen=True)
class Difference:
    """From an old to a new time: `ratio` is new / old.

    `margin` is half the 95% interval of the ratio's logarithm, infinite for one process; `floor` what noise can make.
    """

    ratio: float
    margin: float
    floor: float

    @property
    def half(self) -> float:
        """Half the 95% interval of the ratio."""
        return self.ratio * math.expm1(self.margin)

    @property
    def significant(self) -> bool:
        return abs(math.log(self.ratio)) > self.margin

    @property
    def claimed(self) -> bool:
        """Whether it may be called a difference."""
        return abs(math.log(self.ratio)) - self.margin > math.log1p(self.floor)

    @property
    def why(self) -> str:
        """Why it is not claimed."""
        if not self.significant:
            return "not significant" if math.isfinite(self.margin) else "fewer than two processes to judge by"
        return f"not surely above the {self.floor:.1%} that noise can make"

    def tell(self, claim: str, estimate: str = "") -> str:
        """Return `claim` where it may be made, else that no difference is shown. The gate of every claim."""
        return claim if self.claimed else f"no difference shown ({estimate or f'{self.ratio - 1:+.1%}'}, {self.why})"

    @property
    def text(self) -> str:
        """The difference in words."""
        return self.tell(f"{abs(self.ratio - 1):.1%} {'quicker' if self.ratio < 1 else 'slower'}")

    @property
    def times(self) -> str:
        """The ratio with its uncertainty."""
        return give(self.ratio, self.half, ratio_text)


def _times(row: Any) -> dict[str, float]:
    """Return the median of each part that measured a row."""
    values: dict[str, list[float]] = {}
    for run in row.get_runs():
        if run.values:
            values.setdefault(part_of(run), []).extend(run.values)
    return {part: statistics.median(found) for part, found in values.items()}


def together(*rows: Any) -> list[tuple[float, ...]]:
    """Return what each process (or round) that measured all of the rows measured for them."""
    times = [_times(row) for row in rows]
    return [tuple(one[part] for one in times) for part in times[0] if all(part in one for one in times)]


def processes(*rows: Any) -> list[tuple[float, ...]]:
    """Return the same; where there is no such process, the rows' medians as if they were one, which shows nothing."""
    return together(*rows) or [tuple(row.median() for row in rows)]


def _error(logs: Sequence[float]) -> float:
    return statistics.stdev(logs) / math.sqrt(len(logs))


def _margin(values: Sequence[float]) -> float:
    """Return half the 95% interval of a mean, infinite for one value."""
    return tdist95conf_level(len(values) - 1) * _error(values) if len(values) > 1 else math.inf


def _floor(floor: float, *rows: Any) -> float:
    """Return the larger of the run's noise floor and the rows' own."""
    return max([floor, *(noise for row in rows if (noise := noise_of(row)) is not None)])


def judged(ratios: Sequence[float], floor: float) -> Difference:
    """Judge ratios new / old, one of each process."""
    logs = list(map(math.log, ratios))
    return Difference(math.exp(statistics.median(logs)), _margin(logs), floor)


def difference(old: Any, new: Any, floor: float, scale: float = 1.0) -> Difference:
    """Compare two rows by the processes that measured both; `scale` multiplies the new one's times."""
    return judged([b * scale / a for a, b in processes(old, new)], _floor(floor, old, new))


def between_runs(old: Any, new: Any, floor: float, scale: float = 1.0) -> Difference:
    """Compare rows whose processes have nothing in common, such as those of two runs, by the ratio of their medians."""
    a, b = ([math.log(time) for time in _times(row).values()] for row in (old, new))
    ratio = scale * math.exp(statistics.median(b) - statistics.median(a))
    fewest = min(len(a), len(b))
    margin = tdist95conf_level(fewest - 1) * math.hypot(_error(a), _error(b)) if fewest > 1 else math.inf
    return Difference(ratio, margin, _floor(floor, old, new))


@dataclass(frozen=True)
class Part:
    """A part of a difference, in seconds a cell: median over rounds, and half its 95% interval."""

    seconds: float
    half: float


@dataclass(frozen=True)
class Question:
    """2007's question for one backend: four variants, and what the word and the length have each saved."""

    backend: str
    variants: dict[str, Summary]
    whole: Part
    word: Part
    length: Part
    steps: dict[str, Difference]


#: (name, path, payload_len) of the four variants.
VARIANTS = (
    ("509 by bytes", "byte", 509),
    ("508 by bytes", "byte", 508),
    ("509 by uint32", "word", 509),
    ("508 by uint32", "word", 508),
)
#: Steps between them that are tested.
STEPS = (
    ("509 by bytes", "508 by uint32"),
    ("509 by bytes", "509 by uint32"),
    ("508 by bytes", "508 by uint32"),
    ("509 by bytes", "508 by bytes"),
    ("509 by uint32", "508 by uint32"),
)


def question(backend: str, rows: dict[str, Any], floor: float) -> Question:
    """Answer 2007's question from the four rows named in VARIANTS."""
    names = [name for name, _, _ in VARIANTS]
    rounds = processes(*(rows[name] for name in names))
    word = [((b509 - w509) + (b508 - w508)) / 2 for b509, b508, w509, w508 in rounds]
    length = [((b509 - b508) + (w509 - w508)) / 2 for b509, b508, w509, w508 in rounds]
    whole = [b509 - w508 for b509, _, _, w508 in rounds]
    return Question(
        backend,
        {name: summary(rows[name]) for name in names},
        estimate(whole),
        estimate(word),
        estimate(length),
        {f"{old} → {new}": difference(rows[old], rows[new], floor) for old, new in STEPS},
    )


#: What a part of the question is called, and the steps that must all show it, in its own direction.
PARTS = {
    "word": ("uint32 instead of bytes", ("509 by bytes → 509 by uint32", "508 by bytes → 508 by uint32")),
    "length": ("508 instead of 509 bytes", ("509 by bytes → 508 by bytes", "509 by uint32 → 508 by uint32")),
    "whole": ("both", ("509 by bytes → 508 by uint32",)),
}


def part_text(found: Question, name: str) -> str:
    """Say what a part of the question has saved, in time and as a share of 509 by bytes."""
    part: Part = getattr(found, name)
    what, names = PARTS[name]
    steps = [found.steps[step] for step in names]
    figures = f"{give(part.seconds, part.half, ns)} ns, {part.seconds / found.variants['509 by bytes'].median:.1%}"
    unclaimed = [step for step in steps if not step.claimed]
    if unclaimed:
        return f"{what}: {unclaimed[0].tell('', f'{figures} saved')}"
    if any((step.ratio < 1) != (part.seconds > 0) for step in steps):
        return f"{what}: no difference shown ({figures} saved, its steps disagree)"
    return f"{what} {'saves' if part.seconds > 0 else 'costs'} {figures.replace('-', '')}"


def estimate(values: Sequence[float]) -> Part:
    """Return the median of what each process measured, with its uncertainty."""
    return Part(statistics.median(values), _margin(values))
