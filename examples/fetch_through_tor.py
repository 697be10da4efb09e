"""Fetch a page through real Tor relays: a client small enough to be read in one sitting.

Start relays on this machine, and a page to fetch; then fetch it:

    python -m examples.loopback_relays 3                # prints the addresses of three relays
    python -m http.server 8000 --bind 127.0.0.1
    python -m examples.fetch_through_tor http://127.0.0.1:8000/ 127.0.0.1:PORT 127.0.0.1:PORT 127.0.0.1:PORT

It is for relays of one's own. It has no directory: it asks each relay for its descriptor, and believes it. It does not
look at the relay's certificates either, so the first hop is whoever answers; ntor then proves the onion key.

With --cgo before the addresses, the relays are asked for Counter Galois Onion in place of tor1.

What lives here: TorCircuit (the hops and their windows), Stream. The link is in tor_link.py, the handshakes are in
tor_handshakes.py; all encryption of relay cells is cellcrypt.onion's.

Theory: tor-spec, "Channels", "Circuit management", "Relay cells", "Flow control".
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import secrets
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from cellcrypt import TOR_V4
from cellcrypt.onion import (
    RELAY,
    RELAY_EARLY,
    Circuit,
    ClientLayer,
    RelayCell,
    RelayLayout,
)

if not __package__:  # run as a file: its folder is on the path, and must be the package's
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.arguments import address, url
from examples.tor_handshakes import CreateFast, Handshake, HandshakeError, Ntor, NtorV3, Relay
from examples.tor_link import CELL_HEADER, Link, TorError

# Commands of wire cells that open and end circuits (tor-spec, "Cell Packet format").
DESTROY, CREATE_FAST, CREATED_FAST, CREATE2, CREATED2 = 4, 5, 6, 10, 11
# Commands of relay cells (tor-spec, "Relay cells").
BEGIN, DATA, END, CONNECTED, SENDME, BEGIN_DIR, EXTEND2, EXTENDED2 = 1, 2, 3, 4, 5, 13, 14, 15
XOFF, XON = 43, 44

#: How often a circuit is asked for.
TRIES = 3
#: DATA cells that may be under way on a circuit and on a stream, and how many the SENDME of a stream stands for.
CIRCUIT_WINDOW, STREAM_WINDOW, STREAM_SENDME = 1000, 500, 50

MakeHandshake = Callable[[Relay], Handshake]
Answer = TypeVar("Answer")


class Destroyed(TorError):
    """A relay destroyed the circuit; `reason` as in tor-spec, "Tearing down circuits"."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"the circuit was destroyed, reason {reason}")
        self.reason = reason


@dataclass
class _Hop:
    """What the client remembers of a hop for flow control; it counts DATA cells only."""

    layout: RelayLayout
    sendme_every: int
    stream_windows: bool
    window: int = CIRCUIT_WINDOW
    sent: int = 0
    received: int = 0
    #: Tags that the hop's SENDMEs must carry, oldest first.
    expected: deque[bytes] = field(default_factory=deque)


