"""The rows of the onion suite: what a cell costs at each place of a circuit, by scheme, beside its parts.

onion[SCHEME,BACKEND,send,HOPS]       Circuit.send to the last of HOPS hops
onion[SCHEME,BACKEND,receive,HOPS]    Circuit.receive of a cell from the last of HOPS hops
onion[SCHEME,BACKEND,relay_forward]   RelayLayer.forward of a cell that isn't this relay's
onion[SCHEME,BACKEND,relay_own]       RelayLayer.forward of a cell that is
onion[SCHEME,BACKEND,relay_originate] RelayLayer.originate
onion[SCHEME,BACKEND,relay_backward]  RelayLayer.backward
digest[HASH]                          a running digest: update with one payload, then its value
digest[HASH,copy]                     the same on a copy, as for a cell that may be this hop's own
bare[...]                             as in rows.py; call[native,in_place]: crypt_in_place

Rules of this file: cells are made before the clock starts and followed to their end after it stopped, POOL at a time:
the other side of the circuit must accept each one, so that no value comes from a cell that would be refused.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cellcrypt import CellCipher
from cellcrypt.onion import PAYLOAD_LEN, Circuit, ClientLayer, HopKeys, RelayLayer

from .interleave import Group
from .rows import Row, _meta, bare_row
from .timer import now
from .work import KEY, POOL, PerCell, Places, Work, WrongResult

#: For each scheme the layout of its keys and its length in bytes.
SCHEMES = {"tor1": ("tor1", 72), "cgo": ("cgo", 160)}
HASHES = {"tor1": "sha1"}
HOPS = (1, 3)
#: Where a payload's fields end for either scheme: CGO's tag, and tor1's header before that.
FIELDS_LEN = 16

Cells = Sequence[bytearray]
Do = Callable[[Any], Any]


def _ways(scheme: str, backend: str, hops: int) -> tuple[Circuit, list[RelayLayer]]:
    layout, length = SCHEMES[scheme]
    keys = [
        HopKeys.from_key_material(hashlib.shake_256(KEY + bytes([hop])).digest(length), layout) for hop in range(hops)
    ]
    client = Circuit(ClientLayer(one, backend=backend) for one in keys)
    return client, [RelayLayer(one, backend=backend) for one in keys]


class Way:
    """One call on each of POOL cells, between what makes them and what follows them to their end.

    `before` and `after` take a cell outside the clock; `after` also gets what stood
    in clear behind the fields of either scheme, and returns whether all is well with the cell.
    """

    def __init__(self, call: Do, before: Do, after: Callable[[Any, bytes], bool], rng: random.Random) -> None:
        self._call, self._before, self._after = call, before, after
        self._places = Places()
        self._clear = rng.randbytes(PAYLOAD_LEN)
        self._clear = self._clear[:1] + bytes(2) + self._clear[3:5] + bytes(4) + self._clear[9:]
        self._all_well = True
        self.move(rng)

    def move(self, rng: random.Random) -> None:
        self._pool: Cells = self._places.buffers(rng, PAYLOAD_LEN)

    def run(self, cells: int) -> float:
        seconds = 0.0
        for start in range(0, cells, POOL):
            pool = self._pool[: cells - start]
            for payload in pool:
                payload[:] = self._clear
                self._before(payload)
            seconds += _timed(self._call, pool)
            for payload in pool:
                self._all_well &= self._after(payload, self._clear[FIELDS_LEN:])
        return seconds

    def check(self) -> None:
        if not self._all_well:
            raise WrongResult("a cell was not accepted at its end")


def _timed(call: Do, pool: Cells) -> float:
    start = now()
    for payload in pool:
        call(payload)
    return now() - start


def _nothing(payload: object) -> None:
    pass


def _foreign(payload: bytearray) -> None:
    """Make a cell that no hop can take for its own: recognized, in tor1, is not zero."""
    payload[1:3] = b"\xff\xff"


def _is_clear(payload: bytearray, clear: bytes) -> bool:
    return payload[FIELDS_LEN:] == clear


def _all(steps: Iterable[Do]) -> Do:
    steps = tuple(steps)

    def do(payload: bytearray) -> Any:
        last = None
        for step in steps:
            last = step(payload)
        return last

    return do


def _send(scheme: str, backend: str, hops: int, rng: random.Random) -> Work:
    client, relays = _ways(scheme, backend, hops)
    travel = _all(relay.forward for relay in relays)
    return Way(client.send, _nothing, lambda payload, _: travel(payload) is not None, rng)


def _receive(scheme: str, backend: str, hops: int, rng: random.Random) -> Work:
    """The circuit breaks at a cell that it does not recognize: a wrong value can't be."""
    client, relays = _ways(scheme, backend, hops)
    come = _all([relays[-1].originate, *(relay.backward for relay in relays[:-1][::-1])])
    return Way(client.receive, come, lambda payload, _: len(client) == hops, rng)


