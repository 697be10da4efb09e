"""RelayCell: where fields stand, what fits, how it is padded, in each layout."""

from __future__ import annotations

import array
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellcrypt import PayloadLengthError
from cellcrypt.onion import CRYPTO_15, STREAM_COMMANDS, TOR1, RelayCell, RelayCellError, RelayLayout

from .onion_kit import material

LAYOUTS = [TOR1, CRYPTO_15, RelayLayout("tag first", (("digest", 16), ("command", 1), ("length", 2)), frozenset())]
BEGIN, SENDME, EXTEND2 = 1, 5, 14


def test_fields_of_tor1() -> None:
    payload = RelayCell(command=2, stream_id=0x1234, data=b"data").pack()
    assert payload[:19] == bytes.fromhex("02 0000 1234 00000000 0004") + b"data" + bytes(4)
    assert len(payload) == 509
    came = RelayCell.parse(struct.pack("!BHH4sH", 2, 7, 0x1234, b"abcd", 3) + b"xyz" + bytes(495))
    assert came == RelayCell(2, 0x1234, b"xyz", recognized=7, digest=b"abcd")
    assert came.length == 3


def test_fields_of_relay_crypto_15() -> None:
    """The first cell of proposal 340's appendix, and one without a stream."""
    host = b"www.torproject.org:443\0"
    payload = RelayCell(BEGIN, 42, host).pack(CRYPTO_15)
    assert payload[:21] == bytes(16) + bytes.fromhex("01 0017 002a")
    assert payload[21:48] == host + bytes(4)
    payload = RelayCell(EXTEND2, data=bytes(490)).pack(CRYPTO_15)
    assert payload[:19] == bytes(16) + bytes.fromhex("0e 01ea")


def test_capacity() -> None:
    assert [TOR1.capacity(command) for command in (BEGIN, SENDME)] == [498, 498]
    assert [CRYPTO_15.capacity(command) for command in (BEGIN, SENDME)] == [488, 490]
    assert [command for command in range(256) if CRYPTO_15.has_stream_id(command)] == sorted(STREAM_COMMANDS)
    assert all(TOR1.has_stream_id(command) for command in range(256))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@given(
    command=st.integers(0, 255), stream=st.integers(0, 65535), length=st.integers(0, 498), begun=st.binary(max_size=32)
)
def test_what_is_packed_is_parsed(layout: RelayLayout, command: int, stream: int, length: int, begun: bytes) -> None:
    data = (begun + bytes(498))[: min(length, layout.capacity(command))]
    cell = RelayCell(command, stream if layout.has_stream_id(command) else 0, data)
    payload = bytearray(b"\xaa" * 509)
    cell.pack_into(payload, layout)
    came = RelayCell.parse(payload, layout)
    assert (came.command, came.stream_id, came.data, came.recognized) == (command, cell.stream_id, data, 0)
    assert not any(came.digest)
    assert len(came.digest) == dict(layout.fields)["digest"]


@pytest.mark.parametrize("length", [0, 1, 493, 494, 495, 497, 498])
def test_padding_is_four_zero_bytes_then_random(length: int) -> None:
    cells = [RelayCell(2, 1, bytes(length)).pack() for _ in range(8)]
    assert {len(cell) for cell in cells} == {509}
    end = 11 + length
    assert all(cell[end : end + 4] == bytes(min(4, 509 - end)) for cell in cells)
    if end + 4 < 509:
        assert any(cell[end + 4] for cell in cells)
    if end + 8 <= 509:
        assert len({bytes(cell[end + 4 :]) for cell in cells}) == 8


