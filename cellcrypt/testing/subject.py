"""What is tested, and how a check says what is wrong.

Rules of this file: expected key stream comes from the subject's `reference`, never from the backend under test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..backend.protocol import BLOCK
from ..buffers import Buffer
from ..cipher import CellCipher
from ..errors import CellcryptError

#: Key stream by another implementation: (key, iv, position, length) -> bytes.
Reference = Callable[[bytes, bytes, int, int], bytes]

CELLS = 17  # of any odd payload length they start at every offset in a block
ZERO_IV = bytes(BLOCK)
KEY_LENGTHS = (16, 24, 32)
POISON = 0xA5


@dataclass(frozen=True)
class Subject:
    """What is tested: one backend on one path with one kernel at one payload length."""

    backend: str
    path: str
    kernel: str | None
    payload_len: int
    reference: Reference

    def __str__(self) -> str:
        return "-".join(filter(None, (self.backend, self.kernel, self.path, str(self.payload_len))))

    def cipher(self, key: Buffer, iv: Buffer = bytes(BLOCK), **more: Any) -> CellCipher:
        """Return a new cipher; `more` overrides."""
        chosen: dict[str, Any] = {
            "payload_len": self.payload_len,
            "path": self.path,
            "backend": self.backend,
            "kernel": self.kernel,
        }
        return CellCipher(key, iv, **chosen | more)

    def expected(self, key: bytes, position: int, data: bytes, iv: bytes = bytes(BLOCK)) -> bytes:
        """Return `data` XORed with the reference's key stream from `position` on."""
        return xor(data, self.reference(key, iv, position, len(data)))


def xor(a: bytes, b: bytes) -> bytes:
    """Return a XOR b, of one length."""
    same("length", len(a), len(b))
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).to_bytes(len(a), "big")


def pattern(length: int, seed: int = 3) -> bytes:
    """Return `length` bytes that look like nothing else here."""
    return bytes((7 * seed + 13 * i + (i >> 8)) % 256 for i in range(length))


def same(what: str, got: Any, wanted: Any) -> None:
    """Raise AssertionError unless `got == wanted`; of long bytes the message shows the first difference only."""
    if got == wanted:
        return
    if isinstance(wanted, bytes) and len(got) == len(wanted):
        at = next(i for i in range(len(wanted)) if got[i] != wanted[i])
        got, wanted = bytes(got[at : at + 8]).hex(), wanted[at : at + 8].hex()
        what = f"{what}, from byte {at} on"
    raise AssertionError(f"{what}: got {got}, expected {wanted}")


def refuses(what: str, expected: type[BaseException] | tuple[type[BaseException], ...], call: Any, *args: Any) -> None:
    """Raise AssertionError unless call(*args) raises `expected`, as Python's own type or ours, and shows no other's."""
    try:
        call(*args)
    except expected as error:
        shown: BaseException | None = error
        while shown is not None:
            ours = isinstance(shown, CellcryptError) or type(shown).__module__ == "builtins"
            if not ours:
                raise AssertionError(f"{what}: {type(shown).__module__}.{type(shown).__name__} leaks out") from None
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    except Exception as error:
        raise AssertionError(f"{what}: raised {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{what}: was accepted")


def key_of(length: int) -> bytes:
    """Return the key of `length` bytes that the checks use."""
    return pattern(length, 91 + length)


KEY = key_of(16)
