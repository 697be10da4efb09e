"""The XOR loops, compiled and interpreted: right at every pair of offsets, and truly loops over bytes and words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cellcrypt.compiled import core
from cellcrypt.xor import INTERPRETED, XOR, XOR_CELLS, check_path

from .support import ROOT, absent, needs_core, tool

SIZES = range(601)
SOURCE = ROOT / "cellcrypt" / "csrc" / "xor.c"
#: Names of vector registers: x86 SSE to AVX-512, and ARM's.
VECTOR = re.compile(r"%?\b([xyz]mm\d+|mm\d|[qv]\d+(\.\d+[bhsd])?)\b")


def _pattern(length: int, step: int) -> bytes:
    return bytes((step * i + (i >> 8)) % 256 for i in range(length))


@needs_core
@pytest.mark.parametrize("path", XOR)
def test_every_pair_of_offsets_and_every_size(path: str) -> None:
    """All 16 x 16 offsets in a block and all sizes to 600; the bytes around stay. Under UBSan no load is undefined."""
    loop = XOR[path]
    data, stream = _pattern(700, 7), _pattern(700, 13)
    mixed = [bytes(a ^ b for a, b in zip(data[shift:], stream, strict=False)) for shift in range(16)]
    memory, keystream = bytearray(700), bytearray(stream)
    out_views = [memoryview(memory)[offset:] for offset in range(16)]
    stream_views = [memoryview(keystream)[offset:] for offset in range(16)]
    for size in SIZES:
        for out_offset in range(16):
            for stream_offset in range(16):
                memory[:] = data
                loop(out_views[out_offset][:size], stream_views[stream_offset][:size])
                end = out_offset + size
                if out_offset >= stream_offset:
                    wanted = mixed[out_offset - stream_offset][stream_offset : stream_offset + size]
                else:
                    wanted = bytes(a ^ b for a, b in zip(data[out_offset:end], stream[stream_offset:], strict=False))
                if (
                    memory[out_offset:end] != wanted
                    or memory[:out_offset] != data[:out_offset]
                    or memory[end:] != data[end:]
                ):
                    raise AssertionError(f"{path}: size {size}, offsets {out_offset} and {stream_offset}")
    assert keystream == stream


@pytest.mark.parametrize("path", INTERPRETED)
def test_the_interpreted_twins_are_the_definition(path: str) -> None:
    for size in (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 508, 509, 600):
        data, stream = _pattern(size + 3, 7), _pattern(size, 13)
        wanted = bytes(a ^ b for a, b in zip(data[1:], stream, strict=False))
        for loop in (INTERPRETED[path], XOR[path]):
            memory = bytearray(data)
            loop(memoryview(memory)[1 : 1 + size], memoryview(stream))
            assert memory == data[:1] + wanted + data[1 + size :]


@pytest.mark.parametrize("path", XOR_CELLS)
@pytest.mark.parametrize(("header_len", "payload_len"), [(0, 1), (1, 3), (3, 509), (4, 508), (5, 509), (255, 16)])
def test_cells(path: str, header_len: int, payload_len: int) -> None:
    cells = 5
    data, stream = _pattern(cells * (header_len + payload_len), 7), _pattern(cells * payload_len, 13)
    wanted = bytearray(data)
    for i in range(cells):
        start = i * (header_len + payload_len) + header_len
        for j in range(payload_len):
            wanted[start + j] ^= stream[i * payload_len + j]
    for wipe in (False, True):
        memory, used = bytearray(data), bytearray(stream)
        XOR_CELLS[path](memoryview(memory), header_len, payload_len, memoryview(used), wipe)
        assert memory == wanted
        assert used == (bytes(len(used)) if wipe else stream)


def test_path_names() -> None:
    assert tuple(XOR) == tuple(XOR_CELLS) == tuple(INTERPRETED) == ("byte", "word", "fused")
    assert check_path("word") == "word"


@needs_core
def test_the_core_checks_what_it_is_given() -> None:
    out = bytearray(8)
    loops: list[tuple[Any, tuple[Any, ...]]] = [
        *((loop, (out, bytes(7))) for loop in (core.xor_byte, core.xor_word, core.xor_wide)),
        *((loop, (out,)) for loop in (core.xor_byte, core.xor_word, core.xor_wide)),
        *((loop, (bytes(8), bytes(8))) for loop in (core.xor_byte, core.xor_word, core.xor_wide)),
        *(
            (loop, (out, 0, 4, bytearray(7)))
            for loop in (core.xor_cells_byte, core.xor_cells_word, core.xor_cells_wide)
        ),
        *((loop, (out, 0, 3, bytearray(6))) for loop in (core.xor_cells_byte, core.xor_cells_wide)),
        *((loop, (out, -1, 5, bytearray(10))) for loop in (core.xor_cells_byte, core.xor_cells_wide)),
        *((loop, (out, 8, 0, bytearray())) for loop in (core.xor_cells_byte, core.xor_cells_wide)),
        (core.address, (5,)),
    ]
    for loop, args in loops:
        with pytest.raises((TypeError, ValueError, BufferError)):
            loop(*args)
    assert out == bytes(8)


def _disassembly(binary: Path, function: str) -> str:
    """Return the instructions of one function."""
    listing = subprocess.run(
        [tool("objdump"), "-d", "--no-show-raw-insn", str(binary)], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(rf"^[0-9a-f]+ <_?{function}>:\n(.*?)(\n\n|\Z)", listing, re.M | re.S)
    assert found, f"{binary.name} has no function {function}"
    return found[1]


@needs_core
@pytest.mark.parametrize("function", ["cc_xor_bytes", "cc_xor_words"])
def test_no_vector_instructions_in_the_installed_core(function: str) -> None:
    code = _disassembly(Path(core.__file__), function)
    assert len(code.splitlines()) > 5
    assert not VECTOR.search(code), code


@pytest.mark.parametrize("flags", ["-O1", "-O2", "-O3", "-O3 -march=native", "-Ofast -march=native -funroll-all-loops"])
@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_no_compiler_makes_them_vectors(tmp_path: Path, compiler: str, flags: str) -> None:
    program, binary = tool(compiler), tmp_path / "xor.o"
    built = subprocess.run(
        [program, *flags.split(), "-std=gnu11", "-c", str(SOURCE), "-o", str(binary)], capture_output=True, text=True
    )
    if built.returncode and "march" in flags + built.stderr:
        absent(compiler, f"{compiler} {flags}: {built.stderr}")
    assert built.returncode == 0, built.stderr
    for function in ("cc_xor_bytes", "cc_xor_words"):
        assert not VECTOR.search(_disassembly(binary, function))
    # The plain wide loop shows that the test would see vectors.
    if flags != "-O1":
        assert VECTOR.search(_disassembly(binary, "cc_xor_wide"))
