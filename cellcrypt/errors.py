"""The exception tree: everything cellcrypt raises of its own is a CellcryptError.

Rules of this file: imports nothing; messages, written where they are raised, name what was expected, what came and the
unit, and never a key or key stream.
"""

from __future__ import annotations


class CellcryptError(Exception):
    """The root of the tree."""


class BackendUnavailable(CellcryptError):
    """A backend can't be used here, or failed while it was used; the message says why."""


class PayloadLengthError(CellcryptError, ValueError):
    """A payload or destination has another length than the cipher's `payload_len`."""


class OverlapError(CellcryptError, ValueError):
    """Source and destination share memory without being the same memory."""


class KeystreamExhausted(CellcryptError, ValueError):
    """The request needs key stream past byte 16 * 2**128, where the counter would repeat."""


class ClosedError(CellcryptError, ValueError):
    """The cipher was closed."""


class ConcurrentUseError(CellcryptError, RuntimeError):
    """Another thread is inside this cipher; one cipher serves one thread at a time."""
