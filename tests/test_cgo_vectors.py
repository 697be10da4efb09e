"""Known answers for Counter Galois Onion: its parts, the operations of relay and client, three hops. By everything here
that computes it: Python over each library, and C with every pair of kernels.

Sources stand in vectors/cgo.json.
"""

from __future__ import annotations

from typing import Any

import pytest

from cellcrypt.onion import Circuit, ClientLayer, HopKeys, RelayLayer
from cellcrypt.onion.cgo import _Et, _Prf
from cellcrypt.onion.polyval import Polyval

from .cgo_kit import FROM_TOR, MAKERS, VECTORS, Make, check_state, octets, unhex
from .onion_kit import usable


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


def each(part: str) -> pytest.MarkDecorator:
    vectors = FROM_TOR[part]
    assert vectors
    return pytest.mark.parametrize("vector", vectors, ids=[vector["note"] for vector in vectors])


# RFC 8452, appendix A.
POLYVAL_KEY = unhex("25629347589242761d31f826ba4b757b")
POLYVAL_MESSAGE = unhex("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362")
POLYVAL_HASH = unhex("f7a3b47b846119fae5b7866cf5e5b77e")


def test_polyval_of_rfc_8452() -> None:
    assert Polyval(POLYVAL_KEY).hash(POLYVAL_MESSAGE) == POLYVAL_HASH


@each("et")
def test_et(vector: dict[str, Any]) -> None:
    keys, tweak, block = unhex(vector["keys"]), unhex(vector["tweak"]), unhex(vector["block"])
    et = _Et(keys[:16], keys[16:], "cryptography", inverse=True)
    assert (et.encrypt if vector["encrypt"] else et.decrypt)(tweak, block).hex() == vector["expect"]


@each("et")
def test_et_inside_uiv(vector: dict[str, Any], make: Make) -> None:
    keys, tweak, block = unhex(vector["keys"]), unhex(vector["tweak"]), unhex(vector["block"])
    s = octets(32, "s")
    x_r = bytearray(tweak[17:])
    if not vector["encrypt"]:
        _Prf(s[:16], s[16:], "cryptography").xor_into(block, 0, x_r)
    payload = bytearray(block + x_r)
    make(keys + s + bytes(16), not vector["encrypt"], tweak[:16]).pass_on(payload, tweak[16])
    assert payload[:16].hex() == vector["expect"]


@each("prf")
def test_prf(vector: dict[str, Any]) -> None:
    keys, expected = unhex(vector["keys"]), vector["expect"]
    made = bytearray(len(expected) // 2)
    _Prf(keys[:16], keys[16:], "cryptography").xor_into(unhex(vector["input"]), vector["t"], made)
    assert made.hex() == expected


@each("prf")
def test_prf_inside_uiv(vector: dict[str, Any], make: Make) -> None:
    keys, start, expected = unhex(vector["keys"]), unhex(vector["input"]), unhex(vector["expect"])
    j = octets(32, "j")
    payload = bytearray(start + bytes(493))
    if vector["t"] == 0:
        make(j + keys + bytes(16), True).pass_on(payload)
        assert payload[16:] == expected
    else:  # a client's own cell begins with N before it decrypts it, so N is what the update starts from
        direction = make(j + keys + start, True)
        direction.originate(payload)
        check_state(direction, True, expected, start)


@each("uiv")
def test_uiv(vector: dict[str, Any], make: Make) -> None:
    tweak = unhex(vector["tweak"])
    payload = bytearray(unhex(vector["x_l"] + vector["x_r"]))
    make(unhex(vector["keys"]) + bytes(16), not vector["encrypt"], tweak[:16]).pass_on(payload, tweak[16])
    assert payload.hex() == vector["y_l"] + vector["y_r"]


@each("uiv_update")
def test_update(vector: dict[str, Any], make: Make) -> None:
    nonce = unhex(vector["nonce"])
    direction = make(unhex(vector["keys"]) + nonce, True)
    direction.originate(bytearray(509))
    check_state(direction, True, unhex(vector["new_keys"] + vector["new_nonce"]), nonce)


def state(vector: dict[str, str]) -> tuple[bytes, bytes]:
    return unhex(vector["keys"] + vector["nonce"]), unhex(vector["tprime"])


@each("relay")
def test_relay(vector: dict[str, Any], make: Make) -> None:
    material, tag = state(vector["state_in"])
    direction = make(material, False, tag)
    payload = bytearray(unhex(vector["tag"] + vector["msg"]))
    command = int(vector["command"], 16)
    if vector["inbound"]:
        direction.pass_on(payload, command)
    else:
        ours = vector["t_out"] == vector["state_in"]["nonce"]
        assert direction.receive(payload, command) == (unhex(vector["tag"]) if ours else None)
    assert payload.hex() == vector["t_out"] + vector["msg_out"]
    check_state(direction, False, *state(vector["state_out"]))


@each("relay_originate")
def test_relay_originate(vector: dict[str, Any], make: Make) -> None:
    material, tag = state(vector["state_in"])
    direction = make(material, False, tag)
    payload = bytearray(octets(16, "whatever") + unhex(vector["msg"]))
    assert direction.originate(payload, int(vector["command"], 16)).hex() == vector["t_out"]
    assert payload.hex() == vector["t_out"] + vector["msg_out"]
    check_state(direction, False, *state(vector["state_out"]))


@each("client_originate")
def test_client_originate(vector: dict[str, Any], make: Make) -> None:
    hops = [make(state(one)[0], True, state(one)[1]) for one in vector["state_in"]]
    payload = bytearray(octets(16, "whatever") + unhex(vector["msg"]))
    command = int(vector["command"], 16)
    target = vector["target_hop"] - 1
    tag = hops[target].originate(payload, command)
    assert tag == payload[:16]
    for hop in hops[:target][::-1]:
        hop.pass_on(payload, command)
    assert payload.hex() == vector["t_out"] + vector["msg_out"]
    for hop, after in zip(hops, vector["state_out"], strict=True):
        check_state(hop, True, *state(after))


@pytest.mark.parametrize("backend", ["native", "cryptography", "pycryptodome", "afalg"])
def test_three_hops_both_ways(backend: str) -> None:
    keys = [HopKeys.from_key_material(unhex(one), "cgo") for one in VECTORS["three_hops"]["keys"]]
    client = Circuit(ClientLayer(one, backend=usable(backend)) for one in keys)
    relays = [RelayLayer(one, backend=backend) for one in keys]
    cells = VECTORS["three_hops"]["cells"]
    for cell in cells:
        payload, hop, command, tag = bytearray(unhex(cell["plain"])), cell["hop"], cell["command"], unhex(cell["tag"])
        if cell["way"] == "forward":
            assert client.send(payload, hop, command) == tag
            assert payload.hex() == cell["wire"]
            for relay, passed_on in zip(relays[:hop], cell["after_relay"], strict=True):
                assert relay.forward(payload, command) is None
                assert payload.hex() == passed_on
            assert relays[hop].forward(payload, command) == tag
        else:
            assert relays[hop].originate(payload, command) == tag
            assert payload.hex() == cell["from_relay"]
            for relay in relays[:hop][::-1]:
                relay.backward(payload, command)
            assert payload.hex() == cell["wire"]
            assert client.receive(payload, command) == (hop, tag)
        assert payload[16:].hex() == cell["plain"][32:]
    assert {cell["hop"] for cell in cells if cell["way"] == "forward"} == {0, 1, 2}
