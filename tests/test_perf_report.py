"""The report: right figures, a planted difference found, none found in A/A, plain words for files of no use."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from perf import report
from perf.compare import compare
from perf.results import BadResults, load
from perf.stats import difference, noise_floor

from .perf_kit import SHARED, bare, benchmark, cells, noisy, write

COUNT = 20


def four(b509: float, b508: float, w509: float, w508: float) -> list[object]:
    times = {("byte", 509): b509, ("byte", 508): b508, ("word", 509): w509, ("word", 508): w508}
    return [
        cells("cryptography", path, n, noisy(time, COUNT, seed)) for seed, ((path, n), time) in enumerate(times.items())
    ]


def test_table_has_medians_and_ratios(tmp_path: Path) -> None:
    rows = [bare([200e-9, 210e-9, 190e-9]), cells("cryptography", "fused", 509, [300e-9, 310e-9, 900e-9])]
    text = report.report(load(write(tmp_path / "a.json", rows)), 2.0)
    line = next(line for line in text.splitlines() if "cells[cryptography,fused,509]" in line)
    columns = [column.strip() for column in line.strip("|").split("|")]
    assert columns[1:7] == ["310", "10.0", "300", "900", "3", "1,642"]
    assert columns[7] == f"{310e-9 * 2e9 / 509:.2f}"
    assert columns[8] == "1.55"


def test_question_parts_are_the_whole(tmp_path: Path) -> None:
    results = load(write(tmp_path / "a.json", four(500e-9, 490e-9, 420e-9, 412e-9)))
    (found,) = report.questions(results)
    values = {name: row.get_values() for name, row in results.rows()}
    b9, b8, w9, w8 = (values[f"cells[cryptography,{p},{n}]"] for p in ("byte", "word") for n in (509, 508))
    word = statistics.median((a - c + b - d) / 2 for a, b, c, d in zip(b9, b8, w9, w8, strict=True))
    assert found.word.seconds == pytest.approx(word)
    assert found.word.seconds == pytest.approx(79e-9, abs=2e-9)
    assert found.length.seconds == pytest.approx(9e-9, abs=2e-9)
    assert found.whole.seconds == pytest.approx(found.word.seconds + found.length.seconds, abs=1.5e-9)
    assert found.steps["509 by bytes → 508 by uint32"].claimed
    assert "uint32 instead of bytes saves" in report.report(results, None)


def test_planted_difference_is_found_and_aa_is_not(tmp_path: Path) -> None:
    old = write(tmp_path / "old.json", [cells("native", "fused", 509, noisy(100e-9, COUNT, 1))])
    same = write(tmp_path / "same.json", [cells("native", "fused", 509, noisy(100e-9, COUNT, 2))])
    slower = write(tmp_path / "slower.json", [cells("native", "fused", 509, noisy(110e-9, COUNT, 3))])
    assert "0 of 1 rows differ" in compare(load(old), load(same))
    assert "0 of 1 rows differ" in compare(load(old), load(old))
    found = compare(load(old), load(slower))
    assert "1 of 1 rows differ" in found
    assert "slower" in found


def test_aa_claims_nothing_a_hundred_times() -> None:
    claimed = 0
    for seed in range(100):
        a = cells("native", "fused", 509, noisy(100e-9, COUNT, 2 * seed, 0.03))
        b = cells("native", "fused", 509, noisy(100e-9, COUNT, 2 * seed + 1, 0.03))
        claimed += difference(a, b, 0.01).claimed
    assert claimed <= 5


def test_drift_between_halves_raises_the_floor(tmp_path: Path) -> None:
    drifting = cells("native", "fused", 509, [100e-9] * 10 + [112e-9] * 10)
    assert noise_floor(load(write(tmp_path / "a.json", [drifting]))) > 0.1


def test_cold_beside_warm(tmp_path: Path) -> None:
    meta = {"kind": "cold", "backend": "native", "path": "fused", "payload_len": 509, "cells": 1_000_000}
    cold = benchmark("cold[native,fused,509]", [240e-9] * 3, meta)
    rows = [cells("native", "fused", 509, [60e-9] * 3), cold]
    text = report.report(load(write(tmp_path / "a.json", rows)), None)
    assert "| native,fused,509 |     60.0 |      240 | 4.00 ± 0.00 times the time |" in text


def damaged(path: Path) -> None:
    path.write_text('{"version": "1.0", "benchmarks": [{"runs": [')


def empty(path: Path) -> None:
    path.write_text("")


def not_pyperf(path: Path) -> None:
    path.write_text('{"hello": 1}')


def foreign(path: Path) -> None:
    write(path, [benchmark("x", [1.0, 1.1], {"suite": "pickle"})])


def newer_suite(path: Path) -> None:
    write(path, [benchmark("x", [1.0, 1.1], {"suite_version": 99})])


def newer_pyperf(path: Path) -> None:
    write(path, [benchmark("x", [1.0, 1.1], {})])
    data = json.loads(path.read_text())
    data["version"] = "2.0"
    path.write_text(json.dumps(data))


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(128, 256)))


def endless(path: Path) -> None:
    write(path, [cells("native", "fused", 509, [1e-7, 2e-7])])
    path.write_text(path.read_text().replace("2e-07", "Infinity"))


def of_another_kind(field: str, value: object) -> Callable[[Path], object]:
    """Return what writes a file with a field of a kind that it never has."""

    def make(path: Path) -> None:
        write(path, [cells("native", "fused", 509, [1e-7, 2e-7], clock_mhz=3000, clock_how="told")])
        data = json.loads(path.read_text())
        for holder in (data, *data["benchmarks"], *(run for row in data["benchmarks"] for run in row["runs"])):
            if field in holder.get("metadata", {}):
                holder["metadata"][field] = value
        path.write_text(json.dumps(data))

    return make


#: How a file can be of no use, and what is said of it.
OF_NO_USE: list[tuple[Callable[[Path], object], str]] = [
    (damaged, "damaged"),
    (empty, "empty"),
    (not_pyperf, "not pyperf's"),
    (foreign, "another suite"),
    (newer_suite, "newer version"),
    (newer_pyperf, "another version of pyperf"),
    (binary, "damaged"),
    (endless, "no finite number"),
    (of_another_kind("payload_len", "long"), "payload_len of row cells[native,fused,509] must be a number above 0"),
    (of_another_kind("payload_len", 0), "must be a number above 0, got 0"),
    (of_another_kind("clock_mhz", "fast"), "clock_mhz of row cells[native,fused,509] must be a number"),
    (of_another_kind("backend", 7), "backend of row cells[native,fused,509] must be a word, got 7"),
    (of_another_kind("name", 7), "name of row 7 must be a word"),
    (of_another_kind("date", "yesterday"), "a date can't be read"),
]


@pytest.mark.parametrize(
    ("make", "why"),
    [*OF_NO_USE, (lambda path: None, "no such file"), (lambda path: path.mkdir(), "is a folder")],
)
def test_a_file_that_is_no_use_is_named(
    tmp_path: Path, make: Callable[[Path], object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd name.json"
    make(path)
    with pytest.raises(BadResults) as caught:
        load(str(path))
    assert str(path) in str(caught.value)
    assert why in str(caught.value)
    with pytest.raises(SystemExit) as stopped:
        report.main([str(path)])
    assert stopped.value.code == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize("key", ["payload_len", "cells", "kind"])
def test_rows_of_another_meaning_are_not_compared(tmp_path: Path, key: str) -> None:
    meta = {"kind": "cells", "backend": "native", "path": "fused", "payload_len": 509, "cells": 1_000_000}
    old = write(tmp_path / "old.json", [benchmark("x", [1.0, 1.1], meta)])
    other = {**meta, key: "batch" if key == "kind" else 7}
    new = write(tmp_path / "new.json", [benchmark("x", [1.0, 1.1], other)])
    with pytest.raises(BadResults, match=key):
        compare(load(old), load(new))


def test_suites_are_not_mixed(tmp_path: Path) -> None:
    old = write(tmp_path / "old.json", [benchmark("x", [1.0, 1.1], SHARED)])
    new = write(tmp_path / "new.json", [benchmark("x", [1.0, 1.1], {"suite": "study"})])
    with pytest.raises(BadResults, match="suite"):
        compare(load(old), load(new))


def test_what_is_asked_has_a_verdict(tmp_path: Path) -> None:
    rows = [bare([200e-9] * 3), cells("cryptography", "fused", 509, [300e-9] * 3)]
    text = report.report(load(write(tmp_path / "a.json", rows)), None)
    line = next(line for line in text.splitlines() if "fused over cryptography" in line)
    assert line.split("|")[4].split() == ["1.50", "±", "0.00"]
    assert line.split("|")[5].strip() == "must"


def test_clocks_are_not_mixed(tmp_path: Path) -> None:
    old = write(tmp_path / "old.json", [benchmark("x", [1.0, 1.1], {"measured": "wall time"})])
    new = write(tmp_path / "new.json", [benchmark("x", [1.0, 1.1], {"measured": "processor time of the thread"})])
    with pytest.raises(BadResults, match="processor time"):
        compare(load(old), load(new))
    assert compare(load(old), load(old))
