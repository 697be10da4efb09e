"""What is called a difference: one estimate of sign and size, savings like costs, and next to nothing in A/A data."""

from __future__ import annotations

import math
import random
import re
import statistics
from pathlib import Path
from typing import Any

import pyperf
import pytest

from perf.answers import saved
from perf.results import load
from perf.stats import STEADY, between_runs, difference, noise_floor_of, noise_of, processes, question, steadied

from .perf_kit import SHARED, benchmark, write

TRIALS = 300


def row(values: list[float]) -> Any:
    return benchmark("x", values, {})


def pair(rng: random.Random, count: int, noise: float, drift: float, new: float = 1.0) -> tuple[Any, Any]:
    """Two rows measured alternately by `count` processes, each of which has its own drift."""
    slow = [math.exp(rng.gauss(0, drift)) for _ in range(count)]
    a, b = ([1e-7 * times * by * math.exp(rng.gauss(0, noise)) for by in slow] for times in (1.0, new))
    return row(a), row(b)


def figures(said: str) -> tuple[float, float]:
    """Return ns and percent as an answer tells them: more than zero where something is saved."""
    found = re.search(r"(?:saves|costs|\() ?(-?[\d.,]+) ± [\d.,]+ ns(?: a cell \(|, )([+-]?[\d.]+)%", said)
    assert found is not None, said
    return float(found[1].replace(",", "")), float(found[2])


def test_nanoseconds_percent_and_verb_have_one_sign() -> None:
    old, new = row([100e-9, 200e-9, 300e-9]), row([110e-9, 220e-9, 150e-9])
    assert new.median() < old.median()  # by medians it saves, but two processes of three found that it costs
    ns, percent = figures(saved(old, new, 0.0))
    assert ns == pytest.approx(-20)
    assert percent == pytest.approx(-10)
    rng = random.Random(1)
    for _ in range(TRIALS):
        a, b = pair(rng, rng.randint(2, 9), 0.2, 0.5)
        ns, percent = figures(saved(a, b, 0.0))
        assert ns * percent >= 0
        ratios = [y / x for x, y in zip(a.get_values(), b.get_values(), strict=True)]
        if len(ratios) % 2:
            assert percent == pytest.approx(100 * (1 - statistics.median(ratios)), abs=0.06)


@pytest.mark.parametrize(("times", "verb"), [(3.0, "costs"), (1 / 3, "saves")])
def test_a_saving_and_a_cost_are_claimed_alike(times: float, verb: str) -> None:
    old, new = row([1e-7] * 6), row([1e-7 * times] * 6)
    assert saved(old, new, 1.5).startswith(verb)
    assert "no difference shown" in saved(old, new, 2.5)


def test_noise_is_the_same_whichever_half_is_slow() -> None:
    values = [1.0] * 5 + [3.0] * 5
    assert noise_of(row(values)) == noise_of(row(values[::-1])) == pytest.approx(2)


@pytest.mark.parametrize("drift", [0.0, 0.1])
@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("count", range(3, 21))
def test_nearly_nothing_is_claimed_in_aa_data(count: int, noise: float, drift: float) -> None:
    rng = random.Random(count)
    rows = [pair(rng, count, noise, drift) for _ in range(TRIALS)]
    floor = noise_floor_of(one for both in rows for one in both)
    assert sum(difference(a, b, floor).claimed for a, b in rows) <= 1
    assert sum(between_runs(a, b, floor).claimed for a, b in rows) <= 1


@pytest.mark.parametrize("new", [0.9, 1.1])
@pytest.mark.parametrize("count", range(3, 21))
def test_a_planted_tenth_is_found(count: int, new: float) -> None:
    rng = random.Random(count)
    found = [difference(*pair(rng, count, 0.01, 0.0, new), 0.02) for _ in range(TRIALS)]
    right = sum(one.claimed and (one.ratio < 1) == (new < 1) for one in found)
    assert right >= TRIALS * (0.999 if count >= 6 else 0.9)


def test_one_process_shows_nothing() -> None:
    found = difference(row([1.0]), row([2.0]), 0.0)
    assert not found.claimed
    assert "fewer than two processes" in found.text
    assert not between_runs(row([1.0]), row([2.0]), 0.0).claimed


def parts(name: str, values: dict[str, float], **more: Any) -> Any:
    """A row that each of the named parts has measured once, in this order."""
    runs = [
        pyperf.Run(
            [value],
            metadata={**SHARED, **more, "name": name, "part": part, "date": "2026-01-02 03:04:05"},
            collect_metadata=False,
        )
        for part, value in values.items()
    ]
    return pyperf.Benchmark(runs)


def test_only_what_was_measured_together_is_paired() -> None:
    old = parts("old", {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})
    new = parts("new", {"d": 8.0, "x": 1.0, "b": 4.0, "a": 2.0})
    assert processes(old, new) == [(1.0, 2.0), (2.0, 4.0), (4.0, 8.0)]
    found = difference(old, new, 0.01)
    assert found.significant
    assert found.ratio == pytest.approx(2)


def test_rows_of_two_sessions_show_nothing() -> None:
    quick = parts("quick", dict.fromkeys("abcdef", 1.0))
    slow = parts("slow", dict.fromkeys("ghijkl", 2.0))
    found = difference(quick, slow, 0.0)
    assert found.ratio == 2
    assert not found.claimed
    assert "fewer than two processes" in found.text
    names = ("509 by bytes", "508 by bytes", "509 by uint32", "508 by uint32")
    asked = question("x", dict(zip(names, (quick, quick, slow, slow), strict=True)), 0.0)
    assert not any(step.claimed for name, step in asked.steps.items() if name.count("bytes") == 1)
    assert asked.word.half == math.inf


def test_drift_is_that_of_a_process_however_its_runs_lie(tmp_path: Path) -> None:
    drift = {"a": 1.0, "b": 2.0, "c": 1.5, "d": 1.0}
    rows = [
        parts(f"row {n}", {part: (n + 1) * drift[part] for part in ("abcd" if n % 2 else "cadb")}, group="one")
        for n in range(STEADY)
    ]
    rows.append(parts("late", {"b": 20.0, "e": 1.0}, group="one"))
    found = steadied(load(write(tmp_path / "a.json", rows)))
    for n in range(STEADY):
        assert found[f"row {n}"].get_values() == pytest.approx([(n + 1) * 1.25] * 4)
    assert found["late"].get_values() == pytest.approx([20 * 1.25 / 2, 1.0])  # alone, it says nothing of the process
