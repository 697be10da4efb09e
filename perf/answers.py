"""The answers of the study: sentences computed from the data, each with its uncertainty.

Rules of this file: a ratio or a difference is the median over processes of what each process measured for both sides
alternately, "±" is half its 95% interval, the same that stats.py judges by; nanoseconds are that share of the old
row's median; a difference is claimed only as stats.py allows. A sweep without data has no answer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .cold import CIRCUIT_LEN
from .results import BadResults, Results
from .stats import (
    Difference,
    between_runs,
    difference,
    estimate,
    judged,
    noise_floor_of,
    part_text,
    processes,
    question,
    steadied,
)
from .sweeps import NEAR_509
from .tables import give, ns

#: What a relay header takes of a payload, in bytes: 498 of 509 are left with tor1 (tor-spec, "Relay cells"), 488 with
#: CGO (tag, command and length of proposal 340).
RELAY_HEADER_LEN, CGO_HEADER_LEN = 11, 21
#: The best and the worst of many rows were picked: only this many noise floors apart do they count as different.
EXTREMES = 2
#: A cost is at its knee where it has risen by this share over its least.
KNEE = 1.5
#: A batch is long enough when it is within this share of the quickest.
NEAR = 1.05

#: Sweeps whose x is a word; that of all others is an int.
BY_WORDS = ("formats", "paths", "cold", "schemes")

Series = dict[Any, Any]  # x → pyperf.Benchmark


@dataclass(frozen=True)
class Data:
    """A study's rows by sweep and series."""

    results: Results
    sweeps: dict[str, dict[str, Series]]
    floor: float

    def series(self, sweep: str) -> dict[str, Series]:
        """Return the series of a sweep by name, each from x to its row."""
        return self.sweeps.get(sweep, {})


def sort(results: Results) -> Data:
    """Return a study's rows in order.

    Raises:
        BadResults: a row does not say what it is.
    """
    sweeps: dict[str, dict[str, Series]] = {}
    rows = steadied(results)
    for row in rows.values():
        meta = row.get_metadata()
        if "sweep" in meta:
            for key in ("series", "x", "payload_len", "cells"):
                if key not in meta:
                    raise BadResults(f"{results.path}: the file is damaged: row {row.get_name()} lacks {key}")
            wanted = str if meta["sweep"] in BY_WORDS else int
            if not isinstance(meta["x"], wanted):
                what = f"x of row {row.get_name()} must be of type {wanted.__name__}, got {meta['x']!r}"
                raise BadResults(f"{results.path}: the file is damaged: {what}")
            sweeps.setdefault(meta["sweep"], {}).setdefault(meta["series"], {})[meta["x"]] = row
    return Data(results, sweeps, noise_floor_of(rows.values()))


def saved(old: Any, new: Any, floor: float) -> str:
    """Say in ns and in percent what `new` saves over `old`, or that nothing is shown."""
    return _saved(difference(old, new, floor), old)


def _saved(step: Difference, old: Any) -> str:
    share = 1 - step.ratio
    figures = give(share * old.median(), step.half * old.median(), ns)
    return step.tell(
        f"{'saves' if share > 0 else 'costs'} {figures.lstrip('-')} ns a cell ({abs(share):.1%})",
        f"{figures} ns, {share:+.1%} saved",
    )


def _useful(a: Any, b: Any, floor: float) -> str:
    """Return the change per byte that is left after a relay header, of tor1 and of CGO; nothing where none is left."""
    found = []
    for scheme, header_len in (("tor1", RELAY_HEADER_LEN), ("CGO", CGO_HEADER_LEN)):
        before, after = (int(row.get_metadata()["payload_len"]) - header_len for row in (a, b))
        if before > 0 and after > 0:
            step = difference(a, b, floor, before / after)
            found.append(f"{step.tell(f'{step.ratio - 1:+.1%}')} after {scheme}'s {header_len} bytes")
    return f"; time per useful byte {', '.join(found)}" if found else ""


