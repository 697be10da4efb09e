"""Cells that find their key and their data cold.

Rules of this file: every circuit has its own cipher, key and buffer, and all are visited in one shuffled order, again
and again: between two visits of a circuit all others pass, so that once their sum is far past the last cache, nothing
of it is left there. The order is fixed before the clock starts.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .timer import now
from .work import expect

#: A cell's buffer, and the least that a cipher takes, in bytes: what one circuit adds to the working set at least.
CIRCUIT_LEN = 576 + 384
#: The working set is so many times the last cache.
FAR_PAST = 3
#: What to assume where the last cache is not known, in bytes.
UNKNOWN_CACHE = 32 << 20


def last_cache() -> int:
    """Return the size of the last cache that processor 0 reaches, in bytes."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip())
        if found:
            sizes.append(int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]])
    return max(sizes, default=UNKNOWN_CACHE)


def circuits_needed() -> int:
    """Return how many circuits lie far past the last cache, in round thousands."""
    return (FAR_PAST * last_cache() // CIRCUIT_LEN // 1000 + 1) * 1000


def _keys(count: int, seed: int) -> Iterable[bytes]:
    rng = random.Random(seed)
    return (rng.randbytes(16) for _ in range(count))


class Cold:
    """One call per cell, round all circuits in a shuffled order.

    Args:
        open: makes a circuit's cipher from its key. call: "in_place" for crypt_in_place of ours, "update_into" for
            cryptography's, which reads one warm cell, since its sources are what arrives. payload_len: bytes.
    """

    def __init__(self, open: Callable[[bytes], Any], call: str, payload_len: int, circuits: int) -> None:
        self._call, self._payload_len, self._source = call, payload_len, bytes(payload_len)
        seed = int.from_bytes(os.urandom(4), "big")
        keys = list(_keys(circuits, seed))
        self._first_key = keys[0]
        ciphers = [open(key) for key in keys]
        buffers = [bytearray(payload_len) for _ in range(circuits)]
        order = list(range(circuits))
        random.Random(seed).shuffle(order)
        at = order.index(0)
        order = order[at + 1 :] + order[: at + 1]  # circuit 0 comes last: its position is then how often all were done
        self._visits = [(ciphers[i], buffers[i]) for i in order]
        self._first = ciphers[0]
        self._next = self._done = 0

    def move(self, rng: random.Random) -> None:
        """Nothing: every place in memory is met already."""

    def run(self, cells: int) -> float:
        """Visit the next `cells` circuits, behind the one that was visited last."""
        passed, end = divmod(self._next + cells, len(self._visits))
        rounds = [self._visits] * (passed + 1)
        rounds[passed] = self._visits[:end]
        rounds[0] = rounds[0][self._next :]
        start = now()
        if self._call == "in_place":
            for visits in rounds:
                for cipher, buffer in visits:
                    cipher.crypt_in_place(buffer)
        else:
            source = self._source
            for visits in rounds:
                for cipher, buffer in visits:
                    cipher.update_into(source, buffer)
        seconds = now() - start
        self._next = end
        self._done += passed
        return seconds

    def check(self) -> None:
        cell = bytearray(self._payload_len)
        if self._call == "in_place":
            self._first.crypt_in_place(cell)
        else:
            self._first.update_into(self._source, cell)
        expect(cell, self._done * self._payload_len, self._first_key)
        self._done += 1
