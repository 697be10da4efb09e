"""The position and the life of a cipher: copies, ends, forks, many circuits, and calls that fail on the way."""

from __future__ import annotations

import copy
import os
import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

import cellcrypt
from cellcrypt import TOR_V3, TOR_V4, CellCipher, ClosedError, KeystreamExhausted, crypt_each
from cellcrypt.testing import Subject

from .support import KEY, ROOT, each_backend, each_subject
from .witness import keystream

IV = bytes(16)
END = 16 * 2**128


@each_subject
def test_pickling_is_refused(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(cipher, protocol)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps({"a": [cipher]})
    assert cipher.crypt(bytes(509)) == keystream(KEY, IV, 0, 509)


@each_subject
def test_copies_inside_other_things(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    cipher.keystream(7)
    copies = copy.deepcopy({"hops": [cipher, cipher]})["hops"]
    assert copies[0] is not cipher
    for twin in (copies[0], copy.copy(cipher), cipher):
        assert twin.position == 7
        assert twin.crypt(bytes(509)) == keystream(KEY, IV, 7, 509)


@each_subject
def test_a_clone_of_a_closed_original_lives_on(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    cipher.crypt(bytes(509))
    twin = cipher.clone()
    cipher.close()
    assert twin.crypt(bytes(509)) == keystream(KEY, IV, 509, 509)
    other = twin.clone()
    twin.close()
    del twin
    assert other.keystream(3) == keystream(KEY, IV, 1018, 3)


@each_subject
def test_leaving_a_with_block_closes_whatever_happened(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    with pytest.raises(ZeroDivisionError), cipher:
        _ = 1 // cipher.position
    with pytest.raises(ClosedError):
        cipher.crypt(bytes(509))
    assert "closed" in repr(cipher)
    assert cipher.position == 0


@each_subject
def test_what_was_chosen(subject: Subject) -> None:
    cipher = subject.cipher(KEY, payload_len=77)
    assert (cipher.backend, cipher.path, cipher.payload_len, cipher.position) == (
        subject.backend,
        subject.path,
        77,
        0,
    )
    assert cipher.kernel == subject.kernel
    assert repr(cipher).startswith("<CellCipher ")
    assert f"{subject.backend!r}" in repr(cipher)
    assert "position=0" in repr(cipher)


@each_subject
@pytest.mark.parametrize("position", [0, 1, 2**31, 2**32 + 1, 2**60 + 5, 2**63, 2**64 + 3, 2**68 - 1, 2**100, END - 1])
def test_positions_are_whole_numbers_of_any_size(subject: Subject, position: int) -> None:
    cipher = subject.cipher(KEY)
    cipher.seek(position)
    assert cipher.position == position
    assert cipher.clone().position == position
    assert f"position={position}" in repr(cipher)
    left = min(END - position, 40)
    assert cipher.keystream(left) == keystream(KEY, IV, position, left)
    assert cipher.position == position + left
    cipher.seek(0)
    assert cipher.keystream(3) == keystream(KEY, IV, 0, 3)


@each_subject
def test_more_than_memory_holds(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    for length in (2**62, 2**63 - 1, 2**63, 2**100):
        with pytest.raises(MemoryError):
            cipher.keystream(length)
        assert cipher.position == 0
    assert cipher.keystream(9) == keystream(KEY, IV, 0, 9)


@each_backend
def test_fork(subject: Subject) -> None:
    """Parent and child hold the same key stream, and the documentation says so where ciphers are introduced."""
    cipher = subject.cipher(KEY)
    cipher.crypt(bytes(509))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, cipher.crypt(bytes(509)))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        from_child = pipe.read()
    os.waitpid(child, 0)
    assert from_child == cipher.crypt(bytes(509)) == keystream(KEY, IV, 509, 509)
    assert "fork" in str(CellCipher.__doc__)


def test_the_source_says_fork_too() -> None:
    """The core's type replaces the class whose docstring is the manual; both must warn."""
    source = (ROOT / "cellcrypt" / "cipher.py").read_text(encoding="utf-8")
    assert "fork" in source.partition("class CellCipher")[2].partition('"""')[2].partition('"""')[0]


def _mixed() -> list[CellCipher]:
    return [
        CellCipher(bytes([number]) * 16, backend=name, path=path, lookahead=ahead)
        for name, state in cellcrypt.backends().items()
        if state.usable
        for number, (path, ahead) in enumerate([("fused", 0), ("byte", 0), ("word", 700), ("fused", 5000)])
    ]


@pytest.mark.parametrize("container", [list, tuple, deque, iter, dict.fromkeys])
def test_crypt_each_takes_any_iterable_of_any_kinds(container: Any) -> None:
    ciphers = _mixed()
    for number, cipher in enumerate(ciphers):
        cipher.seek(100 * number)
    wanted = b""
    for number, cipher in enumerate(ciphers):
        key = bytes([number % 4]) * 16
        wanted += b"abcde" + keystream(key, IV, cipher.position, 509)
    wire = bytearray((b"abcde" + bytes(509)) * len(ciphers))
    assert crypt_each(container(ciphers), wire, TOR_V4) == len(ciphers)
    assert wire == wanted
    assert [cipher.position for cipher in ciphers] == [100 * n + 509 for n in range(len(ciphers))]


def test_crypt_each_checks_every_cipher_before_it_writes() -> None:
    """A closed, an exhausted or a wrong one at any place, among all kinds: nothing written, nothing moved."""
    ciphers = _mixed()
    kinds: list[tuple[Any, type[Exception]]] = [
        (lambda c: c.close(), ClosedError),
        (lambda c: c.seek(END - 508), KeystreamExhausted),
        (None, ValueError),
    ]
    for make_bad, expected in kinds:
        for name, state in cellcrypt.backends().items():
            if not state.usable:
                continue
            bad = CellCipher(KEY, backend=name, payload_len=508 if make_bad is None else 509)
            if make_bad is not None:
                make_bad(bad)
            for place in (0, 1, len(ciphers) // 2, len(ciphers)):
                queue = [*ciphers[:place], bad, *ciphers[place:]]
                wire = bytearray(512 * len(queue))
                with pytest.raises(expected):
                    crypt_each(queue, wire, TOR_V3)
                assert not any(wire)
                assert all(cipher.position == 0 for cipher in ciphers)
    # None of them is left claimed.
    wire = bytearray(512 * len(ciphers))
    crypt_each(ciphers, wire, TOR_V3)


@each_subject
def test_one_cipher_many_times_near_the_end(subject: Subject) -> None:
    """Two cells are left: a batch of three is refused whole, one of two uses the key stream up."""
    cipher, other = subject.cipher(KEY), subject.cipher(KEY)
    cipher.seek(END - 2 * 509)
    wire = bytearray(4 * 512)
    with pytest.raises(KeystreamExhausted):
        crypt_each([cipher, other, cipher, cipher], wire, TOR_V3)
    assert not any(wire)
    assert (cipher.position, other.position) == (END - 2 * 509, 0)
    crypt_each([cipher, other, cipher, other], wire, TOR_V3)
    assert (cipher.position, other.position) == (END, 2 * 509)
    assert wire[1027:1536] == keystream(KEY, IV, END - 509, 509)


@each_subject
def test_an_iterable_that_interferes(subject: Subject) -> None:
    cipher, other = subject.cipher(KEY), subject.cipher(KEY)

    def closing() -> Iterator[CellCipher]:
        yield other
        yield cipher
        cipher.close()

    def failing() -> Iterator[CellCipher]:
        yield other
        raise ZeroDivisionError

    wire = bytearray(2 * 512)
    with pytest.raises(ClosedError):
        crypt_each(closing(), wire, TOR_V3)
    with pytest.raises(ZeroDivisionError):
        crypt_each(failing(), wire, TOR_V3)
    assert not any(wire)
    assert other.position == 0
    assert other.crypt(bytes(509)) == keystream(KEY, IV, 0, 509)


@each_subject
def test_arguments_by_name(subject: Subject) -> None:
    cipher, out, wire = subject.cipher(key=KEY, iv=IV), bytearray(509), bytearray(512)
    cipher.crypt_into(payload=bytes(509), out=out)
    assert out == keystream(KEY, IV, 0, 509)
    cipher.crypt_into(out=out, payload=bytes(509))
    assert out == keystream(KEY, IV, 509, 509)
    assert cipher.crypt_cells(cell_format=TOR_V3, buffer=wire) == 1
    assert cipher.crypt_cells(wire, cell_format=TOR_V3) == 1
    assert crypt_each(buffer=wire, cell_format=TOR_V3, ciphers=[cipher]) == 1
    assert cipher.position == 5 * 509
    before = bytes(wire)
    wrong: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (cipher.crypt_into, (bytes(509), out), {"out": out}),
        (cipher.crypt_into, (bytes(509),), {"payload": bytes(509)}),
        (cipher.crypt_into, (), {"out": out}),
        (cipher.crypt_into, (bytes(509),), {"to": out}),
        (cipher.crypt_cells, (wire,), {"format": TOR_V3}),
        (cipher.crypt_cells, (wire, TOR_V3), {"cell_format": TOR_V3}),
    ]
    for call, args, names in wrong:
        with pytest.raises(TypeError):
            call(*args, **names)
    assert cipher.position == 5 * 509
    assert wire == before
