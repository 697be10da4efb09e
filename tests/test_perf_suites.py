"""Every script of perf/ with tiny settings: it runs, its options reach its workers, and it refuses before it works."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyperf
import pytest

from cellcrypt import TOR_V4, backends
from cellcrypt.compiled import core
from perf import common, rounds, rows, work
from perf.cold import Cold
from perf.common import time_row
from perf.report import report
from perf.results import load

from . import perf_kit
from .perf_kit import noisy, write
from .support import ROOT, needs_core

#: Of the environment only what a sanitised core can't be loaded without: nothing else of it must reach a script.
SANITIZER = {name: os.environ[name] for name in common.SANITIZER if name in os.environ}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", **SANITIZER}


def script(*arguments: str, code: int = 0, **environment: str) -> str:
    """Run a script of perf/; return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


MANY = "1000"


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda way: way.name)
@pytest.mark.parametrize(
    "command",
    [
        ["perf.bench_onion", "--scheme=tor1", "--backend=cryptography", "--cells=64", "-p", MANY],
        ["perf.rounds", "--rounds", MANY, "bench_cells", "--cells=64", "--backend=cryptography", "--path=fused"],
        pytest.param(["perf.bench_native", "--only=making", "--cells=64", "-p", MANY], marks=needs_core),
    ],
    ids=lambda command: command[0],
)
def test_an_end_says_what_is_kept(command: list[str], way: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    said = interrupted([*command, f"-o{out}"], tmp_path, "out.json", way)
    assert f"interrupted; {out} keeps what was measured: " in said
    assert "Traceback" not in said
    assert 0 < max(bench.get_nrun() for bench in load(str(out)).suite) < int(MANY)


def test_an_interrupted_round_keeps_its_rows(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    options = ["--cells=64", "--backend=cryptography", "--path=fused"]
    interrupted(["perf.rounds", f"-o{out}", "--rounds=1", "bench_cells", *options], tmp_path, "out.json.*.part")
    assert 0 < len(load(str(out)).suite.get_benchmarks()) < 10
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_ctrl_c_during_imports_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "pyperf.py").write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    said = script("perf.bench_onion", code=-signal.SIGINT, PYTHONPATH=str(tmp_path))
    assert said == "interrupted\n"


def interrupted(command: list[str], folder: Path, pattern: str, way: signal.Signals = signal.SIGINT) -> str:
    """Start a script, end it once a file `pattern` in `folder` has a row, and return what it says."""
    manager = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(way, signal.SIG_DFL),  # jobs in the background ignore some
    )
    until = time.monotonic() + 60
    while not any(path.stat().st_size for path in folder.glob(pattern)):
        assert manager.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(manager.pid, way)
    _, said = manager.communicate(timeout=60)
    assert manager.returncode == common.INTERRUPTED
    assert not [command for command in commands() if str(folder) in command]  # nothing that it started goes on
    return said


