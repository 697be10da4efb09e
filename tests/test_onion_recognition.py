"""How a hop knows its own cells, and that each way of getting it wrong is noticed.

Each check below holds for the real layers, on every backend. Each also runs against deliberately broken copies of the
module that it guards, and must fail there: a check that can't fail is none.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cellcrypt import CellcryptError
from cellcrypt.onion import Circuit, ClientLayer, RelayCell, RelayLayer, circuit, layers, tor1

from .onion_kit import hop_keys, material, plain, usable, without_digest

CELL = 509


class Kit(NamedTuple):
    """What a check works with: the circuit class under test, and a backend for the layers."""

    circuit: type[Circuit]
    backend: str | None = None
    layout: str = "tor1"

    def three_hops(self) -> tuple[Circuit, list[RelayLayer]]:
        keys = [hop_keys(hop, self.layout) for hop in range(3)]
        client = self.circuit(ClientLayer(one, backend=self.backend) for one in keys)
        return client, [RelayLayer(one, backend=self.backend) for one in keys]

    def one_hop(self) -> tuple[ClientLayer, RelayLayer]:
        keys = hop_keys(0, self.layout)
        return ClientLayer(keys, backend=self.backend), RelayLayer(keys, backend=self.backend)


def positions(layer: ClientLayer | RelayLayer) -> tuple[int, int]:
    """Key-stream bytes that the layer has used, forward and backward."""
    forward, backward = getattr(layer, "_ciphers")  # noqa: B009
    return forward.position, backward.position


def travel(relays: list[RelayLayer], payload: bytearray) -> tuple[int, bytes]:
    """Pass a forward cell from relay to relay; return the hop that recognized it, and the tag."""
    for hop, relay in enumerate(relays):
        tag = relay.forward(payload)
        if tag is not None:
            return hop, tag
    raise AssertionError("no relay recognized the cell")


def come_back(relays: list[RelayLayer], hop: int, payload: bytearray) -> bytes:
    """Send a backward cell from `hop`; return the tag."""
    tag = relays[hop].originate(payload)
    for relay in relays[:hop][::-1]:
        relay.backward(payload)
    return tag


# -- the checks --------------------------------------------------------------------------------------------------------


def check_fields_stand_where_they_must(kit: Kit) -> None:
    """Of a cell's header the two bytes 1 and 2 alone decide whether it may be the hop's own."""
    for byte in range(9):
        client, relay = kit.one_hop()
        payload = plain(byte)
        client.originate(payload)
        payload[byte] ^= 0x40
        assert relay.forward(payload) is None
    for byte in (0, 3, 4):
        client, relay = kit.one_hop()
        payload = plain(byte)
        payload[0] = payload[3] = payload[4] = 0
        payload[byte] = 0xFF
        tag = client.originate(payload)
        assert relay.forward(payload) == tag


def check_foreign_cells_leave_the_digest(kit: Kit) -> None:
    """Cells that pass by move the key stream, not the digest."""
    client, relays = kit.three_hops()
    for number in range(17):
        for hop in (2, 0):
            payload = plain(number)
            tag = client.send(payload, hop)
            assert travel(relays, payload) == (hop, tag)
            payload = plain(number)
            tag = come_back(relays, hop, payload)
            assert client.receive(payload) == (hop, tag)


def check_false_recognized_leaves_all_as_it_was(kit: Kit) -> None:
    """Recognized is zero by chance, the digest does not match: no tag, the payload is decrypted, the digest stays."""
    client, relay = kit.one_hop()
    for number in range(3):
        foreign = plain(number)
        foreign[5:9] = b"\x01\x02\x03\x04"
        payload = bytearray(foreign)
        client.forward(payload)
        assert relay.forward(payload) is None
        assert payload == foreign
        own = plain(100 + number)
        tag = client.originate(own)
        assert relay.forward(own) == tag
        assert without_digest(own) == plain(100 + number)
    for number in range(3):
        foreign = plain(number)
        foreign[5:9] = b"\x01\x02\x03\x04"
        payload = bytearray(foreign)
        relay.backward(payload)
        assert client.backward(payload) is None
        assert payload == foreign
        own = plain(100 + number)
        tag = relay.originate(own)
        assert client.backward(own) == tag


def check_false_recognized_is_two_bytes(kit: Kit) -> None:
    """A cell whose digest is right is foreign all the same where either byte of recognized isn't zero."""
    for byte in (1, 2):
        client, relay = kit.one_hop()
        payload = plain(0)
        payload[byte] = 7
        seed, _ = hop_keys(0, kit.layout).forward
        hashes = {"tor1": hashlib.sha1, "hs-v3": hashlib.sha3_256}
        payload[5:9] = hashes[kit.layout](seed + payload).digest()[:4]  # over recognized as it stands
        cleared = payload[:1] + bytes(2) + payload[3:5] + bytes(4) + payload[9:]
        other = payload.copy()
        other[5:9] = hashes[kit.layout](seed + cleared).digest()[:4]  # over a payload with recognized zero
        for forged in (payload, other):
            client.forward(forged)
            assert relay.forward(forged) is None


