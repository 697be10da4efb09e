"""tor1 against real relays: what they accept, what they answer, and what makes them destroy a circuit."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading

import pytest

from cellcrypt.onion import RelayCell
from examples.fetch_through_tor import DATA, END, TorCircuit, fetch_descriptor
from examples.tor_handshakes import Relay

from .checks import (
    DROP,
    HTTP_GET,
    Change,
    backward_payloads,
    check_alive,
    check_corrupted_backward,
    check_flipped_bit,
    check_interleaved,
    check_out_of_place,
    check_transfer,
    out_of_place,
)

pytestmark = pytest.mark.live


@pytest.mark.parametrize("number", range(3))
def test_one_hop_by_create_fast_gives_the_relays_own_descriptor(relays: list[Relay], number: int) -> None:
    text = fetch_descriptor(relays[number].host, relays[number].port)
    assert text.startswith("HTTP/1.0 200 OK\r\n")
    assert f"\nrouter relay{number} 127.0.0.1 {relays[number].port} 0 0\n" in text
    assert text.rstrip().endswith("-----END SIGNATURE-----")
    assert Relay.from_descriptor(text) == relays[number]


def test_five_megabytes_each_way_through_three_hops(circuit: TorCircuit, exchange: int) -> None:
    check_transfer(circuit, exchange, every=100, capacity=498)


def test_messages_to_and_from_all_three_hops_interleaved(circuit: TorCircuit, relays: list[Relay]) -> None:
    check_interleaved(circuit, relays)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 8, 23, 24, 40, 71, 80, 8 * 300 + 3, 8 * 509 - 1])
def test_one_flipped_bit_destroys_the_circuit(circuit: TorCircuit, hop: int, bit: int) -> None:
    check_flipped_bit(circuit, hop, bit)


@pytest.mark.parametrize("hop", range(3))
@out_of_place
def test_a_cell_out_of_its_place_destroys_the_circuit(
    circuit: TorCircuit, relays: list[Relay], change: Change, hop: int
) -> None:
    check_out_of_place(circuit, relays, change, hop)


def test_the_same_cells_in_their_places_leave_the_circuit_whole(circuit: TorCircuit, relays: list[Relay]) -> None:
    for hop in (0, 1, 2):
        for wire in [circuit.wire_cell(RelayCell(DROP, data=b"to be flipped"), hop) for _ in range(2)]:
            circuit.link.send(wire)
        check_alive(circuit, relays, hop)


@pytest.mark.parametrize("hop", range(3))
@pytest.mark.parametrize("bit", [0, 8, 40, 71, 80, 8 * 509 - 1])
def test_a_corrupted_backward_cell_breaks_the_circuit(circuit: TorCircuit, hop: int, bit: int) -> None:
    check_corrupted_backward(circuit, hop, bit)


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
