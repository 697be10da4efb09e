"""The fields of a payload that tor1 itself uses: recognized (bytes 1 and 2) and digest (bytes 5 to 8).

What lives here: their readable definitions, and in their place the compiled ones where there is a core.

Rules of this file: each works on the bytes of any contiguous buffer, whatever its items, and checks no more than it
needs: the cipher has looked at the payload before. What stands in the two fields of a cell that is yet to be sealed is
no part of it.

Theory: tor-spec, "Relay cells".
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from ..buffers import Buffer, readable, writable
from ..compiled import core

_FIELDS: Final = Struct("!xHxxI")
_RECOGNIZED: Final = slice(1, 3)
_DIGEST: Final = slice(5, 9)

#: (payload) -> (its digest field as 4 bytes,)
digest_of = Struct("!5x4s").unpack_from


def _cleared(payload: Buffer) -> bytes:
    """Return a copy with both fields zero: what digests are made of."""
    plain = bytearray(readable(payload, "payload"))
    plain[_RECOGNIZED], plain[_DIGEST] = bytes(2), bytes(4)
    return bytes(plain)


def _mend(payload: Buffer, before: Buffer, tag: bytes) -> None:
    """Make both fields of an encrypted payload what they would be, had zero and `tag` stood there, not `before`."""
    recognized, digest = _FIELDS.unpack_from(before)
    view = writable(payload, "payload")
    found = _FIELDS.unpack_from(view)
    view[_RECOGNIZED] = (found[0] ^ recognized).to_bytes(2, "big")
    view[_DIGEST] = (found[1] ^ digest ^ int.from_bytes(tag[:4], "big")).to_bytes(4, "big")


def _foreign(payload: Buffer) -> bool:
    """Return whether recognized is not zero: then the cell is not this hop's."""
    return bool(_FIELDS.unpack_from(payload)[0])


cleared: Callable[[Buffer], bytes] = _cleared if core is None else core.tor1_cleared
mend: Callable[[Buffer, Buffer, bytes], None] = _mend if core is None else core.tor1_mend
foreign: Callable[[Buffer], bool] = _foreign if core is None else core.tor1_foreign
