"""The native suite: alternate measuring, resuming, verdicts, and every row's check of its own result."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pyperf
import pytest

from cellcrypt import TOR_V4, CellCipher, ClosedError, backends
from perf import asked, bench_native, common, interleave, native_rows, work
from perf.interleave import Group, Plan
from perf.results import Growing, load
from perf.rows import Row

from .perf_kit import benchmark, noisy, write
from .support import ROOT, python
from .test_perf_suites import metadata, script

KERNELS = backends()["native"].kernels
needs_native = pytest.mark.skipif(not KERNELS, reason=f"native: {backends()['native'].reason}")


class Counted:
    """Work that only counts."""

    def __init__(self, log: list[tuple[str, int]], name: str) -> None:
        self.log, self.name, self.checked = log, name, False

    def run(self, cells: int) -> float:
        self.log.append((self.name, cells))
        return cells * 1e-9

    def move(self, rng: random.Random) -> None:
        pass

    def check(self) -> None:
        self.log.append((self.name, -1))


def counted(log: list[tuple[str, int]], name: str, cells: int, slices: int) -> Row:
    backend = "native" if KERNELS else "none"
    meta: dict[str, Any] = {"kind": "cells", "backend": backend, "payload_len": 509, "cells": cells}
    return Row(name, lambda rng: Counted(log, name), cells, meta, slices)


@pytest.mark.parametrize("slices", [(16, 16), (16, 1), (5, 3), (1, 1)])
def test_rows_alternate_and_all_cells_are_done(monkeypatch: pytest.MonkeyPatch, slices: tuple[int, int]) -> None:
    monkeypatch.setattr(common, "WARM_UP_S", 0.0)
    log: list[tuple[str, int]] = []
    rows = [counted(log, "a", 1003, slices[0]), counted(log, "b", 77, slices[1])]
    found = interleave.measure(rows, 2)
    timed = [entry for entry in log if entry[1] != -1]
    assert sum(cells for name, cells in timed if name == "a") == 2 * 1003
    assert sum(cells for name, cells in timed if name == "b") == 2 * 77
    assert found == {"a": [pytest.approx(1e-9)] * 2, "b": [pytest.approx(1e-9)] * 2}
    assert log[-2:] == [("a", -1), ("b", -1)]
    if slices == (16, 16):
        assert max(len(list(same)) for _, same in groupby(name for name, _ in timed)) <= 2


@pytest.mark.parametrize("alternating", [True, False])
@pytest.mark.parametrize("cell_s", [0.0, 0.0011])
def test_the_clock_of_every_slice_starts_warm(
    monkeypatch: pytest.MonkeyPatch, alternating: bool, cell_s: float
) -> None:
    monkeypatch.setattr(common, "WARM_UP_S", 0.001)
    warm_up: list[tuple[float, int]] = []  # when a run began and how many cells it did, since the last slice
    warm_ups = []

    class Slice(Counted):
        def run(self, cells: int) -> float:
            now = time.monotonic()
            warm_up.append((now, cells))
            if cells == 99:
                warm_ups.append((now - warm_up[0][0], [cells for _, cells in warm_up[:-1]]))
                warm_up.clear()
            else:
                time.sleep(cells * cell_s)
            return 0.0

    row = replace(counted([], "a", 16 * 99, 16), open=lambda rng: Slice([], "a"))
    if alternating:
        interleave.measure([row, replace(row, name="b")], 1)
    else:
        common.time_row(1, row)
    assert len(warm_ups) == (32 if alternating else 16)
    assert min(seconds for seconds, _ in warm_ups) >= 0.0009  # the first run begins a little after the warm-up
    if cell_s:
        assert all(cells == [1] for _, cells in warm_ups)
    else:
        assert {n for _, cells in warm_ups for n in cells} <= {1, 2, 4, 8, 16, 32, work.POOL}
        assert any(work.POOL in cells for _, cells in warm_ups)


def test_rows_with_pauses_pause_before_every_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_rows, "PAUSE_S", 0.005)
    log: list[tuple[str, int]] = []
    row = native_rows.pause_row(counted(log, "call[x]", 10**6, 16))
    assert (row.name, row.cells, row.metadata["kind"]) == ("pause[x]", native_rows.RARE_CELLS, "pause")
    start = time.monotonic()
    seconds = row.open(random.Random(1)).run(2 * work.POOL + 3)
    assert time.monotonic() - start >= 3 * 0.005
    assert log == [("call[x]", work.POOL), ("call[x]", work.POOL), ("call[x]", 3)]
    assert seconds == pytest.approx((2 * work.POOL + 3) * 1e-9)  # the pauses are not in it


def in_threads(threads: int) -> Any:
    return native_rows.Threads(KERNELS[0], 509, 4, threads, random.Random(1))


def ends(call: Callable[[], object]) -> object:
    """Return what a call returns or raises; fail where it hangs."""
    found: Queue[object] = Queue()

    def run() -> None:
        try:
            found.put(call())
        except Exception as error:
            found.put(error)

    Thread(target=run, daemon=True).start()
    return found.get(timeout=20)


@needs_native
@pytest.mark.parametrize("cells", [1, 2, 7, 64])
def test_threads_all_have_cells(cells: int) -> None:
    threads = in_threads(3)
    assert isinstance(ends(lambda: threads.run(cells)), float)
    done = {one._done for one in threads._works}
    assert len(done) == 1
    assert done.pop() * 3 >= cells
    threads.check()


@needs_native
def test_a_thread_that_fails_ends_the_row() -> None:
    threads, cipher = in_threads(3), CellCipher(work.KEY, backend="native")
    threads._works[1] = work.Batch(cipher.crypt_cells, TOR_V4, 4, random.Random(1))
    cipher.close()
    assert isinstance(ends(lambda: threads.run(64)), ClosedError)
    threads = in_threads(3)
    threads._processors = [*threads._processors[:1], 4095]  # there is none: a thread fails where others wait for it
    assert isinstance(ends(lambda: threads.run(64)), OSError)


def options_that_write(log: Path) -> list[str]:
    code = (
        "import sys, random; from perf.interleave import *; from perf.common import general_metadata\n"
        "from tests.test_perf_native import counted\n"
        "name = next(a for a in sys.argv if a.startswith('--group=')).partition('=')[2]\n"
        "out = next(a for a in sys.argv if a.startswith('--group-output=')).partition('=')[2]\n"
        f"open({str(log)!r}, 'a').write(name + '\\n')\n"
        "if name == 'broken': sys.exit(3)\n"
        "group = Group(name, (counted([], name + '-row', 100, 4),))\n"
        "run_group(group, 2, general_metadata('study')).dump(out)\n"
    )
    return ["-c", code]


def plan(tmp_path: Path, names: list[str], rounds: int, **more: Any) -> Plan:
    groups = more.pop("groups", [Group(name, (counted([], f"{name}-row", 100, 4),)) for name in names])
    command = [sys.executable, *options_that_write(tmp_path / "log")]
    settled = {"metadata": common.general_metadata("study"), "values": 2, "output": str(tmp_path / "out.json"), **more}
    return Plan(groups=groups, rounds=rounds, command=command, say=lambda text: None, **settled)


def test_a_killed_run_keeps_what_it_has_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(SystemExit):
        plan(tmp_path, ["first", "broken"], 1).run()
    assert (tmp_path / "log").read_text().split() == ["first", "broken"]
    assert {name for name, _ in load(str(tmp_path / "out.json")).rows()} == {"first-row"}
    plan(tmp_path, ["first", "second"], 2, resume=True).run()
    assert (tmp_path / "log").read_text().split() == ["first", "broken", "second", "first", "second"]
    suite = pyperf.BenchmarkSuite.load(str(tmp_path / "out.json"))
    assert {bench.get_name(): bench.get_nrun() for bench in suite} == {"first-row": 2, "second-row": 2}


def measured(tmp_path: Path, rounds: int = 1) -> Path:
    """Let a plan measure, and forget what it has started."""
    plan(tmp_path, ["first"], rounds).run()
    (tmp_path / "log").unlink()
    return tmp_path / "out.json"


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    """Return why a plan does not go on, before it has measured anything."""
    with pytest.raises(SystemExit):
        plan(tmp_path, ["first"], 2, resume=True, **more).run()
    assert not (tmp_path / "log").exists()
    said = capsys.readouterr().err
    assert str(tmp_path / "out.json") in said
    return said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("commit", "f" * 12),
        ("core", "lost"),
        ("measured", "processor time of the thread"),
        ("python_version", "3.1.4 (64-bit)"),
        ("cpu_model_name", "Pentium"),
        ("hostname", "elsewhere"),
        ("env_MALLOC_ARENA_MAX", "1"),
        ("cells", 101),
        ("payload_len", 508),
        ("backend_version", "0.0.1"),
        ("kernel", "portable"),
    ],
)
@needs_native
def test_a_run_goes_on_only_where_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key: str, value: object
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    out = measured(tmp_path)
    plan(tmp_path, ["first"], 2, resume=True).run()
    assert (tmp_path / "log").read_text().split() == ["first"]
    (tmp_path / "log").unlink()
    data = json.loads(out.read_text())
    assert key in data["metadata"] or key.startswith("env_")
    data["metadata"][key] = value
    out.write_text(json.dumps(data))
    said = refused(tmp_path, capsys)
    assert f"{key} " in said
    assert f"was {value}, is " in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"values": 3}, "values a process of first-row was 2, is 3"),
        ({"metadata": {**common.general_metadata("study"), "native_kernel": "x"}}, "native_kernel was None, is x"),
        ({"groups": [Group("first", (counted([], "other", 100, 4),))]}, "row 1 of group first was first-row, is other"),
        (
            {"groups": [Group("first", (counted([], "first-row", 100, 4), counted([], "more", 100, 4)))]},
            "row 2 of group first was none, is more",
        ),
        ({"groups": [Group("renamed", (counted([], "first-row", 100, 4), counted([], "x", 1, 1)))]}, "was none, is x"),
    ],
)
def test_other_rows_or_values_do_not_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    before = measured(tmp_path).read_bytes()
    assert words in refused(tmp_path, capsys, **more)
    assert (tmp_path / "out.json").read_bytes() == before


def test_runs_say_who_measured_them_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    measured(tmp_path, 2)
    (row,) = pyperf.BenchmarkSuite.load(str(tmp_path / "out.json"))
    metas = [run.get_metadata() for run in row.get_runs()]
    assert [meta["part"] for meta in metas] == [meta["date"] for meta in metas]
    assert len({meta["part"] for meta in metas}) == 2


def test_another_suite_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    out = measured(tmp_path)
    out.write_text(out.read_text().replace('"study"', '"bench_onion"'))
    assert "written by suite bench_onion, this is study" in refused(tmp_path, capsys)


def test_resuming_a_damaged_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.json").write_text("{")
    with pytest.raises(SystemExit):
        plan(tmp_path, ["first"], 1, resume=True).run()
    assert "out.json" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


def test_two_programs_with_one_output_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def part(name: str) -> Path:
        meta = {"suite": "bench_native", "backend": "native", "payload_len": 509, "kind": "call"}
        return Path(write(tmp_path / f"{name}.part", [benchmark(name, [1e-9], meta)]))

    def names(path: str) -> set[str]:
        return {name for name, _ in load(path).rows()}

    def refused(file: Growing, name: str, own: set[str]) -> None:
        before = Path(file.path).read_bytes()
        with pytest.raises(SystemExit):
            file.add(part(name))
        _, _, kept = capsys.readouterr().err.strip().rpartition(" ")
        assert Path(file.path).read_bytes() == before
        assert names(kept) == own
        Path(kept).unlink()

    out = str(tmp_path / "out.json")
    one, other = Growing(out), Growing(out)
    one.add(part("a"))
    refused(other, "b", {"b"})
    again = Growing(out, load(out))
    one.add(part("c"))
    assert names(out) == {"a", "c"}
    refused(again, "d", {"a", "d"})
    again = Growing(out, load(out))
    again.add(part("e"))
    assert names(out) == {"a", "c", "e"}
    Path(out).unlink()
    with pytest.raises(SystemExit):
        again.add(part("f"))
    assert not Path(out).exists()


def native_results(tmp_path: Path, in_place: float, batch: float) -> Any:
    meta = {"suite": "bench_native", "backend": "native", "payload_len": 509, "cells": 1, "kind": "call"}
    rows = [
        benchmark("call[native/vaes512,in_place,509]", noisy(in_place, 9, 1, 0.001), meta),
        benchmark("bare[cryptography.update_into,509]", noisy(200e-9, 9, 2, 0.001), meta),
        benchmark("batch[native/vaes512,509,1000]", noisy(batch, 9, 3, 0.001), meta),
        benchmark("limit[vaes512,509]", noisy(10e-9, 9, 4, 0.001), meta),
    ]
    return load(write(tmp_path / "n.json", rows))


@pytest.mark.parametrize(
    ("in_place", "batch", "words"),
    [(25e-9, 9e-9, ("aim", "aim")), (29e-9, 9.7e-9, ("must", "must")), (40e-9, 11e-9, ("MISSED", "MISSED"))],
)
def test_verdicts(tmp_path: Path, in_place: float, batch: float, words: tuple[str, str]) -> None:
    found = {v.line.title: v for v in asked.verdicts(native_results(tmp_path, in_place, batch), asked.NATIVE_LINES)}
    first = found["crypt_in_place, bytearray, against update_into"]
    second = found["crypt_cells, 1,000 wire cells, of the AES limit"]
    assert (first.word, second.word) == words
    assert first.value == pytest.approx(200e-9 / in_place, rel=0.01)
    assert second.value == pytest.approx(batch / 10e-9, rel=0.01)
    assert found["VAES-256 kernel: in place"].value is None
    assert "not measured" in found["VAES-256 kernel: in place"].word


def test_the_table_says_how_to_read_it_and_leaves_out_what_the_run_lacks(tmp_path: Path) -> None:
    said = asked.asked_table(native_results(tmp_path, 40e-9, 9e-9), asked.NATIVE_LINES)
    assert " MISSED |" in said
    assert "MISSED: not even must" in said
    assert "no row call[native/vaes256,in_place,509] in this run" in said
    assert "threads" not in said
    told = said.count("\n| ") - 1  # less its rule
    assert f"Of the 16 things asked {16 - told} are left out" in said


@pytest.mark.parametrize("field", ["native_payload_len", "native_kernel"])
def test_rows_that_do_not_agree_have_no_table(tmp_path: Path, field: str, capsys: pytest.CaptureFixture[str]) -> None:
    both = {"suite": "bench_native", "payload_len": 509, "native_payload_len": 509, "native_kernel": "vaes512"}
    other = {**both, field: 1 if field == "native_payload_len" else "aesni"}
    path = write(tmp_path / "n.json", [benchmark("a", [1e-9], both), benchmark("b", [1e-9], other)])
    with pytest.raises(SystemExit):
        bench_native.show(path)
    assert f"{path}: the rows do not say one {field}" in capsys.readouterr().err


def test_a_verdict_within_the_noise_says_so(tmp_path: Path) -> None:
    meta = {"suite": "bench_native", "backend": "native", "payload_len": 509, "cells": 1, "kind": "call"}

    def word(spread: float, processes: int) -> str:
        rows = [
            benchmark("call[native/vaes512,in_place,509]", noisy(30e-9, processes, 1, spread), meta),
            benchmark("bare[cryptography.update_into,509]", noisy(200e-9, processes, 2, spread), meta),
        ]
        path = write(tmp_path / f"{spread}, {processes}.json", rows)
        return next(asked.verdicts(load(path), asked.NATIVE_LINES)).word

    assert word(0.001, 9) == "must"
    assert word(0.2, 9).endswith(", not surely")
    assert word(0.001, 1) == "must, not surely"


def test_the_line_of_two_threads_says_what_it_needs(tmp_path: Path) -> None:
    meta = {"suite": "bench_native", "backend": "native", "payload_len": 509, "cells": 1, "kind": "threads"}
    one = benchmark("threads[native,509,1000,1]", noisy(20e-9, 9, 1, 0.001), meta)
    said = asked.asked_table(load(write(tmp_path / "n.json", [one])), asked.NATIVE_LINES)
    assert "no row threads[native,509,1000,2] in this run, which needs two processors" in said


@needs_native
def test_the_help_names_every_group() -> None:
    said = " ".join(script("perf.bench_native", "--help").split())
    for group in native_rows.groups(KERNELS, 509, 1_000_000):
        number = re.sub(r"\D", "", group.name)
        name = group.name.replace(number, "N") if number else group.name
        found = re.search(rf"[:;] {name}( \(([0-9, ]+)\))?(;| |$)", said)
        assert found, group.name
        assert not number or number in found[2].split(", ")


@needs_native
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors can't be chosen here")
def test_on_one_processor_the_suite_says_that_two_threads_cannot_be_measured(tmp_path: Path) -> None:
    code = (
        f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
        "from perf.bench_native import main\n"
        f"main([{f'-o{tmp_path}/n.json'!r}, '-p1', '--cells=1000', '--only=threads'])\n"
    )
    done = python("-c", code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "allowed one processor, and can't measure two threads" in done.stderr
    assert "which needs two processors" in done.stdout


@needs_native
def test_the_suite_runs_and_every_kernel_has_rows(tmp_path: Path) -> None:
    out = tmp_path / "n.json"
    said = script("perf.bench_native", f"-o{out}", "-p2", "--cells=130", "--payload-len=100")
    found = metadata(out)
    for kernel in KERNELS:
        assert found[f"call[native/{kernel},in_place,100]"]["kernel"] == kernel
        assert found[f"call[native/{kernel},in_place,100]"]["inner_loops"] == 130
    assert "crypt_cells, 16 wire cells" in said
    assert script("perf.bench_native", f"-o{out}", code=2).count(str(out)) == 1
    options = [f"-o{out}", "-p2", "--cells=130", "--payload-len=100"]
    assert "parts are there already" in script("perf.bench_native", *options, "--resume")
    python = Path(sys.executable)
    roundabout = [str(python.parent / ".." / python.parent.name / python.name), "-m", "perf.bench_native", *options]
    done = subprocess.run([*roundabout, "--resume", "-p3"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    before = out.read_bytes()
    for other, words in (
        ("--payload-len=101", "native_payload_len was 100, is 101"),
        ("--values=2", "values a process of call[native/"),
        *([("--kernel=portable", "is portable")] if len(KERNELS) > 1 else []),
    ):
        said = script("perf.bench_native", *options, "--resume", other, code=2)
        assert words in said
        assert f"can't resume: {out}: " in said
        assert "round" not in said
        assert out.read_bytes() == before


def native_work() -> list[Row]:
    found = native_rows.groups(KERNELS, 509, 200) if KERNELS else []
    return [row for group in found for row in group.rows]


@pytest.mark.parametrize("row", native_work(), ids=lambda row: row.name)
def test_every_native_row_checks_its_result(row: Row) -> None:
    opened: Any = row.open(random.Random(1))
    assert opened.run(200) > 0
    opened.check()
    spoiled = False
    for one in getattr(opened, "_works", [getattr(opened, "_work", opened)]):
        if hasattr(one, "_done"):
            one._done ^= 1
            spoiled = True
    if spoiled:
        with pytest.raises(work.WrongResult):
            opened.check()