def check_layers_come_off_up_to_the_hop_only(kit: Kit) -> None:
    """A backward cell from hop n never had the layers of the hops behind it."""
    client, relays = kit.three_hops()
    for number, hop in enumerate([0, 2, 1, 1, 0, 2, 2, 0, 1]):
        payload = plain(number)
        tag = come_back(relays, hop, payload)
        assert client.receive(payload) == (hop, tag)
        assert without_digest(payload) == plain(number)


def check_digest_covers_its_own_cell(kit: Kit) -> None:
    """Digests are of the cells up to this one, with this one: a changed byte anywhere is noticed."""
    for byte in (9, 11, 300, CELL - 1):
        client, relay = kit.one_hop()
        first, second = plain(1), plain(2)
        client.originate(first)
        assert relay.forward(first) is not None
        client.originate(second)
        second[byte] ^= 1
        assert relay.forward(second) is None
        client, relay = kit.one_hop()
        payload = plain(1)
        relay.originate(payload)
        payload[byte] ^= 1
        assert client.backward(payload) is None


def check_alternating_hops(kit: Kit) -> None:
    """Each cell is recognized at its hop alone; each hop's position moves by the cells that came as far as it."""
    client, relays = kit.three_hops()
    forward = [0, 0, 0]
    backward = [0, 0, 0]
    for number, hop in enumerate([2, 0, 1, 2, 2, 1, 0, 0, 1, 2, 0, 2, 1, 0, 2, 1, 1]):
        payload = plain(number)
        tag = client.send(payload, hop)
        assert travel(relays, payload) == (hop, tag)
        assert without_digest(payload) == plain(number)
        for passed in range(hop + 1):
            forward[passed] += CELL
        back = 2 - hop
        payload = plain(number, "back")
        tag = come_back(relays, back, payload)
        assert client.receive(payload) == (back, tag)
        for passed in range(back + 1):
            backward[passed] += CELL
        expected = list(zip(forward, backward, strict=True))
        assert [positions(layer) for layer in client.layers] == expected
        assert [positions(relay) for relay in relays] == expected


def check_padding_is_part_of_the_cell(kit: Kit) -> None:
    """Random padding after the data counts in the digest as it came, and stays as it came."""
    client, relays = kit.three_hops()
    for number in range(17):
        sent = RelayCell(2, 7, material(30 + number, "data")).pack()
        payload = bytearray(sent)
        tag = client.send(payload)
        assert travel(relays, payload) == (2, tag)
        assert without_digest(payload) == sent
        payload = bytearray(sent)
        tag = come_back(relays, 2, payload)
        assert client.receive(payload) == (2, tag)
        assert without_digest(payload) == sent


CHECKS = [
    check_fields_stand_where_they_must,
    check_foreign_cells_leave_the_digest,
    check_false_recognized_leaves_all_as_it_was,
    check_false_recognized_is_two_bytes,
    check_layers_come_off_up_to_the_hop_only,
    check_digest_covers_its_own_cell,
    check_alternating_hops,
    check_padding_is_part_of_the_cell,
]


@pytest.mark.parametrize("layout", ["tor1", "hs-v3"])
@pytest.mark.parametrize("backend", ["native", "cryptography", "pycryptodome", "afalg"])
@pytest.mark.parametrize("check", CHECKS)
def test_layers(check: Callable[[Kit], None], backend: str, layout: str) -> None:
    check(Kit(Circuit, usable(backend), layout))


# -- the broken copies -------------------------------------------------------------------------------------------------


class Broken(NamedTuple):
    """A copy of `module` in which `right` stands as `wrong`, and the checks that must see it."""

    module: types.ModuleType
    right: str
    wrong: str
    seen_by: list[Callable[[Kit], None]]


FIELDS = "from .fields import cleared, digest_of, foreign, mend"
SUM = "running.update(cleared(payload))"

