"""Every kind of buffer that Python knows: what is taken is counted in bytes, what can't be taken is refused whole."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellcrypt import ALIGNED_508, TOR_V3, TOR_V4, OverlapError, crypt_each
from cellcrypt.buffers import _interpreted_address, readable
from cellcrypt.compiled import core
from cellcrypt.testing import Subject

from .support import KEY, each_subject, needs_core
from .witness import keystream, xor

#: Buffers of 508 bytes: a name, and what makes one of them from bytes.
WRITABLE: dict[str, Callable[[bytes], Any]] = {
    "bytearray": bytearray,
    "memoryview": lambda data: memoryview(bytearray(data)),
    "array of bytes": lambda data: array.array("B", data),
    "array of signed bytes": lambda data: array.array("b", data),
    "array of uint32": lambda data: array.array("I", data),
    "memoryview of uint32": lambda data: memoryview(bytearray(data)).cast("I"),
    "memoryview of chars": lambda data: memoryview(bytearray(data)).cast("c"),
    "memoryview of two dimensions": lambda data: memoryview(bytearray(data)).cast("B", [4, 127]),
    "memoryview of three dimensions of uint16": lambda data: (
        memoryview(bytearray(data)).cast("B").cast("H", [2, 127, 1])
    ),
    "part of a memoryview": lambda data: memoryview(bytearray(b"\xee" + data + b"\xee"))[1:-1],
    "ctypes array of bytes": lambda data: (ctypes.c_char * 508).from_buffer_copy(data),
    "ctypes array of uint32": lambda data: (ctypes.c_uint32 * 127).from_buffer_copy(data),
    "ctypes array of big-endian uint32": lambda data: (ctypes.c_uint32.__ctype_be__ * 127).from_buffer_copy(data),
    "ctypes structure": lambda data: _Structure.from_buffer_copy(data),
}
READ_ONLY: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "memoryview of bytes": memoryview,
    "read-only view of a bytearray": lambda data: memoryview(bytearray(data)).toreadonly(),
}


class _Structure(ctypes.Structure):
    _fields_ = (("first", ctypes.c_uint32), ("rest", ctypes.c_uint16 * 252))


class _BytesSubclass(bytes):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("the buffer protocol is asked, not the sequence")


class _BytearraySubclass(bytearray):
    __len__ = _BytesSubclass.__len__
    __getitem__ = _BytesSubclass.__getitem__


PLAIN = bytes((11 * i + 5) % 256 for i in range(508))
STREAM = keystream(KEY, bytes(16), 0, 508)
CRYPTED = xor(PLAIN, STREAM)


def _octets(buffer: Any) -> bytes:
    return memoryview(buffer).tobytes()


@each_subject
@pytest.mark.parametrize("kind", [*WRITABLE, *READ_ONLY])
def test_what_is_taken(subject: Subject, kind: str) -> None:
    make = (WRITABLE | READ_ONLY)[kind]
    cipher = subject.cipher(KEY, payload_len=508)
    payload = make(PLAIN)
    assert cipher.crypt(payload) == CRYPTED
    for out in (bytearray(508), array.array("I", bytes(508))):
        cipher.seek(0)
        cipher.crypt_into(payload, out)
        assert _octets(out) == CRYPTED
        assert _octets(payload) == PLAIN
    if kind in READ_ONLY:
        return
    cipher.seek(0)
    out = make(bytes(508))
    cipher.crypt_into(PLAIN, out)
    assert _octets(out) == CRYPTED
    cipher.seek(0)
    cipher.crypt_in_place(payload)
    assert _octets(payload) == CRYPTED
    cipher.seek(0)
    cipher.crypt_into(payload, payload)
    assert _octets(payload) == PLAIN
    cipher.seek(0)
    wire = make(PLAIN)
    short = subject.cipher(KEY, payload_len=123)
    assert short.crypt_cells(wire, type(TOR_V3)(4, 123)) == 4
    wanted = b"".join(
        PLAIN[at : at + 4] + xor(PLAIN[at + 4 : at + 127], keystream(KEY, bytes(16), n * 123, 123))
        for n, at in enumerate(range(0, 508, 127))
    )
    assert _octets(wire) == wanted
    wire = make(PLAIN)
    assert crypt_each([subject.cipher(KEY, payload_len=123) for _ in range(4)], wire, type(TOR_V3)(4, 123)) == 4
    assert _octets(wire)[381:385] == PLAIN[381:385]
    assert _octets(wire)[385:] == xor(PLAIN[385:], STREAM[:123])


@each_subject
def test_subclasses_cannot_lie_about_their_length(subject: Subject) -> None:
    cipher = subject.cipher(KEY, payload_len=508)
    assert cipher.crypt(_BytesSubclass(PLAIN)) == CRYPTED
    cipher.seek(0)
    place = _BytearraySubclass(PLAIN)
    cipher.crypt_in_place(place)
    assert bytes(memoryview(place)) == CRYPTED
    with pytest.raises(ValueError, match="payload must be 508 bytes, got 507"):
        cipher.crypt(_BytesSubclass(PLAIN[1:]))


@each_subject
@pytest.mark.parametrize("kind", WRITABLE)
def test_key_and_iv_of_any_kind(subject: Subject, kind: str) -> None:
    key, iv = bytes(range(16)), bytes(range(7, 23))
    as_uint32 = kind.endswith("uint32") and "ctypes" not in kind
    make = (lambda data: array.array("I", data)) if as_uint32 else bytearray if "ctypes" in kind else memoryview
    given_key: Any = make(key)
    given_iv: Any = make(iv)
    cipher = subject.cipher(given_key, given_iv)
    if isinstance(given_key, bytearray):  # copied: what the caller does to it later is nothing to the cipher
        given_key[:] = bytes(16)
        given_iv[:] = bytes(16)
    assert cipher.keystream(40) == keystream(key, iv, 0, 40)
    assert cipher.clone().keystream(40) == keystream(key, iv, 40, 40)


def _strange(length: int) -> dict[str, Any]:
    """Return views of `length` bytes, none of them C-contiguous."""
    square = memoryview(bytearray(length * 4)).cast("B", [length // 4, 16])
    found: dict[str, Any] = {
        "every second byte": memoryview(bytearray(2 * length))[::2],
        "reversed": memoryview(bytearray(length))[::-1],
        "reversed words": memoryview(bytearray(length)).cast("I")[::-1],
        "every second row": square[::8] if length % 4 == 0 else None,
    }
    try:
        numpy = __import__("numpy")
    except ImportError:
        return found
    found["Fortran order"] = numpy.zeros((4, length // 4), dtype=numpy.uint8, order="F")
    return found


@each_subject
@pytest.mark.parametrize("kind", _strange(508))
def test_not_contiguous(subject: Subject, kind: str) -> None:
    strange, cipher = _strange(508)[kind], subject.cipher(KEY, payload_len=508)
    before = memoryview(strange).tobytes()
    for call, args in (
        (cipher.crypt, (strange,)),
        (cipher.crypt_in_place, (strange,)),
        (cipher.crypt_into, (strange, bytearray(508))),
        (cipher.crypt_into, (PLAIN, strange)),
        (cipher.crypt_into, (strange, strange)),
        (cipher.crypt_cells, (strange, type(TOR_V3)(0, 508))),
        (crypt_each, ([cipher], strange, type(TOR_V3)(0, 508))),
    ):
        with pytest.raises(BufferError, match="must be C-contiguous, got strides"):
            call(*args)
    assert memoryview(strange).tobytes() == before
    assert cipher.position == 0


@each_subject
@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", [("when", "M8[s]"), ("what", "u1", 496)]], ids=str)
def test_items_that_have_no_name_in_the_buffer_protocol(subject: Subject, dtype: Any) -> None:
    """numpy's times: memoryview can't take them, octets they are all the same, for every backend."""
    numpy = pytest.importorskip("numpy")
    plain, stream = PLAIN[:504], STREAM[:504]

    def make(data: bytes) -> Any:
        return numpy.frombuffer(bytearray(data), dtype=dtype)

    with pytest.raises(ValueError, match="cannot include dtype"):
        memoryview(make(plain))
    cipher = subject.cipher(KEY, payload_len=504)
    payload, out = make(plain), make(bytes(504))
    assert cipher.crypt(payload) == xor(plain, stream)
    cipher.seek(0)
    cipher.crypt_into(payload, out)
    assert (payload.tobytes(), out.tobytes()) == (plain, xor(plain, stream))
    cipher.seek(0)
    cipher.crypt_in_place(payload)
    assert payload.tobytes() == xor(plain, stream)
    cipher.seek(0)
    cipher.crypt_into(payload, payload)
    assert payload.tobytes() == plain
    without_header = type(TOR_V3)(0, 504)
    cipher.seek(0)
    assert cipher.crypt_cells(payload, without_header) == 1
    cipher.seek(0)
    assert crypt_each([cipher], out, without_header) == 1
    assert (payload.tobytes(), out.tobytes()) == (xor(plain, stream), plain)
    position, before = cipher.position, payload.tobytes()
    payload.flags.writeable = False
    for call, args in ((cipher.crypt_in_place, (payload,)), (cipher.crypt_into, (plain, payload))):
        with pytest.raises(BufferError, match="must be writable, got a read-only ndarray"):
            call(*args)
    with pytest.raises(BufferError, match=r"must be C-contiguous, got strides \(-\d+,\) for shape"):
        cipher.crypt(numpy.zeros(504, dtype=dtype)[::-1])
    with pytest.raises(ValueError, match="payload must be 504 bytes, got 0"):
        cipher.crypt(numpy.zeros(0, dtype=dtype))
    assert (cipher.position, payload.tobytes()) == (position, before)


@each_subject
def test_key_and_iv_whose_items_have_no_name(subject: Subject) -> None:
    numpy = pytest.importorskip("numpy")
    key, iv = (numpy.frombuffer(bytes(range(at, at + 16)), dtype="M8[s]") for at in (3, 30))
    cipher = subject.cipher(key, iv)
    assert cipher.keystream(40) == keystream(bytes(range(3, 19)), bytes(range(30, 46)), 0, 40)


def test_a_buffer_without_a_name_is_held_as_long_as_its_view_and_no_longer() -> None:
    numpy = pytest.importorskip("numpy")
    times: Any = numpy.zeros(3, dtype="M8[s]")
    gone: weakref.ref[Any] = weakref.ref(times)
    view = readable(times, "times")
    del times
    assert gone() is not None
    assert (view.nbytes, view.format, view.readonly) == (24, "B", False)
    view.release()
    del view
    gc.collect()
    assert gone() is None


@each_subject
def test_one_row_of_a_strange_view_is_contiguous(subject: Subject) -> None:
    """A stride along a dimension of one item says nothing."""
    memory = bytearray(PLAIN + bytes(508))
    one_row = memoryview(memory).cast("B", [2, 508])[::2]
    assert one_row.shape == (1, 508)
    subject.cipher(KEY, payload_len=508).crypt_in_place(one_row)
    assert memory == CRYPTED + bytes(508)


@each_subject
def test_released_view(subject: Subject) -> None:
    cipher, view = subject.cipher(KEY), memoryview(bytearray(509))
    view.release()
    for call in (cipher.crypt, cipher.crypt_in_place):
        with pytest.raises(ValueError, match="released"):
            call(view)
    assert cipher.position == 0


@each_subject
def test_memory_maps(subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "cells"
    path.write_bytes(bytes(514 * 17))
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as read_only:
            cipher = subject.cipher(KEY)
            with memoryview(read_only)[1:510] as view:
                for call, args in (
                    (cipher.crypt_cells, (read_only, TOR_V4)),
                    (crypt_each, ([cipher] * 17, read_only, TOR_V4)),
                    (cipher.crypt_in_place, (view,)),
                    (cipher.crypt_into, (bytes(509), view)),
                ):
                    with pytest.raises(BufferError, match=r"must be writable, got a read-only (mmap|memoryview)\b"):
                        call(*args)
                assert cipher.position == 0
                assert cipher.crypt(view) == keystream(KEY, bytes(16), 0, 509)
                del args
        with mmap.mmap(file.fileno(), 0) as shared:
            assert subject.cipher(KEY).crypt_cells(shared, TOR_V4) == 17
    wanted = b"".join(bytes(5) + keystream(KEY, bytes(16), i * 509, 509) for i in range(17))
    assert path.read_bytes() == wanted


@each_subject
def test_zero_size(subject: Subject) -> None:
    cipher = subject.cipher(KEY)
    for nothing in (bytearray(), memoryview(bytearray()), array.array("I"), (ctypes.c_char * 0)()):
        assert cipher.crypt_cells(nothing, TOR_V4) == 0
        assert crypt_each([], nothing, TOR_V4) == 0
        with pytest.raises(ValueError, match="payload must be 509 bytes, got 0"):
            cipher.crypt(nothing)
        with pytest.raises(ValueError, match="payload must be 509 bytes, got 0"):
            cipher.crypt_in_place(nothing)
        with pytest.raises(ValueError, match="key must be 16, 24 or 32 bytes, got 0"):
            subject.cipher(nothing)
    for read_only in (b"", memoryview(b"")):
        with pytest.raises(BufferError, match="must be writable"):
            cipher.crypt_cells(read_only, TOR_V4)
    assert cipher.position == 0


@each_subject
def test_the_same_memory_through_two_objects(subject: Subject) -> None:
    """`out` is `payload` itself when both are the same memory, whatever the objects and item sizes."""
    memory = bytearray(PLAIN)
    bytes_view, words_view = memoryview(memory), memoryview(memory).cast("I")
    through_ctypes = (ctypes.c_char * 508).from_buffer(memory)
    cipher = subject.cipher(KEY, payload_len=508)
    for source, out in ((bytes_view, words_view), (words_view, through_ctypes), (through_ctypes, bytes_view)):
        cipher.seek(0)
        cipher.crypt_into(source, out)
    assert memory == CRYPTED


@each_subject
def test_overlap_through_two_objects(subject: Subject) -> None:
    memory = bytearray(PLAIN + bytes(4))
    words, shifted = memoryview(memory)[:508].cast("I"), (ctypes.c_char * 508).from_buffer(memory, 4)
    cipher = subject.cipher(KEY, payload_len=508)
    for source, out in ((words, shifted), (shifted, words)):
        with pytest.raises(OverlapError):
            cipher.crypt_into(source, out)
    assert memory == PLAIN + bytes(4)
    assert cipher.position == 0


@each_subject
def test_a_single_payload_and_key_may_share_memory(subject: Subject) -> None:
    memory = bytearray(KEY + bytes(493))
    subject.cipher(memoryview(memory)[:16]).crypt_in_place(memory)
    assert memory == xor(KEY + bytes(493), keystream(KEY, bytes(16), 0, 509))


@each_subject
def test_no_view_is_kept(subject: Subject) -> None:
    """After a call, good or refused, the buffers can be resized again."""
    cipher = subject.cipher(KEY, lookahead=1000)
    payload, out, wire, key = bytearray(509), bytearray(509), bytearray(514), bytearray(KEY)
    subject.cipher(key)
    cipher.crypt(payload)
    cipher.crypt_into(payload, out)
    cipher.crypt_in_place(payload)
    cipher.crypt_cells(wire, TOR_V4)
    crypt_each([cipher], wire, TOR_V4)
    for call, args in (
        (cipher.crypt_into, (payload, payload[:-1])),
        (cipher.crypt_cells, (wire, ALIGNED_508)),
        (crypt_each, ([cipher] * 2, wire, TOR_V4)),
        (cipher.crypt_into, (payload, 5)),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(*args)
    for buffer in (payload, out, wire, key):
        buffer.append(0)


@needs_core
def test_both_ways_to_an_address_agree() -> None:
    for buffer in (bytearray(600), bytes(600), array.array("I", bytes(400))):
        for start in (0, 1, 17):
            view = memoryview(buffer)[start:]
            assert core.address(view) == _interpreted_address(view)