def commands() -> Iterator[str]:
    """Yield the command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            yield path.read_text()


def metadata(path: Path) -> dict[str, dict[str, Any]]:
    return {bench.get_name(): bench.get_metadata() for bench in pyperf.BenchmarkSuite.load(str(path))}


def test_options_reach_the_workers(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    options = ["--cells=70", "--backend=cryptography", "--path=fused", "--payload-len=33", "--payload-len=100"]
    script("perf.bench_cells", "-p1", "-n2", "-w0", "-q", f"-o{out}", *options, CELLCRYPT_KERNEL="portable")
    found = metadata(out)
    assert set(found) == {
        f"{name},{n}{end}]"
        for n in (33, 100)
        for name, end in (
            ("bare[cryptography.update_into", ""),
            ("bare[cryptography.update", ""),
            ("cells[cryptography,fused", ""),
            ("batch[cryptography,fused", ",70"),
            ("pass[cryptography.update_into", ",70"),
        )
    } | ({f"xor[{path},{n}]" for path in ("byte", "word") for n in (33, 100)} if core is not None else set())
    meta = found["cells[cryptography,fused,33]"]
    assert (meta["cells"], meta["inner_loops"], meta["payload_len"], meta["path"]) == (70, 70, 33, "fused")
    assert meta["backend_version"] == backends()["cryptography"].version
    assert meta["env_CELLCRYPT_KERNEL"] == "portable"
    assert meta["commit"]
    assert meta["measured"] == "wall time"
    assert meta["clock_how"]
    rate = load(str(out)).clock()
    assert rate is not None
    assert 0.3e9 < rate[0] < 10e9
    assert "cells[cryptography,fused,33]" in report(load(str(out)), None)


def test_cold_and_interpreted(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    options = ["--cells=1500", "--backend=cryptography", "--payload-len=40", "--cold", "--circuits=30", "--interpreted"]
    script("perf.bench_cells", "-p1", "-n2", "-w0", "-q", f"-o{out}", "--cpu-time", *options)
    found = metadata(out)
    assert {meta["measured"] for meta in found.values()} == {"processor time of the thread"}
    assert found["cold[cryptography,fused,40]"]["circuits"] == 30
    assert found["cold[cryptography.update_into,40]"]["circuits"] == 30
    assert found["cells[cryptography,word,40,interpreted]"]["inner_loops"] == 1500 // rows.INTERPRETED_SHARE
    assert "Warm and cold" in report(load(str(out)), None)


def test_rounds_append_and_stop_at_once(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    options = ["--cells=50", "--backend=cryptography", "--path=fused", "--payload-len=509", "--only"]
    said = script(
        "perf.rounds", f"-o{out}", "--rounds=3", "bench_cells", *options, "cells[cryptography,fused,509]", "--quick"
    )
    assert "round 3 of 3" in said
    (bench,) = pyperf.BenchmarkSuite.load(str(out)).get_benchmarks()
    assert bench.get_nrun() == bench.get_nvalue() == 3
    assert len({run.get_metadata()["part"] for run in bench.get_runs()}) == 3
    before = out.read_bytes()
    said = script("perf.rounds", f"-o{out}", "bench_cells", code=2)
    assert str(out) in said
    assert "round 1" not in said
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--backend=nope"], "--backend"),
        (["--payload-len=0"], "1 to 65535 bytes, got 0"),
        (["--payload-len=65536"], "got 65536"),
        (["--payload-len=long"], "must be 1 to 65535 bytes, got 'long'"),
        (["--cells=0"], "at least 1, got 0"),
        (["--cells=1.5"], "must be a whole number of at least 1, got '1.5'"),
        ([f"--cells={10**18}"], "must be a whole number of at least 1, got '1000000000000000000'"),
        (["--kernel=vaes9000"], "vaes9000"),
        (["--only=nothing"], "there is no row nothing"),
        (["-o/nowhere/at/all.json"], "no folder"),
    ],
)
def test_bad_options_stop_before_work(options: list[str], words: str) -> None:
    said = script("perf.bench_cells", *options, code=2)
    assert words in said
    assert "[1/" not in said


@pytest.mark.parametrize(
    "command",
    [
        ["perf.rounds", "-ox.json", "--rounds=few", "bench_cells"],
        ["perf.bench_native", "-ox.json", "-pfew"],
        ["perf.bench_onion", "-ox.json", "--cells=few"],
        ["perf.study", "-ox", "--values=few"],
        ["perf.bench_kernel_vs_user", "--count=few"],
    ],
    ids=lambda command: command[0],
)
def test_every_script_says_which_number_it_wants(command: list[str]) -> None:
    assert "must be a whole number of at least 1, got 'few'" in script(*command, code=2)


@pytest.mark.parametrize("command", [["perf.report", "FILE"], ["cellcrypt", "info"]], ids=lambda command: command[0])
def test_a_reader_that_has_gone_ends_a_program_quietly(command: list[str], tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [perf_kit.cells("native", "fused", 509, [1e-7, 2e-7])])
    ours, theirs = os.pipe()
    os.close(ours)
    started = [sys.executable, "-W", "error", "-m", *(file if word == "FILE" else word for word in command)]
    done = subprocess.run(started, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT, timeout=60)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_what_is_for_measuring_is_refused_where_a_file_is_shown() -> None:
    for script_name, option in (("bench_native", "--table"), ("bench_onion", "--table"), ("study", "--report")):
        said = script(f"perf.{script_name}", option, "x.json", "-oy.json", code=2)
        assert "-o is for measuring; x.json is shown as a whole" in said
    assert "--only is for measuring" in script("perf.bench_native", "--table=x.json", "--only=calls", code=2)


def test_an_output_that_exists_stops_before_work(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    out.write_text("precious")
    said = script("perf.bench_cells", f"-o{out}", code=2)
    assert str(out) in said
    assert "[1/" not in said
    assert out.read_text() == "precious"


def test_unstable_rows_go_on_while_time_suffices(tmp_path: Path) -> None:
    steady = perf_kit.cells("native", "fused", 509, noisy(1e-7, 20, 1, 0.001))
    shaky = perf_kit.cells("native", "byte", 509, noisy(1e-7, 20, 2, 0.02))
    wild = perf_kit.cells("native", "word", 509, noisy(1e-7, 20, 3, 0.2))
    suite = load(write(tmp_path / "a.json", [steady, wild, shaky])).suite
    needed = shaky.required_nprocesses()
    seconds = (needed - 20) * (1 + rounds.PROCESS_S)  # a process took a second: see perf_kit
    assert rounds.wanted(suite, seconds + 1) == (["cells[native,byte,509]"], ["cells[native,word,509]"])
    assert rounds.wanted(suite, seconds - 1) == ([], ["cells[native,byte,509]", "cells[native,word,509]"])


def test_only_unstable_rows_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    left = [(["x", "y"], ["z"]), (["y"], ["z"]), ([], ["z"])]
    monkeypatch.setattr(rounds, "one_round", lambda file, suite, options: asked.append(list(options)))
    monkeypatch.setattr(rounds, "wanted", lambda found, seconds: left.pop(0))
    rounds.run("bench_cells", str(tmp_path / "a.json"), 2, 1.0, ["--quick"])
    assert asked == [["--quick"]] * 2 + [["--quick", "--only=x", "--only=y"], ["--quick", "--only=y"]]
    assert not left


def test_going_on_until_stable(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    few = ("--backend=native", "--path=fused", "--payload-len=509", "--cells=2000", "--values=1", "--warmups=0")
    said = script("perf.rounds", f"-o{out}", "--rounds=2", "--until-stable=0.05", "bench_cells", *few)
    runs = {row.get_name(): row.get_nrun() for row in pyperf.BenchmarkSuite.load(str(out))}
    assert min(runs.values()) >= 2
    assert "not stable yet, 3 s left" in said
    assert "at least 0 minutes, got -1" in script(
        "perf.rounds", f"-o{tmp_path / 'b.json'}", "--until-stable=-1", "bench_cells", code=2
    )


def all_rows() -> list[rows.Row]:
    usable = tuple(name for name, state in backends().items() if state.usable)
    choice = rows.Choice(
        300, usable, ("fused", "byte", "word"), (509, 508, 7), cold=True, circuits=40, interpreted=True
    )
    return rows.suite(choice)


@pytest.mark.parametrize("row", all_rows(), ids=lambda row: row.name)
def test_every_row_checks_its_result(row: rows.Row) -> None:
    assert time_row(2, row) > 0
    opened: Any = row.open(random.Random(1))
    opened.run(130)
    opened.check()
    # A key stream that is somewhere else, or a cell that is not what it should be, must not go unnoticed.
    if hasattr(opened, "_done"):
        opened._done ^= 1
    else:
        opened._wire[-1] ^= 1
    with pytest.raises(work.WrongResult):
        opened.check()


def test_run_does_as_many_cells_as_it_says() -> None:
    seen: list[int] = []
    for cells in (1, 63, 64, 65, 1000):
        seen.clear()
        one = work.PerCell(lambda cell: seen.append(id(cell)), "in_place", 16, random.Random(1))
        one.run(cells)
        assert len(seen) == cells
        assert len(set(seen)) == min(cells, work.POOL)


def test_rotating_buffers_change_places() -> None:
    one = work.PerCell(lambda cell: None, "in_place", 509, random.Random(1))
    assert len(one._pool) >= 64
    before = list(map(id, one._pool))
    one.move(random.Random(2))
    assert before != list(map(id, one._pool))


def test_cold_cells_go_on_round_the_circle() -> None:
    keys: list[bytes] = []

    class Circuit:
        def __init__(self, key: bytes) -> None:
            self.key = key

        def crypt_in_place(self, cell: bytearray) -> None:
            keys.append(self.key)

    work = Cold(Circuit, "in_place", 16, 5)
    for cells in (2, 2, 1, 4, 11, 5, 1, 3):
        before = len(keys)
        work.run(cells)
        assert len(keys) == before + cells
    assert len(set(keys[:5])) == 5
    assert keys == [keys[i % 5] for i in range(len(keys))]
    assert work._done == keys.count(keys[4])


@pytest.mark.parametrize("at_once", [1, 16, 64, 1000])
def test_batches_are_gone_through_before_the_clock_starts(at_once: int) -> None:
    seen: list[int] = []

    def call(buffer: bytearray, *_: object, **__: object) -> int:
        seen.append(id(buffer))
        return at_once

    batch = work.Batch(call, TOR_V4, at_once, random.Random(1))
    assert seen == list(map(id, batch._pool))
    assert batch._done == at_once * len(seen)
    assert len(seen) == max(1, work.POOL // at_once)
    seen.clear()
    one_pass = work.OnePass(call, "output", 509, at_once, random.Random(1))
    assert seen == list(map(id, one_pass._pool))
    assert one_pass._done == at_once * len(seen)
    seen.clear()
    one_pass = work.OnePass(call, "into", 509, at_once, random.Random(1))
    assert seen == [id(source) for source, _ in one_pass._pool]
    assert one_pass._done == at_once * len(seen)
    assert all(len(source) == len(out) == 509 * at_once for source, out in one_pass._pool)


def test_flags_of_every_kind_are_passed_on() -> None:
    import argparse

    options = argparse.Namespace(a=True, b=False, c=None, d=["x", "y"], e=5)
    command: list[str] = []
    common.pass_on([(f"--{one}", one) for one in "abcde"])(command, options)
    assert command == ["--a", "--d=x", "--d=y", "--e=5"]


def test_results_are_json_as_they_come(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    options = ["--cells=50", "--backend=cryptography", "--path=fused", "--payload-len=9"]
    script("perf.bench_cells", "-p1", "-n1", "-w0", "-q", f"-o{out}", *options)
    assert json.loads(out.read_text())["version"] == "1.0"
