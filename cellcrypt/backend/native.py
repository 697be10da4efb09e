"""Backend "native": our own C core.

Rules of this file: says which kernels there are; the calls themselves never come by here, since CellCipher reaches the
core directly. The contract stands in protocol.py.
"""

from __future__ import annotations

from ..compiled import core, reason
from ..errors import BackendUnavailable
from .protocol import Keystream


def kernels() -> tuple[str, ...]:
    """Return the kernels that this processor runs, best first."""
    return () if core is None else tuple(core.kernels())


def version() -> str:
    from importlib.metadata import version

    return version("cellcrypt")


def open(key: bytes, iv: bytes) -> Keystream:
    if core is None:
        raise BackendUnavailable(reason or "the C core was not built")
    raise BackendUnavailable("the C core was built without AES")