def _relay_forward(scheme: str, backend: str, _: int, rng: random.Random) -> Work:
    client, (relay,) = _ways(scheme, backend, 1)
    return Way(
        relay.forward,
        _all([_foreign, client.layers[0].forward]),
        _is_clear,
        rng,
    )


def _relay_own(scheme: str, backend: str, _: int, rng: random.Random) -> Work:
    client, (relay,) = _ways(scheme, backend, 1)
    return Way(relay.forward, client.send, _is_clear, rng)


def _relay_originate(scheme: str, backend: str, _: int, rng: random.Random) -> Work:
    client, (relay,) = _ways(scheme, backend, 1)
    return Way(relay.originate, _nothing, lambda payload, _: client.receive(payload)[0] == 0, rng)


def _relay_backward(scheme: str, backend: str, _: int, rng: random.Random) -> Work:
    client, (relay,) = _ways(scheme, backend, 1)
    backward = client.layers[0].backward
    return Way(
        relay.backward,
        _foreign,
        lambda payload, clear: backward(payload) is None and _is_clear(payload, clear),
        rng,
    )


ROLES: dict[str, tuple[Callable[[str, str, int, random.Random], Work], tuple[int, ...]]] = {
    "send": (_send, HOPS),
    "receive": (_receive, HOPS),
    "relay_forward": (_relay_forward, ()),
    "relay_own": (_relay_own, ()),
    "relay_originate": (_relay_originate, ()),
    "relay_backward": (_relay_backward, ()),
}


def role_rows(scheme: str, backend: str, cells: int) -> list[Row]:
    """Every place of a circuit in one scheme."""
    rows = []
    for role, (opened, hop_counts) in ROLES.items():
        for hops in hop_counts or (0,):

            def at_work(rng: random.Random, opened: Any = opened, hops: int = hops) -> Work:
                work: Work = opened(scheme, backend, hops, rng)
                return work

            more: dict[str, str | int] = {"scheme": scheme, "role": role}
            if hops:
                more["hops"] = hops
            name = f"onion[{scheme},{backend},{role}{f',{hops}' if hops else ''}]"
            rows.append(Row(name, at_work, cells, _meta("onion", backend, PAYLOAD_LEN, cells, **more)))
    return rows


class Digest:
    """A running digest that takes one payload at a time; `copied` leaves it as it was."""

    def __init__(self, name: str, copied: bool, rng: random.Random) -> None:
        self._running, self._again, self._copied = hashlib.new(name), hashlib.new(name), copied
        self._places = Places()
        self.move(rng)

    def move(self, rng: random.Random) -> None:
        self._pool = self._places.buffers(rng, PAYLOAD_LEN)

    def run(self, cells: int) -> float:
        seconds = 0.0
        for start in range(0, cells, POOL):
            pool = self._pool[: cells - start]
            seconds += (self._on_copies if self._copied else self._on_itself)(pool)
        return seconds

    def _on_itself(self, pool: Cells) -> float:
        update, digest = self._running.update, self._running.digest
        start = now()
        for payload in pool:
            update(payload)
            digest()
        seconds = now() - start
        self._again.update(b"".join(pool))
        return seconds

    def _on_copies(self, pool: Cells) -> float:
        start = now()
        for payload in pool:
            running = self._running.copy()
            running.update(payload)
            running.digest()
        return now() - start

    def check(self) -> None:
        if self._running.digest() != self._again.digest():
            raise WrongResult("the digest is not that of all payloads")


def digest_row(name: str, copied: bool, cells: int) -> Row:
    meta = _meta("digest", "hashlib", PAYLOAD_LEN, cells, hash=name)
    return Row(f"digest[{name}{',copy' if copied else ''}]", lambda rng: Digest(name, copied, rng), cells, meta)


def in_place_row(backend: str, cells: int) -> Row:
    """crypt_in_place alone: what a layer's key stream costs."""

    def opened(rng: random.Random) -> Work:
        return PerCell(CellCipher(KEY, backend=backend).crypt_in_place, "in_place", PAYLOAD_LEN, rng)

    return Row(f"call[{backend},in_place]", opened, cells, _meta("call", backend, PAYLOAD_LEN, cells))


def groups(schemes: Sequence[str], backend: str, cells: int) -> list[Group]:
    """All in one group, so that schemes are compared in one process, and each with its parts."""
    rows = [bare_row("cryptography", "update_into", PAYLOAD_LEN, cells), in_place_row(backend, cells)]
    rows += [digest_row(HASHES[one], copied, cells) for one in schemes if one in HASHES for copied in (False, True)]
    for scheme in schemes:
        rows += role_rows(scheme, backend, cells)
    return [Group("onion", tuple(rows))]
