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
from .stats import Difference, Question, difference, judged, noise_floor_of, processes, question, steadied
from .sweeps import NEAR_509
from .tables import ns, ratio

#: What a relay header takes of a payload, in bytes: 498 of 509 are left with tor1 (tor-spec, "Relay cells"), 488 with
#: CGO (tag, command and length of proposal 340).
RELAY_HEADER_LEN, CGO_HEADER_LEN = 11, 21
#: The best and the worst of many rows were picked: only this many noise floors apart do they count as different.
EXTREMES = 2
#: A cost is at its knee where it has risen by this share over its least.
KNEE = 1.5
#: A batch is long enough when it is within this share of the quickest.
NEAR = 1.05

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
            sweeps.setdefault(meta["sweep"], {}).setdefault(meta["series"], {})[meta["x"]] = row
    return Data(results, sweeps, noise_floor_of(rows.values()))


def saved(old: Any, new: Any, floor: float) -> str:
    """Say in ns and in percent what `new` saves over `old`, or that nothing is shown."""
    return _saved(difference(old, new, floor), old)


def _saved(step: Difference, old: Any) -> str:
    share = 1 - step.ratio
    figures = [ns(part * old.median()) for part in (share, step.half)]
    if not step.claimed:
        return f"no difference shown ({' ± '.join(figures)} ns, {share:+.1%} saved; {step.why})"
    return f"{'saves' if share > 0 else 'costs'} {' ± '.join(figures).lstrip('-')} ns a cell ({abs(share):.1%})"


def _useful(a: Any, b: Any, ratio: float) -> str:
    """Return the change per byte that is left after a relay header, of tor1 and of CGO; nothing where none is left.

    `ratio` is that of the times per cell.
    """
    found = []
    for scheme, header_len in (("tor1", RELAY_HEADER_LEN), ("CGO", CGO_HEADER_LEN)):
        before, after = (int(row.get_metadata()["payload_len"]) - header_len for row in (a, b))
        if before > 0 and after > 0:
            found.append(f"{ratio * before / after - 1:+.1%} after {scheme}'s {header_len} bytes")
    return f"; time per useful byte {', '.join(found)}" if found else ""


def _formats(data: Data) -> Iterator[str]:
    for name, series in data.series("formats").items():
        baseline, *others = series
        alike = []
        for one in others:
            a, b = series[baseline], series[one]
            step = difference(a, b, data.floor)
            if len(others) > 2 and not step.claimed:
                alike.append(f"{one} ({1 - step.ratio:+.1%} ± {step.half:.1%} saved)")
                continue
            yield f"{one} instead of {baseline}, {name}: {_saved(step, a)}{_useful(a, b, step.ratio)}."
        if alike:
            yield f"{', '.join(alike)} instead of {baseline}, {name}: no difference shown."


def near(series: Series) -> list[int]:
    """Return the payload lengths of a series that are near 509, in bytes."""
    return [n for n in series if n in NEAR_509]


def multiples(series: Series, step: int) -> list[float]:
    """Return, for each process, the time per byte of lengths that are multiples of `step`, of that of all others."""
    lengths = near(series)
    found = []
    for times in processes(*(series[n] for n in lengths)):
        inside = [time / n for n, time in zip(lengths, times, strict=True) if n % step == 0]
        outside = [time / n for n, time in zip(lengths, times, strict=True) if n % step]
        found.append(statistics.median(inside) / statistics.median(outside))
    return found


def _ps(series: Series, n: int) -> str:
    """Return the time per useful byte of a length, in picoseconds."""
    found = [row / (n - RELAY_HEADER_LEN) * 1e12 for row in (series[n].median(), series[n].median_abs_dev())]
    return f"{found[0]:.1f} ± {found[1]:.1f} ps"


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
            found = judged(multiples(series, step), data.floor)
            if found.claimed:
                word = "less" if found.ratio < 1 else "more"
                yield f"{name}: multiples of {step} cost {abs(1 - found.ratio):.1%} {word} per byte than others."
            else:
                yield f"{name}: multiples of {step} show no advantage ({found.ratio - 1:+.1%} per byte, {found.why})."