class TorCircuit:
    """A circuit over `link`: grows hop by hop, carries streams, keeps the windows.

    `sendmes_checked` and `sendmes_sent` count the authenticated SENDMEs of all hops.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.id = 0x8000_0000 | secrets.randbits(31)  # the highest bit says: made by who opened the link
        self.layers = Circuit()
        self.sendmes_checked = self.sendmes_sent = 0
        self._hops: list[_Hop] = []
        self._streams: dict[int, Stream] = {}

    # -- hops ----------------------------------------------------------------------------------------------------------

    def create(self, handshake: Handshake) -> None:
        """Make the first hop, with the relay at the other end of the link."""
        request = handshake.request()
        if handshake.htype is None:
            self.link.send(Link.cell(self.id, CREATE_FAST, request))
            reply = bytes(self._answer(CREATED_FAST))
        else:
            header = struct.pack("!HH", handshake.htype, len(request))
            self.link.send(Link.cell(self.id, CREATE2, header + request))
            reply = _counted(self._answer(CREATED2))
        self._joined(handshake, reply)

    def extend(self, relay: Relay, handshake: Handshake) -> None:
        """Make the circuit one hop longer."""
        if handshake.htype is None:
            raise TorError("CREATE_FAST is for the first hop only")
        request = handshake.request()
        address = socket.inet_aton(relay.host) + relay.port.to_bytes(2, "big")
        specifiers = ((0, address), (2, relay.identity), (3, relay.ed25519))
        body = bytes([len(specifiers)])
        body += b"".join(bytes([kind, len(value)]) + value for kind, value in specifiers)
        body += struct.pack("!HH", handshake.htype, len(request)) + request
        self.send(RelayCell(EXTEND2, data=body), command=RELAY_EARLY)
        hop, cell = self.receive()
        if cell.command != EXTENDED2 or hop != len(self.layers) - 1:
            raise TorError(f"hop {hop} answered EXTEND2 with relay command {cell.command}")
        self._joined(handshake, _counted(cell.data))

    def _joined(self, handshake: Handshake, reply: bytes) -> None:
        self.layers.append(ClientLayer(handshake.finish(reply)))
        self._hops.append(_Hop(handshake.cell_layout, handshake.sendme_every, handshake.stream_windows))

    def _answer(self, wanted: int) -> bytearray:
        command, payload = self._next_cell()
        if command != wanted:
            raise TorError(f"the relay answered with command {command}, not {wanted}")
        return payload

    def _next_cell(self) -> tuple[int, bytearray]:
        while True:
            circuit_id, command, payload = self.link.read_cell()
            if circuit_id == self.id:
                break
        if command == DESTROY:
            raise Destroyed(payload[0])
        return command, payload

    # -- relay cells ---------------------------------------------------------------------------------------------------

    def wire_cell(self, cell: RelayCell, hop: int = -1, command: int = RELAY) -> bytearray:
        """Return `cell`, encrypted for `hop`, as a wire cell: the payload is encrypted where it lies."""
        wire = bytearray(TOR_V4.cell_len)
        CELL_HEADER.pack_into(wire, 0, self.id, command)
        payload = memoryview(wire)[TOR_V4.header_len :]
        at = self._hops[hop]
        cell.pack_into(payload, at.layout)
        tag = self.layers.send(payload, hop, command)
        if cell.command == DATA:
            at.window -= 1
            at.sent += 1
            if at.sent % at.sendme_every == 0:
                at.expected.append(tag)
        return wire

    def send(self, cell: RelayCell, hop: int = -1, command: int = RELAY) -> None:
        """Encrypt `cell` for `hop` and send it."""
        self.link.send(self.wire_cell(cell, hop, command))

    def receive(self) -> tuple[int, RelayCell]:
        """Return the next relay cell that is no circuit's SENDME, and the hop that sent it."""
        while (came := self._receive_one()) is None:
            pass
        return came

    def _receive_one(self) -> tuple[int, RelayCell] | None:
        """Settle the windows for one relay cell and return it; None for a circuit's SENDME."""
        command, payload = self._next_cell()
        if command not in (RELAY, RELAY_EARLY):
            raise TorError(f"command {command} came on an open circuit")
        number, tag = self.layers.receive(payload, command)
        hop = self._hops[number]
        cell = RelayCell.parse(payload, hop.layout)
        if cell.command == SENDME and not cell.stream_id:
            self._check_sendme(hop, cell.data)
            return None
        if cell.command == DATA:
            hop.received += 1
            if hop.received % hop.sendme_every == 0:
                self.send(RelayCell(SENDME, data=struct.pack("!BH", 1, len(tag)) + tag), number)
                self.sendmes_sent += 1
        return number, cell

    def _check_sendme(self, hop: _Hop, data: bytes) -> None:
        """Its tag proves that the hop saw the cell that it acknowledges (tor-spec, "SENDME cell format")."""
        version, length = struct.unpack_from("!BH", data)
        if not hop.expected or version != 1:
            raise TorError(f"a SENDME of version {version} came, {len(hop.expected)} are due")
        if not hmac.compare_digest(hop.expected.popleft(), data[3 : 3 + length]):
            raise TorError("a SENDME came with a wrong tag")
        hop.window += hop.sendme_every
        self.sendmes_checked += 1

    # -- streams -------------------------------------------------------------------------------------------------------

    def begin(self, host: str, port: int, hop: int = -1) -> Stream:
        """Open a TCP connection from `hop` to a server."""
        return self._open(RelayCell(BEGIN, self._new_id(), f"{host}:{port}\0".encode() + bytes(4)), hop)

    def begin_dir(self, hop: int = -1) -> Stream:
        """Open a stream to the directory that `hop` itself keeps."""
        return self._open(RelayCell(BEGIN_DIR, self._new_id()), hop)

    def _new_id(self) -> int:
        return len(self._streams) + 1

    def _open(self, cell: RelayCell, hop: int) -> Stream:
        stream = Stream(self, cell.stream_id, range(len(self._hops))[hop])
        self._streams[stream.id] = stream
        self.send(cell, hop)
        while not stream.connected:
            if stream.end_reason is not None:
                raise TorError(f"hop {stream.hop} refused the stream, reason {stream.end_reason}")
            self.pump()
        return stream

    def may_send(self, stream: Stream) -> bool:
        return stream.window > 0 and not stream.halted and self._hops[stream.hop].window > 0

    def capacity(self, hop: int) -> int:
        """Bytes of data that a DATA cell to `hop` holds."""
        return self._hops[hop].layout.capacity(DATA)

    def has_stream_windows(self, hop: int) -> bool:
        """Whether streams to `hop` have windows; else the hop says XOFF and XON (proposal 324)."""
        return self._hops[hop].stream_windows

    def pump(self) -> None:
        """Wait for one relay cell, and hand it to its stream if it is for one."""
        came = self._receive_one()
        if came is None:
            return
        hop, cell = came
        stream = self._streams.get(cell.stream_id)
        if stream is None or stream.hop != hop:
            raise TorError(f"relay command {cell.command} came from hop {hop} for no stream of its")
        stream.take(cell)


