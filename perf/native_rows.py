"""The rows of the native suite, in the groups that are measured alternately.

call[native/KERNEL,MANNER,LEN]        one cell a call: in_place, memoryview (of a wire cell), into, new
batch[native/KERNEL,LEN,N]            crypt_cells on N wire cells a call
limit[KERNEL,LEN]                     the AES units alone: as many blocks as a cell has, 16 independent chains
memory[xor,LEN,N]                     XOR with a constant over the memory of N wire cells: what DRAM allows
each[native,LEN,N]                    crypt_each, one cell on each of N circuits a call
visit[LIBRARY,LEN,N]                  a Python loop over N circuits in shuffled order, one call each
pause[...]                            a call or bare row's first POOL cells after a pause without any
make[LIBRARY]                         a cipher from a key
threads[native,LEN,1000,N]            crypt_cells on 1,000 wire cells a call in N pinned threads
bare[...], pass[...]                  as in rows.py
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, repeat
from time import perf_counter
from typing import Any

from cellcrypt import CellCipher, CellFormat, crypt_each
from cellcrypt.compiled import core

from .cold import Cold
from .interleave import Group
from .rows import Row, _meta, bare_row, format_of, pass_row
from .timer import now
from .work import KEY, POOL, Batch, PerCell, Places, Work, WrongResult, batches, expect

MANNERS = ("in_place", "memoryview", "into", "new")
BATCHES = (1, 16, 64, 1000, 16_000, 1_000_000)
CIRCUITS = (1, 10, 100, 1000, 10_000, 100_000)
BLOCK = 16
#: How long a pause is, in seconds, in which a processor lets its wide registers sleep.
PAUSE_S = 0.002
#: Cells in a value of a row with pauses, at most.
RARE_CELLS = 100 * POOL
PAUSES = (
    f"Rows pause[...] are of the first {POOL} cells after {PAUSE_S * 1000:g} ms in which no cell is encrypted, "
    f"at most {RARE_CELLS:,} cells a value."
)


def _cipher(kernel: str, payload_len: int, key: bytes = KEY) -> CellCipher:
    return CellCipher(key, payload_len=payload_len, backend="native", kernel=kernel)


def call_row(kernel: str, manner: str, payload_len: int, cells: int) -> Row:
    """One call per cell, in one of MANNERS."""

    def opened(rng: random.Random) -> Work:
        cipher = _cipher(kernel, payload_len)
        if manner == "into":
            return PerCell(cipher.crypt_into, "into", payload_len, rng)
        if manner == "new":
            return PerCell(cipher.crypt, "new", payload_len, rng)
        header_len = format_of(payload_len).header_len if manner == "memoryview" else None
        return PerCell(cipher.crypt_in_place, "in_place", payload_len, rng, header_len=header_len)

    meta = _meta("call", "native", payload_len, cells, call=manner, wanted_kernel=kernel)
    return Row(f"call[native/{kernel},{manner},{payload_len}]", opened, cells, meta)


class AfterPause:
    """Some other row's work, POOL cells of it after each pause: what a program pays that has few cells at a time."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.move, self.check = work.move, work.check

    def run(self, cells: int) -> float:
        seconds = 0.0
        for done in range(0, cells, POOL):
            end = perf_counter() + PAUSE_S
            while perf_counter() < end:
                pass
            seconds += self._work.run(min(POOL, cells - done))
        return seconds


def pause_row(row: Row) -> Row:
    """A row of one call per cell, with pauses."""
    cells = min(row.cells, RARE_CELLS)
    meta = {**row.metadata, "kind": "pause", "cells": cells}
    name = f"pause[{row.name.partition('[')[2]}"
    return replace(row, name=name, open=lambda rng: AfterPause(row.open(rng)), cells=cells, metadata=meta)


