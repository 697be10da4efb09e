"""RelayCell: what stands inside a decrypted payload, and the layouts that it can have.

Rules of this file: a layout is data: its fields in their order, nothing more; no code asks which layout it is. Layers
never come by here: they work on payloads as they are, whose padding is part of the digest.

Theory: tor-spec, "Relay cells"; proposal 340, "Relay encryption, version 1.5" and "New relay message packing", of which
this reads and writes the first message of a cell. Padding is 4 zero bytes, then random ones (tor-spec, "Relay cells").
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ..buffers import Buffer, check_length, readable, told, writable
from .errors import RelayCellError
from .layers import PAYLOAD_LEN

#: Zero bytes between data and random padding.
_ZERO_PADDING: Final = 4


@dataclass(frozen=True, slots=True)
class RelayLayout:
    """Say where the fields of a relay cell stand.

    Args:
        name: for messages.
        fields: (field, length in bytes) in their order, of command, recognized, stream_id, digest and length; data
            follows. A layout may lack recognized, digest and stream_id; command comes before stream_id. "tag" is room
            for the layer's use, and no field of the cell's.
        stream_commands: the commands that have a stream ID; None where every one has.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    stream_commands: frozenset[int] | None = None

    def has_stream_id(self, command: int) -> bool:
        """Return whether cells with that command have a stream ID."""
        return self.stream_commands is None or command in self.stream_commands

    def capacity(self, command: int) -> int:
        """Return how many bytes of data a cell with that command can hold."""
        absent = 0 if self.has_stream_id(command) else dict(self.fields).get("stream_id", 0)
        return PAYLOAD_LEN + absent - sum(length for _, length in self.fields)


#: Relay commands with a stream ID, where not all have one: BEGIN, DATA, END, CONNECTED, RESOLVE, RESOLVED, BEGIN_DIR,
#: XON and XOFF (proposal 340, "New relay message packing").
STREAM_COMMANDS: Final = frozenset({1, 2, 3, 4, 11, 12, 13, 43, 44})

#: The layout of tor1 (tor-spec, "Relay cells").
TOR1: Final = RelayLayout("tor1", (("command", 1), ("recognized", 2), ("stream_id", 2), ("digest", 4), ("length", 2)))
#: Relay crypto 1.5: the fields that encryption uses come first and make 16 bytes (proposal 340).
CRYPTO_15: Final = RelayLayout(
    "relay crypto 1.5",
    (("recognized", 2), ("digest", 14), ("command", 1), ("length", 2), ("stream_id", 2)),
    STREAM_COMMANDS,
)
#: Counter Galois Onion: no field that encryption uses, but room for its tag (proposal 359, with proposal 340's header).
CGO: Final = RelayLayout("cgo", (("tag", 16), ("command", 1), ("length", 2), ("stream_id", 2)), STREAM_COMMANDS)


@dataclass(frozen=True, slots=True)
class RelayCell:
    """Hold the fields of a relay cell. Immutable.

    Args:
        command: the relay command, 0 to 255 (1 BEGIN, 2 DATA, 3 END ...). stream_id: 0 to 65,535.
        data: up to the layout's capacity, 498 bytes in tor1.
        recognized, digest: what the encryption fills in and leaves behind; zero in a cell that is to be sent, the empty
            digest standing for zeros.
    """

    command: int
    stream_id: int = 0
    data: bytes = b""
    recognized: int = 0
    digest: bytes = b""

    @property
    def length(self) -> int:
        """Bytes of data."""
        return memoryview(self.data).nbytes

    def pack_into(self, payload: Buffer, layout: RelayLayout = TOR1) -> None:
        """Write the cell into `payload`: header, data, 4 zero bytes, random padding.

        Args:
            payload: 509 bytes, writable; overwritten whole.

        Raises (nothing written): TypeError, BufferError, PayloadLengthError, RelayCellError (a field out of range).
        """
        view = writable(payload, "payload")
        check_length(len(view), "payload", PAYLOAD_LEN)
        packed = self.pack(layout)
        view[:] = packed

    def pack(self, layout: RelayLayout = TOR1) -> bytearray:
        """Return a new payload of 509 bytes that holds the cell, ready for a layer's `originate` or Circuit.send.

        Raises: RelayCellError (a field out of range).
        """
        data = readable(self.data, "data")
        payload = bytearray()
        absent = {"recognized", "stream_id", "digest"}
        for field, length in layout.fields:
            if field != "stream_id" or layout.has_stream_id(self.command):
                payload += self._packed(field, length)
                absent.discard(field)
        for field in sorted(absent):
            if getattr(self, field) not in (0, b""):
                raise RelayCellError(
                    f"{field} must be zero, since command {self.command} has none in layout {layout.name}"
                )
        capacity = PAYLOAD_LEN - len(payload)
        if len(data) > capacity:
            raise RelayCellError(f"data must be at most {capacity} bytes in layout {layout.name}, got {len(data)}")
        payload += data
        payload += bytes(min(_ZERO_PADDING, PAYLOAD_LEN - len(payload)))
        payload += os.urandom(PAYLOAD_LEN - len(payload))
        return payload

    def _packed(self, field: str, length: int) -> bytes:
        if field == "tag":
            return bytes(length)
        if field == "digest":
            digest = bytes(readable(self.digest, field))
            if len(digest) not in (0, length):
                raise RelayCellError(f"{field} must be {length} bytes, got {len(digest)}")
            return digest or bytes(length)
        value: int = getattr(self, field)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{field} must be an int, got {type(value).__name__}")
        try:
            return value.to_bytes(length, "big")
        except OverflowError:
            raise RelayCellError(f"{field} must be 0 to {256**length - 1}, got {told(value)}") from None

    @classmethod
    def parse(cls, payload: Buffer, layout: RelayLayout = TOR1) -> RelayCell:
        """Return the cell that a decrypted payload of 509 bytes holds.

        Raises: TypeError, BufferError, PayloadLengthError, RelayCellError (its length field says more than fits).
        """
        view = readable(payload, "payload")
        check_length(len(view), "payload", PAYLOAD_LEN)
        start = 0
        digest = b""
        values = {"command": 0, "recognized": 0, "stream_id": 0, "length": 0}
        for field, length in layout.fields:
            if field == "stream_id" and not layout.has_stream_id(values["command"]):
                continue
            raw = view[start : start + length]
            start += length
            if field == "digest":
                digest = bytes(raw)
            elif field != "tag":
                values[field] = int.from_bytes(raw, "big")
        end = start + values.pop("length")
        if end > PAYLOAD_LEN:
            raise RelayCellError(
                f"length must be at most {PAYLOAD_LEN - start} bytes in layout {layout.name}, got {end - start}"
            )
        return cls(data=bytes(view[start:end]), digest=digest, **values)
