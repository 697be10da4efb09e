"""Known answers for key derivation and tor1, at the client and at each relay; sources stand in vectors/tor1.json."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from cellcrypt.onion import (
    Circuit,
    ClientLayer,
    HopKeys,
    RelayLayer,
    hs_ntor_expand,
    kdf_tor,
    ntor_expand,
)

from .onion_kit import VECTORS, unhex, usable, without_digest

DERIVATION = VECTORS["key_derivation"]


@pytest.fixture(params=["native", "cryptography", "pycryptodome", "afalg"])
def backend(request: pytest.FixtureRequest) -> str:
    return usable(request.param)


@pytest.mark.parametrize("vector", DERIVATION["kdf_tor_from_tor_tests"]["vectors"])
def test_kdf_tor_gives_what_tors_own_tests_say(vector: dict[str, str]) -> None:
    expected = unhex(vector["out"])
    for length in (0, 1, 19, 20, 21, len(expected)):
        assert kdf_tor(unhex(vector["input"]), length) == expected[:length]


@pytest.mark.parametrize("vector", DERIVATION["ntor_hkdf_from_tor_tests"]["vectors"])
def test_ntor_expand_gives_what_tors_own_tests_say(vector: dict[str, str]) -> None:
    expected = unhex(vector["out"])
    for length in (0, 1, 31, 32, 33, len(expected)):
        assert ntor_expand(unhex(vector["input"]), length) == expected[:length]


def check_keys(keys: HopKeys, vector: dict[str, str], kh: str | None) -> None:
    assert keys.forward == (unhex(vector["Df"]), unhex(vector["Kf"]))
    assert keys.backward == (unhex(vector["Db"]), unhex(vector["Kb"]))
    assert keys.kh == (unhex(vector[kh]) if kh else b"")
    assert (keys.reversed().forward, keys.reversed().backward) == (keys.backward, keys.forward)
    assert keys.reversed().reversed() == keys != keys.reversed()


@pytest.mark.parametrize("vector", DERIVATION["create_fast"]["vectors"])
def test_create_fast_keys(vector: dict[str, str]) -> None:
    material = kdf_tor(unhex(vector["x"]) + unhex(vector["y"]), 92)
    check_keys(HopKeys.from_key_material(material, "kdf-tor"), vector, "KH")


@pytest.mark.parametrize("vector", DERIVATION["ntor"]["vectors"])
def test_ntor_keys(vector: dict[str, str]) -> None:
    material = ntor_expand(unhex(vector["secret_input"]), 92)
    check_keys(HopKeys.from_key_material(material, "ntor"), vector, "rend_nonce")
    check_keys(HopKeys.from_key_material(material[:72], "tor1"), vector, None)


@pytest.mark.parametrize("vector", DERIVATION["hs_ntor"]["vectors"])
def test_hs_ntor_keys(vector: dict[str, str]) -> None:
    material = hs_ntor_expand(unhex(vector["ntor_key_seed"]), 128)
    check_keys(HopKeys.from_key_material(material, "hs-v3"), vector, None)


def forward_cell(client: Circuit, relays: list[RelayLayer], cell: dict[str, Any]) -> None:
    payload, hop, command = bytearray(unhex(cell["plain"])), cell["hop"], cell["command"]
    assert client.send(payload, hop, command).hex() == cell["tag"]
    assert payload.hex() == cell["wire"]
    for relay, passed_on in zip(relays[:hop], cell["after_relay"], strict=True):
        assert relay.forward(payload, command) is None
        assert payload.hex() == passed_on
    tag = relays[hop].forward(payload, command)
    assert tag is not None
    assert tag.hex() == cell["tag"]
    assert without_digest(payload).hex() == cell["plain"]


def backward_cell(client: Circuit, relays: list[RelayLayer], cell: dict[str, Any]) -> None:
    payload, hop, command = bytearray(unhex(cell["plain"])), cell["hop"], cell["command"]
    assert relays[hop].originate(payload, command).hex() == cell["tag"]
    assert payload.hex() == cell["from_relay"]
    for relay in relays[:hop][::-1]:
        relay.backward(payload, command)
    assert payload.hex() == cell["wire"]
    assert client.receive(payload, command) == (hop, unhex(cell["tag"]))
    assert without_digest(payload).hex() == cell["plain"]


def test_three_hops_both_ways(backend: str) -> None:
    keys = [HopKeys.from_key_material(unhex(one), "tor1") for one in VECTORS["three_hops"]["keys"]]
    client = Circuit(ClientLayer(one, backend=backend) for one in keys)
    relays = [RelayLayer(one, backend=backend) for one in keys]
    cells = VECTORS["three_hops"]["cells"]
    for cell in cells:
        (forward_cell if cell["way"] == "forward" else backward_cell)(client, relays, cell)
    assert {cell["hop"] for cell in cells} == {0, 1, 2}


def test_three_hops_of_arti(backend: str) -> None:
    part = VECTORS["three_hops_arti"]
    keys = [HopKeys.from_key_material(one.encode(), "tor1") for one in part["keys_ascii"]]
    client = Circuit(ClientLayer(one, backend=backend) for one in keys)
    relays = [RelayLayer(one, backend=backend) for one in keys]
    wires = {cell["n"]: cell["wire"] for cell in part["cells"]}
    data = hashlib.shake_256(part["seed_ascii"].encode()).digest(51 * 498)
    for number in range(51):
        payload = bytearray(unhex("02000000010000000001f2") + data[number * 498 :][:498])
        tag = client.send(payload, part["target_hop"])
        assert payload.hex() == wires.get(number, payload.hex())
        assert [relay.forward(payload) for relay in relays] == [None, None, tag]
    assert max(wires) == 50


@pytest.mark.parametrize("service_is", ["a client the other way", "a relay"])
def test_onion_service(backend: str, service_is: str) -> None:
    part = VECTORS["onion_service"]
    keys = HopKeys.from_key_material(hs_ntor_expand(unhex(part["ntor_key_seed"]), 128), "hs-v3")
    assert keys == HopKeys.from_key_material(unhex(part["key_material"]), "hs-v3")
    client = ClientLayer(keys, backend=backend)
    if service_is == "a relay":
        relay = RelayLayer(keys, backend=backend)
        originate, receive = relay.originate, relay.forward
    else:
        service = ClientLayer(keys.reversed(), backend=backend)
        originate, receive = service.originate, service.backward
    ways = {
        "client-to-service": (client.originate, receive),
        "service-to-client": (originate, client.backward),
    }
    for cell in part["cells"]:
        send, take = ways[cell["way"]]
        payload = bytearray(unhex(cell["plain"]))
        assert send(payload).hex() == cell["tag"]
        assert payload.hex() == cell["wire"]
        assert take(payload) == unhex(cell["tag"])
        assert without_digest(payload).hex() == cell["plain"]
