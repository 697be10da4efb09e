"""The known answers of aes_ctr.json, as they stand there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOUND: dict[str, Any] = json.loads(Path(__file__).with_name("aes_ctr.json").read_text(encoding="utf-8"))

KEY_STREAM: list[dict[str, Any]] = _FOUND["key_stream"]
SP800_38A: list[dict[str, Any]] = _FOUND["sp800_38a"]
CELLS: list[dict[str, Any]] = _FOUND["cells"]
MILLION_CELLS: list[dict[str, Any]] = _FOUND["million_cells"]


def payload(cell: int, length: int) -> bytes:
    """Return the payload of cell number `cell` in CELLS."""
    return bytes((7 * cell + 13 * j + 3) % 256 for j in range(length))
