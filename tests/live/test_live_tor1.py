"""tor1 against real relays: what they accept, what they answer, and what makes them destroy a circuit."""

from __future__ import annotations

import hashlib
import http.server
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from cellcrypt.onion import RelayCell, UnrecognizedCell
from examples.fetch_through_tor import DATA, END, Destroyed, Stream, TorCircuit, build, fetch_descriptor
from examples.tor_handshakes import Relay
from examples.tor_link import Link

from ..onion_kit import material
from .conftest import TRANSFER_LEN

pytestmark = pytest.mark.live

DROP = 10
#: Why a circuit is destroyed: this relay saw a breach, or one farther on (tor-spec, "Tearing down circuits").
PROTOCOL, DESTROYED = 1, 11
HTTP_GET = b"GET /tor/server/authority HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize("number", range(3))
def test_one_hop_by_create_fast_gives_the_relays_own_descriptor(relays: list[Relay], number: int) -> None:
    text = fetch_descriptor(relays[number].host, relays[number].port)
    assert text.startswith("HTTP/1.0 200 OK\r\n")
    assert f"\nrouter relay{number} 127.0.0.1 {relays[number].port} 0 0\n" in text
    assert text.rstrip().endswith("-----END SIGNATURE-----")
    assert Relay.from_descriptor(text) == relays[number]


def test_five_megabytes_each_way_through_three_hops(circuit: TorCircuit, exchange: int) -> None:
    up = material(TRANSFER_LEN, "up")
    stream = circuit.begin("127.0.0.1", exchange)
    stream.send(up)
    answer = stream.read_all()
    assert answer[:32] == hashlib.sha256(up).digest()
    assert hashlib.sha256(answer[32:]).digest() == hashlib.sha256(material(TRANSFER_LEN, "down")).digest()
    cells_up = -(-TRANSFER_LEN // 498)
    assert circuit.sendmes_checked == cells_up // 100  # each with the tag that we had noted
    assert circuit.sendmes_sent >= cells_up // 100  # else the window of 1,000 cells would have shut


def test_messages_to_and_from_all_three_hops_interleaved(circuit: TorCircuit, relays: list[Relay]) -> None:
    streams = [circuit.begin_dir(hop) for hop in range(3)]
    for start in range(0, len(HTTP_GET), 7):
        for stream in streams:
            stream.send(HTTP_GET[start : start + 7])
        for hop in (1, 0, 2, 2, 0):
            circuit.send(RelayCell(DROP, data=material(400, start)), hop)
    answers: list[str] = [stream.read_all().decode() for stream in streams]
    assert [Relay.from_descriptor(text) for text in answers] == relays
    again: Stream = circuit.begin_dir(0)  # and the circuit is whole
    again.send(HTTP_GET)
    assert Relay.from_descriptor(again.read_all().decode()) == relays[0]


def check_alive(circuit: TorCircuit, relays: list[Relay], hop: int = -1) -> None:
    stream = circuit.begin_dir(hop)
    stream.send(HTTP_GET)
    assert Relay.from_descriptor(stream.read_all().decode()) == relays[hop]


def check_destroyed(circuit: TorCircuit) -> None:
    with pytest.raises(Destroyed) as caught:
        circuit.receive()
    assert caught.value.reason in (PROTOCOL, DESTROYED)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 8, 23, 24, 40, 71, 80, 8 * 300 + 3, 8 * 509 - 1])
def test_one_flipped_bit_destroys_the_circuit(relays: list[Relay], hop: int, bit: int) -> None:
    with Link(relays[0].host, relays[0].port) as link:
        circuit = build(link, relays)
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


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("change", [replayed, swapped, lost])
def test_a_cell_out_of_its_place_destroys_the_circuit(
    relays: list[Relay], change: Callable[[list[bytearray]], list[bytearray]], hop: int
) -> None:
    with Link(relays[0].host, relays[0].port) as link:
        circuit = build(link, relays)
        check_alive(circuit, relays, hop)
        for wire in change([circuit.wire_cell(RelayCell(DROP), hop) for _ in range(2)]):
            circuit.link.send(wire)
        check_destroyed(circuit)


def test_the_same_cells_in_their_places_leave_the_circuit_whole(circuit: TorCircuit, relays: list[Relay]) -> None:
    for hop in (0, 1, 2):
        for wire in [circuit.wire_cell(RelayCell(DROP, data=b"to be flipped"), hop) for _ in range(2)]:
            circuit.link.send(wire)
        check_alive(circuit, relays, hop)


def backward_payloads(circuit: TorCircuit, count: int) -> list[bytearray]:
    """Return the payloads of the next cells as they come off the link."""
    return [circuit.link.read_cell()[2] for _ in range(count)]


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 8, 40, 71, 80, 8 * 509 - 1])
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
    with pytest.raises(UnrecognizedCell):
        circuit.layers.send(RelayCell(DROP).pack())


@pytest.mark.parametrize("hop", range(3))
def test_layers_themselves_accept_nothing_after_a_corrupted_cell(circuit: TorCircuit, hop: int) -> None:
    layers = circuit.layers.layers
    stream = circuit.begin_dir(hop)
    stream.send(HTTP_GET)
    first, *rest = backward_payloads(circuit, 3)
    first[100] ^= 1
    for payload in (first, *rest):
        assert [layer.backward(payload) for layer in layers] == [None, None, None]


def test_the_same_backward_cells_unharmed_are_recognized(circuit: TorCircuit) -> None:
    for hop in range(3):
        stream = circuit.begin_dir(hop)
        stream.send(HTTP_GET)
        commands = []
        while END not in commands:
            (payload,) = backward_payloads(circuit, 1)
            assert circuit.layers.receive(payload)[0] == hop
            commands.append(RelayCell.parse(payload).command)
        assert commands.count(DATA) >= 3


def test_the_example_runs_as_its_docstring_says(relays: list[Relay]) -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"through three hops")

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        addresses = [f"{relay.host}:{relay.port}" for relay in relays]
        command = [sys.executable, "-m", "examples.fetch_through_tor", url, *addresses]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        server.shutdown()
        thread.join()
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"\r\n\r\nthrough three hops")
