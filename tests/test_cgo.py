"""Counter Galois Onion: all that computes it agrees with the definition in Python; what the scheme promises."""

from __future__ import annotations

import random
import struct

import pytest

from cellcrypt.compiled import core
from cellcrypt.onion import (
    CGO,
    RELAY,
    RELAY_EARLY,
    Circuit,
    ClientLayer,
    HopKeys,
    RelayCell,
    RelayLayer,
    UnrecognizedCell,
)
from cellcrypt.onion.polyval import Polyval

from .cgo_kit import MAKERS, Calls, Make, cell, definition, hop_keys, octets
from .onion_kit import usable

AES_256 = 112


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


@pytest.fixture(params=["native", "cryptography"])
def backend(request: pytest.FixtureRequest) -> str:
    return usable(request.param)


# -- agreement ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [80, AES_256])
@pytest.mark.parametrize("client", [False, True])
def test_any_order_of_operations(make: Make, client: bool, length: int) -> None:
    one, other = (maker(octets(length, "any order"), client) for maker in (make, definition))
    choice = random.Random(0)
    for number in range(40):
        name, command = choice.choice(("originate", "receive", "pass_on")), choice.choice((RELAY, RELAY_EARLY, 0, 255))
        ours, expected = cell(number), cell(number)
        assert getattr(one, name)(ours, command) == getattr(other, name)(expected, command)
        assert ours == expected


@pytest.mark.parametrize("length", [80, AES_256])
@pytest.mark.parametrize("client", [False, True])
def test_what_one_role_sends_the_other_receives(make: Make, client: bool, length: int) -> None:
    """Own cells and others', forward (the client originates) and backward."""
    sender, receiver = make(octets(length, "both"), client), make(octets(length, "both"), not client)
    for number in range(20):
        payload = cell(number)
        if number % 3 == 2:
            sender.pass_on(payload)
            assert receiver.receive(payload) is None
            assert payload == cell(number)
        else:
            tag = sender.originate(payload)
            assert tag == payload[:16]
            assert receiver.receive(payload) == tag
            assert payload[16:] == cell(number)[16:]


@pytest.mark.parametrize("kernel", core.polyval_kernels() if core else ())
def test_polyval_in_c(kernel: str) -> None:
    for length in (0, 1, 15, 16, 17, 31, 32, 33, 509, 510, 512, 1000):
        for key in (octets(16, length), bytes(16), b"\xff" * 16, b"\x01" + bytes(15), bytes(15) + b"\x80"):
            message = octets(length, "message")
            assert core.polyval(key, message, kernel) == Polyval(key).hash(message)


