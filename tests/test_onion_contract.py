"""What a caller of cellcrypt.onion can rely on: buffers, errors that change nothing, order, secrets, closing."""

from __future__ import annotations

import array
import copy
import ctypes
import mmap
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from cellcrypt import BackendUnavailable, CellcryptError, ClosedError, PayloadLengthError
from cellcrypt.onion import (
    LAYOUTS,
    Circuit,
    ClientLayer,
    HopKeys,
    NoSuchHop,
    RelayLayer,
    UnrecognizedCell,
    hs_ntor_expand,
    kdf_tor,
    layers,
    ntor_expand,
    tor1,
)

from .onion_kit import hop_keys, material, plain, three_hops, without_digest

Call = Callable[..., Any]


def calls(layer: ClientLayer | RelayLayer) -> dict[str, Call]:
    return {name: getattr(layer, name) for name in ("originate", "forward", "backward")}


EACH_CALL = [(kind, name) for kind in (ClientLayer, RelayLayer) for name in ("originate", "forward", "backward")]


@pytest.fixture(params=EACH_CALL, ids=lambda one: f"{one[0].__name__}.{one[1]}")
def two_layers(request: pytest.FixtureRequest) -> tuple[Call, Call]:
    """The same call of two layers with the same keys."""
    kind, name = request.param
    return calls(kind(hop_keys(0)))[name], calls(kind(hop_keys(0)))[name]


# -- buffers -----------------------------------------------------------------------------------------------------------


def views(payload: bytearray) -> dict[str, Any]:
    """The same 509 bytes as buffers of many kinds; each is paired with what to read the result from."""
    anonymous = mmap.mmap(-1, 509)
    anonymous[:] = bytes(payload)
    wire = bytearray(b"\xaa" * 514)
    wire[5:] = payload
    return {
        "slice of a wire cell": memoryview(wire)[5:],
        "array of signed bytes": array.array("b", bytes(payload)),
        "chars": memoryview(bytearray(payload)).cast("c"),
        "bools": memoryview(bytearray(payload)).cast("?"),
        "two dimensions": memoryview(bytearray(payload)).cast("B", (509, 1)),
        "one long row": memoryview(bytearray(payload)).cast("B", (1, 509)),
        "ctypes": (ctypes.c_char * 509).from_buffer(bytearray(payload)),
        "mmap": anonymous,
    }


@pytest.mark.parametrize("name", views(bytearray(509)))
def test_any_writable_contiguous_buffer_will_do(two_layers: tuple[Call, Call], name: str) -> None:
    one, other = two_layers
    for number in range(3):
        payload = plain(number)
        buffer = views(payload)[name]
        assert one(buffer) == other(payload)
        assert bytes(memoryview(buffer)) == payload


@pytest.mark.parametrize("kind", [ClientLayer, RelayLayer])
@pytest.mark.parametrize("name", views(bytearray(509)))
def test_any_buffer_is_recognized(kind: type, name: str) -> None:
    """The check for recognized reads bytes, whatever the items are; 'c' items of zero are true in Python."""
    client, relay = ClientLayer(hop_keys(0)), RelayLayer(hop_keys(0))
    send, take = (relay.originate, client.backward) if kind is ClientLayer else (client.originate, relay.forward)
    payload = plain(0)
    tag = send(payload)
    assert take(views(payload)[name]) == tag


def test_what_follows_a_payload_in_its_wire_cell_stays() -> None:
    client, relay = ClientLayer(hop_keys(0)), RelayLayer(hop_keys(0))
    wire = bytearray(b"\xaa" * 5 + plain(0) + b"\xbb" * 5)
    payload = memoryview(wire)[5:514]
    assert client.originate(payload) == relay.forward(payload)
    assert wire[:5] + wire[514:] == b"\xaa" * 5 + b"\xbb" * 5


@pytest.mark.parametrize("zero", [False, True])
def test_originate_writes_recognized_and_digest_whatever_stood_there(zero: bool) -> None:
    client, relay = ClientLayer(hop_keys(0)), RelayLayer(hop_keys(0))
    for number in range(3):
        payload = plain(number)
        if not zero:
            payload[1:3], payload[5:9] = b"\x12\x34", b"\x56\x78\x9a\xbc"
        tag = client.originate(payload)
        assert relay.forward(payload) == tag
        assert without_digest(payload) == plain(number)
        assert payload[5:9] == tag[:4]


# -- errors change nothing ---------------------------------------------------------------------------------------------

