"""What both schemes of a circuit owe and what breaks them, written once: the tests of tor1 and of CGO ask the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from cellcrypt.onion import RelayCell, UnrecognizedCell
from examples.fetch_through_tor import Destroyed, Stream, TorCircuit
from examples.tor_handshakes import Relay

from ..onion_kit import material
from .conftest import TRANSFER_LEN

Change = Callable[[list[bytearray]], list[bytearray]]

DROP = 10
#: Why a circuit is destroyed: this relay saw a breach, or one farther on (tor-spec, "Tearing down circuits").
PROTOCOL, DESTROYED = 1, 11
HTTP_GET = b"GET /tor/server/authority HTTP/1.0\r\n\r\n"


def check_transfer(circuit: TorCircuit, exchange: int, every: int, capacity: int) -> Stream:
    """Five megabytes each way to the last hop, whose SENDMEs stand for `every` DATA cells of `capacity` bytes.

    Returns the stream, at its end.
    """
    up = material(TRANSFER_LEN, "up")
    stream = circuit.begin("127.0.0.1", exchange)
    stream.send(up)
    answer = stream.read_all()
    assert answer[:32] == hashlib.sha256(up).digest()
    assert hashlib.sha256(answer[32:]).digest() == hashlib.sha256(material(TRANSFER_LEN, "down")).digest()
    cells_up = -(-TRANSFER_LEN // capacity)
    assert circuit.sendmes_checked == cells_up // every  # each with the tag that we had noted
    assert circuit.sendmes_sent >= cells_up // every  # else the exit's window would have shut
    return stream


def check_interleaved(circuit: TorCircuit, relays: list[Relay]) -> None:
    """Streams to all three hops at once, with cells between that ask for nothing; the circuit stays whole."""
    streams = [circuit.begin_dir(hop) for hop in range(3)]
    for start in range(0, len(HTTP_GET), 7):
        for stream in streams:
            stream.send(HTTP_GET[start : start + 7])
        for hop in (1, 0, 2, 2, 0):
            circuit.send(RelayCell(DROP, data=material(400, start)), hop)
    assert [Relay.from_descriptor(stream.read_all().decode()) for stream in streams] == relays
    check_alive(circuit, relays, 0)


def check_alive(circuit: TorCircuit, relays: list[Relay], hop: int = -1) -> None:
    stream = circuit.begin_dir(hop)
    stream.send(HTTP_GET)
    assert Relay.from_descriptor(stream.read_all().decode()) == relays[hop]


def check_destroyed(circuit: TorCircuit) -> None:
    with pytest.raises(Destroyed) as caught:
        circuit.receive()
    assert caught.value.reason in (PROTOCOL, DESTROYED)


def check_flipped_bit(circuit: TorCircuit, hop: int, bit: int) -> None:
    """One bit of a payload to `hop` changes on the way; bit 0 is the highest of the first byte."""
    circuit.send(RelayCell(DROP), hop)
    wire = circuit.wire_cell(RelayCell(DROP, data=b"to be flipped"), hop)
    wire[5 + bit // 8] ^= 0x80 >> bit % 8
    circuit.link.send(wire)
    check_destroyed(circuit)


def replayed(wires: list[bytearray]) -> list[bytearray]:
    return [wires[0], wires[0]]


def swapped(wires: list[bytearray]) -> list[bytearray]:
    return wires[::-1]


def lost(wires: list[bytearray]) -> list[bytearray]:
    return wires[1:]


#: How two cells come out of their places.
out_of_place = pytest.mark.parametrize("change", [replayed, swapped, lost])


def check_out_of_place(circuit: TorCircuit, relays: list[Relay], change: Change, hop: int) -> None:
    check_alive(circuit, relays, hop)
    for wire in change([circuit.wire_cell(RelayCell(DROP), hop) for _ in range(2)]):
        circuit.link.send(wire)
    check_destroyed(circuit)


def backward_payloads(circuit: TorCircuit, count: int) -> list[bytearray]:
    """Return the payloads of the next cells as they come off the link."""
    return [circuit.link.read_cell()[2] for _ in range(count)]


def check_corrupted_backward(circuit: TorCircuit, hop: int, bit: int) -> None:
    """One bit of a cell from `hop` changes on the way: the circuit takes neither it nor another, and sends none."""
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
    with pytest.raises(UnrecognizedCell):
        circuit.layers.send(RelayCell(DROP).pack())
