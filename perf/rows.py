"""The rows of the cell suite: each a stable name, what the metadata says about it, and how to set it up.

Rules of this file: making a Row costs nothing (a worker makes them all and measures one); libraries are imported when a
row opens. Names never change their meaning, since results are compared by them:

    cells[BACKEND,PATH,LEN]             crypt_in_place, one call per cell; also with ",lookahead=N" or ",interpreted"
    batch[BACKEND,PATH,LEN,N]           crypt_cells on N wire cells a call
    bare[LIBRARY.CALL,LEN]              what a user would write without us, one call per cell
    pass[LIBRARY.CALL,LEN,N]            the same library, one call on N payloads end to end
    xor[PATH,LEN]                       the XOR part alone, compiled
    cold[...]                           a cells or bare row where every cell finds its key and data cold
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cellcrypt import CellCipher, CellFormat, backends
from cellcrypt.compiled import core
from cellcrypt.formats import check_payload_len

from .cold import Cold
from .work import KEY, Batch, OnePass, PerCell, Work, XorOnly

#: A header as wire cells of link protocol 4 and later have it, except before 508 bytes, where 4 + 508 is the point.
HEADER_LENS = {508: 4}
DEFAULT_HEADER_LEN = 5
LIBRARIES = ("cryptography", "pycryptodome")
#: In an interpreted path a cell costs some 100 times more; its values cover so many times fewer cells.
INTERPRETED_SHARE = 500

Meta = dict[str, str | int | float]


@dataclass(frozen=True)
class Row:
    """One benchmark: `open` sets it up; one value covers `cells` cells in `slices` parts, each in another place."""

    name: str
    open: Callable[[random.Random], Work]
    cells: int
    metadata: Meta = field(default_factory=dict)
    slices: int = 16


def format_of(payload_len: int) -> CellFormat:
    """Return the wire format that a payload length is measured in."""
    return CellFormat(HEADER_LENS.get(payload_len, DEFAULT_HEADER_LEN), payload_len)


def version_of(backend: str) -> str:
    """Return the version of the library behind a backend."""
    return backends()[backend].version or "unknown"


def _slices(cells: int, at_once: int) -> int:
    return max(1, min(16, cells // at_once))


def _meta(kind: str, backend: str, payload_len: int, cells: int, **more: str | int) -> Meta:
    meta: Meta = {"kind": kind, "backend": backend, "payload_len": payload_len, "cells": cells}
    meta.update({key: value for key, value in more.items() if value != ""})
    return meta


def describe(row: Row) -> Meta:
    """Return a row's metadata with what only the process that measures knows: the library's version and the kernel."""
    meta = dict(row.metadata)
    backend = str(meta["backend"])
    if backend in backends():
        meta["backend_version"] = version_of(backend)
    if backend == "native":
        meta["kernel"] = str(cipher(meta).kernel)
    return meta


def cipher(meta: Meta, key: bytes = KEY) -> CellCipher:
    """Return the cipher that a row's metadata describes."""
    more: dict[str, str] = {"kernel": str(meta["wanted_kernel"])} if meta.get("wanted_kernel") else {}
    return CellCipher(
        key,
        payload_len=int(meta["payload_len"]),
        path=str(meta.get("path", "fused")),
        backend=str(meta["backend"]),
        lookahead=int(meta.get("lookahead", 0)),
        **more,  # type: ignore[arg-type]
    )


def cells_row(
    backend: str,
    path: str,
    payload_len: int,
    cells: int,
    *,
    lookahead: int = 0,
    interpreted: bool = False,
    kernel: str = "",
) -> Row:
    """One call of crypt_in_place per cell."""
    meta = _meta("cells", backend, payload_len, cells, path=path, lookahead=lookahead, wanted_kernel=kernel)
    name = f"cells[{backend},{path},{payload_len}"
    if lookahead:
        name += f",lookahead={lookahead}"
    if interpreted:
        meta["interpreted"] = "yes"
        name += ",interpreted"

    def opened(rng: random.Random) -> Work:
        call = _interpreted(meta) if interpreted else cipher(meta).crypt_in_place
        return PerCell(call, "in_place", payload_len, rng)

    return Row(name + "]", opened, cells, meta)


def _interpreted(meta: Meta) -> Callable[[bytearray], None]:
    """Return what a path does where there is no compiled core: the backend's key stream, and the loop in Python."""
    from cellcrypt.xor import INTERPRETED

    length, xor = int(meta["payload_len"]), INTERPRETED[str(meta["path"])]
    make = cipher({**meta, "path": "fused"}).keystream
    return lambda cell: xor(memoryview(cell), memoryview(make(length)))


def batch_row(backend: str, path: str, payload_len: int, at_once: int, cells: int, *, kernel: str = "") -> Row:
    """crypt_cells on `at_once` wire cells a call."""
    cell_format = format_of(payload_len)
    meta = _meta("batch", backend, payload_len, cells, path=path, at_once=at_once, wanted_kernel=kernel)
    meta["cell_format"] = f"{cell_format.header_len}+{payload_len}"

    def opened(rng: random.Random) -> Work:
        return Batch(cipher(meta).crypt_cells, cell_format, at_once, rng)

    return Row(f"batch[{backend},{path},{payload_len},{at_once}]", opened, cells, meta, _slices(cells, at_once))


