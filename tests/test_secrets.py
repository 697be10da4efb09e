"""Keys and key stream: in no repr, exception, traceback or log, and gone after close()."""

from __future__ import annotations

import ctypes
import gc
import io
import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from cellcrypt import TOR_V4, CellcryptError, CellFormat, crypt_each
from cellcrypt.testing import Subject

from .support import each_subject
from .witness import keystream

KEY = bytes.fromhex("0f1e2d3c4b5a69788796a5b4c3d2e1f0")
END = 16 * 2**128


def _forms(secret: bytes) -> list[str]:
    """Return how `secret` might look in a text; parts of it too."""
    pieces = [secret[at : at + 6] for at in range(0, len(secret) - 6, 3)]
    return [form for piece in pieces for form in (piece.hex(), repr(piece)[2:-1], str(list(piece))[1:-1])]


def _assert_absent(text: str, *secrets: bytes) -> None:
    for secret in secrets:
        for form in _forms(secret):
            assert form not in text, text


@each_subject
def test_repr_and_str(subject: Subject) -> None:
    cipher = subject.cipher(KEY, lookahead=600)
    stream = keystream(KEY, bytes(16), 0, 509)
    for _ in range(2):
        for text in (repr(cipher), str(cipher), f"{cipher}", repr([cipher])):
            _assert_absent(text, KEY, stream)
        cipher.crypt(bytes(509))
    cipher.close()
    _assert_absent(repr(cipher), KEY, stream)
    assert not hasattr(cipher, "__dict__")


def _failures(subject: Subject) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    cipher, closed, exhausted = subject.cipher(KEY), subject.cipher(KEY), subject.cipher(KEY)
    cipher.keystream(5)
    closed.close()
    exhausted.seek(END - 3)
    payload = keystream(KEY, bytes(16), 0, 508)  # a payload that is key stream, should someone print payloads
    return [
        (subject.cipher, (KEY[:15],)),
        (subject.cipher, (KEY + b"x",)),
        (subject.cipher, (KEY.hex()[:30],)),
        (subject.cipher, (KEY, KEY[:15])),
        (cipher.crypt, (payload,)),
        (cipher.crypt_into, (payload + b"x", bytearray(508))),
        (cipher.crypt_in_place, (payload + b"x",)),
        (cipher.crypt_cells, (bytearray(payload), TOR_V4)),
        (cipher.crypt_cells, (bytearray(payload), CellFormat(0, 508))),
        (crypt_each, ([cipher, closed], bytearray(1028), TOR_V4)),
        (crypt_each, ([cipher, exhausted], bytearray(1028), TOR_V4)),
        (closed.crypt, (payload + b"x",)),
        (exhausted.crypt, (payload + b"x",)),
        (exhausted.keystream, (4,)),
        (cipher.seek, (END,)),
        (cipher.__reduce_ex__, (2,)),
    ]


@each_subject
def test_exceptions_tracebacks_and_logs(subject: Subject) -> None:
    stream = keystream(KEY, bytes(16), 0, 600)
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    before = logging.getLogger().level
    logging.getLogger().setLevel(1)
    try:
        for call, args in _failures(subject):
            with pytest.raises((CellcryptError, TypeError, ValueError, BufferError)) as caught:
                call(*args)
            error = caught.value
            text = "".join(traceback.format_exception(error)) + repr(error) + repr(error.args) + repr(vars(error))
            _assert_absent(text, KEY, stream)
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger().setLevel(before)
    assert log.getvalue() == ""


def _reachable(root: object) -> list[bytes]:
    """Return the bytes of every buffer that `root` leads to, through everything that is not shared code."""
    skipped = (type, type(sys), type(_reachable), type(abs))
    seen, todo, found = {id(root)}, [root], []
    while todo:
        here = todo.pop()
        if isinstance(here, bytes | bytearray):
            found.append(bytes(here))
        elif isinstance(here, memoryview):
            found.append(here.tobytes())
        for there in gc.get_referents(here):
            if id(there) not in seen and not isinstance(there, skipped):
                seen.add(id(there))
                todo.append(there)
    return found


def _own_memory(thing: object) -> bytes:
    """Return the memory of the object itself, which for the compiled type holds the state."""
    return ctypes.string_at(id(thing), thing.__sizeof__())


@each_subject
@pytest.mark.parametrize("close", ["close", "with", "class"])
def test_nothing_is_left_after_close(subject: Subject, close: str) -> None:
    cipher = subject.cipher(KEY, lookahead=0 if subject.backend == "native" else 600)
    cipher.crypt(bytes(509))  # leaves three octets of a block for the next cell
    spare = keystream(KEY, bytes(16), 496, 16)[-3:]

    def everything() -> bytes:
        return _own_memory(cipher) + b"".join(_reachable(cipher))

    holds_key = (
        subject.kernel != "portable"
    )  # whose round keys are sliced into bits: then only the key stream is looked for
    assert not holds_key or KEY in everything(), "the test looks in the wrong place"
    ahead = keystream(KEY, bytes(16), 512, 60)
    if close == "close":
        cipher.close()
    elif close == "with":
        with cipher:
            pass
    else:
        type(cipher).close(cipher)
    left = everything()
    assert KEY not in left
    assert ahead not in left
    if subject.backend == "native":
        assert spare not in left
        state = _own_memory(cipher)
        assert sum(octet != 0 for octet in state) < 80, "round keys are left"


@each_subject
def test_a_batch_leaves_no_key_stream_behind(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    wire = bytearray(514 * 17)
    cipher.crypt_cells(wire, TOR_V4)
    stream = keystream(KEY, bytes(16), 509, 64)
    assert stream not in _own_memory(cipher) + b"".join(_reachable(cipher))
