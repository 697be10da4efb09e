"""Backend "native": our own C core.

Rules of this file: which kernels there are, and a Keystream of each so that it can prove itself; CellCipher's own calls
reach the core directly and never come by here. The contract stands in protocol.py.
"""

from __future__ import annotations

from ..compiled import core, reason
from ..errors import BackendUnavailable


def kernels() -> tuple[str, ...]:
    """Return the kernels that this processor runs, best first."""
    return () if core is None else tuple(core.kernels())


def known_kernels() -> tuple[str, ...]:
    """Return the kernels that the core was built with, best first."""
    return () if core is None else tuple(core.known_kernels())


def version() -> str:
    from importlib.metadata import version

    return version("cellcrypt")


class _Keystream:
    __slots__ = ("_iv", "_kernel", "_key")

    def __init__(self, key: bytes, iv: bytes, kernel: str | None = None) -> None:
        if core is None:
            raise BackendUnavailable(reason or "the C core was not built")
        self._key, self._iv, self._kernel = key, iv, kernel or kernels()[0]

    def xor_into(self, position: int, buffer: memoryview) -> None:
        cipher = core.native_cipher(self._key, self._iv, 1, "fused", self._kernel)  # a payload can't be of any length
        cipher.seek(position)
        core.xor_wide(buffer, cipher.keystream(len(buffer)))


open = _Keystream
