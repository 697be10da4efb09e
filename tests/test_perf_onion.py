"""The onion suite with tiny settings: it runs and keeps its results, and each row notices cells that went wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perf import onion_rows
from perf.bench_onion import onion_table
from perf.interleave import measure
from perf.onion_rows import ROLES, SCHEMES, Digest, Way, groups, role_rows
from perf.results import load
from perf.work import WrongResult

from .test_perf_suites import metadata, script

BACKEND = "cryptography"


def rng() -> random.Random:
    return random.Random(7)


def test_the_suite_runs_and_shows_its_table(tmp_path: Path) -> None:
    out = tmp_path / "onion.json"
    said = script("perf.bench_onion", f"-o{out}", "-p2", "--cells=70", f"--backend={BACKEND}")
    found = metadata(out)
    rows = [row.name for row in groups(tuple(SCHEMES), BACKEND, 70)[0].rows]
    assert list(found) == rows
    for name, meta in found.items():
        assert name in said
        assert meta["inner_loops"] == 70
        if name.startswith("onion["):
            assert (meta["backend"], meta["role"] in ROLES, meta["scheme"] in SCHEMES) == (BACKEND, True, True)
    assert "bare[cryptography.update_into,509] " in onion_table(load(str(out)))
    assert "not measured: no row onion[tor1,native,relay_forward]" in said
    assert script("perf.bench_onion", f"--table={out}").count("onion[") == said.count("onion[")
    assert "exists already" in script("perf.bench_onion", f"-o{out}", code=2)


ROWS = {row.name: row for scheme in SCHEMES for row in role_rows(scheme, BACKEND, 70)}


@pytest.mark.parametrize("name", ROWS)
def test_each_row_does_all_its_cells_and_notices_a_wrong_one(name: str) -> None:
    row = ROWS[name]
    assert set(measure([row], 2)) == {name}
    work: Any = row.open(rng())
    assert work.run(70) > 0
    work.check()
    calls = []
    right = work._call

    def counted(payload: bytearray) -> Any:
        calls.append(payload)
        if len(calls) == 69:
            payload[100] ^= 1
            right(payload)
            payload[1] ^= 1
            return None
        return right(payload)

    work._call = counted
    if "receive" in name:
        with pytest.raises(Exception, match="recognized by none"):
            work.run(70)
        return
    with pytest.raises(Exception, match=r"accepted|recognized"):  # noqa: PT012
        work.run(70)
        work.check()
    assert len(calls) >= 69


@pytest.mark.parametrize("copied", [False, True])
def test_the_digest_rows_notice_a_digest_that_was_left_out(copied: bool) -> None:
    work: Any = Digest("sha1", copied, rng())
    work.run(70)
    work.check()
    work._running.update(b"x")
    with pytest.raises(WrongResult):
        work.check()


def test_nothing_but_the_call_is_in_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr(onion_rows, "now", lambda: next(ticks))
    order: list[str] = []

    def noted(what: str) -> Callable[..., bool]:
        def note(*_: object) -> bool:
            order.append(what)
            return True

        return note

    way = Way(noted("call"), noted("before"), noted("after"), rng())
    assert way.run(65) == 2.0  # one tick for each of two pools
    assert order == ["before"] * 64 + ["call"] * 64 + ["after"] * 64 + ["before", "call", "after"]
