"""What the tests of cellcrypt.onion share: the vectors, the backends, circuits with keys of their own.

Rules of this file: no tests; nothing random without a seed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cellcrypt import backends
from cellcrypt.onion import Circuit, ClientLayer, HopKeys, RelayLayer

from .support import REQUIRED

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "tor1.json").read_text())

unhex = bytes.fromhex


def usable(backend: str) -> str:
    """Return the backend's name; skip the test with the reason where it can't be used, fail where it must."""
    found = backends()[backend]
    if not found.usable:
        (pytest.fail if backend in REQUIRED else pytest.skip)(f"{backend}: {found.reason}")
    return backend


def material(length: int, seed: object = 0) -> bytes:
    """Return key material, or any other bytes, that depend on `seed` only."""
    return hashlib.shake_256(f"onion {seed}".encode()).digest(length)


def hop_keys(hop: int, layout: str = "tor1") -> HopKeys:
    return HopKeys.from_key_material(material(128 if layout == "hs-v3" else 72, hop), layout)


def three_hops(backend: str | None = None, layout: str = "tor1") -> tuple[Circuit, list[RelayLayer]]:
    """Return a client's circuit of three hops, and the three relays."""
    keys = [hop_keys(hop, layout) for hop in range(3)]
    client = Circuit(ClientLayer(one, backend=backend) for one in keys)
    return client, [RelayLayer(one, backend=backend) for one in keys]


def plain(number: int, seed: object = "plain") -> bytearray:
    """Return a relay cell in clear, recognized and digest zero, the rest made from `number`."""
    payload = bytearray(material(509, (seed, number)))
    payload[1:3] = payload[5:9] = b""
    return payload[:1] + bytes(2) + payload[1:3] + bytes(4) + payload[3:]


def without_digest(payload: bytes | bytearray) -> bytes:
    """Return the payload with its digest zero: a receiver leaves it as the sender wrote it."""
    return bytes(payload[:5]) + bytes(4) + bytes(payload[9:])