class Stream:
    """A stream on a circuit: bytes to and from one server. `halts` counts how often the hop said XOFF."""

    def __init__(self, circuit: TorCircuit, stream_id: int, hop: int) -> None:
        self.id = stream_id
        self.hop = hop
        self.connected = False
        self.end_reason: int | None = None
        self.window = STREAM_WINDOW
        self.halted = False
        self.halts = 0
        self._windows = circuit.has_stream_windows(hop)
        self._circuit = circuit
        self._received = 0
        self._inbox = bytearray()

    def take(self, cell: RelayCell) -> None:
        """Take a cell that came for this stream."""
        if cell.command == CONNECTED:
            self.connected = True
        elif cell.command == DATA:
            self._inbox += cell.data
            self._received += 1
            if self._windows and self._received % STREAM_SENDME == 0:
                self._circuit.send(RelayCell(SENDME, self.id), self.hop)
        elif cell.command == SENDME:
            self.window += STREAM_SENDME
        elif cell.command in (XOFF, XON):
            self.halted = cell.command == XOFF
            self.halts += self.halted
        elif cell.command == END:
            self.end_reason = cell.data[0] if cell.data else 0
        else:
            raise TorError(f"relay command {cell.command} came on a stream")

    def send(self, data: bytes) -> None:
        """Send all of `data`, waiting where a window is shut or the hop said XOFF."""
        size = self._circuit.capacity(self.hop)
        for start in range(0, len(data), size):
            while not self._circuit.may_send(self):
                self._circuit.pump()
            self._circuit.send(RelayCell(DATA, self.id, data[start : start + size]), self.hop)
            self.window -= self._windows

    def read_all(self) -> bytes:
        """Return everything up to the stream's end."""
        while self.end_reason is None:
            self._circuit.pump()
        return bytes(self._inbox)