def _bare_call(library: str, call: str) -> tuple[Callable[..., object], str]:
    """Return a library's own call on a fresh context, and how it takes its cell."""
    if library == "cryptography":
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        context = Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor()
        return (context.update_into, "into") if call == "update_into" else (context.update, "new")
    from Crypto.Cipher import AES

    return AES.new(KEY, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt, "new" if call == "encrypt" else "output"


#: The calls that users write, the first of each library being what its rows are divided by.
BARE = {"cryptography": ("update_into", "update"), "pycryptodome": ("encrypt",)}
#: The call that takes all cells at once.
ONE_PASS = {"cryptography": "update_into", "pycryptodome": "encrypt_into"}


def bare_row(library: str, call: str, payload_len: int, cells: int) -> Row:
    """A library's own call, one per cell."""

    def opened(rng: random.Random) -> Work:
        function, manner = _bare_call(library, call)
        return PerCell(function, manner, payload_len, rng)

    return Row(
        f"bare[{library}.{call},{payload_len}]",
        opened,
        cells,
        _meta("bare", library, payload_len, cells, call=call),
    )


def pass_row(library: str, payload_len: int, at_once: int, cells: int) -> Row:
    """A library's own call on many payloads that lie end to end."""
    call = ONE_PASS[library]

    def opened(rng: random.Random) -> Work:
        function, manner = _bare_call(library, call)
        return OnePass(function, manner, payload_len, at_once, rng)

    meta = _meta("pass", library, payload_len, cells, call=call, at_once=at_once)
    return Row(f"pass[{library}.{call},{payload_len},{at_once}]", opened, cells, meta, _slices(cells, at_once))


def xor_row(path: str, payload_len: int, cells: int) -> Row:
    """The compiled XOR loop of a path, over key stream that is there already."""
    meta = _meta("xor", "core", payload_len, cells, path=path)

    def opened(rng: random.Random) -> Work:
        from cellcrypt.xor import XOR_CELLS

        return XorOnly(XOR_CELLS[path], format_of(payload_len).header_len, payload_len, rng)

    return Row(f"xor[{path},{payload_len}]", opened, cells, meta)


def cold_rows(backend: str, payload_len: int, cells: int, circuits: int, *, bare: bool = True) -> Iterator[Row]:
    """One call per cell over many circuits in shuffled order, each with its own key; and the bare call likewise."""

    def ours(_: random.Random) -> Work:
        meta = _meta("cold", backend, payload_len, cells, path="fused")
        return Cold(lambda key: cipher(meta, key), "in_place", payload_len, circuits)

    meta = _meta("cold", backend, payload_len, cells, path="fused", circuits=circuits)
    yield Row(f"cold[{backend},fused,{payload_len}]", ours, cells, meta, 1)
    if not bare or backend != "cryptography":
        return

    def theirs(_: random.Random) -> Work:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter = modes.CTR(bytes(16))
        return Cold(lambda key: Cipher(algorithms.AES(key), counter).encryptor(), "update_into", payload_len, circuits)

    meta = _meta("cold", backend, payload_len, cells, call="update_into", circuits=circuits)
    yield Row(f"cold[{backend}.update_into,{payload_len}]", theirs, cells, meta, 1)


@dataclass(frozen=True)
class Choice:
    """What was asked of the cell suite."""

    cells: int
    backends: tuple[str, ...]
    paths: tuple[str, ...]
    payload_lens: tuple[int, ...]
    cold: bool = False
    circuits: int = 0
    interpreted: bool = False
    kernel: str = ""
    #: Leave out pycryptodome's cold rows: 100,000s of its contexts take longer to make than to use.
    brief: bool = False


def suite(choice: Choice) -> list[Row]:
    """Return the rows for a choice, those that are compared with each other next to each other."""
    rows: list[Row] = []
    for payload_len in choice.payload_lens:
        check_payload_len(payload_len)
    if core is not None:
        rows += [xor_row(path, n, choice.cells) for path in ("byte", "word") for n in choice.payload_lens]
    for backend in choice.backends:
        for payload_len in choice.payload_lens:
            rows += _rows_of(backend, payload_len, choice)
    return rows


def _rows_of(backend: str, payload_len: int, choice: Choice) -> Iterator[Row]:
    cells, kernel = choice.cells, choice.kernel if backend == "native" else ""
    if backend in LIBRARIES:
        yield from (bare_row(backend, call, payload_len, cells) for call in BARE[backend])
    for path in choice.paths:
        if path == "fused" or core is not None:
            yield cells_row(backend, path, payload_len, cells, kernel=kernel)
        if choice.interpreted and path != "fused" and backend != "native":
            yield cells_row(backend, path, payload_len, max(1, cells // INTERPRETED_SHARE), interpreted=True)
    if "fused" not in choice.paths:
        return
    if backend == "pycryptodome":
        yield cells_row(backend, "fused", payload_len, cells, lookahead=1 << 14)
    yield batch_row(backend, "fused", payload_len, min(1000, cells), cells, kernel=kernel)
    if backend in LIBRARIES:
        yield pass_row(backend, payload_len, cells, cells)
    if choice.cold and not (choice.brief and backend == "pycryptodome"):
        yield from cold_rows(backend, payload_len, cells, choice.circuits)
