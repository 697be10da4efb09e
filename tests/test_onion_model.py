"""Any order of cells to and from any hop, against a model that computes each one from the start.

The model keeps no state but the history: a layer is a stretch of one AES-CTR pass by another library, a tag is one hash
over all cells of the hop so far. So no step of it can share a fault with the layers.
"""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from cellcrypt.onion import Circuit, ClientLayer, HopKeys, RelayLayer

from .onion_kit import hop_keys, plain, usable, without_digest

CELL = 509
HASHES = {"tor1": hashlib.sha1, "hs-v3": hashlib.sha3_256}


class Way:
    """One direction of one hop."""

    def __init__(self, scheme: str, keys: tuple[bytes, ...]) -> None:
        self.seed, self.key = keys
        self.hash = HASHES[scheme]
        self.passed = 0
        self.own = b""

    def tag(self, clear: bytes) -> bytes:
        self.own += clear
        return self.hash(self.seed + self.own).digest()[:20]

    def layer(self, payload: bytes) -> bytes:
        whole = Cipher(algorithms.AES(self.key), modes.CTR(bytes(16))).encryptor()
        keystream = whole.update(bytes(CELL * (self.passed + 1)))[CELL * self.passed :]
        self.passed += 1
        return bytes(a ^ b for a, b in zip(payload, keystream, strict=True))


class Model:
    def __init__(self, keys: list[HopKeys]) -> None:
        self.forward = [Way(one.scheme, one.forward) for one in keys]
        self.backward = [Way(one.scheme, one.backward) for one in keys]

    @staticmethod
    def cross(ways: list[Way], hop: int, clear: bytes) -> tuple[bytes, list[bytes]]:
        """Return the tag, and the payload with the layers of hop, hop - 1 ... 0 on it."""
        tag = ways[hop].tag(clear)
        steps = [clear[:5] + tag[:4] + clear[9:]]
        for number in range(hop, -1, -1):
            steps.append(ways[number].layer(steps[-1]))
        return tag, steps[1:]


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=20)


@pytest.mark.parametrize("backend", ["native", "cryptography", "pycryptodome"])
@given(steps=steps, layouts=st.lists(st.sampled_from(["tor1", "hs-v3"]), min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_order_of_cells(backend: str, steps: list[tuple[bool, int]], layouts: list[str]) -> None:
    usable(backend)
    keys = [hop_keys(hop, layout) for hop, layout in enumerate(layouts)]
    model = Model(keys)
    client = Circuit(ClientLayer(one, backend=backend) for one in keys)
    relays = [RelayLayer(one, backend=backend) for one in keys]
    for number, (is_forward, hop) in enumerate(steps):
        clear = plain(number)
        payload = bytearray(clear)
        if is_forward:
            tag, wires = model.cross(model.forward, hop, bytes(clear))
            assert client.send(payload, hop) == tag
            for relay, wire in zip(relays, wires[::-1], strict=False):
                assert payload == wire
                recognized = relay.forward(payload)
            assert recognized == tag
        else:
            tag, wires = model.cross(model.backward, hop, bytes(clear))
            assert relays[hop].originate(payload) == tag
            for relay, wire in zip(relays[:hop][::-1], wires, strict=False):
                assert payload == wire
                relay.backward(payload)
            assert payload == wires[-1]
            assert client.receive(payload) == (hop, tag)
        assert without_digest(payload) == clear
