"""Things to be timed: what a row of a suite does with its cells.

Rules of this file: `run` times whole cells and nothing else, exactly as many as it was asked for; buffers, keys and
ciphers are made outside the clock; no cell is worked on twice in a row (POOL of them rotate at least, since one warm
buffer is distorted by store forwarding), and `move` changes where they lie, since an allocator's choice of place alone
can cost a call a fifth. A batch of POOL cells or more is one buffer, which is gone through once before the clock
starts: two of 1,000 cells nearly fill a second cache of 1 MiB, so that which of their pages collide there made one
format a quarter dearer than another. `check` proves after the clock that every cell moved the key stream and that the
bytes are right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Protocol

from cellcrypt import CellFormat

from .reference import keystream
from .timer import now

#: Buffers that rotate.
POOL = 64
#: Cells in a batch from which it stays where it is.
HUGE = 100_000
#: A 128-bit key for every measurement: AES takes the same time for each.
KEY = bytes.fromhex("06a9214036b8a15b512e03d534120006")
#: The longest gap put before a buffer, in bytes: a page, so that every place in one is met.
PAGE = 4096


class WrongResult(RuntimeError):
    """What was timed has computed wrong bytes: the value is worthless."""


class Work(Protocol):
    """One row, set up and ready."""

    def run(self, cells: int) -> float:
        """Do `cells` cells; return seconds."""

    def move(self, rng: random.Random) -> None:
        """Let the buffers lie elsewhere."""

    def check(self) -> None:
        """Raise WrongResult unless the bytes are right."""


class Places:
    """Fresh buffers with a gap of random length before each."""

    def __init__(self) -> None:
        self._gaps: list[bytearray] = []

    def buffers(self, rng: random.Random, length: int, count: int = POOL) -> list[bytearray]:
        """Return `count` buffers of zeros."""
        self._gaps = []
        made = []
        for _ in range(count):
            self._gaps.append(bytearray(rng.randrange(1, PAGE)))
            made.append(bytearray(length))
        # What a call returns has this length too: use up the place that the allocator has ready.
        self._gaps.append(bytearray(bytes(bytearray(length))))
        return made


def batches(at_once: int) -> int:
    """Return how many batches of `at_once` cells rotate."""
    return max(1, POOL // at_once)


def _in_place(call: Callable[[Any], Any], pool: Sequence[Any], whole: int, rest: int) -> float:
    last = pool[:rest]
    rounds = repeat(None, whole)
    start = now()
    for _ in rounds:
        for buffer in pool:
            call(buffer)
    for buffer in last:
        call(buffer)
    return now() - start


def _into(call: Callable[[Any, Any], Any], pool: Sequence[Any], whole: int, rest: int) -> float:
    last = pool[:rest]
    rounds = repeat(None, whole)
    start = now()
    for _ in rounds:
        for source, out in pool:
            call(source, out)
    for source, out in last:
        call(source, out)
    return now() - start


def _output(call: Callable[..., Any], pool: Sequence[Any], whole: int, rest: int) -> float:
    last = pool[:rest]
    rounds = repeat(None, whole)
    start = now()
    for _ in rounds:
        for buffer in pool:
            call(buffer, output=buffer)
    for buffer in last:
        call(buffer, output=buffer)
    return now() - start


#: How a call takes its cell: "in_place" f(cell); "into" f(cell, out); "output" f(cell, output=cell); "new" f(cell),
#: whose value is dropped.
_LOOPS: dict[str, Callable[..., float]] = {
    "in_place": _in_place,
    "into": _into,
    "output": _output,
    "new": _in_place,
}


def _pairs(buffers: list[bytearray], source_type: type[bytes | bytearray]) -> list[tuple[bytes | bytearray, bytearray]]:
    """Return (source, out) for the manner "into": half of the buffers each, or a copy where there is only one.

    As many buffers in all as in the other manners: pairs of them all would not lie in the cache where those lie.
    """
    sources, outs = (buffers, buffers) if len(buffers) == 1 else (buffers[::2], buffers[1::2])
    return [(source_type(source), out) for source, out in zip(sources, outs, strict=True)]


class PerCell:
    """One call per cell.

    Args:
        call: what encrypts the next cell. manner: a name of _LOOPS. payload_len: bytes. rng: where buffers lie.
        header_len: cells are memoryviews of whole wire cells' payloads behind such a header; None for plain buffers.
        source_type: what a cell that is only read is made of.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        manner: str,
        payload_len: int,
        rng: random.Random,
        *,
        header_len: int | None = None,
        source_type: type[bytes | bytearray] = bytes,
    ) -> None:
        self._call, self._manner, self._payload_len = call, manner, payload_len
        self._header_len, self._source_type = header_len, source_type
        self._places = Places()
        self._done = 0
        self.move(rng)

    def move(self, rng: random.Random) -> None:
        length = self._payload_len
        if self._header_len is not None:
            wires = self._places.buffers(rng, self._header_len + length)
            self._pool: list[Any] = [memoryview(wire)[self._header_len :] for wire in wires]
            return
        buffers = self._places.buffers(rng, length)
        if self._manner == "into":
            self._pool = [*_pairs(buffers, self._source_type)]
        elif self._manner == "new":
            self._pool = [self._source_type(buffer) for buffer in buffers]
        else:
            self._pool = list(buffers)

    def run(self, cells: int) -> float:
        seconds = _LOOPS[self._manner](self._call, self._pool, *divmod(cells, len(self._pool)))
        self._done += cells
        return seconds

    def check(self) -> None:
        cell = bytearray(self._payload_len)
        if self._manner == "new":
            made = self._call(bytes(cell))
        elif self._manner == "in_place":
            self._call(cell)
            made = cell
        elif self._manner == "output":
            self._call(cell, output=cell)
            made = cell
        else:
            self._call(bytes(cell), cell)
            made = cell
        expect(made, self._done * self._payload_len)
        self._done += 1


