"""crypt_each: one cell on each of many circuits in one call, a relay's real load.

Rules of this file: every cipher is claimed and checked before the first byte is written; a cipher that comes several
times is checked for all of its cells at once and serves them in order. Where all ciphers are native, the compiled core
does the same without a Python frame between two cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .buffers import WritableBuffer, writable
from .cipher import CellCipher
from .compiled import core
from .errors import BackendUnavailable
from .formats import CellFormat, check_cell_format, count_cells


def crypt_each(ciphers: Iterable[CellCipher], buffer: WritableBuffer, cell_format: CellFormat) -> int:
    """Encrypt or decrypt cell i of `buffer` where it lies with ciphers[i]; headers stay. Return the number of cells.

    Args:
        ciphers: one a cell, each with the payload length of `cell_format`; the same one may come several times.
        buffer: writable, a whole number of cells; empty is 0 cells.

    Raises (nothing written, no position moved): TypeError, BufferError, ValueError (a wrong number of ciphers, another
    payload length, no whole number of cells), KeystreamExhausted, ClosedError, ConcurrentUseError. BackendUnavailable
    where a backend fails on the way: the message says how many cells are done.
    """
    queue = ciphers if type(ciphers) in (list, tuple) else list(_each(ciphers))
    if core is not None:
        done: int | None = core.crypt_each(queue, buffer, cell_format)
        if done is not None:
            return done  # and no call after that one: where no frame is left, it would fail with all written
    return _crypt_each(list(queue), buffer, cell_format)


def _each(ciphers: Iterable[CellCipher]) -> Iterator[CellCipher]:
    try:
        return iter(ciphers)
    except TypeError:
        raise TypeError(f"ciphers must be an iterable of CellCiphers, got {type(ciphers).__name__}") from None


def _crypt_each(ciphers: list[Any], buffer: WritableBuffer, cell_format: CellFormat) -> int:
    view = writable(buffer, "buffer")
    for number, cipher in enumerate(ciphers):
        if not isinstance(cipher, CellCipher):
            raise TypeError(f"ciphers must be CellCiphers, got {type(cipher).__name__} as number {number}")
        count_cells(0, cell_format, cipher.payload_len)
    count = count_cells(len(view), cell_format, check_cell_format(cell_format).payload_len)
    if len(ciphers) != count:
        raise ValueError(f"ciphers must be as many as the {count} cells in buffer, got {len(ciphers)}")
    claimed = []
    try:
        keystreams = {}
        for cipher, times in Counter(ciphers).items():
            keystreams[cipher] = cipher._claim(times * cell_format.payload_len)
            claimed.append(cipher)
        for number, cipher in enumerate(ciphers):
            start = number * cell_format.cell_len + cell_format.header_len
            try:
                cipher._one_claimed(keystreams[cipher], view[start : start + cell_format.payload_len])
            except BackendUnavailable as error:
                raise BackendUnavailable(f"{error} ({number} of {count} cells are done)") from None
        return count
    finally:
        for cipher in claimed:
            cipher._give()
