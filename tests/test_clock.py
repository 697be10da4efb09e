"""The clock rate: measured with a core, reported without, and always with its source."""

from __future__ import annotations

import builtins
import io
from typing import Any

import pytest

from cellcrypt import clock
from cellcrypt.compiled import core

from .support import needs_core


@needs_core
def test_measured() -> None:
    """Two measurements agree, and lie where clock rates lie."""
    first, second = clock.find(), clock.find()
    assert first.hz is not None
    assert second.hz is not None
    assert "measured" in first.how
    assert 1e8 < first.hz < 1e10
    assert first.hz == pytest.approx(second.hz, rel=0.5)


@needs_core
def test_dependent_adds() -> None:
    assert [core.dependent_adds(count) for count in (0, 15, 16, 1600, 1607)] == [0, 0, 16, 1600, 1600]
    for wrong in (-1, "1", 2**64):
        with pytest.raises((TypeError, OverflowError)):
            core.dependent_adds(wrong)


@pytest.mark.parametrize(
    ("cpuinfo", "hz"), [("model\t: x\ncpu MHz\t\t: 2593.906\ncpu MHz\t: 1\n", 2593.906e6), ("processor\t: 0\n", None)]
)
def test_reported(cpuinfo: str, hz: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str, **options: Any) -> io.StringIO:
        assert path == "/proc/cpuinfo"
        return io.StringIO(cpuinfo)

    monkeypatch.setattr(clock, "core", None)
    monkeypatch.setattr(builtins, "open", opened)
    found = clock.find()
    assert found.hz == (None if hz is None else pytest.approx(hz))
    assert "no compiled core" in found.how


def test_given() -> None:
    assert clock.given(3.5) == clock.Clock(3.5e9, "given")
