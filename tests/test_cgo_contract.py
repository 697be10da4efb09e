"""What a caller of Counter Galois Onion can rely on, in C and in Python: buffers, errors that change nothing."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from cellcrypt import BackendUnavailable, CellcryptError, ClosedError, PayloadLengthError
from cellcrypt.backend import load
from cellcrypt.compiled import core
from cellcrypt.onion import ClientLayer, RelayLayer

from .cgo_kit import Calls, cell, definition, hop_keys, octets
from .onion_kit import usable

CALLS = ("originate", "receive", "pass_on")
Pair = tuple[Calls, Calls]


@pytest.fixture(params=["python", "C"])
def pair(request: pytest.FixtureRequest) -> Callable[[bool], Pair]:
    """Two directions with one state."""
    if request.param == "C":
        usable("native")

    def two(client: bool) -> Pair:
        make = definition if request.param == "python" else core.Cgo
        return make(octets(80, "pair"), client), make(octets(80, "pair"), client)

    return two


WRONG: list[tuple[Any, dict[str, Any], Any, str]] = [
    (bytearray(508), {}, PayloadLengthError, "payload must be 509 bytes, got 508"),
    (memoryview(bytearray(510)), {}, PayloadLengthError, "payload must be 509 bytes, got 510"),
    (bytearray(0), {}, PayloadLengthError, "payload must be 509 bytes, got 0"),
    (memoryview(bytearray(1018))[::2], {}, BufferError, "contiguous"),
    (memoryview(bytearray(509))[::-1], {}, BufferError, "contiguous"),
    (bytes(509), {}, BufferError, "writable"),
    (memoryview(bytes(509)), {}, BufferError, "writable"),
    ("x" * 509, {}, TypeError, "str"),
    (None, {}, TypeError, "NoneType"),
    (bytearray(509), {"command": 256}, ValueError, "command must be 0 to 255, got 256"),
    (bytearray(509), {"command": -1}, ValueError, "command must be 0 to 255, got -1"),
    (bytearray(509), {"command": 1 << 70}, ValueError, "command must be 0 to 255, got 11805"),
    (bytearray(509), {"command": 10**5000}, ValueError, r"command must be 0 to 255, got 2\*\*16609 or more"),
    (bytearray(509), {"command": "3"}, TypeError, "str"),
    (bytearray(509), {"command": 3.0}, TypeError, "float"),
    (bytearray(509), {"order": 3}, TypeError, "order"),
]


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("wrong", "named", "error", "message"), WRONG)
def test_a_wrong_argument_changes_nothing(
    pair: Callable[[bool], Pair], client: bool, name: str, wrong: Any, named: dict[str, Any], error: Any, message: str
) -> None:
    one, other = pair(client)
    before = bytes(wrong) if isinstance(wrong, (bytearray, memoryview)) else None
    with pytest.raises(error, match=message):
        getattr(one, name)(wrong, **named)
    assert before is None or bytes(wrong) == before
    for number in range(2):
        ours, expected = cell(number), cell(number)
        assert getattr(one, name)(ours) == getattr(other, name)(expected)
        assert ours == expected


@pytest.mark.parametrize("name", CALLS)
def test_wrong_numbers_of_arguments(pair: Callable[[bool], Pair], name: str) -> None:
    call = getattr(pair(False)[0], name)
    for arguments, named in (
        ((), {}),
        ((), {"command": 3}),
        ((cell(0), 3, 3), {}),
        ((cell(0),), {"payload": cell(0)}),
        ((cell(0), 3), {"command": 3}),
    ):
        with pytest.raises(TypeError):
            call(*arguments, **named)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("offset", range(6))
def test_a_slice_of_a_wire_cell_will_do(pair: Callable[[bool], Pair], name: str, offset: int) -> None:
    for client in (False, True):
        one, other = pair(client)
        wire, expected = bytearray(b"\xaa" * offset + cell(0) + b"\xbb" * 9), cell(0)
        assert getattr(one, name)(memoryview(wire)[offset : offset + 509]) == getattr(other, name)(expected)
        assert wire == b"\xaa" * offset + expected + b"\xbb" * 9


@pytest.mark.parametrize("backend", ["native", "cryptography"])
def test_a_closed_layer_refuses(backend: str) -> None:
    usable(backend)
    for kind in (ClientLayer, RelayLayer):
        layer = kind(hop_keys(0), backend=backend)
        with layer:
            layer.forward(cell(0))
        layer.close()
        for call in (layer.originate, layer.forward, layer.backward):
            payload = cell(0)
            with pytest.raises(ClosedError):
                call(payload)
            assert payload == cell(0)


def test_a_state_cant_be_copied_or_pickled(pair: Callable[[bool], Pair]) -> None:
    for thing in (pair(False)[0], ClientLayer(hop_keys(0)), RelayLayer(hop_keys(0))):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                way(thing)


def test_no_key_shows(pair: Callable[[bool], Pair]) -> None:
    shown = repr(pair(False)[0]) + str(pair(True)[0]) + repr(ClientLayer(hop_keys(0))) + repr(hop_keys(0))
    assert not any(octets(80, "pair")[i : i + 16].hex() in shown for i in range(64))
    assert len(shown) < 400


def test_a_backend_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every one of the calls of it that a cell makes: those of ET and PRF, and of the update."""
    real = load("cryptography")
    failing_at = -1
    count = 0

    class Fails:
        def __init__(self, key: bytes, iv: bytes) -> None:
            self.keystream = real(key, iv)

        def xor_into(self, position: int, buffer: memoryview) -> None:
            nonlocal count
            count += 1
            if count == failing_at:
                raise OSError("no key stream to-day")
            self.keystream.xor_into(position, buffer)

    monkeypatch.setattr("cellcrypt.onion.cgo.load", lambda name: Fails)
    one, other = definition(octets(80, "fails"), False), definition(octets(80, "fails"), False)
    for failing_at in (1, 2, 3):  # noqa: B007
        count = 0
        payload = cell(0)
        with pytest.raises(BackendUnavailable, match="'cryptography' failed: OSError: no key stream to-day"):
            one.originate(payload)
        assert payload == cell(0)
    failing_at = -1
    ours, expected = cell(0), cell(0)
    assert one.originate(ours) == other.originate(expected)
    assert ours == expected


def test_errors_of_c_are_of_the_packages_tree(pair: Callable[[bool], Pair]) -> None:
    one, _ = pair(False)
    with pytest.raises(CellcryptError):
        one.pass_on(bytearray(1))
    one.close()
    with pytest.raises(CellcryptError):
        one.pass_on(bytearray(509))


@pytest.mark.skipif(core is None, reason="no compiled core")
def test_the_c_type_refuses_what_it_cant_use() -> None:
    for arguments, message in (
        ((bytes(79), True), "key material must be 80 or 112 bytes, got 79"),
        ((bytes(80), True, bytes(15)), "tag must be 16 bytes, got 15"),
        ((bytes(80), True, bytes(16), "none"), "kernel must be one of .*, got 'none'"),
        ((bytes(80), True, bytes(16), None, "none"), "polyval must be one of .*, got 'none'"),
    ):
        with pytest.raises(ValueError, match=message):
            core.Cgo(*arguments)
    assert (core.Cgo(bytes(80), True).kernel, core.Cgo(bytes(80), True).polyval) == (
        core.kernels()[0],
        core.polyval_kernels()[0],
    )