def batch_row(kernel: str, payload_len: int, at_once: int, cells: int) -> Row:
    """crypt_cells on `at_once` wire cells a call."""
    cell_format = format_of(payload_len)
    meta = _meta("batch", "native", payload_len, cells, at_once=at_once, wanted_kernel=kernel)
    meta["cell_format"] = f"{cell_format.header_len}+{payload_len}"

    def opened(rng: random.Random) -> Work:
        return Batch(_cipher(kernel, payload_len).crypt_cells, cell_format, at_once, rng)

    return Row(
        f"batch[native/{kernel},{payload_len},{at_once}]", opened, cells, meta, max(1, min(16, cells // at_once))
    )


class Limit:
    """The AES units of one kernel's width, doing nothing else."""

    def __init__(self, kernel: str, payload_len: int) -> None:
        self._kernel, self._payload_len = kernel, payload_len

    def move(self, rng: random.Random) -> None:
        """Nothing: it uses no memory."""

    def run(self, cells: int) -> float:
        blocks = max(1, cells * self._payload_len // BLOCK)
        start = now()
        core.aes_limit(self._kernel, len(KEY), blocks)
        return (now() - start) * cells * self._payload_len / BLOCK / blocks

    def check(self) -> None:
        """Nothing: it makes no key stream."""


def limit_row(kernel: str, payload_len: int, cells: int) -> Row:
    """The time below which a kernel can't go by AES alone."""
    meta = _meta("limit", "native", payload_len, cells, wanted_kernel=kernel)
    return Row(f"limit[{kernel},{payload_len}]", lambda _: Limit(kernel, payload_len), cells, meta)


class Memory:
    """XOR with a constant over the memory that a batch of wire cells takes: each byte read and written once."""

    def __init__(self, cell_format: CellFormat, at_once: int) -> None:
        self._at_once = at_once
        self._wire = bytearray(at_once * cell_format.cell_len)
        self._calls = 0

    def move(self, rng: random.Random) -> None:
        """Nothing: one place in DRAM is as good as another."""

    def run(self, cells: int) -> float:
        calls = -(-cells // self._at_once)
        memory_floor, wire = core.memory_floor, self._wire
        start = now()
        for _ in repeat(None, calls):
            memory_floor(wire)
        seconds = now() - start
        self._calls += calls
        return seconds * cells / (calls * self._at_once)

    def check(self) -> None:
        if bool(self._wire[0]) != bool(self._calls % 2) or self._wire[0] != self._wire[-1]:
            raise WrongResult("the memory was not gone through once a call")


def memory_row(payload_len: int, at_once: int, cells: int) -> Row:
    """What the memory of a batch allows."""
    meta = _meta("memory", "core", payload_len, cells, at_once=at_once)
    return Row(
        f"memory[xor,{payload_len},{at_once}]", lambda _: Memory(format_of(payload_len), at_once), cells, meta, 1
    )


class Each:
    """crypt_each on one wire cell of each of many circuits, in an order that has nothing to do with memory."""

    def __init__(self, payload_len: int, circuits: int, kernel: str, rng: random.Random) -> None:
        self._format = format_of(payload_len)
        self._keys = [rng.randbytes(16) for _ in range(circuits)]
        ciphers = [_cipher(kernel, payload_len, key) for key in self._keys]
        order = list(range(circuits))
        rng.shuffle(order)
        self._order, self._ciphers = order, [ciphers[i] for i in order]
        self._done = 0
        self._places = Places()
        self._wires: list[bytearray] = []
        self.move(rng)

    def move(self, rng: random.Random) -> None:
        circuits = len(self._ciphers)
        if not self._wires or circuits <= 1000:
            self._wires = self._places.buffers(rng, circuits * self._format.cell_len, batches(circuits))
            self.run(circuits * len(self._wires))

    def run(self, cells: int) -> float:
        calls = -(-cells // len(self._ciphers))
        whole, rest = divmod(calls, len(self._wires))
        wires, last, ciphers, cell_format = self._wires, self._wires[:rest], self._ciphers, self._format
        start = now()
        for _ in repeat(None, whole):
            for wire in wires:
                crypt_each(ciphers, wire, cell_format)
        for wire in last:
            crypt_each(ciphers, wire, cell_format)
        seconds = now() - start
        self._done += calls
        return seconds * cells / (calls * len(self._ciphers))

    def check(self) -> None:
        wire = bytearray(len(self._ciphers) * self._format.cell_len)
        crypt_each(self._ciphers, wire, self._format)
        for i in {0, len(self._ciphers) // 2, len(self._ciphers) - 1}:
            cell = wire[i * self._format.cell_len : (i + 1) * self._format.cell_len]
            made = cell[self._format.header_len :]
            expect(made, self._done * self._format.payload_len, self._keys[self._order[i]])
        self._done += 1


def circuit_rows(payload_len: int, circuits: int, kernel: str, cells: int) -> Iterator[Row]:
    """crypt_each, and a loop over as many circuits with a call of ours and of cryptography."""
    meta = _meta("each", "native", payload_len, cells, circuits=circuits, wanted_kernel=kernel)
    slices = max(1, min(16, cells // circuits))
    yield Row(
        f"each[native,{payload_len},{circuits}]",
        lambda rng: Each(payload_len, circuits, kernel, rng),
        cells,
        meta,
        slices,
    )

    def ours(_: random.Random) -> Work:
        return Cold(lambda key: _cipher(kernel, payload_len, key), "in_place", payload_len, circuits)

    def theirs(_: random.Random) -> Work:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter = modes.CTR(bytes(16))
        return Cold(lambda key: Cipher(algorithms.AES(key), counter).encryptor(), "update_into", payload_len, circuits)

    meta = _meta("visit", "native", payload_len, cells, circuits=circuits, wanted_kernel=kernel, call="crypt_in_place")
    yield Row(f"visit[native,{payload_len},{circuits}]", ours, cells, meta, slices)
    meta = _meta("visit", "cryptography", payload_len, cells, circuits=circuits, call="update_into")
    yield Row(f"visit[cryptography,{payload_len},{circuits}]", theirs, cells, meta, slices)


class Make:
    """Ciphers from keys."""

    def __init__(self, make: Callable[[bytes], Any]) -> None:
        self._make = make

    def move(self, rng: random.Random) -> None:
        self._keys = [rng.randbytes(16) for _ in range(256)]

    def run(self, cells: int) -> float:
        whole, rest = divmod(cells, len(self._keys))
        make, keys, last = self._make, self._keys, self._keys[:rest]
        start = now()
        for _ in repeat(None, whole):
            for key in keys:
                make(key)
        for key in last:
            make(key)
        return now() - start

    def check(self) -> None:
        cipher = self._make(KEY)
        out = bytearray(509)
        call = cipher.crypt_into if hasattr(cipher, "crypt_into") else cipher.update_into
        call(bytes(509), out)
        expect(out, 0)


def make_rows(kernel: str, cells: int) -> Iterator[Row]:
    """A cipher from a key: ours with its defaults, and cryptography's."""

    def ours(rng: random.Random) -> Work:
        quickest = kernel == core.kernels()[0] and CellCipher(KEY).backend == "native"
        made = Make(CellCipher if quickest else lambda key: _cipher(kernel, 509, key))
        made.move(rng)
        return made

    def theirs(rng: random.Random) -> Work:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        made = Make(lambda key: Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor())
        made.move(rng)
        return made

    yield Row("make[native]", ours, cells, _meta("make", "native", 509, cells, wanted_kernel=kernel))
    yield Row("make[cryptography]", theirs, cells, _meta("make", "cryptography", 509, cells))


class Threads:
    """crypt_cells in pinned threads, each with its own cipher and buffers."""

    def __init__(self, kernel: str, payload_len: int, at_once: int, threads: int, rng: random.Random) -> None:
        cell_format = format_of(payload_len)
        self._works: list[Work] = [
            Batch(_cipher(kernel, payload_len).crypt_cells, cell_format, at_once, rng) for _ in range(threads)
        ]
        self._at_once = at_once
        self._processors = sorted(os.sched_getaffinity(0))

    def move(self, rng: random.Random) -> None:
        for work in self._works:
            work.move(rng)

    def run(self, cells: int) -> float:
        barrier = threading.Barrier(len(self._works))
        each = -(-cells // (self._at_once * len(self._works))) * self._at_once  # whole calls, as many for every thread
        times: list[tuple[float, float]] = []
        failed: list[BaseException] = []

        def one(work: Work, processor: int) -> None:
            try:
                os.sched_setaffinity(0, {processor})
                barrier.wait()
                start = perf_counter()
                work.run(each)
                times.append((start, perf_counter()))
            except BaseException as error:
                failed.append(error)
                barrier.abort()  # nobody waits for one that won't come

        threads = [
            threading.Thread(target=one, args=pair, daemon=True)
            for pair in zip(self._works, cycle(self._processors), strict=False)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        seconds = max(end for _, end in times) - min(start for start, _ in times)
        return seconds * cells / (each * len(self._works))

    def check(self) -> None:
        for work in self._works:
            work.check()


def threads_row(kernel: str, payload_len: int, at_once: int, threads: int, cells: int) -> Row:
    """crypt_cells in `threads` threads, each pinned to a processor."""
    meta = _meta("threads", "native", payload_len, cells, at_once=at_once, threads=threads, wanted_kernel=kernel)

    def opened(rng: random.Random) -> Work:
        return Threads(kernel, payload_len, at_once, threads, rng)

    return Row(f"threads[native,{payload_len},{at_once},{threads}]", opened, cells, meta, 4)


def groups(kernels: tuple[str, ...], payload_len: int, cells: int) -> list[Group]:
    """Return everything that this processor can measure, best kernel first."""
    best = kernels[0]
    calls = [call_row(best, manner, payload_len, cells) for manner in MANNERS]
    calls += [call_row(kernel, "in_place", payload_len, cells) for kernel in kernels[1:]]
    calls += [bare_row("cryptography", call, payload_len, cells) for call in ("update_into", "update")]
    found = [Group("calls", tuple(calls))]
    for at_once in (n for n in BATCHES if n <= cells):
        rows = [batch_row(best, payload_len, at_once, cells)]
        if at_once == 1000:
            rows += [batch_row(kernel, payload_len, at_once, cells) for kernel in kernels[1:]]
            rows += [limit_row(kernel, payload_len, cells) for kernel in kernels if kernel != "portable"]
        if at_once == max(BATCHES):
            rows += [memory_row(payload_len, at_once, cells)]
        rows += [pass_row("cryptography", payload_len, at_once, cells)]
        found.append(Group(f"batches of {at_once}", tuple(rows)))
    for circuits in (n for n in CIRCUITS if n <= cells):
        found.append(Group(f"{circuits} circuits", tuple(circuit_rows(payload_len, circuits, best, cells))))
    found.append(Group("making", tuple(make_rows(best, cells))))
    one_call = [call_row(kernel, "in_place", payload_len, cells) for kernel in kernels]
    one_call.append(bare_row("cryptography", "update_into", payload_len, cells))
    found.append(Group("pauses", tuple(pause_row(row) for row in one_call)))
    processors = len(os.sched_getaffinity(0))
    threads = [threads_row(best, payload_len, min(1000, cells), n, cells) for n in (1, 2) if n <= processors]
    found.append(Group("threads", tuple(threads)))
    return found
