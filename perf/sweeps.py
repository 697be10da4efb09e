"""The sweeps of the design study: each asks one question, and measures what answers it.

Rules of this file: a row is study[SWEEP,SERIES,X]; its metadata says sweep, series and x, so that answers and plots
find it without reading its name. Rows that are compared with each other stand in one group, measured alternately.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cellcrypt import TOR_V4, CellCipher, CellFormat
from cellcrypt.buffers import address

from . import native_rows, onion_rows, rows
from .cold import Cold
from .interleave import Group
from .rows import Row, _meta
from .work import KEY, POOL, Batch, PerCell, Work

#: The lengths that a format designer has in mind, in bytes; and three far ones.
NEAR_509 = range(480, 561)
LENGTHS = (*NEAR_509, 1024, 2048, 4096)
FEW_LENGTHS = (*range(496, 525, 4), 507, 509, 510, 511, 513, 1024, 2048, 4096)
OFFSETS = tuple(range(64))
HOPS = tuple(range(1, 9))
BATCHES = (1, 4, 16, 64, 256, 1000, 4000, 16_000, 64_000, 256_000, 1_000_000)
CIRCUITS = (1, 10, 100, 1000, 3000, 10_000, 30_000, 100_000)
#: Wire formats by header and stride: the two of Tor, the aligned one, and each also padded to whole cache lines.
FORMATS = ((3, 509), (4, 508), (5, 509), (7, 509), (67, 509), (68, 508))
CACHE_LINE = 64


@dataclass(frozen=True)
class Asked:
    """What the study was asked for: cells in a value, how fine the sweeps are, backends, kernels, and own formats."""

    cells: int
    quick: bool
    backends: tuple[str, ...]
    kernels: tuple[str, ...]
    formats: tuple[CellFormat, ...] = ()
    baseline: CellFormat = TOR_V4
    circuits: int = 100_000


@dataclass(frozen=True)
class Sweep:
    """A question, and the groups of rows that answer it. `axis` names x and its unit."""

    name: str
    title: str
    question: str
    axis: str
    groups: Callable[[Asked], Iterable[Group]]


def _as(sweep: str, series: str, x: int | str, row: Row, **more: Any) -> Row:
    meta = {**row.metadata, "sweep": sweep, "series": series, "x": x, **more}
    return replace(row, name=f"study[{sweep},{series},{x}]", metadata=meta)


def text(cell_format: CellFormat) -> str:
    """Return a format as people write it: 5+509."""
    return f"{cell_format.header_len}+{cell_format.payload_len}"


def _lengths(asked: Asked) -> Iterator[Group]:
    lengths = FEW_LENGTHS if asked.quick else LENGTHS
    series = [(backend, "fused") for backend in asked.backends if backend != "pycryptodome"]
    series += [("native", path) for path in ("word", "byte") if "native" in asked.backends]
    for backend, path in series:
        made = [rows.cells_row(backend, path, n, asked.cells) for n in lengths]
        yield Group(
            f"lengths, {backend} {path}",
            tuple(_as("lengths", f"{backend} {path}", n, row) for n, row in zip(lengths, made, strict=True)),
        )


class _AtOffset(PerCell):
    """Payloads that begin `offset` bytes past a cache line."""

    def __init__(self, call: Callable[..., Any], payload_len: int, offset: int, rng: random.Random) -> None:
        self._offset = offset
        super().__init__(call, "in_place", payload_len, rng)

    def move(self, rng: random.Random) -> None:
        self._pool = []
        for buffer in self._places.buffers(rng, self._payload_len + 2 * CACHE_LINE, POOL):
            view = memoryview(buffer)
            start = -address(view) % CACHE_LINE + self._offset
            self._pool.append(view[start : start + self._payload_len])


def _offsets(asked: Asked) -> Iterator[Group]:
    offsets = OFFSETS[::4] if asked.quick else OFFSETS
    series = [(backend, "fused") for backend in asked.backends if backend != "pycryptodome"]
    series += [("native", path) for path in ("word", "byte") if "native" in asked.backends]
    for backend, path in series:
        made = []
        for offset in offsets:
            meta = _meta("offset", backend, 509, asked.cells, path=path)

            def opened(rng: random.Random, offset: int = offset, meta: rows.Meta = meta) -> Work:
                return _AtOffset(rows.cipher(meta).crypt_in_place, 509, offset, rng)

            made.append(_as("offsets", f"{backend} {path}", offset, Row("", opened, asked.cells, meta)))
        yield Group(f"offsets, {backend} {path}", tuple(made))


def _format_row(backend: str, cell_format: CellFormat, at_once: int, cells: int) -> Row:
    kind = "call" if at_once == 1 else "batch"
    payload_len = cell_format.payload_len
    meta = _meta(kind, backend, payload_len, cells, path="fused", at_once=at_once)
    meta["cell_format"] = text(cell_format)

    def opened(rng: random.Random) -> Work:
        cipher = rows.cipher(meta)
        if at_once == 1:
            return PerCell(cipher.crypt_in_place, "in_place", payload_len, rng, header_len=cell_format.header_len)
        return Batch(cipher.crypt_cells, cell_format, at_once, rng)

    return Row("", opened, cells, meta, max(1, min(16, cells // at_once)))


def _formats(asked: Asked) -> Iterator[Group]:
    own = tuple(CellFormat(header_len, payload_len) for header_len, payload_len in FORMATS)
    formats = dict.fromkeys((asked.baseline, *asked.formats, *(() if asked.formats else own)))
    for backend in asked.backends:
        made = []
        for at_once, way in ((1, "a call a cell"), (min(1000, asked.cells), "1,000 cells a call")):
            for one in formats:
                cells = asked.cells if backend != "pycryptodome" else max(1000, asked.cells // 10)
                made.append(_as("formats", f"{backend}, {way}", text(one), _format_row(backend, one, at_once, cells)))
        yield Group(f"formats, {backend}", tuple(made))


def _path_rows(backend: str, kernel: str, cells: int) -> Iterator[tuple[str, str, Row]]:
    name = kernel or backend
    for n in (509, 508):
        for path in ("byte", "word", "fused"):
            yield name, f"{path} {n}", rows.cells_row(backend, path, n, cells, kernel=kernel)
        yield name, f"batch {n}", rows.batch_row(backend, "fused", n, min(1000, cells), cells, kernel=kernel)


def _paths(asked: Asked) -> Iterator[Group]:
    for backend in asked.backends:
        for kernel in asked.kernels if backend == "native" else ("",):
            slow = kernel == "portable" or backend == "pycryptodome"
            cells = max(1000, asked.cells // 10) if slow else asked.cells
            made = [_as("paths", series, x, row) for series, x, row in _path_rows(backend, kernel, cells)]
            yield Group(f"paths, {kernel or backend}", tuple(made))


def _cold(asked: Asked) -> Iterator[Group]:
    backends = [backend for backend in asked.backends if backend != "pycryptodome"]
    for backend in backends[:1] if asked.quick else backends:
        for path in ("fused",) if asked.quick else ("byte", "word", "fused"):  # circuits take longest to make
            made = []
            for n in (509, 508):
                warm = rows.cells_row(backend, path, n, asked.cells)
                meta = {**warm.metadata, "kind": "cold", "circuits": asked.circuits}
                opened = partial(_open_cold, meta, n, asked.circuits)
                cold = replace(warm, open=opened, metadata=meta, slices=1)
                made += [
                    _as("cold", f"{backend}, {heat}", f"{path} {n}", row)
                    for heat, row in (("warm", warm), ("cold", cold))
                ]
            yield Group(f"cold, {backend} {path}", tuple(made))


def _open_cold(meta: rows.Meta, payload_len: int, circuits: int, _: random.Random) -> Work:
    return Cold(lambda key: rows.cipher(meta, key), "in_place", payload_len, circuits)


class _Layers(PerCell):
    """One cell through the ciphers of many hops, the last hop's first."""

    def __init__(self, ciphers: list[CellCipher], payload_len: int, rng: random.Random) -> None:
        calls = [cipher.crypt_in_place for cipher in ciphers]

        def all_layers(cell: bytearray) -> None:
            for call in calls:
                call(cell)

        self._twin = ciphers[0]
        super().__init__(all_layers, "in_place", payload_len, rng)

    def check(self) -> None:
        self._call = self._twin.crypt_in_place  # every layer has moved alike: the first one speaks for all
        super().check()


