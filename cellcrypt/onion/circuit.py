"""Circuit: the client's view of a row of hops.

Rules of this file: knows no scheme; layers of several schemes may stand in one circuit. A layer belongs to its circuit
from then on. Hops are counted from 0, the nearest; a negative number counts from the far end, as in a list.

Theory: tor-spec, "Routing relay cells". A forward cell gets the layer of its own hop first, then those of the nearer
hops, the nearest last. A backward cell loses them in the order in which it came in: nearest first, until a hop
recognizes it; the layers behind that hop were never on it and don't move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Self

from ..buffers import Buffer, told
from .errors import NoSuchHop, UnrecognizedCell
from .layers import RELAY, ClientLayer

_BROKEN = "the circuit is broken, since a backward cell was recognized by none of its hops or a layer failed half-way"


def _check_command(command: int) -> None:
    """Raise TypeError or ValueError unless `command` is 0 to 255: before any layer moves, since not every one asks."""
    try:
        number = index(command)
    except TypeError:
        raise TypeError(f"command must be an int, got {type(command).__name__}") from None
    if not 0 <= number <= 255:
        raise ValueError(f"command must be 0 to 255, got {told(number)}")


class Circuit:
    """Encrypt to, and decrypt from, the hops of one circuit. Starts with `layers`, nearest hop first.

    A backward cell that no hop recognizes was tampered with, lost its place, or came from elsewhere; key streams and
    digests are out of step from then on. So it breaks the circuit: each later call raises UnrecognizedCell.

    Args:
        layers: one ClientLayer for each hop; a circuit may start empty and grow by `append`.

    Raises: TypeError (no ClientLayer).
    """

    __slots__ = ("_backward", "_broken", "_layers", "_routes")

    def __init__(self, layers: Iterable[ClientLayer] = ()) -> None:
        self._layers: list[ClientLayer] = []
        #: For each hop: the call that makes a cell its own, and the calls of the nearer hops, nearest last.
        self._routes: list[tuple[Callable[..., bytes], tuple[Callable[..., None], ...]]] = []
        self._backward: list[Callable[..., bytes | None]] = []
        self._broken = False
        try:
            each = iter(layers)
        except TypeError:
            raise TypeError(f"layers must be an iterable of ClientLayers, got {type(layers).__name__}") from None
        for layer in each:
            self.append(layer)

    def __len__(self) -> int:
        """Return how many hops there are."""
        return len(self._layers)

    @property
    def layers(self) -> tuple[ClientLayer, ...]:
        """The layers, nearest hop first."""
        return tuple(self._layers)

    def append(self, layer: ClientLayer) -> None:
        """Make the circuit one hop longer.

        Raises (nothing changed): TypeError (no ClientLayer), UnrecognizedCell (the circuit is broken).
        """
        if not isinstance(layer, ClientLayer):
            raise TypeError(f"layer must be a ClientLayer, got {type(layer).__name__}")
        if self._broken:
            raise UnrecognizedCell(_BROKEN)
        nearer = tuple(one.forward for one in self._layers[::-1])
        self._routes.append((layer.originate, nearer))
        self._backward.append(layer.backward)
        self._layers.append(layer)

    def send(self, payload: Buffer, hop: int = -1, command: int = RELAY) -> bytes:
        """Make `payload` a cell for `hop`, as it goes to the first relay. Moves that hop's state and the nearer ones'.

        Args:
            payload: 509 bytes, writable, a relay cell in clear; overwritten. hop: 0 is the nearest, -1 the farthest.
            command: the command of the wire cell, 3 or 9.

        Returns: the tag that a SENDME for this cell will carry.

        Raises (nothing written, nothing moved): NoSuchHop, TypeError, BufferError, PayloadLengthError, UnrecognizedCell
        (the circuit is broken), ClosedError. An error of a nearer hop's layer after that breaks the circuit.
        """
        if command is not RELAY:  # one object in CPython, else checked for nothing
            _check_command(command)
        try:
            originate, nearer = self._routes[hop]
        except IndexError:
            raise self._no_hop(hop) from None
        except (TypeError, ValueError):
            raise TypeError(f"hop must be an int, got {type(hop).__name__}") from None
        tag = originate(payload, command)
        try:
            for forward in nearer:
                forward(payload, command)
        except BaseException:
            self._break()
            raise
        return tag

    def receive(self, payload: Buffer, command: int = RELAY) -> tuple[int, bytes]:
        """Decrypt a backward cell where it lies, up to the hop that it came from. Moves the state of the hops up to it.

        Args: as `send`; the payload is left in clear, its digest as the hop wrote it.

        Returns: the hop's number, from 0, and the tag that a SENDME for this cell must carry.

        Raises: UnrecognizedCell: no hop recognized it; the payload is overwritten and the circuit broken. Nothing
        written, nothing moved: NoSuchHop (there is none yet), TypeError, BufferError, PayloadLengthError, ClosedError.
        """
        if command is not RELAY:  # one object in CPython, else checked for nothing
            _check_command(command)
        hop = 0
        try:
            for backward in self._backward:
                tag = backward(payload, command)
                if tag is not None:
                    return hop, tag
                hop += 1
        except BaseException:
            if hop:
                self._break()
            raise
        if not hop:
            raise self._no_hop(0)
        self._break()
        raise UnrecognizedCell(f"a backward cell was recognized by none of the {hop} hops")

    def _no_hop(self, hop: int) -> NoSuchHop | UnrecognizedCell:
        if self._broken:
            return UnrecognizedCell(_BROKEN)
        return NoSuchHop(f"hop must be one of the circuit's {len(self)} hops, counted from 0, got {told(index(hop))}")

    def _break(self) -> None:
        self._broken = True
        self._routes = []
        self._backward = []

    def close(self) -> None:
        """Close every layer; may be called again."""
        for layer in self._layers:
            layer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
