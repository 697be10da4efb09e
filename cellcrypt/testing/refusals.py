"""Checks of what is refused: a call that raises has written nothing and moved nothing.

Rules of this file: what is raised is Python's own type or ours, and shows no other library's; after each refusal the
right call gives the right bytes.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from ..backend.protocol import END
from ..cipher import CellCipher
from ..circuits import crypt_each
from ..errors import ClosedError, KeystreamExhausted, OverlapError
from ..formats import MAX_PAYLOAD_LEN, CellFormat
from .subject import KEY, ZERO_IV, Subject, pattern, refuses, same


def refused(s: Subject) -> None:
    """A call that raises has written nothing and moved nothing: the right call then gives the right bytes."""
    length, cell_format = s.payload_len, CellFormat(5, s.payload_len)
    another = length % MAX_PAYLOAD_LEN + 1
    cell, wire, apart = bytearray(pattern(length)), bytearray(pattern(3 * cell_format.cell_len)), bytearray(length)
    before = [bytes(x) for x in (cell, wire, apart)]
    cipher, other = s.cipher(KEY), s.cipher(KEY, payload_len=another)
    cipher.keystream(5)
    types = (TypeError, BufferError)
    gappy = memoryview(bytearray(4 * length + 4))[: 2 * length + 2 : 2][: length + length % 2 : 1]
    wrong: list[tuple[Any, ...]] = [
        *((types, cipher.crypt, bad) for bad in (None, True, 7, "x" * length, [0] * length, gappy)),
        *((types, cipher.crypt_in_place, bad) for bad in (None, False, "x" * length, bytes(length), gappy)),
        *((types, cipher.crypt_into, cell, bad) for bad in (None, "x" * length, bytes(length), gappy)),
        (types, cipher.crypt_into, "x" * length, apart),
        (types, cipher.crypt_into, cell, memoryview(cell).toreadonly()),
        *((types, cipher.crypt_cells, bad, cell_format) for bad in (None, "", b"", bytes(wire), gappy)),
        *((TypeError, cipher.crypt_cells, wire, bad) for bad in (None, 5, (5, length))),
        *((ValueError, cipher.crypt, bytes(n)) for n in (length - 1, length + 1, 0, 2 * length)),
        *((ValueError, cipher.crypt_in_place, bytearray(n)) for n in (length - 1, length + 1)),
        *((ValueError, cipher.crypt_into, cell, bytearray(n)) for n in (length - 1, length + 1)),
        *((ValueError, cipher.crypt_into, bytes(n), apart) for n in (length - 1, length + 1)),
        (ValueError, cipher.crypt_cells, memoryview(wire)[:-1], cell_format),
        (ValueError, cipher.crypt_cells, wire, CellFormat(4, another)),
        *((TypeError, cipher.keystream, bad) for bad in (None, "1", 1.0, True)),
        *((TypeError, cipher.seek, bad) for bad in (None, "1", 1.0, False)),
        *((ValueError, call, -1) for call in (cipher.seek, cipher.keystream)),
        *((KeystreamExhausted, cipher.seek, bad) for bad in (END, END + 1, END**2)),
        *((ValueError, crypt_each, [cipher] * n, wire, cell_format) for n in (0, 2, 4)),
        (ValueError, crypt_each, [cipher, cipher, other], wire, cell_format),
        *((TypeError, crypt_each, [cipher, bad, cipher], wire, cell_format) for bad in (None, object(), KEY)),
        (TypeError, crypt_each, [cipher] * 3, wire, None),
        (TypeError, crypt_each, [], bytearray(), None),
        (types, crypt_each, [cipher] * 3, bytes(wire), cell_format),
    ]
    for expected, call, *args in wrong:
        what = f"{getattr(call, '__name__', call)} with {', '.join(type(x).__name__ for x in args)}"
        refuses(what, expected, call, *args)
        same(f"{what}: position", (cipher.position, other.position), (5, 0))
        same(f"{what}: buffers", [bytes(x) for x in (cell, wire, apart)], before)
        same(f"{what}: next", cipher.keystream(3), s.reference(KEY, ZERO_IV, 5, 3))
        cipher.seek(5)


def overlap(s: Subject) -> None:
    """Source and destination that share some memory are refused, at every shift; neighbours that touch are fine."""
    length, cipher = s.payload_len, s.cipher(KEY)
    for shift in {*range(-16, 17), length, -length, length - 1, 1 - length} - {0}:
        memory = bytearray(pattern(3 * length + 32))
        before, source, target = bytes(memory), length + 16, length + 16 + shift
        with memoryview(memory) as view:
            args = view[source : source + length], view[target : target + length]
            if abs(shift) < length:
                refuses(f"overlap by a shift of {shift}", OverlapError, cipher.crypt_into, *args)
            else:
                cipher.crypt_into(*args)
                wanted = s.expected(KEY, 0, before[source : source + length])
                before = before[:target] + wanted + before[target + length :]
        same(f"shift of {shift}", memory, before)
        same("position", cipher.position, length if abs(shift) >= length else 0)
        cipher.seek(0)


def end_of_keystream(s: Subject) -> None:
    """The key stream ends at byte 16 * 2^128: it can be used up, and nothing gives a byte more."""
    length, cell_format = s.payload_len, CellFormat(1, s.payload_len)
    for left in {n for n in (length, length - 1, length + 1, 2 * length - 1) if n < 2 * length}:
        cipher, other = s.cipher(KEY, bytes(15) + b"\x05"), s.cipher(KEY)
        cell, wire = bytearray(length), bytearray(2 * cell_format.cell_len)
        cipher.seek(END - left - 1)
        cipher.keystream(1)
        refuses("two cells", KeystreamExhausted, cipher.crypt_cells, wire, cell_format)
        refuses("two cells", KeystreamExhausted, crypt_each, [cipher, cipher], wire, cell_format)
        refuses("key stream", KeystreamExhausted, cipher.keystream, left + 1)
        if left < length:
            refuses("one cell", KeystreamExhausted, cipher.crypt_in_place, cell)
            refuses("one cell", KeystreamExhausted, cipher.crypt_into, cell, bytearray(length))
            refuses("of two ciphers", KeystreamExhausted, crypt_each, [other, cipher], wire, cell_format)
        same("buffers", set(cell + wire), {0})
        same("positions", (cipher.position, other.position), (END - left, 0))
        made = b"" if left < length else cipher.crypt(bytes(length))
        made += cipher.keystream(left - len(made))
        same("last bytes", made, s.reference(KEY, bytes(15) + b"\x05", END - left, left))
        same("position", cipher.position, END)
        same("nothing more", cipher.keystream(0), b"")
        refuses("a cell more", KeystreamExhausted, cipher.crypt, cell)
        same("a clone's position", cipher.clone().position, END)
        cipher.seek(0)
        same("begins", cipher.keystream(4), s.reference(KEY, bytes(15) + b"\x05", 0, 4))


def closed(s: Subject) -> None:
    """After close() every call but close() raises ClosedError; leaving a `with` closes."""
    with s.cipher(KEY) as left:
        left.crypt(bytes(s.payload_len))
    again = s.cipher(KEY, lookahead=100)
    again.crypt(bytes(s.payload_len))
    for _ in range(2):
        again.close()
    for cipher in (left, again):
        _closed(s, cipher)


def _closed(s: Subject, cipher: CellCipher) -> None:
    cell, cell_format, other = bytearray(s.payload_len), CellFormat(0, s.payload_len), s.cipher(KEY)
    calls: list[tuple[Any, ...]] = [
        *((call, cell) for call in (cipher.crypt, cipher.crypt_in_place)),
        (cipher.crypt_into, cell, bytearray(s.payload_len)),
        (cipher.crypt_cells, cell, cell_format),
        (cipher.keystream, 1),
        (cipher.seek, 0),
        *((call, cipher) for call in (copy, deepcopy, CellCipher.clone)),
        (crypt_each, [other, cipher], cell + cell, cell_format),
    ]
    for call, *args in calls:
        refuses(f"{call.__name__} after close", ClosedError, call, *args)
    same("buffer", set(cell), {0})
    same("position of the other", other.position, 0)
    cipher.close()