def _hops(asked: Asked) -> Iterator[Group]:
    for backend in (one for one in asked.backends if one != "pycryptodome"):
        made = []
        for hops in HOPS:
            meta = _meta("hops", backend, 509, asked.cells, path="fused", hops=hops)

            def opened(rng: random.Random, hops: int = hops, meta: rows.Meta = meta) -> Work:
                return _Layers([rows.cipher(meta, KEY) for _ in range(hops)], 509, rng)

            made.append(_as("hops", backend, hops, Row("", opened, asked.cells, meta)))
        yield Group(f"hops, {backend}", tuple(made))


def _batches(asked: Asked) -> Iterator[Group]:
    most = 16_000 if asked.quick else max(BATCHES)
    for backend in (one for one in asked.backends if one != "pycryptodome"):
        sizes = [n for n in BATCHES if n <= min(most, asked.cells)]
        made = [_as("batches", backend, n, rows.batch_row(backend, "fused", 509, n, asked.cells)) for n in sizes]
        yield Group(f"batches, {backend}", tuple(made))


def _circuits(asked: Asked) -> Iterator[Group]:
    if "native" not in asked.backends:
        return
    names = ("native, crypt_each", "native, a call a cell", "cryptography, update_into")
    most = 10_000 if asked.quick else max(CIRCUITS)
    for n in (n for n in CIRCUITS if n <= min(most, asked.cells)):
        made = native_rows.circuit_rows(509, n, asked.kernels[0], asked.cells)
        yield Group(
            f"circuits, {n}", tuple(_as("circuits", name, n, row) for name, row in zip(names, made, strict=True))
        )