WRONG: list[tuple[Any, type[Exception]]] = [
    (bytearray(508), PayloadLengthError),
    (bytearray(510), PayloadLengthError),
    (bytearray(0), PayloadLengthError),
    (memoryview(bytearray(1018))[::2], BufferError),
    (bytes(509), (BufferError, TypeError)),  # type: ignore[list-item]
    ("x" * 509, TypeError),
    (509, TypeError),
    (10**18, TypeError),
    (None, TypeError),
    ([0] * 509, TypeError),
]


@pytest.mark.parametrize(("wrong", "error"), WRONG, ids=lambda one: str(getattr(one, "__name__", type(one).__name__)))
def test_a_wrong_payload_changes_nothing(two_layers: tuple[Call, Call], wrong: Any, error: Any) -> None:
    one, other = two_layers
    for number in range(2):
        before = bytes(wrong) if isinstance(wrong, (bytearray, memoryview)) else None
        with pytest.raises(error) as caught:
            one(wrong)
        if isinstance(wrong, bytearray):
            assert f"payload must be 509 bytes, got {len(wrong)}" in str(caught.value)
        assert before is None or bytes(wrong) == before
        payload, same = plain(number), plain(number)
        assert one(payload) == other(same)
        assert payload == same


@pytest.mark.parametrize(("wrong", "error"), WRONG, ids=lambda one: str(getattr(one, "__name__", type(one).__name__)))
def test_a_wrong_payload_leaves_the_circuit_whole(wrong: Any, error: Any) -> None:
    client, relays = three_hops()
    with pytest.raises(error):
        client.send(wrong)
    with pytest.raises(error):
        client.receive(wrong)
    payload = plain(0)
    tag = client.send(payload)
    assert [relay.forward(payload) for relay in relays] == [None, None, tag]


class _Refuses:
    """Stands in for a cipher whose backend fails."""

    def __call__(self, payload: object) -> None:
        raise BackendUnavailable("the backend failed")


