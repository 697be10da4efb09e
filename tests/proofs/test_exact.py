"""Every kernel makes the right octets: every count of blocks, lead and carry in C, random splits from Python.

The C program compares with AES as FIPS-197 reads; the random octets are compared with `cryptography` (billion.py).
`make exact` takes every distance from each carry, `make billion` 10**9 octets per kernel.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ..support import needs_core
from . import billion
from .kit import KERNELS, PROGRAMS, Objects, full, run, usable

each_kernel = pytest.mark.parametrize("kernel", KERNELS)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, objects: Objects) -> Path:
    return objects.link(tmp_path_factory.mktemp("exact") / "test_kernels", PROGRAMS / "test_kernels.c")


@each_kernel
def test_every_length_lead_and_carry(program: Path, kernel: str) -> None:
    usable(kernel)
    assert f"{kernel:<9} " in run(program, kernel)


@full
@each_kernel
def test_every_distance_from_every_carry(program: Path, kernel: str) -> None:
    usable(kernel)
    run(program, kernel, "full", timeout=1800)


@needs_core
@each_kernel
def test_random_octets_in_random_splits(kernel: str) -> None:
    usable(kernel)
    seed = random.SystemRandom().randrange(2**32)
    print(f"--seed {seed}")
    assert billion.compare(kernel, 8_000_000, seed) >= 8_000_000


@needs_core
def test_wrong_octets_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneWrongBit:
        def __init__(self, *arguments: bytes) -> None:
            self.right, self.calls = encryptor(*arguments), 0

        def update(self, source: bytes) -> bytes:
            self.calls += 1
            made = bytearray(self.right.update(source))
            if self.calls == 5 and made:
                made[-1] ^= 1
            return bytes(made)

    encryptor = billion._encryptor
    monkeypatch.setattr(billion, "_encryptor", OneWrongBit)
    with pytest.raises(AssertionError, match="wrong octets"):
        billion.compare("portable", 8_000_000, 1)