def _formats(data: Data) -> Iterator[str]:
    for name, series in data.series("formats").items():
        baseline, *others = series
        alike = []
        for one in others:
            a, b = series[baseline], series[one]
            step = difference(a, b, data.floor)
            if len(others) > 2 and not step.claimed:
                alike.append(f"{one} ({give(1 - step.ratio, step.half, '{:+.1%}'.format)} saved)".replace("± +", "± "))
                continue
            yield f"{one} instead of {baseline}, {name}: {_saved(step, a)}{_useful(a, b, data.floor)}."
        if alike:
            yield f"{', '.join(alike)} instead of {baseline}, {name}: no difference shown."


def near(series: Series) -> list[int]:
    """Return the payload lengths of a series that are near 509, in bytes."""
    return [n for n in series if n in NEAR_509]


def multiples(series: Series, step: int) -> list[float]:
    """Return, for each process, the time per byte of lengths that are multiples of `step`, of that of all others.

    Nothing where the lengths are of one kind.
    """
    lengths = near(series)
    if len({n % step == 0 for n in lengths}) < 2:
        return []
    found = []
    for times in processes(*(series[n] for n in lengths)):
        inside = [time / n for n, time in zip(lengths, times, strict=True) if n % step == 0]
        outside = [time / n for n, time in zip(lengths, times, strict=True) if n % step]
        found.append(statistics.median(inside) / statistics.median(outside))
    return found


def _ps(series: Series, n: int) -> str:
    """Return the time per useful byte of a length, in picoseconds."""
    found = estimate([time / (n - RELAY_HEADER_LEN) * 1e12 for (time,) in processes(series[n])])
    return f"{give(found.seconds, found.half, '{:.1f}'.format)} ps"


def _lengths(data: Data) -> Iterator[str]:
    for name, series in data.series("lengths").items():
        useful = {n: series[n].median() / (n - RELAY_HEADER_LEN) for n in near(series)}
        if len(useful) < 4:
            continue
        best = min(useful, key=lambda n: useful[n])
        worst = max(useful, key=lambda n: useful[n])
        scale = (best - RELAY_HEADER_LEN) / (worst - RELAY_HEADER_LEN)
        apart = difference(series[best], series[worst], EXTREMES * data.floor, scale)
        if apart.claimed:
            yield (
                f"{name}: cheapest per useful byte near 509 is {best} bytes ({_ps(series, best)}), dearest {worst} "
                f"({_ps(series, worst)})."
            )
        else:
            yield f"{name}: no length near 509 stands out ({apart.ratio - 1:.1%} per useful byte, {apart.why})."
        for step in (16, 4):
            shares = multiples(series, step)
            if not shares:
                continue
            found = judged(shares, data.floor)
            if found.claimed:
                word = "less" if found.ratio < 1 else "more"
                yield f"{name}: multiples of {step} cost {abs(1 - found.ratio):.1%} {word} per byte than others."
            else:
                yield f"{name}: multiples of {step} show no advantage ({found.ratio - 1:+.1%} per byte, {found.why})."


def _paths(data: Data) -> Iterator[str]:
    for name, series in data.series("paths").items():
        rows = {
            "509 by bytes": series.get("byte 509"),
            "508 by bytes": series.get("byte 508"),
            "509 by uint32": series.get("word 509"),
            "508 by uint32": series.get("word 508"),
        }
        if any(row is None for row in rows.values()):
            continue
        found = question(name, rows, data.floor)
        yield f"{name}: {part_text(found, 'word')}; {part_text(found, 'length')}."
        if "fused 509" in series:
            gain = difference(series["fused 509"], rows["509 by bytes"], data.floor)
            yield f"{name}: fused against 509 by bytes: {gain.tell(f'{gain.times} times as quick')}."


def _cold(data: Data) -> Iterator[str]:
    found = data.series("cold")
    for name, cold in found.items():
        if not name.endswith(", cold"):
            continue
        backend = name.removesuffix(", cold")
        warm = found.get(f"{backend}, warm", {})
        for x, row in cold.items():
            if x in warm:
                step = difference(warm[x], row, data.floor)
                yield f"{backend}, {x}, cold against warm: {step.tell(f'{step.times} times the time')}."
        for path in ("byte", "word", "fused"):
            if f"{path} 509" in cold and f"{path} 508" in cold:
                less = saved(cold[f"{path} 509"], cold[f"{path} 508"], data.floor)
                yield f"{backend}, cold, {path}: 508 instead of 509: {less}."


