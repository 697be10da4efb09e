"""Counter Galois Onion against real relays, alone and mixed with tor1: what they accept, what makes them destroy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from cellcrypt.onion import RELAY_EARLY, RelayCell
from examples.fetch_through_tor import MakeHandshake, TorCircuit, build
from examples.tor_handshakes import HandshakeError, Ntor, NtorV3, Relay
from examples.tor_link import Link

from .checks import (
    DROP,
    Change,
    check_alive,
    check_corrupted_backward,
    check_destroyed,
    check_flipped_bit,
    check_interleaved,
    check_out_of_place,
    check_transfer,
    out_of_place,
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
    check_transfer(circuit, exchange, *SENDMES[schemes[-1]])


def test_a_server_that_does_not_read_halts_the_stream_until_it_does(
    circuit: TorCircuit, schemes: str, reluctant_exchange: int
) -> None:
    stream = check_transfer(circuit, reluctant_exchange, *SENDMES[schemes[-1]])
    told_by_cells = schemes[-1] == "c"  # XOFF and XON; tor1's hops have windows instead
    assert bool(stream.halts) == told_by_cells
    assert not stream.halted


def test_messages_to_and_from_all_three_hops_interleaved(circuit: TorCircuit, relays: list[Relay]) -> None:
    check_interleaved(circuit, relays)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 63, 127, 128, 135, 168, 8 * 300 + 3, 8 * 509 - 1])
def test_one_flipped_bit_destroys_the_circuit(circuit: TorCircuit, hop: int, bit: int) -> None:
    check_flipped_bit(circuit, hop, bit)


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
@out_of_place
def test_a_cell_out_of_its_place_destroys_the_circuit(
    circuit: TorCircuit, relays: list[Relay], change: Change, hop: int
) -> None:
    check_out_of_place(circuit, relays, change, hop)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 127, 128, 168, 8 * 509 - 1])
def test_a_corrupted_backward_cell_breaks_the_circuit(circuit: TorCircuit, hop: int, bit: int) -> None:
    check_corrupted_backward(circuit, hop, bit)


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