#: The two steps that change only the word, and the two that change only the length.
_STEPS = {
    "word": ("509 by bytes → 509 by uint32", "508 by bytes → 508 by uint32"),
    "length": ("509 by bytes → 508 by bytes", "509 by uint32 → 508 by uint32"),
}


def _part(found: Question, by: str) -> str:
    """Say what the word or the length alone has saved; nothing is shown unless both of its steps show it."""
    part = found.word if by == "word" else found.length
    share = part.seconds / found.variants["509 by bytes"].median
    steps = [found.steps[step] for step in _STEPS[by]]
    figures = f"{ns(part.seconds)} ± {ns(part.half)} ns, {share:.1%}"
    what = "uint32 instead of bytes" if by == "word" else "508 instead of 509 bytes"
    if all(step.claimed for step in steps) and len({part.seconds > 0, *(step.ratio < 1 for step in steps)}) == 1:
        return f"{what} {'saves' if part.seconds > 0 else 'costs'} {figures.lstrip('-')}"
    return f"{what}: no difference shown ({figures} saved)"


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
        yield f"{name}: {_part(found, 'word')}; {_part(found, 'length')}."
        if "fused 509" in series:
            gain = difference(series["fused 509"], rows["509 by bytes"], data.floor)
            yield f"{name}: fused is {ratio(gain.ratio)} ± {gain.half:.2f} times as quick as 509 by bytes."


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
                yield f"{backend}, {x}: {ratio(step.ratio)} ± {step.half:.2f} times the time when cold."
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
            slope, fixed = statistics.linear_regression(points, [series[x].median() for x in points])
            yield f"{name}: {ns(slope)} ns a layer, and {ns(fixed)} ns once a cell."


def _batches(data: Data) -> Iterator[str]:
    for name, series in data.series("batches").items():
        best = min(row.median() for row in series.values())
        enough = min(x for x, row in series.items() if row.median() <= best * NEAR)
        gain = difference(series[enough], series[min(series)], data.floor)
        yield (
            f"{name}: {enough:,} cells a call are within {NEAR - 1:.0%} of the quickest, {ratio(gain.ratio)} ± "
            f"{gain.half:.2f} times as quick as {min(series):,} a call of crypt_cells."
        )
        last = max(series)
        if series[last].median() > best * KNEE:
            knee = min(x for x, row in series.items() if x > enough and row.median() > best * KNEE)
            yield f"{name}: from {knee:,} cells on it costs more than {KNEE} times the least: it has left a cache."


def _circuits(data: Data) -> Iterator[str]:
    for name, series in data.series("circuits").items():
        warm = {x: row for x, row in series.items() if x >= 10}
        if not warm:
            continue
        best = min(row.median() for row in warm.values())
        knees = [x for x, row in warm.items() if row.median() > best * KNEE]
        if knees:
            yield f"{name}: more than {KNEE} times the least from {min(knees):,} circuits on."
        else:
            yield f"{name}: never more than {KNEE} times the least, up to {max(warm):,} circuits."
    yield f"A circuit of the native backend takes about {CIRCUIT_LEN} bytes, its cell included."


def _threads(data: Data) -> Iterator[str]:
    for name, series in data.series("threads").items():
        if len(series) == 1:
            yield f"{name}: this run was allowed one processor, so that there is nothing to compare."
        for threads in sorted(series)[1:]:
            gain = difference(series[threads], series[1], data.floor)
            yield f"{name}: {threads} threads do {ratio(gain.ratio)} ± {gain.half:.2f} times as many cells as one."


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
                    yield f"{name}, {place}: {ratio(step.ratio)} ± {step.half:.2f} times the time of tor1."


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