# -- what the scheme promises ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [False, True], ids=["backward", "forward"])
def test_each_bit_of_the_nonce_counts(make: Make, client: bool) -> None:
    """128 cells that differ from the right one in one bit of the nonce."""
    material = octets(80, "nonces")
    assert make(material, not client).receive(sent(make(material, client))) is not None
    for bit in range(128):
        wrong = bytearray(material)
        wrong[64 + bit // 8] ^= 1 << bit % 8
        assert make(bytes(wrong), not client).receive(sent(make(material, client))) is None


def sent(sender: Calls) -> bytearray:
    payload = cell("sent")
    sender.originate(payload)
    return payload


BITS = [*range(0, 128, 9), 127, 128, 135, 136, 8 * 300, 8 * 508, 8 * 509 - 1]


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", BITS)
def test_a_flipped_bit_on_any_link_leaves_nothing_to_be_recognized(backend: str, hop: int, bit: int) -> None:
    """Forward: whichever relay gets the changed cell, the hop that it was for reads noise, and never again a cell."""
    for link in range(hop + 1):
        client, relays = three_hops(backend)
        for number in range(3):
            payload = cell(number)
            client.send(payload, hop)
            for at, relay in enumerate(relays[: hop + 1]):
                if at == link and number == 0:
                    payload[bit // 8] ^= 1 << bit % 8
                assert relay.forward(payload) is None
            same = sum(a == b for a, b in zip(payload, cell(number), strict=True))
            assert same < 30, "more octets in place than chance has it"


def three_hops(backend: str, schemes: str = "ccc") -> tuple[Circuit, list[RelayLayer]]:
    """Return client and relays; c stands for a CGO hop, C for one with AES-256, t for tor1."""
    lengths = {"c": (160, "cgo"), "C": (224, "cgo"), "t": (72, "tor1")}
    cut = []
    for hop, scheme in enumerate(schemes):
        length, layout = lengths[scheme]
        cut.append(HopKeys.from_key_material(octets(length, ("hop", hop)), layout))
    client = Circuit(ClientLayer(one, backend=backend) for one in cut)
    return client, [RelayLayer(one, backend=backend) for one in cut]


def cell_from(relays: list[RelayLayer], hop: int) -> bytearray:
    payload = cell(hop)
    relays[hop].originate(payload)
    for relay in relays[:hop][::-1]:
        relay.backward(payload)
    return payload


@pytest.mark.parametrize("bit", BITS)
def test_a_flipped_bit_backward_breaks_the_circuit(backend: str, bit: int) -> None:
    """No layer that the changed cell came to in another shape accepts anything after it; the circuit nothing at all."""
    client, relays = three_hops(backend)
    payload = cell_from(relays, 2)
    payload[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UnrecognizedCell):
        client.receive(payload)
    for hop in range(3):
        payload = cell_from(relays, hop)
        before = bytes(payload)
        with pytest.raises(UnrecognizedCell):
            client.receive(payload)
        assert payload == before
        accepted = [layer.backward(payload) is not None for layer in client.layers]
        assert accepted == [hop == 0 and bit >= 128, False, False]  # Y_L came to the nearest layer whole


@pytest.mark.parametrize("commands", [(RELAY, RELAY_EARLY), (RELAY_EARLY, RELAY)])
@pytest.mark.parametrize("link", range(3))
def test_the_command_on_every_link_is_part_of_the_cell(backend: str, commands: tuple[int, int], link: int) -> None:
    client, relays = three_hops(backend)
    payload = cell(0)
    client.send(payload, command=commands[0])
    for at, relay in enumerate(relays):
        assert relay.forward(payload, commands[at == link]) is None
    payload = cell(1)
    client.send(payload)
    assert [relay.forward(payload) for relay in relays] == [None] * 3


def test_relay_is_the_default_and_commands_can_be_named() -> None:
    one, other = RelayLayer(hop_keys(0)), RelayLayer(hop_keys(0))
    for name in ("forward", "originate", "backward"):
        first, second = cell(name), cell(name)
        assert getattr(one, name)(first) == getattr(other, name)(payload=second, command=RELAY)
        assert first == second


@pytest.mark.parametrize("schemes", ["ccc", "ctc", "tct", "cCt", "CtC", "ttc", "ctt"])
@pytest.mark.parametrize("backend", ["native", "cryptography", "pycryptodome"])
def test_mixed_circuits_with_cells_to_and_from_all_hops_interleaved(backend: str, schemes: str) -> None:
    client, relays = three_hops(usable(backend), schemes)
    choice = random.Random(1)
    for number in range(60):
        hop, command = choice.randrange(3), choice.choice((RELAY, RELAY_EARLY))
        payload = bytearray(16) + cell(number)[16:]  # so that tor1's fields are zero
        before = bytes(payload)
        if choice.random() < 0.5:
            tag: bytes | None = client.send(payload, hop, command)
            assert [relay.forward(payload, command) for relay in relays[: hop + 1]] == [None] * hop + [tag]
        else:
            tag = relays[hop].originate(payload, command)
            for relay in relays[:hop][::-1]:
                relay.backward(payload, command)
            assert client.receive(payload, command) == (hop, tag)
        assert len(tag or b"") == (20 if schemes[hop] == "t" else 16)
        assert payload[16:] == before[16:]


@pytest.mark.parametrize("schemes", ["ccc", "ctc", "tct"])
def test_all_backends_give_the_same_cells(schemes: str) -> None:
    wires = {}
    for backend in ("native", "cryptography", "pycryptodome"):
        client, _ = three_hops(usable(backend), schemes)
        cells = [cell(number) for number in range(9)]
        wires[backend] = [(client.send(one, number % 3), bytes(one)) for number, one in enumerate(cells)]
    assert wires["native"] == wires["cryptography"] == wires["pycryptodome"]


def test_keys_swapped_are_the_other_direction() -> None:
    """As an onion service has them: a client the other way."""
    service, client = ClientLayer(hop_keys(0).reversed()), RelayLayer(hop_keys(0))
    payload = cell(0)
    client.backward(payload)
    service.forward(payload)
    assert payload == cell(0)


@pytest.mark.parametrize("aes", [16, 32])
def test_material_is_cut_as_the_proposal_says(aes: int) -> None:
    material = octets(4 * aes + 96, "cut")
    parts = HopKeys.from_key_material(material, "cgo")
    assert b"".join(parts.forward + parts.backward) == material
    assert [len(key) for key in parts.forward] == [len(key) for key in parts.backward] == [aes, 16, aes, 16, 16]


def test_material_of_other_lengths_is_refused() -> None:
    for length in (0, 72, 92, 128, 159, 161, 192, 223, 225):
        with pytest.raises(ValueError, match=f"material must be 160 or 224 bytes for layout 'cgo', got {length}"):
            HopKeys.from_key_material(bytes(length), "cgo")


# -- the relay cell ----------------------------------------------------------------------------------------------------


def test_the_layout_that_goes_with_it() -> None:
    payload = RelayCell(2, 0x1234, b"data").pack(CGO)
    assert payload[:29] == bytes(16) + struct.pack("!BHH", 2, 4, 0x1234) + b"data" + bytes(4)
    payload[:16] = octets(16, "what a layer left")
    assert RelayCell.parse(payload, CGO) == RelayCell(2, 0x1234, b"data")
    assert RelayCell(5, data=b"xyz").pack(CGO)[16:22] == struct.pack("!BH3s", 5, 3, b"xyz")
    assert (CGO.capacity(2), CGO.capacity(5)) == (488, 490)
    assert len(RelayCell(2, 1, bytes(488)).pack(CGO)) == len(RelayCell(14, data=bytes(490)).pack(CGO)) == 509