@pytest.mark.parametrize(
    ("cell", "layout", "message"),
    [
        (RelayCell(2, 1, bytes(499)), TOR1, "data must be at most 498 bytes in layout tor1, got 499"),
        (RelayCell(2, 1, bytes(489)), CRYPTO_15, "data must be at most 488 bytes"),
        (RelayCell(5, 0, bytes(491)), CRYPTO_15, "data must be at most 490 bytes"),
        (RelayCell(256), TOR1, "command must be 0 to 255, got 256"),
        (RelayCell(-1), TOR1, "command must be 0 to 255, got -1"),
        (RelayCell(1, 10**5000), TOR1, r"stream_id must be 0 to 65535, got 2\*\*16609 or more"),
        (RelayCell(2, 65536), TOR1, "stream_id must be 0 to 65535, got 65536"),
        (RelayCell(2, 1, b"", 65536), TOR1, "recognized must be 0 to 65535"),
        (RelayCell(2, 1, digest=bytes(5)), TOR1, "digest must be 4 bytes, got 5"),
        (RelayCell(5, 1), CRYPTO_15, "stream_id must be zero, since command 5 has none in layout relay crypto 1.5"),
        (RelayCell(5, recognized=1), LAYOUTS[2], "recognized must be zero"),
    ],
)
def test_fields_out_of_range_write_nothing(cell: RelayCell, layout: RelayLayout, message: str) -> None:
    payload = bytearray(b"\xaa" * 509)
    with pytest.raises(RelayCellError, match=message):
        cell.pack_into(payload, layout)
    assert payload == b"\xaa" * 509


@pytest.mark.parametrize("field", ["command", "stream_id", "recognized"])
@pytest.mark.parametrize("wrong", ["2", b"", b"2", b"22", None, True, 2.0])
def test_fields_of_a_wrong_type(field: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"{field} must be an int, got {type(wrong).__name__}"):
        RelayCell(**{"command": 2, field: wrong}).pack()


@pytest.mark.parametrize("field", ["data", "digest"])
def test_bytes_of_a_wrong_type(field: str) -> None:
    for wrong in ("2", 2, None, [2]):
        values: dict[str, Any] = {"command": 2, field: wrong}
        with pytest.raises(TypeError, match=f"{field} must be a bytes-like object, got {type(wrong).__name__}"):
            RelayCell(**values).pack()
    gappy: dict[str, Any] = {"command": 2, field: memoryview(bytes(8))[::2]}
    with pytest.raises(BufferError, match=f"{field} must be C-contiguous"):
        RelayCell(**gappy).pack()


def test_data_is_counted_in_bytes_whatever_its_items() -> None:
    words: Any = array.array("I", range(100))
    assert RelayCell(2, data=words).length == 400
    assert RelayCell.parse(RelayCell(2, data=words).pack()).data == words.tobytes()
    with pytest.raises(RelayCellError, match="data must be at most 498 bytes in layout tor1, got 800"):
        RelayCell(2, data=words * 2).pack()
    digest: Any = bytearray(b"abcd")
    assert RelayCell.parse(RelayCell(2, digest=digest).pack()).digest == b"abcd"


@pytest.mark.parametrize("length", [0, 508, 510])
def test_a_payload_of_another_length(length: int) -> None:
    buffer = bytearray(b"\xaa" * length)
    with pytest.raises(PayloadLengthError, match=f"payload must be 509 bytes, got {length}"):
        RelayCell(2).pack_into(buffer)
    assert buffer == b"\xaa" * length
    with pytest.raises(PayloadLengthError, match=f"payload must be 509 bytes, got {length}"):
        RelayCell.parse(buffer)


def test_pack_into_a_slice_of_a_wire_cell() -> None:
    wire = bytearray(b"\xaa" * 515)
    RelayCell(2, 1, b"data").pack_into(memoryview(wire)[5:514])
    assert wire[:5] + wire[514:] == b"\xaa" * 6
    assert RelayCell.parse(memoryview(wire)[5:514]).data == b"data"
    with pytest.raises(BufferError):
        RelayCell(2).pack_into(bytes(509))


@pytest.mark.parametrize(("layout", "at", "most"), [(TOR1, 9, 498), (CRYPTO_15, 17, 488)])
def test_a_length_field_that_says_more_than_fits(layout: RelayLayout, at: int, most: int) -> None:
    payload = RelayCell(2, 1, material(most)).pack(layout)
    assert RelayCell.parse(payload, layout).data == material(most)
    payload[at : at + 2] = (most + 1).to_bytes(2, "big")
    with pytest.raises(RelayCellError, match=f"length must be at most {most} bytes .*, got {most + 1}"):
        RelayCell.parse(payload, layout)
