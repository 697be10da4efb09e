"""What the tests of Counter Galois Onion share: the vectors, and everything that computes it here.

Rules of this file: no tests; nothing random without a seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from cellcrypt import backends
from cellcrypt.compiled import core
from cellcrypt.onion import HopKeys
from cellcrypt.onion.cgo import Direction

from .onion_kit import usable

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "cgo.json").read_text())
FROM_TOR: dict[str, Any] = VECTORS["from_tor"]

unhex = bytes.fromhex


class Calls(Protocol):
    """One direction of a hop, whoever computes it. The contract: cellcrypt/onion/cgo.py, Direction."""

    def originate(self, payload: Any, command: int = ...) -> bytes: ...
    def receive(self, payload: Any, command: int = ...) -> bytes | None: ...
    def pass_on(self, payload: Any, command: int = ...) -> None: ...
    def close(self) -> None: ...


Make = Callable[..., Calls]


def _makers() -> dict[str, Make]:
    """Return all ways to make a Direction: Python over each library, and C with every pair of kernels."""

    def python(backend: str) -> Make:
        return lambda material, client, tag=bytes(16): Direction(material, client, tag, backend=usable(backend))

    def compiled(kernel: str, polyval: str) -> Make:
        return lambda material, client, tag=bytes(16): core.Cgo(material, client, tag, kernel, polyval)

    def no_core(material: bytes, client: bool, tag: bytes = b"") -> Calls:
        raise AssertionError(usable("native"))

    makers: dict[str, Make] = {
        f"python over {backend}": python(backend) for backend in ("cryptography", "pycryptodome", "afalg")
    }
    kernels = backends()["native"].kernels
    for kernel in kernels:
        for polyval in core.polyval_kernels():
            makers[f"{kernel} and {polyval}"] = compiled(kernel, polyval)
    if not kernels:
        makers["native"] = no_core
    return makers


MAKERS: dict[str, Make] = _makers()


def definition(material: bytes, client: bool, tag: bytes = bytes(16)) -> Calls:
    """Return the Python definition over cryptography."""
    return Direction(material, client, tag, backend="cryptography")


def octets(length: int, seed: object) -> bytes:
    """Return bytes that depend on `seed` only."""
    return hashlib.shake_256(f"cgo {seed}".encode()).digest(length)


def cell(seed: object) -> bytearray:
    """Return a payload whose every byte is made from `seed`."""
    return bytearray(octets(509, seed))


def hop_keys(hop: int) -> HopKeys:
    return HopKeys.from_key_material(octets(160, ("hop", hop)), "cgo")


def check_state(direction: Calls, client: bool, material: bytes, tag: bytes) -> None:
    """Check by three cells that `direction` has these keys, this nonce and this T'. Moves it.

    The first cell goes on to another hop and shows J, S and T'; the others are its own and show N and the update.
    """
    expected = definition(material, client, tag)
    for number, call in enumerate(("pass_on", "originate", "originate")):
        cells = bytearray(octets(509, ("state", number))), bytearray(octets(509, ("state", number)))
        tags = getattr(direction, call)(cells[0], 9), getattr(expected, call)(cells[1], 9)
        assert cells[0] == cells[1]
        assert tags[0] == tags[1]
