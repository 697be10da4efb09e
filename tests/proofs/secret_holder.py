"""A process that holds a key in a cipher, so that another may look for it in its memory (test_memory.py).

Usage: python -m tests.proofs.secret_holder KERNEL KIND HOW KEY_LENGTH, with the key on standard input.

KIND is how the key comes in: "bytes", "bytearray" or "named" (with kernel=). HOW is what becomes of the cipher: "close"
or "delete", or "at once": close without any work. Prints a line at each stage, each waiting for an octet on standard
input: "open" when the cipher has worked and the caller's own key is wiped, "gone" after close() or deletion.
"""

from __future__ import annotations

import ctypes
import os
import sys

from cellcrypt import TOR_V4, CellCipher, crypt_each
from cellcrypt.buffers import address
from cellcrypt.compiled import core

from .kit_scan import CELLS, LAST_CELL


def wipe(buffer: bytes | bytearray) -> None:
    """Wipe what the caller owns, which no library can do for it."""
    ctypes.memset(address(memoryview(buffer)), 0, len(buffer))


def stage(name: str) -> None:
    print(name, flush=True)
    os.read(0, 1)


def work(cipher: CellCipher) -> None:
    """Use the cipher in every way that there is, over random payloads, so that no output is key stream."""
    cell, wire = bytearray(os.urandom(509)), bytearray(os.urandom(514 * CELLS))
    cipher.crypt(bytes(cell))
    cipher.crypt_in_place(cell)
    cipher.crypt_into(bytes(cell), cell)
    for cells in (2, 30, CELLS):
        cipher.crypt_cells(memoryview(wire)[: 514 * cells], TOR_V4)
    twin = cipher.clone()
    crypt_each([twin, cipher], memoryview(wire)[: 514 * 2], TOR_V4)
    twin.close()
    cipher.seek(5)
    cipher.crypt(bytes(cell))
    cipher.seek(LAST_CELL)
    cipher.crypt_in_place(memoryview(wire)[5:514])


def main() -> int:
    kernel, kind, how, length = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    if kernel != "best":
        os.environ["CELLCRYPT_KERNEL"] = kernel
    work(CellCipher(bytes(length), backend="native"))  # so that all is loaded and proved
    key: bytes | bytearray = os.read(0, length)
    if kind == "bytearray":
        given = key
        key = bytearray(key)
        wipe(given)
        del given
    named = core.kernels()[0] if kind == "named" else None
    cipher = CellCipher(key, backend="native", kernel=named)
    wipe(key)
    if how != "at once":
        work(cipher)
    stage("open")
    if how != "delete":
        cipher.close()
    else:
        del cipher
    stage("gone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
