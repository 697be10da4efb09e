"""A statistical test that time does not depend on key or payload, in the manner of dudect (tests/c/dudect.c).

`make test` shows that planted leaks are found; `make dudect` measures each kernel. Chance and a busy machine raise |t|
now and then, a leak does so every time and the more the longer it is measured: so a kernel fails if three runs, each
longer than the one before, are all above the threshold.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from .kit import KERNELS, PROGRAMS, Objects, full, run, usable

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the time stamp counter of x86-64")

#: |t| above which two classes differ (Reparaz, Balasch and Verbauwhede, DATE 2017, take 4.5 for a first sign).
SIGN, CERTAIN = 4.5, 50.0
SECONDS = (8, 16, 32)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, objects: Objects) -> Path:
    target = tmp_path_factory.mktemp("dudect") / "dudect"
    return objects.link(target, PROGRAMS / "dudect.c", extra=("-lm",))


def t_value(program: Path, kernel: str, what: str, seconds: int) -> float:
    measurements, t = run(program, kernel, what, str(seconds)).split()
    print(f"{kernel:<9} {what:<10} |t| = {t} over {measurements} measurements")
    assert int(measurements) > 2000
    return float(t)


@pytest.mark.parametrize("leak", ["branch", "multiple"])
def test_a_planted_leak_is_found(program: Path, leak: str) -> None:
    assert t_value(program, "portable", leak, 1) > CERTAIN


@full
@pytest.mark.parametrize("what", ["cell", "batch", "keystream", "expand"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_kernel_shows_a_difference(program: Path, kernel: str, what: str) -> None:
    usable(kernel)
    values = []
    for seconds in SECONDS:
        values.append(t_value(program, kernel, what, seconds))
        if values[-1] < SIGN:
            return
    pytest.fail(f"kernel {kernel}, {what}: |t| = {', '.join(map(str, values))} in {SECONDS} seconds")
