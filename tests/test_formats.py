"""CellFormat: a value with checked lengths."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from cellcrypt import ALIGNED_508, TOR_V3, TOR_V4, CellFormat


def test_named_formats() -> None:
    assert (TOR_V3.header_len, TOR_V3.payload_len, TOR_V3.cell_len) == (3, 509, 512)
    assert (TOR_V4.header_len, TOR_V4.payload_len, TOR_V4.cell_len) == (5, 509, 514)
    assert (ALIGNED_508.header_len, ALIGNED_508.payload_len, ALIGNED_508.cell_len) == (4, 508, 512)


@pytest.mark.parametrize(("header_len", "payload_len"), [(0, 1), (255, 65_535), (0, 65_535), (255, 1)])
def test_limits_are_allowed(header_len: int, payload_len: int) -> None:
    assert CellFormat(header_len, payload_len).cell_len == header_len + payload_len


@pytest.mark.parametrize(
    ("header_len", "payload_len", "message"),
    [
        (-1, 509, "header_len must be 0 to 255 bytes, got -1"),
        (256, 509, "header_len must be 0 to 255 bytes, got 256"),
        (3, 0, "payload_len must be 1 to 65535 bytes, got 0"),
        (3, 65_536, "payload_len must be 1 to 65535 bytes, got 65536"),
        (3, -509, "payload_len must be 1 to 65535 bytes, got -509"),
        (3, 2**100, f"payload_len must be 1 to 65535 bytes, got {2**100}"),
    ],
)
def test_lengths_out_of_range(header_len: int, payload_len: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        CellFormat(header_len, payload_len)


@pytest.mark.parametrize("bad", [None, True, 3.0, "3", b"3"])
def test_lengths_of_a_wrong_type(bad: object) -> None:
    with pytest.raises(TypeError, match=rf"^header_len must be an int, got {type(bad).__name__}$"):
        CellFormat(bad, 509)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=rf"^payload_len must be an int, got {type(bad).__name__}$"):
        CellFormat(3, bad)  # type: ignore[arg-type]


def test_whatever_has_an_index_is_an_int() -> None:
    class Five:
        def __index__(self) -> int:
            return 5

    made = CellFormat(Five(), Five())  # type: ignore[arg-type]
    assert made == CellFormat(5, 5)
    assert type(made.header_len) is int


def test_nobody_changes_what_a_format_means() -> None:
    with pytest.raises(TypeError, match="CellFormat can't be subclassed"):
        type("Padded", (CellFormat,), {"cell_len": 600})


def test_a_format_is_a_value() -> None:
    assert CellFormat(5, 509) == TOR_V4
    assert hash(CellFormat(5, 509)) == hash(TOR_V4)
    assert CellFormat(4, 509) != TOR_V4
    assert eval(repr(TOR_V4)) == copy.copy(TOR_V4) == pickle.loads(pickle.dumps(TOR_V4)) == TOR_V4
    with pytest.raises(dataclasses.FrozenInstanceError):
        TOR_V4.header_len = 3  # type: ignore[misc]
