"""A program for ThreadSanitizer: threads on one cipher, and on many, in every call that there is.

Usage: python -m tests.proofs.hammer [race]

With `race` two ciphers encrypt one buffer at once, which is the caller's mistake and which ThreadSanitizer must see.
"""

from __future__ import annotations

import copy
import sys
from functools import partial

from cellcrypt import TOR_V4, CellCipher, ClosedError, crypt_each

from ..storm import insist, together

KEY = bytes(range(16))
#: Cells of a batch that lets go of the GIL.
BATCH = 400


def one_cipher(kernel: str) -> None:
    """Batches, cells, reads of the position, clones: every byte of key stream is used once."""
    cipher = CellCipher(KEY, backend="native", kernel=kernel)
    rounds = 12

    def batches() -> None:
        wire = bytearray(514 * BATCH)
        for _ in range(rounds):
            insist(cipher.crypt_cells, wire, TOR_V4)

    def cells() -> None:
        cell = bytearray(509)
        for _ in range(200):
            insist(cipher.crypt_in_place, cell)
            insist(cipher.crypt, bytes(cell))

    def looks() -> None:
        for _ in range(400):
            repr(cipher)
            assert cipher.position >= 0
            insist(copy.copy, cipher)

    together(batches, batches, cells, looks)
    assert cipher.position == 509 * (2 * rounds * BATCH + 400)


def many_ciphers(kernel: str) -> None:
    def work() -> None:
        wire = bytearray(514 * BATCH)
        for _ in range(10):
            ciphers = [CellCipher(KEY, backend="native", kernel=kernel) for _ in range(8)]
            ciphers[0].crypt_cells(wire, TOR_V4)
            crypt_each(ciphers, memoryview(wire)[: 514 * 8], TOR_V4)
            for cipher in ciphers:
                cipher.seek(77)
                cipher.keystream(600)
                cipher.close()

    together(work, work, work)


def use_until_closed(cipher: CellCipher) -> None:
    wire = bytearray(514 * BATCH)
    try:
        while True:
            insist(cipher.crypt_cells, wire, TOR_V4)
    except ClosedError:
        pass


def closing(kernel: str) -> None:
    """One thread closes the cipher that another uses."""
    for _ in range(20):
        cipher = CellCipher(KEY, backend="native", kernel=kernel)

        together(partial(use_until_closed, cipher), partial(insist, cipher.close))


def race(kernel: str) -> None:
    wire = bytearray(514 * BATCH * 8)
    ciphers = [CellCipher(KEY, backend="native", kernel=kernel) for _ in range(2)]

    def work(cipher: CellCipher) -> None:
        for _ in range(40):
            cipher.crypt_cells(wire, TOR_V4)

    together(*(partial(work, cipher) for cipher in ciphers))


def main() -> int:
    from cellcrypt.compiled import core

    sys.setswitchinterval(1e-5)
    if sys.argv[1:] == ["race"]:
        race("portable")
        return 0
    for kernel in core.kernels():
        one_cipher(kernel)
        many_ciphers(kernel)
        closing(kernel)
    print("no complaint of this program's own")
    return 0


if __name__ == "__main__":
    sys.exit(main())
