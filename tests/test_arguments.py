"""What wrong arguments get: which exception, and what its message says (expected, got, unit)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

import cellcrypt
from cellcrypt import TOR_V3, TOR_V4, CellCipher, CellFormat, crypt_each
from cellcrypt.backend import BUILT_IN
from cellcrypt.testing import Subject

from .support import KEY, each_backend

END = 16 * 2**128


def _raises(expected: type[Exception], message: str, call: Callable[..., object], *args: Any, **more: Any) -> None:
    """Check the exact type, the whole message, and that no other exception is shown as the cause."""
    with pytest.raises(expected) as caught:
        call(*args, **more)
    assert type(caught.value) is expected
    assert re.fullmatch(message, str(caught.value)), str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@each_backend
@pytest.mark.parametrize("length", [0, 1, 15, 17, 23, 25, 31, 33, 64])
def test_key_length(subject: Subject, length: int) -> None:
    _raises(ValueError, f"key must be 16, 24 or 32 bytes, got {length}", subject.cipher, bytes(length))


@each_backend
@pytest.mark.parametrize("length", [0, 8, 12, 15, 17, 32])
def test_iv_length(subject: Subject, length: int) -> None:
    _raises(ValueError, f"iv must be 16 bytes, got {length}", subject.cipher, KEY, bytes(length))


@each_backend
@pytest.mark.parametrize("bad", [None, True, 16, "k" * 16, [1] * 16, 1.5])
def test_key_and_iv_of_a_wrong_type(subject: Subject, bad: Any) -> None:
    kind = type(bad).__name__
    _raises(TypeError, f"key must be a bytes-like object, got {kind}", subject.cipher, bad)
    _raises(TypeError, f"iv must be a bytes-like object, got {kind}", subject.cipher, KEY, bad)


@each_backend
def test_key_and_iv_not_contiguous(subject: Subject) -> None:
    gappy, reversed_ = memoryview(bytes(32))[::2], memoryview(bytes(16))[::-1]
    for bad in (gappy, reversed_):
        _raises(BufferError, r"key must be C-contiguous, got strides .*", subject.cipher, bad)
        _raises(BufferError, r"iv must be C-contiguous, got strides .*", subject.cipher, KEY, bad)


@each_backend
@pytest.mark.parametrize("bad", [0, -1, 65_536, 2**64])
def test_payload_len_out_of_range(subject: Subject, bad: int) -> None:
    message = f"payload_len must be 1 to 65535 bytes, got {bad}"
    _raises(ValueError, message, subject.cipher, KEY, payload_len=bad)


@each_backend
@pytest.mark.parametrize("bad", [None, True, 509.0, "509"])
def test_numbers_of_a_wrong_type(subject: Subject, bad: Any) -> None:
    kind = type(bad).__name__
    _raises(TypeError, f"payload_len must be an int, got {kind}", subject.cipher, KEY, payload_len=bad)
    _raises(TypeError, f"lookahead must be an int, got {kind}", subject.cipher, KEY, lookahead=bad)


@each_backend
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_of_too_many_digits_for_a_message(subject: Subject, sign: int) -> None:
    huge, told = sign * 10**5000, r"2\*\*16609 or more" if sign > 0 else r"-2\*\*16609 or less"
    message = "payload_len must be 1 to 65535 bytes, got more digits than can be shown"
    _raises(ValueError, message, subject.cipher, KEY, payload_len=huge)
    _raises(ValueError, f"lookahead must be at .* bytes, got {told}", subject.cipher, KEY, lookahead=huge)
    cipher = subject.cipher(KEY)
    exhausted = cellcrypt.KeystreamExhausted if sign > 0 else ValueError
    _raises(exhausted, f"position must be .* bytes, got {told}", cipher.seek, huge)
    words = f"{told} bytes of key stream were asked for, .*" if sign > 0 else f"length must be .* bytes, got {told}"
    _raises(exhausted, words, cipher.keystream, huge)
    assert cipher.position == 0


@each_backend
def test_lookahead_out_of_range(subject: Subject) -> None:
    _raises(ValueError, "lookahead must be at least 0 bytes, got -1", subject.cipher, KEY, lookahead=-1)
    message = rf"lookahead must be at most {2**30} bytes, got {2**30 + 1}"
    _raises(ValueError, message, subject.cipher, KEY, lookahead=2**30 + 1)


@each_backend
def test_unknown_names(subject: Subject) -> None:
    _raises(ValueError, "path must be one of byte, word, fused, got 'fast'", subject.cipher, KEY, path="fast")
    _raises(ValueError, "path must be one of .*, got 'Fused'", subject.cipher, KEY, path="Fused")
    known = ", ".join(BUILT_IN)
    _raises(ValueError, f"backend must be one of {known}.*, got 'openssl'", CellCipher, KEY, backend="openssl")
    _raises(ValueError, "backend must be one of .*, got ''", CellCipher, KEY, backend="")
    if subject.backend == "native":
        known = ", ".join(cellcrypt.backends()["native"].kernels)
        _raises(ValueError, f"kernel must be one of {known}.*, got 'sse9'", subject.cipher, KEY, kernel="sse9")
    else:
        _raises(ValueError, "kernel .*got 'aesni'.*", subject.cipher, KEY, kernel="aesni")


@each_backend
@pytest.mark.parametrize("bad", [True, 1, b"fused"])
def test_names_of_a_wrong_type(subject: Subject, bad: Any) -> None:
    kind = type(bad).__name__
    _raises(TypeError, f"path must be a str, got {kind}", subject.cipher, KEY, path=bad)
    _raises(TypeError, f"backend must be a str or None, got {kind}", CellCipher, KEY, backend=bad)
    _raises(TypeError, f"kernel must be a str or None, got {kind}", subject.cipher, KEY, kernel=bad)


@each_backend
def test_too_many_too_few_and_unknown_arguments(subject: Subject) -> None:
    wrong: list[tuple[Any, Any]] = [
        ((), {}),
        ((KEY, bytes(16), 509), {}),
        ((KEY,), {"mode": "ctr"}),
        ((KEY,), {"key": KEY}),
    ]
    for args, more in wrong:
        with pytest.raises(TypeError):
            CellCipher(*args, **more, backend=subject.backend)
    cipher = subject.cipher(KEY)
    calls: list[tuple[Any, Any]] = [
        (cipher.crypt, ()),
        (cipher.crypt, (bytes(509), bytes(509))),
        (cipher.crypt_into, (bytes(509),)),
        (cipher.crypt_into, (bytes(509), bytearray(509), 1)),
        (cipher.crypt_in_place, ()),
        (cipher.crypt_cells, (bytearray(514),)),
        (cipher.keystream, ()),
        (cipher.seek, ()),
        (crypt_each, ([cipher], bytearray(514))),
    ]
    for call, args in calls:
        with pytest.raises(TypeError):
            call(*args)
    assert cipher.position == 0


@each_backend
def test_lengths_of_payload_and_destination(subject: Subject) -> None:
    cipher, wrong = subject.cipher(KEY), cellcrypt.PayloadLengthError
    for length in (0, 508, 510, 1018):
        message = f"payload must be 509 bytes, got {length}"
        _raises(wrong, message, cipher.crypt, bytes(length))
        _raises(wrong, message, cipher.crypt_in_place, bytearray(length))
        _raises(wrong, message, cipher.crypt_into, bytes(length), bytearray(509))
        _raises(wrong, f"out must be 509 bytes, got {length}", cipher.crypt_into, bytes(509), bytearray(length))
    assert issubclass(wrong, ValueError)


@each_backend
def test_what_is_no_buffer_or_cannot_be_written(subject: Subject) -> None:
    cipher, text = subject.cipher(KEY), "x" * 509
    no_buffer: list[tuple[Any, Any, str]] = [
        (cipher.crypt, (text,), "payload"),
        (cipher.crypt_in_place, (text,), "payload"),
        (cipher.crypt_into, (text, bytearray(509)), "payload"),
        (cipher.crypt_into, (bytes(509), text), "out"),
        (cipher.crypt_cells, (text, TOR_V4), "buffer"),
        (crypt_each, ([cipher], text, TOR_V4), "buffer"),
    ]
    for call, args, name in no_buffer:
        _raises(TypeError, f"{name} must be a bytes-like object, got str", call, *args)
    read_only: list[tuple[Any, Any, str]] = [
        (cipher.crypt_in_place, (bytes(509),), "payload"),
        (cipher.crypt_into, (bytes(509), bytes(509)), "out"),
        (cipher.crypt_cells, (bytes(514), TOR_V4), "buffer"),
        (crypt_each, ([cipher], bytes(514), TOR_V4), "buffer"),
    ]
    for call, args, name in read_only:
        _raises(BufferError, f"{name} must be writable, got a read-only bytes", call, *args)


@each_backend
def test_overlap_says_how_far(subject: Subject) -> None:
    memory = memoryview(bytearray(600))
    message = "out must be payload itself or apart from it, got one that begins {} bytes from it"
    for shift in (-3, 4):
        args = memory[5:514], memory[5 + shift : 514 + shift]
        wanted = re.escape(message.format(f"{shift:+d}"))
        _raises(cellcrypt.OverlapError, wanted, subject.cipher(KEY).crypt_into, *args)


@each_backend
def test_batches(subject: Subject) -> None:
    cipher, other = subject.cipher(KEY), subject.cipher(KEY, payload_len=508)
    whole = "buffer must be a whole number of cells of 514 bytes, got {} bytes"
    for length in (513, 515, 1, 514 * 3 - 1):
        _raises(ValueError, whole.format(length), cipher.crypt_cells, bytearray(length), TOR_V4)
        _raises(ValueError, whole.format(length), crypt_each, [cipher], bytearray(length), TOR_V4)
    payload = "cell_format must have the cipher's payload of 509 bytes, got 508 bytes"
    _raises(ValueError, payload, cipher.crypt_cells, bytearray(512), CellFormat(4, 508))
    _raises(ValueError, payload, crypt_each, [cipher], bytearray(512), CellFormat(4, 508))
    payload = "cell_format must have the cipher's payload of 508 bytes, got 509 bytes"
    _raises(ValueError, payload, crypt_each, [cipher, other], bytearray(1024), TOR_V3)
    number = "ciphers must be as many as the 2 cells in buffer, got {}"
    for count in (0, 1, 3):
        _raises(ValueError, number.format(count), crypt_each, [cipher] * count, bytearray(1024), TOR_V3)
    _raises(
        TypeError, "ciphers must be CellCiphers, got int as number 1", crypt_each, [cipher, 5], bytearray(1024), TOR_V3
    )
    for bad in (None, (3, 509), 512):
        message = f"cell_format must be a CellFormat, got {type(bad).__name__}"
        _raises(TypeError, message, cipher.crypt_cells, bytearray(512), bad)
        _raises(TypeError, message, crypt_each, [cipher], bytearray(512), bad)
        _raises(TypeError, message, crypt_each, [], bytearray(), bad)
    for none in (None, 5, cipher):
        message = f"ciphers must be an iterable of CellCiphers, got {type(none).__name__}"
        _raises(TypeError, message, crypt_each, none, bytearray(512), TOR_V3)
    liar = Mock(spec=CellFormat)
    _raises(TypeError, "cell_format must be a CellFormat, got Mock", cipher.crypt_cells, bytearray(512), liar)
    _raises(TypeError, "cell_format must be a CellFormat, got Mock", crypt_each, [cipher], bytearray(512), liar)
    assert (cipher.position, other.position) == (0, 0)


@each_backend
def test_positions_and_lengths(subject: Subject) -> None:
    cipher, exhausted = subject.cipher(KEY), cellcrypt.KeystreamExhausted
    for bad in (None, True, 1.0, "5"):
        kind = type(bad).__name__
        _raises(TypeError, f"position must be an int, got {kind}", cipher.seek, bad)
        _raises(TypeError, f"length must be an int, got {kind}", cipher.keystream, bad)
    _raises(ValueError, "position must be at least 0 bytes, got -1", cipher.seek, -1)
    _raises(ValueError, "length must be at least 0 bytes, got -7", cipher.keystream, -7)
    _raises(exhausted, f"position must be below {END} bytes, got {END}", cipher.seek, END)
    cipher.seek(END - 5)
    message = "{} bytes of key stream were asked for, 5 bytes are left before its end"
    _raises(exhausted, message.format(509), cipher.crypt, bytes(509))
    _raises(exhausted, message.format(6), cipher.keystream, 6)
    _raises(exhausted, message.format(1018), cipher.crypt_cells, bytearray(1028), TOR_V4)
    _raises(exhausted, message.format(1018), crypt_each, [cipher] * 2, bytearray(1028), TOR_V4)
    for length in (2**63, 2**64 + 6, 2**140):  # more than memory has, too
        _raises(exhausted, message.format(length), cipher.keystream, length)
    assert cipher.position == END - 5
    cipher.seek(0)
    _raises(exhausted, f"{END + 1} bytes of key stream were asked for, {END} bytes .*", cipher.keystream, END + 1)
    for length in (2**62, 2**63 - 33, 2**63 - 1, 2**63, 2**64 + 6, END):
        _raises(MemoryError, ".*", cipher.keystream, length)
    assert cipher.position == 0
    cipher.close()
    for length in (5, 2**63, END + 1):
        _raises(cellcrypt.ClosedError, "the cipher is closed", cipher.keystream, length)


@each_backend
def test_closed_says_so(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    cipher.close()
    _raises(cellcrypt.ClosedError, "the cipher is closed", cipher.crypt, bytes(509))
    _raises(cellcrypt.ClosedError, "the cipher is closed", crypt_each, [cipher], bytearray(514), TOR_V4)
    # Wrong arguments are said first: they are wrong for any cipher.
    _raises(cellcrypt.PayloadLengthError, "payload must be 509 bytes, got 3", cipher.crypt, bytes(3))


@each_backend
def test_attributes_are_read_only(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    for name in ("position", "backend", "path", "payload_len", "kernel", "anything_else"):
        with pytest.raises(AttributeError):
            setattr(cipher, name, 5)


def test_no_subclass() -> None:
    with pytest.raises(TypeError, match="subclass"):
        type("Mine", (CellCipher,), {})


def test_exception_tree() -> None:
    for name in cellcrypt.__all__:
        found = getattr(cellcrypt, name)
        if isinstance(found, type) and issubclass(found, Exception):
            assert issubclass(found, cellcrypt.CellcryptError)
    for kind in (cellcrypt.OverlapError, cellcrypt.KeystreamExhausted, cellcrypt.ClosedError):
        assert issubclass(kind, ValueError)
    assert issubclass(cellcrypt.ConcurrentUseError, RuntimeError)