def _threads(asked: Asked) -> Iterator[Group]:
    if "native" not in asked.backends:
        return
    made = []
    for threads in range(1, len(os.sched_getaffinity(0)) + 1):
        for at_once in (n for n in (16, 1000, 16_000) if n <= asked.cells):
            row = native_rows.threads_row(asked.kernels[0], 509, at_once, threads, asked.cells)
            made.append(_as("threads", f"{at_once:,} cells a call", threads, row))
    yield Group("threads", tuple(made))


def _schemes(asked: Asked) -> Iterator[Group]:
    for backend in (one for one in asked.backends if one != "pycryptodome"):
        # Where a scheme is computed in Python, a cell takes milliseconds.
        cells = max(200, asked.cells // (10 if backend == "native" else 1000))
        made = []
        for scheme in onion_rows.SCHEMES:
            for row in onion_rows.role_rows(scheme, backend, cells):
                place = row.name.rstrip("]").split(",", 2)[2].replace(",", " ").replace("_", " ")
                made.append(_as("schemes", f"{scheme}, {backend}", place, row))
        yield Group(f"schemes, {backend}", tuple(made))


SWEEPS = (
    Sweep(
        "formats",
        "Cell formats",
        "What does a cell format cost, and what would another save?",
        "header + payload, bytes",
        _formats,
    ),
    Sweep(
        "lengths",
        "Payload length",
        "Which payload lengths are cheap, per cell and per useful byte?",
        "payload, bytes",
        _lengths,
    ),
    Sweep(
        "paths",
        "509 or 508, byte or word",
        "What do 508 bytes and XOR by words save over 509 bytes and XOR by bytes, and which of the two saves it?",
        "path and payload",
        _paths,
    ),
    Sweep(
        "cold",
        "Warm and cold",
        "What is left of it when every cell finds its key and data cold?",
        "path and payload",
        _cold,
    ),
    Sweep(
        "offsets",
        "Where the payload begins",
        "Does it matter where in a cache line the payload begins?",
        "bytes past a 64-byte boundary",
        _offsets,
    ),
    Sweep("hops", "Hops", "How does the cost grow with the layers on a cell?", "layers", _hops),
    Sweep("batches", "Cells per call", "How many cells should a call have?", "wire cells per call", _batches),
    Sweep(
        "circuits", "Circuits", "How does the cost grow with the circuits that a relay serves?", "circuits", _circuits
    ),
    Sweep("threads", "Threads", "What does a second thread bring?", "threads", _threads),
    Sweep("schemes", "tor1 and CGO", "What does a cell cost at each place of a circuit, by scheme?", "place", _schemes),
)