def test_a_failing_backend_changes_nothing(two_layers: tuple[Call, Call], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two_layers
    direction = getattr(one, "__self__")  # noqa: B009
    crypt = direction._crypt
    direction._crypt = _Refuses()
    payload = plain(0)
    payload[5:9] = b"kept"
    before = bytes(payload)
    with pytest.raises(BackendUnavailable):
        one(payload)
    assert payload == before
    direction._crypt = crypt
    same = bytearray(payload)
    assert one(payload) == other(same)
    assert payload == same


def test_a_layer_that_fails_half_way_breaks_the_circuit() -> None:
    client, _ = three_hops()
    client.layers[1].close()
    with pytest.raises(ClosedError):
        client.send(plain(0))
    with pytest.raises(UnrecognizedCell):
        client.send(plain(0), 0)
    client, _ = three_hops()
    client.layers[1].close()
    with pytest.raises(ClosedError):
        client.receive(plain(0))
    with pytest.raises(UnrecognizedCell):
        client.receive(plain(0))


# -- circuits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, "3", 3.0, -1, 256, 2**70])
def test_a_wrong_command_changes_nothing(wrong: Any) -> None:
    """Not every layer asks for it: all of a circuit's layers, or none, may move."""
    mixed = HopKeys.from_key_material(material(160), "cgo")
    circuits = [Circuit([ClientLayer(hop_keys(0)), ClientLayer(mixed), ClientLayer(hop_keys(2))]) for _ in range(2)]
    payload = plain(0)
    for call in (circuits[0].send, circuits[0].receive):
        with pytest.raises((TypeError, ValueError), match=r"command must be (an int|0 to 255), got"):
            call(payload, command=wrong)
        assert payload == plain(0)
    sent = [plain(0), plain(0)]
    assert circuits[0].send(sent[0], command=9) == circuits[1].send(sent[1], command=9)
    assert sent[0] == sent[1]


@pytest.mark.parametrize("wrong", [None, "0", 1.0, slice(0, 1), b""])
def test_a_hop_of_a_wrong_type(wrong: Any) -> None:
    payload = plain(0)
    with pytest.raises(TypeError, match=f"hop must be an int, got {type(wrong).__name__}"):
        three_hops()[0].send(payload, wrong)
    assert payload == plain(0)


def test_hops_count_from_both_ends() -> None:
    client, relays = three_hops()
    for hop, number in ((0, 0), (1, 1), (2, 2), (-1, 2), (-2, 1), (-3, 0)):
        payload = plain(number)
        tag = client.send(payload, hop)
        assert [relay.forward(payload) for relay in relays[: number + 1]] == [None] * number + [tag]
    payload = plain(0)
    tag = client.send(payload)  # the default is the farthest
    assert [relay.forward(payload) for relay in relays] == [None, None, tag]


@pytest.mark.parametrize(
    ("hop", "told"),
    [(3, "3"), (-4, "-4"), (100, "100"), (1 << 16609, r"2\*\*16609 or more")],
    ids=["3", "-4", "100", "huge"],
)
def test_no_such_hop(hop: int, told: str) -> None:
    client, relays = three_hops()
    payload = plain(0)
    with pytest.raises(NoSuchHop, match=f"hop must be one of the circuit's 3 hops, counted from 0, got {told}"):
        client.send(payload, hop)
    assert payload == plain(0)
    tag = client.send(payload)
    assert [relay.forward(payload) for relay in relays] == [None, None, tag]


def test_an_empty_circuit_grows() -> None:
    circuit = Circuit([])
    assert len(circuit) == 0
    for call in (circuit.send, circuit.receive):
        with pytest.raises(NoSuchHop):
            call(plain(0))
    relays = [RelayLayer(hop_keys(hop)) for hop in range(3)]
    for hop in range(3):
        circuit.append(ClientLayer(hop_keys(hop)))
        assert len(circuit) == len(circuit.layers) == hop + 1
        payload = plain(hop)
        tag = circuit.send(payload)
        assert [relay.forward(payload) for relay in relays[: hop + 1]] == [None] * hop + [tag]
        payload = plain(hop)
        tag = relays[hop].originate(payload)
        for relay in relays[:hop][::-1]:
            relay.backward(payload)
        assert circuit.receive(payload) == (hop, tag)


def test_what_is_no_layer_is_refused() -> None:
    wrong: Any = RelayLayer(hop_keys(0))
    with pytest.raises(TypeError, match="layer must be a ClientLayer, got Tor1RelayLayer"):
        Circuit([wrong])


@pytest.mark.parametrize("bit", [0, 8, 23, 40, 71, 72, 4071])
@pytest.mark.parametrize("hop", range(3))
def test_a_cell_that_no_hop_recognizes_breaks_the_circuit(hop: int, bit: int) -> None:
    client, relays = three_hops()
    good = [plain(number) for number in range(2)]
    for payload in good:
        relays[hop].originate(payload)
        for relay in relays[:hop][::-1]:
            relay.backward(payload)
    good[0][bit // 8] ^= 0x80 >> bit % 8
    with pytest.raises(UnrecognizedCell, match="none of the 3 hops"):
        client.receive(good[0])
    before = bytes(good[1])
    for call in (client.receive, client.send):
        with pytest.raises(UnrecognizedCell, match="the circuit is broken"):
            call(good[1])
    with pytest.raises(UnrecognizedCell):
        client.append(ClientLayer(hop_keys(3)))
    assert good[1] == before
    assert [layer.backward(good[1]) for layer in client.layers] == [None, None, None]


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_key_material_of_a_wrong_length(layout: str) -> None:
    right = {choice.length for choice in LAYOUTS[layout]}
    for length in {0, 71, 73, 91, 93, 127, 129, *(one + 1 for one in right)} - right:
        with pytest.raises(ValueError, match=f"material must be .* bytes for layout '{layout}', got {length}"):
            HopKeys.from_key_material(bytes(length), layout)


@pytest.mark.parametrize("layout", ["", "TOR1", "guess", None, []])
def test_layouts_are_never_guessed(layout: Any) -> None:
    with pytest.raises(ValueError, match="layout must be one of tor1, kdf-tor, ntor, hs-v3"):
        HopKeys.from_key_material(bytes(92), layout)


def test_material_in_the_place_of_the_layout_is_not_shown() -> None:
    swapped: Any = material(92)
    with pytest.raises(ValueError, match=r"layout must be one of .*, got bytes$"):
        HopKeys.from_key_material(b"ntor", swapped)


def test_layouts_of_one_length_differ() -> None:
    """92 bytes are cut in two ways; a mistake between them shows at once."""
    one, other = (HopKeys.from_key_material(material(92), layout) for layout in ("kdf-tor", "ntor"))
    assert one != other
    payload = plain(0)
    ClientLayer(one).originate(payload)
    assert RelayLayer(other).forward(payload) is None


@pytest.mark.parametrize(
    ("derive", "limit"), [(kdf_tor, 5120), (ntor_expand, 8160), (hs_ntor_expand, 1 << 20)], ids=lambda one: str(one)
)
def test_lengths_of_key_material(derive: Callable[..., bytes], limit: int) -> None:
    assert len(derive(b"secret", limit)) == limit
    with pytest.raises(ValueError, match=f"length must be at most {limit} bytes, got {limit + 1}"):
        derive(b"secret", limit + 1)
    with pytest.raises(ValueError, match="length must be at least 0 bytes, got -1"):
        derive(b"secret", -1)
    for wrong in (True, "72", 72.0, None):
        with pytest.raises(TypeError, match="length must be an int"):
            derive(b"secret", wrong)
    for secret in ("secret", None, 7):
        with pytest.raises(TypeError):
            derive(secret, 72)
    assert derive(bytearray(b"secret"), 72) == derive(memoryview(b"secret"), 72) == derive(b"secret", 72)


def test_keys_show_nowhere() -> None:
    keys = hop_keys(0)
    secrets = (*keys.forward, *keys.backward)
    layer, relay = ClientLayer(keys), RelayLayer(keys)
    circuit = Circuit([layer])
    shown = "".join(repr(one) + str(one) for one in (keys, layer, relay, circuit))
    for one in (*secrets, *(secret.hex().encode() for secret in secrets)):
        assert repr(one)[2:-1] not in shown
    for wrong in (keys, 7, None):
        with pytest.raises((TypeError, ValueError)) as caught:
            HopKeys.from_key_material(material(71), str(wrong))
        assert material(71).hex() not in str(caught.value)


def test_hop_keys_are_values() -> None:
    keys = hop_keys(0)
    assert keys == hop_keys(0)
    assert hash(keys) == hash(hop_keys(0))
    assert keys != hop_keys(1)
    assert keys != hop_keys(0, "hs-v3")
    assert keys != "keys"
    assert keys != HopKeys("hs-v3", keys.forward, keys.backward, keys.kh)
    assert HopKeys("tor1", (b"1",), (b"2",)) != HopKeys("tor1", (b"1",), (b"2", b""))
    frozen: Any = keys
    with pytest.raises(AttributeError):
        frozen.scheme = "other"


@pytest.mark.parametrize("kind", [ClientLayer, RelayLayer])
def test_layers_know_their_scheme_by_their_keys(kind: Any) -> None:
    for layout in ("tor1", "hs-v3"):
        assert type(kind(hop_keys(0, layout))) in layers.SCHEMES[layout]
    with pytest.raises(ValueError, match=r"keys must be for one of .*tor1.*, got 'tor7'"):
        kind(HopKeys("tor7", (), ()))
    for wrong in (bytes(72), None, "tor1"):
        with pytest.raises(TypeError, match="keys must be HopKeys"):
            kind(wrong)
    with pytest.raises(ValueError, match="backend"):
        kind(hop_keys(0), backend="none such")


@pytest.mark.parametrize("kind", [ClientLayer, RelayLayer])
@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickle.dumps])
def test_layers_are_not_copied(kind: Any, twin: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="can't be copied or pickled"):
        twin(kind(hop_keys(0)))


def test_closing() -> None:
    client, relays = three_hops()
    with client, relays[0]:
        client.send(plain(0))
    client.close()
    payload = plain(1)
    each: list[Call] = [*calls(client.layers[0]).values(), *calls(relays[0]).values(), client.send, client.receive]
    for call in each:
        with pytest.raises(CellcryptError):
            call(payload)
        assert payload == plain(1)
    with pytest.raises(ClosedError):
        relays[0].forward(payload)


# -- secrets and time --------------------------------------------------------------------------------------------------


def test_digests_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(one: bytes, other: bytes) -> bool:
        seen.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(tor1, "compare_digest", spy)
    client, relay = ClientLayer(hop_keys(0)), RelayLayer(hop_keys(0))
    payload = plain(0)
    client.originate(payload)
    assert relay.forward(payload) is not None
    payload = plain(1)
    client.forward(payload)  # recognized is zero, the digest is not right
    assert relay.forward(payload) is None
    assert seen == [(4, 4), (4, 4)]


def test_importing_loads_no_backend() -> None:
    code = (
        "import sys, cellcrypt.onion; print([one for one in ('cryptography', 'Crypto', 'numpy') if one in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