BROKEN = {
    "recognized read one byte late": Broken(
        tor1, FIELDS, f"{FIELDS}\nforeign = lambda cell: any(cell[2:4])", [check_fields_stand_where_they_must]
    ),
    "recognized read as one byte": Broken(
        tor1, FIELDS, f"{FIELDS}\nforeign = lambda cell: any(cell[1:2])", [check_false_recognized_is_two_bytes]
    ),
    "recognized not looked at": Broken(
        tor1, "if foreign(payload):", "if False:", [check_false_recognized_is_two_bytes]
    ),
    "any digest taken": Broken(
        tor1,
        "if not compare_digest(tag[:_DIGEST_LEN], digest_of(payload)[0]):",
        "if False:",
        [check_false_recognized_leaves_all_as_it_was, check_digest_covers_its_own_cell],
    ),
    "digest read one byte late": Broken(
        tor1, FIELDS, f"{FIELDS}\ndigest_of = lambda cell: (bytes(cell[6:10]),)", [check_alternating_hops]
    ),
    "digest moved by foreign cells": Broken(
        tor1,
        "            return None\n        running",
        "            self._digest.update(payload)\n            return None\n        running",
        [check_foreign_cells_leave_the_digest, check_alternating_hops],
    ),
    "digest moved by a false recognized": Broken(
        tor1,
        "running = self._digest.copy()",
        "running = self._digest",
        [check_false_recognized_leaves_all_as_it_was],
    ),
    "payload changed by a false recognized": Broken(
        tor1, SUM, f"{SUM}\n        payload[5:9] = bytes(4)", [check_false_recognized_leaves_all_as_it_was]
    ),
    "digest compared before it was updated": Broken(
        tor1,
        f"        {SUM}\n        tag = running.digest()[:TAG_LEN]\n",
        f"        tag = running.digest()[:TAG_LEN]\n        {SUM}\n",
        [check_digest_covers_its_own_cell, check_alternating_hops],
    ),
    "digest summed over itself": Broken(tor1, SUM, "running.update(payload)", [check_alternating_hops]),
    "digest not kept": Broken(tor1, "        self._digest = running\n", "", [check_alternating_hops]),
    "every layer peeled": Broken(
        circuit,
        "                if tag is not None:\n                    return hop, tag\n",
        "                if tag is not None:\n                    found = hop, tag\n",
        [check_layers_come_off_up_to_the_hop_only, check_alternating_hops],
    ),
    "every layer put on": Broken(
        circuit,
        "nearer = tuple(one.forward for one in self._layers[::-1])",
        "nearer = tuple(one.forward for one in self._layers[::-1])[-1:] * 2",
        [check_alternating_hops],
    ),
    "cells to a near hop wrapped by the far ones": Broken(
        circuit,
        "originate, nearer = self._routes[hop]",
        "originate, nearer = self._routes[-1]",
        [check_alternating_hops],
    ),
    "payload packed again before the sum": Broken(
        tor1,
        SUM,
        "from .cell import RelayCell\n        running.update(cleared(RelayCell.parse(payload).pack()))",
        [check_padding_is_part_of_the_cell],
    ),
    "payload packed again with zero padding": Broken(
        tor1,
        SUM,
        "running.update(cleared(payload[: 11 + int.from_bytes(payload[9:11], 'big')]).ljust(509, bytes(1)))",
        [check_padding_is_part_of_the_cell],
    ),
}


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Callable[[types.ModuleType, str, str], Kit]:
    """Give what makes a changed copy of a module; its layers stand in for the real ones for the time of a test."""

    def copied(module: types.ModuleType, right: str, wrong: str) -> Kit:
        path = Path(str(module.__file__))
        source = path.read_text()
        assert source.count(right) == 1
        copy = types.ModuleType(module.__name__)
        copy.__package__ = module.__package__
        monkeypatch.setattr(layers, "SCHEMES", dict(layers.SCHEMES))
        exec(compile(source.replace(right, wrong), path, "exec"), copy.__dict__)
        return Kit(getattr(copy, "Circuit", Circuit))

    return copied


Copied = Callable[[types.ModuleType, str, str], Kit]


@pytest.mark.parametrize(
    ("broken", "check"),
    [pytest.param(one, check, id=f"{name}-{check.__name__}") for name, one in BROKEN.items() for check in one.seen_by],
)
def test_a_broken_copy_is_seen(copied: Copied, broken: Broken, check: Callable[[Kit], None]) -> None:
    kit = copied(broken.module, broken.right, broken.wrong)
    with pytest.raises((AssertionError, CellcryptError)):
        check(kit)


@pytest.mark.parametrize(("module", "line"), [(tor1, "TAG_LEN: Final = 20"), (circuit, "class Circuit:")])
def test_an_unbroken_copy_is_not(copied: Copied, module: types.ModuleType, line: str) -> None:
    """What makes the broken copies breaks nothing by itself."""
    kit = copied(module, line, line)
    for check in CHECKS:
        check(kit)