class _Batches:
    """Batches of `at_once` cells of `cell_len` bytes each: as many rotate as make POOL cells, one call each.

    A subclass has `_loop`, which makes `whole` rounds of calls over the pool and `rest` more, and returns seconds.
    `_pool_of` says what the calls get of fresh buffers.
    """

    def __init__(self, at_once: int, cell_len: int, rng: random.Random) -> None:
        self._at_once, self._cell_len = at_once, cell_len
        self._places = Places()
        self._done = 0
        self.move(rng)

    def _loop(self, pool: Sequence[Any], whole: int, rest: int) -> float:
        raise NotImplementedError

    def _pool_of(self, buffers: list[bytearray]) -> list[Any]:
        return list(buffers)

    def move(self, rng: random.Random) -> None:
        if self._at_once > HUGE and self._done:
            return  # hundreds of MB: one place is as good as another, and new pages cost seconds
        self._pool = self._pool_of(self._places.buffers(rng, self._at_once * self._cell_len, batches(self._at_once)))
        self.run(self._at_once * len(self._pool))

    def run(self, cells: int) -> float:
        calls = -(-cells // self._at_once)
        seconds = self._loop(self._pool, *divmod(calls, len(self._pool)))
        self._done += calls * self._at_once
        return seconds * cells / (calls * self._at_once)


class Batch(_Batches):
    """One call on many wire cells in a row."""

    def __init__(
        self,
        call: Callable[[Any, CellFormat], int],
        cell_format: CellFormat,
        at_once: int,
        rng: random.Random,
    ) -> None:
        self._call, self._format = call, cell_format
        super().__init__(at_once, cell_format.cell_len, rng)

    def _loop(self, pool: Sequence[bytearray], whole: int, rest: int) -> float:
        call, cell_format = self._call, self._format
        last, rounds = pool[:rest], repeat(None, whole)
        start = now()
        for _ in rounds:
            for buffer in pool:
                call(buffer, cell_format)
        for buffer in last:
            call(buffer, cell_format)
        return now() - start

    def check(self) -> None:
        length, header_len = self._format.cell_len, self._format.header_len
        wire = bytearray(length * 2)
        self._call(wire, self._format)
        if wire[:header_len] != bytes(header_len) or wire[length : length + header_len] != bytes(header_len):
            raise WrongResult("a header has changed")
        made = wire[header_len:length] + wire[length + header_len :]
        expect(made, self._done * self._format.payload_len)
        self._done += 2


class OnePass(_Batches):
    """One call on the payloads of many cells that lie end to end, without headers: what a library does best."""

    def __init__(
        self, call: Callable[..., Any], manner: str, payload_len: int, at_once: int, rng: random.Random
    ) -> None:
        self._call, self._manner = call, manner
        super().__init__(at_once, payload_len, rng)

    def _pool_of(self, buffers: list[bytearray]) -> list[Any]:
        return [*_pairs(buffers, bytes)] if self._manner == "into" else list(buffers)

    def _loop(self, pool: Sequence[Any], whole: int, rest: int) -> float:
        return _LOOPS[self._manner](self._call, pool, whole, rest)

    def check(self) -> None:
        made = bytearray(self._cell_len)
        if self._manner == "output":
            self._call(made, output=made)
        else:
            self._call(bytes(made), made)
        expect(made, self._done * self._cell_len)
        self._done += 1


class XorOnly:
    """The XOR part alone: key stream that is there already, into POOL cells a call."""

    def __init__(
        self,
        xor_cells: Callable[[Any, int, int, Any, bool], Any],
        header_len: int,
        payload_len: int,
        rng: random.Random,
    ) -> None:
        self._xor_cells, self._header_len, self._payload_len = xor_cells, header_len, payload_len
        self._stream = bytearray(keystream(KEY, 0, POOL * payload_len))
        self._places = Places()
        self.move(rng)

    def move(self, rng: random.Random) -> None:
        self._calls = 0
        self._wire = self._places.buffers(rng, POOL * (self._header_len + self._payload_len), 1)[0]

    def run(self, cells: int) -> float:
        calls = -(-cells // POOL)
        xor_cells, view, stream = self._xor_cells, memoryview(self._wire), memoryview(self._stream)
        header_len, payload_len, rounds = self._header_len, self._payload_len, repeat(None, calls)
        start = now()
        for _ in rounds:
            xor_cells(view, header_len, payload_len, stream, False)
        seconds = now() - start
        self._calls += calls
        return seconds * cells / (calls * POOL)

    def check(self) -> None:
        length = self._header_len + self._payload_len
        payloads = [self._wire[i * length + self._header_len : (i + 1) * length] for i in range(POOL)]
        if self._calls % 2:
            expect(b"".join(payloads), 0)
        elif any(any(payload) for payload in payloads):
            raise WrongResult("XOR twice with the same key stream does not give the payloads back")


def expect(made: bytes | bytearray, position: int, key: bytes = KEY) -> None:
    """Raise WrongResult unless `made` is key stream from `position` on: the encryption of zeros."""
    if bytes(made) != keystream(key, position, len(made)):
        raise WrongResult(f"the bytes at position {position} are wrong: cells were left out, or AES-CTR is")
