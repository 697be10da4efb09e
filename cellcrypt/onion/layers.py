"""What a layer owes, written once, and the choice of the scheme by the keys.

What lives here: ClientLayer and RelayLayer, the two ends of one hop's encryption. Their modules (tor1.py ...) hold one
scheme of relay encryption each, subclass both and register them at their foot.

Rules of this file: knows no scheme. What holds for every layer:

- All work is in place, on a writable, contiguous payload of 509 bytes; a slice of a wire cell will do.
- A call that raises has written nothing and moved nothing: the same call with right arguments then gives the right
  bytes. A cell that is not recognized is no error of the layer's: its key stream has moved, as the specification wants.
- `command` is the command of the wire cell that the payload travels in: 3 for RELAY, 9 for RELAY_EARLY. tor1 does not
  look at it; schemes that authenticate it do.
- A tag is what an authenticated SENDME carries for that cell: 20 bytes in tor1. Both ends get the same one.
- A layer serves one thread at a time, and cells in the order in which they were sent: the order is part of the state.
- A layer can't be copied or pickled, for that would use key stream twice.

Theory: tor-spec, "Relay cells" and "Routing relay cells"; "SENDME cell format" for the tags.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn, Self, cast

from ..buffers import Buffer
from .keys import HopKeys

#: Bytes in the payload of a relay cell (tor-spec, "Cell Packet format").
PAYLOAD_LEN = 509
#: Commands of the wire cells that carry relay cells.
RELAY = 3
RELAY_EARLY = 9


class _Layer:
    __slots__ = ()

    def __init__(self, keys: HopKeys, *, backend: str | None = None) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Wipe what can be wiped; may be called again. Every other call then raises ClosedError."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can't be copied or pickled: that would use its key stream twice")


class ClientLayer(_Layer):
    """Hold the client's end of one hop: it wraps cells for that hop, and unwraps what comes back.

    ClientLayer(keys) makes the layer of the scheme that the keys are for.

    Args:
        keys: what the client shares with the hop.
        backend: who computes AES, as for CellCipher.

    Raises: ValueError (no such scheme or backend), BackendUnavailable.
    """

    __slots__ = ()

    def __new__(cls, keys: HopKeys, *, backend: str | None = None) -> Self:
        return cast(Self, _allocate(cls, ClientLayer, _scheme(keys).client))

    def originate(self, payload: Buffer, command: int = RELAY) -> bytes:
        """Make `payload` a cell for this hop: fill in what the hop recognizes it by, and add this hop's layer.

        Returns: the tag.
        """
        raise NotImplementedError

    def forward(self, payload: Buffer, command: int = RELAY) -> None:
        """Add this hop's layer to a cell that is meant for a hop farther away."""
        raise NotImplementedError

    def backward(self, payload: Buffer, command: int = RELAY) -> bytes | None:
        """Take this hop's layer off a cell that came back, and look whether this hop sent it.

        Returns: the tag; None where this hop didn't send it, and the payload is for the next hop's layer.
        """
        raise NotImplementedError


class RelayLayer(_Layer):
    """Hold the relay's end of one hop: it takes one layer off forward cells, and adds one to backward cells.

    RelayLayer(keys) makes the layer of the scheme that the keys are for.

    Args, Raises: as ClientLayer.
    """

    __slots__ = ()

    def __new__(cls, keys: HopKeys, *, backend: str | None = None) -> Self:
        return cast(Self, _allocate(cls, RelayLayer, _scheme(keys).relay))

    def forward(self, payload: Buffer, command: int = RELAY) -> bytes | None:
        """Take this hop's layer off a cell from the client, and look whether it is meant for this hop.

        Returns: the tag; None where it isn't, and the payload is for the next relay.
        """
        raise NotImplementedError

    def originate(self, payload: Buffer, command: int = RELAY) -> bytes:
        """Make `payload` a cell from this hop: fill in what the client recognizes it by, and add this hop's layer.

        Returns: the tag.
        """
        raise NotImplementedError

    def backward(self, payload: Buffer, command: int = RELAY) -> None:
        """Add this hop's layer to a cell from a relay farther away."""
        raise NotImplementedError


class Scheme(NamedTuple):
    """The two ends of a hop in one scheme of relay encryption."""

    client: type[ClientLayer]
    relay: type[RelayLayer]


#: The schemes by name; each module of a scheme adds its own.
SCHEMES: dict[str, Scheme] = {}


def _scheme(keys: HopKeys) -> Scheme:
    if not isinstance(keys, HopKeys):
        raise TypeError(f"keys must be HopKeys, got {type(keys).__name__}")
    try:
        return SCHEMES[keys.scheme]
    except KeyError:
        raise ValueError(f"keys must be for one of {', '.join(SCHEMES)}, got {keys.scheme!r}") from None


def _allocate(cls: type[object], front: type[object], chosen: type[object]) -> object:
    """Allocate a `chosen` where the front was called; __init__ then follows by itself."""
    if cls is not front and cls is not chosen:
        raise ValueError(f"keys must be of a scheme that {cls.__name__} serves, got keys for {chosen.__name__}")
    return object.__new__(chosen)
