"""Properties: any sequence of calls, right and wrong, gives the key stream from one end on, each byte once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellcrypt import CellcryptError, CellFormat, crypt_each
from cellcrypt.testing import Subject

from .support import each_subject
from .witness import keystream

END = 16 * 2**128

keys = st.sampled_from([bytes(16), bytes(range(24)), bytes(range(32))])  # few, so that the witness remembers them
ivs = st.sampled_from([bytes(16), b"\xff" * 16, bytes(8) + b"\xff" * 8, bytes(12) + b"\xff\xff\xff\xfd"])
lengths = st.one_of(st.integers(1, 70), st.sampled_from([127, 128, 129, 508, 509, 512]))
positions = st.one_of(
    st.integers(0, 3000),
    st.sampled_from([2**32, 2**36, 2**64, 2**68, 2**100, END]).flatmap(lambda p: st.integers(max(0, p - 700), p + 40)),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["crypt", "crypt_in_place", "crypt_into", "into_itself", "clone", "copy_on"])),
        st.tuples(st.just("keystream"), st.integers(0, 90)),
        st.tuples(st.just("crypt_cells"), st.integers(0, 5), st.integers(0, 6)),
        st.tuples(st.just("crypt_each"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("seek"), positions),
        st.tuples(st.just("wrong"), st.integers(0, 5)),
    ),
    max_size=12,
)


class _Model:
    """The position, and the key stream by the witness."""

    def __init__(self, key: bytes, iv: bytes) -> None:
        self.key, self.iv, self.position = key, iv, 0

    def next(self, length: int) -> bytes | None:
        """Return the next key stream and move on, or None where there is not so much."""
        if self.position + length > END:
            return None
        made = keystream(self.key, self.iv, self.position, length)
        self.position += length
        return made


def _call(function: Any, *args: Any) -> Any:
    """Return what a call returns, or the class of ours that it raises."""
    try:
        return function(*args)
    except CellcryptError as error:
        return type(error).__name__


def _one(cipher: Any, step: tuple[Any, ...], length: int, model: _Model) -> None:
    """Take one step and compare it with the model; the data are zeros, so that what comes out is key stream."""
    name, *numbers = step
    if name == "seek":
        refused = _call(cipher.seek, numbers[0]) == "KeystreamExhausted"
        assert refused == (numbers[0] >= END)
        model.position = model.position if refused else numbers[0]
    elif name == "keystream":
        wanted = model.next(numbers[0])
        assert _call(cipher.keystream, numbers[0]) == (wanted if wanted is not None else "KeystreamExhausted")
    elif name in ("crypt_cells", "crypt_each"):
        header_len, cells = numbers
        wire = bytearray((b"\x11" * header_len + bytes(length)) * cells)
        wanted = model.next(length * cells)
        cell_format = CellFormat(header_len, length)
        args: tuple[Any, ...] = (wire, cell_format) if name == "crypt_cells" else ([cipher] * cells, wire, cell_format)
        got = _call(cipher.crypt_cells if name == "crypt_cells" else crypt_each, *args)
        assert got == (cells if wanted is not None else "KeystreamExhausted")
        stream = wanted if wanted is not None else bytes(length * cells)
        parts = [b"\x11" * header_len + stream[n * length : (n + 1) * length] for n in range(cells)]
        assert wire == b"".join(parts)
    elif name == "wrong":
        wrong = length + 1 + numbers[0]
        for call, given_args in (
            (cipher.crypt, (bytes(wrong),)),
            (cipher.crypt_in_place, (bytearray(wrong),)),
            (cipher.crypt_into, (bytes(length), bytearray(wrong))),
        ):
            assert _call(call, *given_args) == "PayloadLengthError"
    else:
        wanted = model.next(length)
        source, out = bytes(length), bytearray(length)
        calls = {
            "crypt": (cipher.crypt, source),
            "crypt_in_place": (cipher.crypt_in_place, out),
            "crypt_into": (cipher.crypt_into, source, out),
            "into_itself": (cipher.crypt_into, out, out),
            "clone": (cipher.clone().crypt, source),
            "copy_on": (cipher.crypt, memoryview(source)),
        }
        got = _call(*calls[name])
        if wanted is None:
            assert got == "KeystreamExhausted"
            assert not any(out)
        else:
            assert (out if got is None else got) == wanted
        if name == "clone" and wanted is not None:
            model.position -= length
    assert cipher.position == model.position


@each_subject
@settings(max_examples=60)
@given(key=keys, iv=ivs, length=lengths, lookahead=st.sampled_from([0, 0, 1, 100, 5000]), start=positions, steps=steps)
def test_any_sequence_of_calls(
    subject: Subject, key: bytes, iv: bytes, length: int, lookahead: int, start: int, steps: list[tuple[Any, ...]]
) -> None:
    cipher, model = subject.cipher(key, iv, payload_len=length, lookahead=lookahead), _Model(key, iv)
    _one(cipher, ("seek", start), length, model)
    for step in steps:
        _one(cipher, step, length, model)


@each_subject
@settings(max_examples=40)
@given(data=st.binary(min_size=1, max_size=600), key=keys, header_len=st.integers(0, 20), cells=st.integers(1, 5))
def test_twice_is_the_identity(subject: Subject, data: bytes, key: bytes, header_len: int, cells: int) -> None:
    length = len(data)
    there, back = (subject.cipher(key, payload_len=length) for _ in range(2))
    assert back.crypt(there.crypt(data)) == data
    wire = bytearray((bytes(header_len) + data) * cells)
    before = bytes(wire)
    there.crypt_cells(wire, CellFormat(header_len, length))
    back.crypt_cells(wire, CellFormat(header_len, length))
    assert wire == before


@each_subject
@settings(max_examples=40)
@given(
    offset=st.integers(0, 80),
    out_offset=st.integers(0, 80),
    data=st.binary(min_size=1, max_size=80),
    pad=st.integers(0, 3),
)
def test_any_two_places_in_one_buffer(subject: Subject, offset: int, out_offset: int, data: bytes, pad: int) -> None:
    """One buffer holds payload and destination: the same, apart, or overlapping and refused; never anything else."""
    length = len(data)
    memory = bytearray(b"\x77" * (max(offset, out_offset) + length + pad))
    memory[offset : offset + length] = data
    wanted = bytearray(memory)
    cipher = subject.cipher(bytes(16), payload_len=length)
    with memoryview(memory) as view:
        args = view[offset : offset + length], view[out_offset : out_offset + length]
        if 0 < abs(offset - out_offset) < length:
            with pytest.raises(ValueError, match="out must be payload itself or apart from it"):
                cipher.crypt_into(*args)
        else:
            cipher.crypt_into(*args)
            stream = keystream(bytes(16), bytes(16), 0, length)
            wanted[out_offset : out_offset + length] = bytes(a ^ b for a, b in zip(data, stream, strict=True))
    assert memory == wanted
