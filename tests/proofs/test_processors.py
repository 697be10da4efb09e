"""Every known answer on processors without the newest instructions, and natively with each kernel forced.

Older processors are QEMU's user emulation of them, which ends a program at an instruction that they lack.
"""

from __future__ import annotations

import os
import sys

import pytest

from cellcrypt import BackendUnavailable, CellCipher
from cellcrypt import backend as backends
from cellcrypt.backend import native

from ..support import ROOT, needs_core, tool
from .kit import KERNELS, run, usable

pytestmark = needs_core

#: What QEMU calls a processor, and the kernels that may be the best on it.
PROCESSORS = {
    "Nehalem": {"portable"},  # no AES instructions
    "Westmere": {"aesni"},  # AES-NI, no AVX
    "Haswell": {"aesni"},  # AVX2, no VAES
    "max": {"aesni", "vaes256"},  # all that QEMU knows: 7.2 claims VAES but is wrong in it, so aesni serves
}


def vectors(*emulator: str, kernel: str | None = None) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CELLCRYPT_")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"CELLCRYPT_KERNEL": kernel} if kernel else {})
    said = run(*emulator, sys.executable, "-m", "tests.proofs.all_vectors", environment=environment)
    return said.splitlines()[-1].split()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_as_an_older_processor(processor: str) -> None:
    best, *kernels = vectors(tool("qemu-x86_64"), "-cpu", processor)
    assert best in PROCESSORS[processor]
    assert best == kernels[0]
    assert kernels[-1] == "portable"


@pytest.mark.parametrize(("processor", "kernel"), [("Westmere", "portable"), ("max", "aesni")])
def test_a_lesser_kernel_on_an_older_processor(processor: str, kernel: str) -> None:
    assert vectors(tool("qemu-x86_64"), "-cpu", processor, kernel=kernel)[0] == kernel


@pytest.mark.parametrize("kernel", KERNELS)
def test_here_with_each_kernel(kernel: str) -> None:
    usable(kernel)
    assert vectors(kernel=kernel)[0] == kernel


def test_a_kernel_that_is_wrong_here_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a processor claims instructions in which it is wrong: the next kernel serves, and the reason is said."""

    class Wrong(native._Keystream):
        def xor_into(self, position: int, buffer: memoryview) -> None:
            super().xor_into(position, buffer)
            buffer[-1] ^= self._kernel == native.kernels()[0]

    for name in ("_proved", "_kernel_faults"):
        monkeypatch.setattr(backends, name, {})
    monkeypatch.setattr(native, "open", Wrong)
    monkeypatch.delenv("CELLCRYPT_KERNEL", raising=False)
    best, *others = native.kernels()
    if not others:
        pytest.skip("this processor runs one kernel only")
    try:
        assert backends.availability("native").kernels == tuple(others)
        assert backends.choose_kernel(None) == others[0]
        with pytest.raises(BackendUnavailable, match=f"kernel '{best}': it computes wrong key stream"):
            backends.choose_kernel(best)
        assert CellCipher(bytes(16), backend="native").kernel == others[0]
    finally:
        monkeypatch.undo()
        backends._proved.pop("native", None)
        backends.load("native")  # sets the core's short cut again
