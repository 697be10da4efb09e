"""Cell formats: how long a cell's header and payload are.

Rules of this file: imports nothing of ours; a format is a value and never changes.

Theory: link protocols up to 3 send 3 + 509 = 512 bytes, link protocol 4 and later 5 + 509 = 514 (tor-spec, "Cell
Packet format"). 509 = 13 (mod 16), so 17 consecutive cells start at every offset in an AES block; 508 = 12 (mod 16), so
cells of 508 bytes only start at offsets 0, 4, 8 and 12, and key stream stays aligned to 32-bit words.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import final

#: The longest header, in bytes: a study's limit, not a protocol's.
MAX_HEADER_LEN = 255
#: The longest payload, in bytes: what a 16-bit length field can say.
MAX_PAYLOAD_LEN = 65_535


def _checked(name: str, value: int, lowest: int, highest: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got bool")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}") from None
    if not lowest <= number <= highest:
        got = number if number.bit_length() <= 256 else "more digits than can be shown"
        raise ValueError(f"{name} must be {lowest} to {highest} bytes, got {got}")
    return number


def check_payload_len(payload_len: int) -> int:
    """Return `payload_len` as an int.

    Raises:
        TypeError: it is no integer. ValueError: it is not 1 to 65,535 bytes.
    """
    return _checked("payload_len", payload_len, 1, MAX_PAYLOAD_LEN)


@final
@dataclass(frozen=True, slots=True)
class CellFormat:
    """Describe wire cells of `header_len` + `payload_len` bytes; only the payload is encrypted. Immutable and final.

    Args:
        header_len: 0 to 255 bytes.
        payload_len: 1 to 65,535 bytes.

    Raises:
        TypeError: a length is no integer. ValueError: a length is out of range.

    Spec: tor-spec, "Cell Packet format".
    """

    header_len: int
    payload_len: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "header_len", _checked("header_len", self.header_len, 0, MAX_HEADER_LEN))
        object.__setattr__(self, "payload_len", check_payload_len(self.payload_len))

    def __init_subclass__(cls) -> None:
        raise TypeError("CellFormat can't be subclassed: its two lengths are all that a batch goes by")

    @property
    def cell_len(self) -> int:
        """Bytes from one cell to the next: header and payload."""
        return self.header_len + self.payload_len


def check_cell_format(cell_format: CellFormat) -> CellFormat:
    """Return `cell_format`.

    Raises:
        TypeError: it is no CellFormat.
    """
    if type(cell_format) is not CellFormat:
        raise TypeError(f"cell_format must be a CellFormat, got {type(cell_format).__name__}")
    return cell_format


def count_cells(length: int, cell_format: CellFormat, payload_len: int) -> int:
    """Return how many cells of `cell_format` fill a buffer of `length` bytes.

    Raises:
        TypeError: no CellFormat. ValueError: its payload is not `payload_len` bytes, or `length` is no whole number of
        cells.
    """
    if check_cell_format(cell_format).payload_len != payload_len:
        raise ValueError(
            f"cell_format must have the cipher's payload of {payload_len} bytes, got {cell_format.payload_len} bytes"
        )
    count, rest = divmod(length, cell_format.cell_len)
    if rest:
        raise ValueError(f"buffer must be a whole number of cells of {cell_format.cell_len} bytes, got {length} bytes")
    return count


#: Link protocols 1 to 3: circuit ID of 2 bytes, command of 1 byte.
TOR_V3 = CellFormat(3, 509)
#: Link protocol 4 and later: circuit ID of 4 bytes, command of 1 byte.
TOR_V4 = CellFormat(5, 509)
#: What 2007's experiment proposed: a payload that keeps every cell's key stream aligned to 32-bit words.
ALIGNED_508 = CellFormat(4, 508)