def _offsets(data: Data) -> Iterator[str]:
    for name, series in data.series("offsets").items():
        order = sorted(series, key=lambda x: series[x].median())
        step = difference(series[order[0]], series[order[-1]], EXTREMES * data.floor)
        yield (
            f"{name}: from the quickest offset ({order[0]}) to the slowest ({order[-1]}): {step.ratio - 1:+.1%}"
            f"{'' if step.claimed else f', no difference shown ({step.why})'}."
        )


def _hops(data: Data) -> Iterator[str]:
    for name, series in data.series("hops").items():
        points = sorted(series)
        if len(points) > 2:
            lines = [statistics.linear_regression(points, times) for times in processes(*(series[x] for x in points))]
            slope, fixed = (estimate(values) for values in zip(*lines, strict=True))
            layer, once = (give(one.seconds, one.half, ns) for one in (slope, fixed))
            yield f"{name}: {layer} ns a layer, and {once} ns once a cell."


def _dear(series: Series, floor: float) -> list[int]:
    """Return the points that are shown to cost more than KNEE times the least; rows may be of different processes."""
    best = min(series.values(), key=lambda row: row.median())
    steps = {x: between_runs(best, row, EXTREMES * floor, 1 / KNEE) for x, row in series.items()}
    return [x for x, step in steps.items() if step.claimed and step.ratio > 1]


def _batches(data: Data) -> Iterator[str]:
    for name, series in data.series("batches").items():
        best = min(row.median() for row in series.values())
        enough = min(x for x, row in series.items() if row.median() <= best * NEAR)
        gain = difference(series[enough], series[min(series)], data.floor)
        yield f"{name}: by its median, {enough:,} cells a call are within {NEAR - 1:.0%} of the quickest."
        if enough > min(series):
            yield (
                f"{name}: {enough:,} cells a call against {min(series):,} a call of crypt_cells: "
                f"{gain.tell(f'{gain.times} times as quick')}."
            )
        knees = [x for x in _dear(series, data.floor) if x > enough]
        if max(series) in knees:
            yield f"{name}: from {min(knees):,} cells on it costs more than {KNEE} times the least (a cache is left)."


def _circuits(data: Data) -> Iterator[str]:
    for name, series in data.series("circuits").items():
        warm = {x: row for x, row in series.items() if x >= 10}
        if not warm:
            continue
        knees = _dear(warm, data.floor)
        if knees:
            yield f"{name}: more than {KNEE} times the least from {min(knees):,} circuits on."
        else:
            yield f"{name}: up to {max(warm):,} circuits none is shown to cost more than {KNEE} times the least."
    yield f"A circuit of the native backend takes about {CIRCUIT_LEN} bytes, its cell included."


def _threads(data: Data) -> Iterator[str]:
    for name, series in data.series("threads").items():
        if len(series) == 1:
            yield f"{name}: this run was allowed one processor, so that there is nothing to compare."
        for threads in sorted(series)[1:]:
            gain = difference(series[threads], series[1], data.floor)
            yield f"{name}: {threads} threads against one: {gain.tell(f'{gain.times} times as many cells')}."


def _schemes(data: Data) -> Iterator[str]:
    found = data.series("schemes")
    backends = dict.fromkeys(name.partition(", ")[2] for name in found)
    for backend in backends:
        tor1 = found.get(f"tor1, {backend}", {})
        others = [name for name in found if name.endswith(f", {backend}") and not name.startswith("tor1")]
        if not others:
            yield f"{backend}: only tor1 is built here, so that there is nothing to compare it with."
        for name in others:
            for place, row in found[name].items():
                if place in tor1:
                    step = difference(tor1[place], row, data.floor)
                    yield f"{name} against tor1, {place}: {step.tell(f'{step.times} times the time')}."


ANSWERS: dict[str, Callable[[Data], Iterator[str]]] = {
    "formats": _formats,
    "lengths": _lengths,
    "paths": _paths,
    "cold": _cold,
    "offsets": _offsets,
    "hops": _hops,
    "batches": _batches,
    "circuits": _circuits,
    "threads": _threads,
    "schemes": _schemes,
}


def answer(sweep: str, data: Data) -> Sequence[str]:
    """Return the answer to a sweep's question, one sentence a finding."""
    return list(ANSWERS[sweep](data)) if data.series(sweep) else []
