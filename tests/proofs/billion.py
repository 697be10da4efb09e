"""Random octets in random splits through each kernel, against one pass of `cryptography`.

Usage: python -m tests.proofs.billion [--octets N] [--kernel K ...] [--seed S]

Each stretch has its own key, IV (often just before a carry), payload length and header length, and is used up by calls
of every kind and length in random order, so that kernels meet heads, tails and tables as they come.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import Any

from cellcrypt import CellCipher, CellFormat
from cellcrypt.compiled import core

#: Octets of one stretch, at most.
STRETCH = 6_000_000


def _encryptor(key: bytes, iv: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor()


def _iv(dice: random.Random) -> bytes:
    if dice.random() < 0.3:
        return dice.randbytes(16)
    start = (1 << dice.choice((16, 32, 40, 64, 96, 128))) - dice.randrange(1 << dice.randrange(1, 18))
    return (start % 2**128).to_bytes(16, "big")


def _payload_len(dice: random.Random) -> int:
    ranges = ((509, 510), (509, 510), (508, 509), (512, 513), (1, 80), (80, 700), (700, 65536))
    return dice.randrange(*dice.choice(ranges))


class _Stretch:
    """One key stream, and how much of it was compared."""

    def __init__(self, dice: random.Random, kernel: str) -> None:
        self.dice = dice
        key, iv = dice.randbytes(dice.choice((16, 24, 32))), _iv(dice)
        self.payload_len = _payload_len(dice)
        self.cipher = CellCipher(key, iv, payload_len=self.payload_len, backend="native", kernel=kernel)
        self.reference = _encryptor(key, iv)
        self.done = 0

    def compare(self, made: bytes | bytearray, source: bytes, call: str) -> None:
        self.done += len(source)
        if made != self.reference.update(source):
            raise AssertionError(f"{call}: wrong octets before position {self.cipher.position} of {self.cipher!r}")
        if self.cipher.position != self.done:
            raise AssertionError(f"{call}: position {self.cipher.position} after {self.done} octets")

    def cells(self) -> None:
        most = max(1, min(3000, STRETCH // 2 // self.payload_len))
        count = self.dice.randrange(1, self.dice.choice((3, 40, most)) + 1)
        form = CellFormat(self.dice.randrange(17), self.payload_len)
        wire = self.dice.randbytes(form.cell_len * count)
        buffer = bytearray(self.dice.randrange(17)) + wire
        view = memoryview(buffer)[len(buffer) - len(wire) :]
        if self.cipher.crypt_cells(view, form) != count:
            raise AssertionError("crypt_cells: wrong number of cells")
        starts = range(0, len(wire), form.cell_len)
        parts = [(at, at + form.header_len, at + form.cell_len) for at in starts]
        if any(view[a:b] != wire[a:b] for a, b, _ in parts):
            raise AssertionError("crypt_cells: a header has changed")
        self.compare(b"".join(view[b:c] for _, b, c in parts), b"".join(wire[b:c] for _, b, c in parts), "crypt_cells")

    def one(self) -> None:
        for _ in range(self.dice.randrange(1, 20)):
            payload = self.dice.randbytes(self.payload_len)
            kind = self.dice.randrange(3)
            if kind == 0:
                self.compare(self.cipher.crypt(payload), payload, "crypt")
                continue
            out = bytearray(payload)
            if kind == 1:
                self.cipher.crypt_in_place(out)
            else:
                self.cipher.crypt_into(payload, out)
            self.compare(out, payload, "crypt_in_place" if kind == 1 else "crypt_into")

    def keystream(self) -> None:
        length = self.dice.randrange(self.dice.choice((40, 3000, 300_000)))
        self.compare(self.cipher.keystream(length), bytes(length), "keystream")


def compare(kernel: str, octets: int, seed: int) -> int:
    """Compare at least `octets` octets of a kernel and return how many; AssertionError at the first difference."""
    dice, total = random.Random(f"{seed} {kernel}"), 0
    while total < octets:
        stretch = _Stretch(dice, kernel)
        goal = dice.randrange(1, min(STRETCH, octets) + 1)
        while stretch.done < goal:
            dice.choice((stretch.cells, stretch.cells, stretch.one, stretch.keystream))()
        total += stretch.done
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description="compare random octets in random splits with cryptography")
    parser.add_argument("--octets", type=int, default=10**9, help="octets per kernel (default 10**9)")
    parser.add_argument("--kernel", action="append", help="a kernel; all that this processor has if absent")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    for kernel in options.kernel or core.kernels():
        start = time.monotonic()
        total = compare(kernel, options.octets, options.seed)
        print(
            f"{kernel:<9} {total:,} octets are the same as cryptography's, {time.monotonic() - start:.0f} s", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
