"""Run in a process of its own by test_pages.py: every call on memory between two pages that nobody may touch.

Rules of this file: a read or write past either end kills this process; it prints "ok" as its last word.

Usage: python -m tests.pages BACKEND PATH KERNEL|- STEP   (sizes 1, 1 + STEP, ... to 600)
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

from cellcrypt import CellFormat, crypt_each
from cellcrypt.testing import Subject
from tests.witness import keystream, xor

PAGE = mmap.PAGESIZE
KEY = bytes(range(50, 82))
IV = bytes(16)

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fence:
    """`pages` pages of memory with a forbidden one on either side."""

    def __init__(self, pages: int) -> None:
        self.length = pages * PAGE
        self._map = mmap.mmap(-1, self.length + 2 * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for at in (base, base + PAGE + self.length):
            if libc.mprotect(at, PAGE, 0):  # PROT_NONE
                raise OSError(ctypes.get_errno(), "mprotect")
        self._view = memoryview((ctypes.c_char * self.length).from_address(base + PAGE)).cast("B")

    def at_start(self, data: bytes) -> memoryview:
        """Return a view of `data` that begins where the memory does."""
        view = self._view[: len(data)]
        view[:] = data
        return view

    def at_end(self, data: bytes) -> memoryview:
        """Return a view of `data` that ends where the memory does."""
        view = self._view[self.length - len(data) :]
        view[:] = data
        return view


def expect(what: str, got: Any, wanted: bytes) -> None:
    if bytes(got) != wanted:
        raise AssertionError(f"{what} is wrong")


def one_size(subject: Subject, size: int, first: Fence, second: Fence) -> None:
    """Try every call with payloads of `size` octets, at every lead in a block that this size may meet."""
    payload = bytes((3 * i + size) % 256 for i in range(size))
    key = KEY[: (16, 24, 32)[size % 3]]
    position = size % 37
    wanted = xor(payload, keystream(key, IV, position, size))
    cells = 17
    for place, other in ((Fence.at_start, Fence.at_end), (Fence.at_end, Fence.at_start)):
        cipher = subject.cipher(place(first, key), place(second, IV), payload_len=size)
        cipher.seek(position)
        expect("crypt", cipher.crypt(place(first, payload)), wanted)
        for target in (place, other):
            cipher.seek(position)
            out = target(second, bytes(size))
            cipher.crypt_into(place(first, payload), out)
            expect("crypt_into", out, wanted)
        cipher.seek(position)
        view = place(first, payload)
        cipher.crypt_in_place(view)
        expect("crypt_in_place", view, wanted)
        for header_len in (0, 5) if size % 2 else (3,):
            cell_format = CellFormat(header_len, size)
            wire = (bytes(header_len) + payload) * cells
            crypted = b"".join(
                bytes(header_len) + xor(payload, keystream(key, IV, position + n * size, size)) for n in range(cells)
            )
            for count in (1, cells):
                cipher.seek(position)
                view = place(first, wire[: count * cell_format.cell_len])
                cipher.crypt_cells(view, cell_format)
                expect("crypt_cells", view, crypted[: count * cell_format.cell_len])
                cipher.seek(position)
                view = place(first, wire[: count * cell_format.cell_len])
                crypt_each([cipher] * count, view, cell_format)
                expect("crypt_each", view, crypted[: count * cell_format.cell_len])


def main() -> None:
    backend, path, kernel, step = sys.argv[1:]
    subject = Subject(backend, path, None if kernel == "-" else kernel, 509, keystream)
    first, second = Fence(3), Fence(1)
    for size in range(1, 601, int(step)):
        one_size(subject, size, first, second)
    print("ok")


if __name__ == "__main__":
    main()
