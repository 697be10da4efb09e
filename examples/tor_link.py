"""The link to a relay: TLS, and cells on it.

What lives here: Link, which fetch_through_tor.py puts a circuit on. It is for relays of one's own: nobody checks their
certificates.

Theory: tor-spec, "Channels" and "Cell Packet format".
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Self

from cellcrypt.onion import PAYLOAD_LEN

# Commands of wire cells that belong to the link (tor-spec, "Cell Packet format").
PADDING, VERSIONS, NETINFO, VPADDING = 0, 7, 8, 128

LINK_PROTOCOLS = (4, 5)
#: Seconds that an answer may take.
PATIENCE = 20.0
#: Circuit ID and command.
CELL_HEADER = struct.Struct("!IB")


class TorError(Exception):
    """The relay did something that a client can't go on from."""


class Link:
    """A TLS connection to a relay, with cells on it. It carries one circuit here."""

    def __init__(self, host: str, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # a relay's certificate is its own; its CERTS cell would vouch for it
        self._socket = context.wrap_socket(socket.create_connection((host, port), PATIENCE))
        self._reader = self._socket.makefile("rb")
        self._shake_hands()

    def _shake_hands(self) -> None:
        """Agree on a link protocol and say hello. In VERSIONS alone a circuit ID has 2 bytes."""
        versions = b"".join(version.to_bytes(2, "big") for version in LINK_PROTOCOLS)
        self._socket.sendall(struct.pack("!HBH", 0, VERSIONS, len(versions)) + versions)
        _, command, length = struct.unpack("!HBH", self._read(5))
        theirs = {version for (version,) in struct.iter_unpack("!H", self._read(length))}
        if command != VERSIONS or not theirs & set(LINK_PROTOCOLS):
            raise TorError(f"link protocol must be one of {LINK_PROTOCOLS}, the relay has {sorted(theirs)}")
        self.protocol = max(theirs & set(LINK_PROTOCOLS))
        while self.read_cell()[1] != NETINFO:  # CERTS and AUTH_CHALLENGE come first, and go unread
            pass
        address = bytes([4, 4]) + socket.inet_aton(self._socket.getpeername()[0])
        self.send(self.cell(0, NETINFO, bytes(4) + address + bytes(1)))

    @staticmethod
    def cell(circuit_id: int, command: int, payload: bytes = b"") -> bytearray:
        """Return a wire cell of 514 bytes: circuit ID, command, payload padded with zeros."""
        return bytearray(CELL_HEADER.pack(circuit_id, command) + payload.ljust(PAYLOAD_LEN, b"\0"))

    def send(self, cell: bytes | bytearray) -> None:
        self._socket.sendall(cell)

    def read_cell(self) -> tuple[int, int, bytearray]:
        """Return circuit ID, command and payload of the next cell that is no padding."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            circuit_id, command = CELL_HEADER.unpack(self._read(CELL_HEADER.size))
            length = PAYLOAD_LEN if command < 128 else int.from_bytes(self._read(2), "big")
            payload = bytearray(self._read(length))
            if command not in (PADDING, VPADDING):
                return circuit_id, command, payload
        raise TimeoutError(f"only padding came for {PATIENCE} seconds")

    def _read(self, length: int) -> bytes:
        found = self._reader.read(length)
        if len(found) != length:
            raise TorError("the relay closed the link")
        return found

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
