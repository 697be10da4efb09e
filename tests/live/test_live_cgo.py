"""Counter Galois Onion against real relays, alone and mixed with tor1: what they accept, what makes them destroy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from cellcrypt.onion import RELAY_EARLY, RelayCell, UnrecognizedCell
from examples.fetch_through_tor import MakeHandshake, TorCircuit, build
from examples.tor_handshakes import HandshakeError, Ntor, NtorV3, Relay
from examples.tor_link import Link

from ..onion_kit import material
from .conftest import TRANSFER_LEN
from .test_live_tor1 import (
    DROP,
    HTTP_GET,
    backward_payloads,
    check_alive,
    check_destroyed,
    lost,
    replayed,
    swapped,
)

pytestmark = pytest.mark.live

#: Circuits of three hops: c is CGO, t is tor1.
CIRCUITS = {"ccc": (NtorV3, NtorV3, NtorV3), "ctc": (NtorV3, Ntor, NtorV3), "tct": (Ntor, NtorV3, Ntor)}
#: How many DATA cells a SENDME stands for, where tor decides and we are told; and bytes in each.
SENDMES = {"c": (31, 488), "t": (100, 498)}


@pytest.fixture(params=CIRCUITS)
def schemes(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def circuit(relays: list[Relay], schemes: str) -> Iterator[TorCircuit]:
    """A circuit of three hops, on a link of its own."""
    with Link(relays[0].host, relays[0].port) as link:
        yield build(link, relays, CIRCUITS[schemes])


def test_five_megabytes_each_way_through_three_hops(circuit: TorCircuit, schemes: str, exchange: int) -> None:
    up = material(TRANSFER_LEN, "up")
    stream = circuit.begin("127.0.0.1", exchange)
    stream.send(up)
    answer = stream.read_all()
    assert answer[:32] == hashlib.sha256(up).digest()
    assert hashlib.sha256(answer[32:]).digest() == hashlib.sha256(material(TRANSFER_LEN, "down")).digest()
    every, capacity = SENDMES[schemes[-1]]
    cells_up = -(-TRANSFER_LEN // capacity)
    assert circuit.sendmes_checked == cells_up // every  # each with the tag that we had noted
    assert circuit.sendmes_sent >= cells_up // every  # else the exit's window would have shut


def test_messages_to_and_from_all_three_hops_interleaved(circuit: TorCircuit, relays: list[Relay]) -> None:
    streams = [circuit.begin_dir(hop) for hop in range(3)]
    for start in range(0, len(HTTP_GET), 7):
        for stream in streams:
            stream.send(HTTP_GET[start : start + 7])
        for hop in (1, 0, 2, 2, 0):
            circuit.send(RelayCell(DROP, data=material(400, start)), hop)
    assert [Relay.from_descriptor(stream.read_all().decode()) for stream in streams] == relays
    check_alive(circuit, relays, 0)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 63, 127, 128, 135, 168, 8 * 300 + 3, 8 * 509 - 1])
def test_one_flipped_bit_destroys_the_circuit(circuit: TorCircuit, hop: int, bit: int) -> None:
    circuit.send(RelayCell(DROP), hop)
    wire = circuit.wire_cell(RelayCell(DROP, data=b"to be flipped"), hop)
    wire[5 + bit // 8] ^= 0x80 >> bit % 8
    circuit.link.send(wire)
    check_destroyed(circuit)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("schemes", ["ccc", "ctc"], indirect=True)
def test_a_relay_cell_sent_as_relay_early_destroys_the_circuit(circuit: TorCircuit, hop: int) -> None:
    circuit.send(RelayCell(DROP), hop)
    circuit.send(RelayCell(DROP), hop, RELAY_EARLY)  # it may be one, if it was encrypted as one
    wire = circuit.wire_cell(RelayCell(DROP), hop)
    wire[4] = RELAY_EARLY
    circuit.link.send(wire)
    check_destroyed(circuit)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("change", [replayed, swapped, lost])
def test_a_cell_out_of_its_place_destroys_the_circuit(
    circuit: TorCircuit, relays: list[Relay], change: Callable[[list[bytearray]], list[bytearray]], hop: int
) -> None:
    check_alive(circuit, relays, hop)
    for wire in change([circuit.wire_cell(RelayCell(DROP), hop) for _ in range(2)]):
        circuit.link.send(wire)
    check_destroyed(circuit)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 127, 128, 168, 8 * 509 - 1])
def test_a_corrupted_backward_cell_breaks_the_circuit(circuit: TorCircuit, hop: int, bit: int) -> None:
    stream = circuit.begin_dir(hop)
    stream.send(HTTP_GET)
    first, *rest = backward_payloads(circuit, 3)
    first[bit // 8] ^= 0x80 >> bit % 8
    with pytest.raises(UnrecognizedCell):
        circuit.layers.receive(first)
    for payload in rest:
        before = bytes(payload)
        with pytest.raises(UnrecognizedCell):
            circuit.layers.receive(payload)
        assert payload == before


def test_a_relay_that_is_another_proves_nothing(relays: list[Relay]) -> None:
    class Meddler(NtorV3):
        def finish(self, reply: bytes):  # type: ignore[no-untyped-def]
            return super().finish(reply[:32] + bytes([reply[32] ^ 1]) + reply[33:])

    with Link(relays[0].host, relays[0].port) as link, pytest.raises(HandshakeError):
        build(link, relays[:1], [Meddler])


@pytest.mark.parametrize("handshakes", [(NtorV3,), (NtorV3, NtorV3)])
def test_shorter_circuits(relays: list[Relay], handshakes: Sequence[MakeHandshake]) -> None:
    with Link(relays[0].host, relays[0].port) as link:
        check_alive_through(build(link, relays[: len(handshakes)], handshakes), relays)


def check_alive_through(circuit: TorCircuit, relays: list[Relay]) -> None:
    for hop in range(len(circuit.layers)):
        check_alive(circuit, relays, hop)
