"""The position in a key stream: its range, and what is said when a cipher can't go on from it.

Rules of this file: the words stand here once, for the core and for library.py; no secret gets into any of them.

Theory: 2**128 counter values, each a block of 16 bytes (NIST SP 800-38A, appendix B.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from .backend.protocol import BLOCK, END
from .buffers import told, whole
from .errors import CellcryptError, ClosedError, ConcurrentUseError, KeystreamExhausted

if TYPE_CHECKING:
    from .cipher import CellCipher


def refusal(taken: bool, closed: bool, position: int, length: int) -> CellcryptError:
    """Return the error for a cipher that can't give `length` bytes of key stream now, in the order of the arguments."""
    if taken:
        return ConcurrentUseError("another thread is inside this cipher: give each thread one, or lock around calls")
    if closed:
        return ClosedError("the cipher is closed")
    return KeystreamExhausted(
        f"{told(length)} bytes of key stream were asked for, {END - position} bytes are left before its end"
    )


def check_left(position: int, length: int) -> None:
    """Raise KeystreamExhausted unless `length` bytes of key stream are left."""
    if position + length > END:
        raise refusal(False, False, position, length)


def check_position(position: int) -> int:
    """Return `position` as an int from 0 to 16 * 2**128 - 1; raises as `seek`."""
    position = whole(position, "position", "bytes")
    if position >= END:
        raise KeystreamExhausted(f"position must be below {END} bytes, got {told(position)}")
    return position


def split_position(position: int) -> tuple[int, int, int]:
    """Return a position as the upper and lower 64 bits of its block number, and the bytes into that block."""
    block, within = divmod(position, BLOCK)
    return block >> 64, block & 0xFFFF_FFFF_FFFF_FFFF, within


def describe(cipher: CellCipher, closed: bool) -> str:
    """Return a cipher's repr, which shows no secret."""
    state = "closed" if closed else f"position={cipher.position}"
    kernel = f" kernel={cipher.kernel!r}" if cipher.kernel else ""
    return (
        f"<CellCipher backend={cipher.backend!r}{kernel} path={cipher.path!r} payload_len={cipher.payload_len} {state}>"
    )


def refuse_pickling(cipher: CellCipher) -> NoReturn:
    """Raise TypeError."""
    raise TypeError("a CellCipher can't be pickled: that would use its key stream twice")