def _counted(data: bytes | bytearray) -> bytes:
    """Return what stands after a length of 2 bytes."""
    return bytes(data[2 : 2 + int.from_bytes(data[:2], "big")])


def learn(host: str, port: int, patience: float = 30.0) -> Relay:
    """Ask a relay for its own descriptor, over a circuit of one hop; again where it has none yet or is not up yet."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return Relay.from_descriptor(fetch_descriptor(host, port))
        except (OSError, TorError, ValueError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def fetch_descriptor(host: str, port: int) -> str:
    """Return the descriptor that a relay has of itself (dir-spec, "/tor/server/authority")."""
    return _again(lambda: _fetch_descriptor(host, port))


def _again(ask: Callable[[], Answer]) -> Answer:
    """Return what `ask` does. A relay that sweeps idle circuits may catch a new one before its first stream."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Destroyed):
            return ask()
    return ask()  # once more, and its error is the caller's


def _fetch_descriptor(host: str, port: int) -> str:
    with Link(host, port) as link:
        circuit = TorCircuit(link)
        circuit.create(CreateFast())
        stream = circuit.begin_dir()
        stream.send(b"GET /tor/server/authority HTTP/1.0\r\n\r\n")
        return stream.read_all().decode()


def build(link: Link, relays: list[Relay], handshakes: Sequence[MakeHandshake] = ()) -> TorCircuit:
    """Return a new circuit through `relays`, the first of which is at the other end of `link`.

    `handshakes` has one for each relay: Ntor for tor1, NtorV3 for Counter Galois Onion. Where it ends, it is Ntor.
    """
    return _again(lambda: _build(link, relays, handshakes))


def _build(link: Link, relays: list[Relay], handshakes: Sequence[MakeHandshake]) -> TorCircuit:
    circuit = TorCircuit(link)
    for relay, make in zip(relays, chain(handshakes, repeat(Ntor)), strict=False):
        if len(circuit.layers):
            circuit.extend(relay, make(relay))
        else:
            circuit.create(make(relay))
    return circuit


def fetch(url: str, relays: list[Relay], handshakes: Sequence[MakeHandshake] = ()) -> bytes:
    """Return the answer to GET `url`, headers and all, through `relays`; `handshakes` as in `build`."""
    return _again(lambda: _fetch(url, relays, handshakes))


def _fetch(url: str, relays: list[Relay], handshakes: Sequence[MakeHandshake]) -> bytes:
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    with Link(relays[0].host, relays[0].port) as link:
        stream = build(link, relays, handshakes).begin(host, parts.port or 80)
        stream.send(f"GET {parts.path or '/'} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return stream.read_all()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.fetch_through_tor", description="Fetch a page through Tor relays of one's own."
    )
    parser.add_argument("url", type=url, help="http://HOST:PORT/PATH, as the last relay reaches it")
    parser.add_argument(
        "relays", type=address, nargs="+", metavar="HOST:PORT", help="the relays' OR ports, nearest first"
    )
    parser.add_argument("--cgo", action="store_true", help="ask every relay for Counter Galois Onion")
    arguments = parser.parse_args()
    relays = []
    for host, port in arguments.relays:
        try:
            relays.append(learn(host, port))
        except (OSError, TorError, ValueError) as error:
            sys.exit(f"relay {host}:{port} does not tell its descriptor: {error}")
    try:
        page = fetch(arguments.url, relays, [NtorV3] * len(relays) if arguments.cgo else ())
    except (OSError, TorError, HandshakeError) as error:
        sys.exit(f"{arguments.url} can't be fetched: {error}")
    sys.stdout.buffer.write(page)


if __name__ == "__main__":
    main()
