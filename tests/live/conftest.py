"""Real tor relays on loopback for the tests of this folder: three of them, once a session, gone at its end.

Where there is no tor the tests skip with the reason; where CELLCRYPT_REQUIRE names "tor" they fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from examples import loopback_relays
from examples.fetch_through_tor import TorCircuit, build, learn
from examples.tor_handshakes import Relay
from examples.tor_link import Link

from ..onion_kit import material
from ..support import tool

#: Bytes each way through the exit.
TRANSFER_LEN = 5_000_000
#: Seconds for which a reluctant server takes nothing, in which a client could send thousands of cells.
RELUCTANCE_S = 1.0


@pytest.fixture(scope="session")
def relays() -> Iterator[list[Relay]]:
    """Three relays, each of which has its own descriptor and serves as exit."""
    tool("tor")
    with loopback_relays.relays(3) as ports:
        yield [learn("127.0.0.1", port) for port in ports]


@pytest.fixture
def circuit(relays: list[Relay]) -> Iterator[TorCircuit]:
    """A circuit of three hops, on a link of its own."""
    with Link(relays[0].host, relays[0].port) as link:
        yield build(link, relays)


class _Exchange(socketserver.StreamRequestHandler):
    """Take TRANSFER_LEN bytes, answer with their SHA-256 and as many other bytes."""

    timeout = 30

    def handle(self) -> None:
        came = self.rfile.read(TRANSFER_LEN)
        self.wfile.write(hashlib.sha256(came).digest() + material(TRANSFER_LEN, "down"))


class _Reluctant(_Exchange):
    """First takes nothing for a while, so that the exit must hold back what comes for it."""

    def handle(self) -> None:
        time.sleep(RELUCTANCE_S)
        super().handle()


class _Narrow(socketserver.ThreadingTCPServer):
    """A server whose connections take little before they are read."""

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        super().server_bind()


@contextlib.contextmanager
def _serving(server: socketserver.ThreadingTCPServer) -> Iterator[int]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


@pytest.fixture
def exchange() -> Iterator[int]:
    """The port of a local server that takes and gives TRANSFER_LEN bytes."""
    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Exchange)) as port:
        yield port


@pytest.fixture
def reluctant_exchange() -> Iterator[int]:
    """The port of a server that does the same, but only after a while."""
    with _serving(_Narrow(("127.0.0.1", 0), _Reluctant)) as port:
        yield port
