"""A real file of 50 MB and more, against the openssl program: payload by payload and as wire cells."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cellcrypt
from cellcrypt import ALIGNED_508, TOR_V3, TOR_V4, CellCipher, CellFormat

from .support import ROOT, tool

KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
IV = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfffffe")
LEAST = 50_000_000

USABLE = [name for name, state in cellcrypt.backends().items() if state.usable and name != "afalg"]
#: (encrypting backend, its path, decrypting backend, its path): each with another, round about.
PAIRS = [
    (name, path, USABLE[(number + 1) % len(USABLE)], other)
    for number, name in enumerate(USABLE)
    for path, other in (("fused", "word" if cellcrypt.backends()["native"].usable else "fused"),)
]

pytestmark = pytest.mark.slow


def _files() -> Iterator[Path]:
    """Yield real files of this machine: what this Python is made of, biggest folders first."""
    for folder in (Path(sys.prefix) / "lib", Path(sys.base_prefix) / "lib", ROOT):
        yield from sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of at least 50 MB: one that is there, else real ones in a row."""
    found = tmp_path_factory.mktemp("real") / "file"
    with found.open("wb") as out:
        for path in _files():
            if out.tell() >= LEAST:
                break
            try:
                out.write(path.read_bytes())
            except OSError:
                continue
    assert found.stat().st_size >= LEAST
    return found


@pytest.fixture(scope="module")
def encrypted(real: Path) -> bytes:
    """Return what the openssl program makes of the file."""
    out = real.with_name("encrypted")
    command = [
        tool("openssl"),
        "enc",
        "-aes-128-ctr",
        "-K",
        KEY.hex(),
        "-iv",
        IV.hex(),
        "-in",
        str(real),
        "-out",
        str(out),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return out.read_bytes()


def _whole_cells(data: bytes, payload_len: int) -> memoryview:
    return memoryview(data)[: len(data) - len(data) % payload_len]


@pytest.mark.parametrize("payload_len", [509, 508])
@pytest.mark.parametrize(("backend", "path", "other_backend", "other_path"), PAIRS)
def test_payload_by_payload(
    real: Path, encrypted: bytes, backend: str, path: str, other_backend: str, other_path: str, payload_len: int
) -> None:
    plain = real.read_bytes()
    there = CellCipher(KEY, IV, payload_len=payload_len, backend=backend, path=path)
    back = CellCipher(KEY, IV, payload_len=payload_len, backend=other_backend, path=other_path)
    cut = _whole_cells(plain, payload_len)
    cells = [there.crypt(cut[at : at + payload_len]) for at in range(0, len(cut), payload_len)]
    rest = plain[len(cut) :]
    last = bytes(a ^ b for a, b in zip(rest, there.keystream(len(rest)), strict=True))
    assert b"".join(cells) + last == encrypted
    assert there.position == len(plain)
    for cell in cells[:100_000]:
        assert len(cell) == payload_len
    buffer = bytearray(b"".join(cells))
    back.crypt_cells(buffer, CellFormat(0, payload_len))
    assert buffer == cut


@pytest.mark.parametrize("cell_format", [TOR_V4, TOR_V3, ALIGNED_508], ids=lambda f: f"{f.header_len}+{f.payload_len}")
@pytest.mark.parametrize(("backend", "path", "other_backend", "other_path"), PAIRS)
def test_wire_cells(
    real: Path, encrypted: bytes, backend: str, path: str, other_backend: str, other_path: str, cell_format: CellFormat
) -> None:
    length, header_len = cell_format.payload_len, cell_format.header_len
    cut, wanted = _whole_cells(real.read_bytes(), length), _whole_cells(encrypted, length)
    headers = [number.to_bytes(header_len, "big") for number in range(len(cut) // length)]

    def wire(payloads: memoryview) -> bytearray:
        parts = [header + payloads[n * length : (n + 1) * length] for n, header in enumerate(headers)]
        return bytearray(b"".join(parts))

    buffer = wire(cut)
    there = CellCipher(KEY, IV, payload_len=length, backend=backend, path=path)
    assert there.crypt_cells(buffer, cell_format) == len(headers)
    assert buffer == wire(wanted)
    back = CellCipher(KEY, IV, payload_len=length, backend=other_backend, path=other_path)
    step = 4097 * cell_format.cell_len
    with memoryview(buffer) as view:
        for start in range(0, len(buffer), step):
            back.crypt_cells(view[start : start + step], cell_format)
    assert buffer == wire(cut)
