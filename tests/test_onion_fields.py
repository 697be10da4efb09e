"""The fields that tor1 uses: the compiled functions do what the readable ones say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellcrypt.onion import fields

from .support import needs_core, run_code

PAYLOADS = st.binary(min_size=9, max_size=40) | st.integers(9, 40).map(bytes)


def test_the_readable_definitions() -> None:
    payload = bytes(range(1, 21))
    assert fields._cleared(payload) == bytes([1, 0, 0, 4, 5, 0, 0, 0, 0, *range(10, 21)])
    assert fields.digest_of(payload) == (bytes([6, 7, 8, 9]),)
    assert fields._foreign(payload)
    assert not fields._foreign(fields._cleared(payload))
    assert fields._foreign(bytes([0, 1, 0, *bytes(6)]))
    assert fields._foreign(bytes([0, 0, 1, *bytes(6)]))
    assert not fields._foreign(bytes([9, 0, 0, *[9] * 6]))
    changed = bytearray(20)
    fields._mend(changed, payload, b"\x10\x20\x30\x40\x50")
    assert changed == bytes([0, 2, 3, 0, 0, 6 ^ 0x10, 7 ^ 0x20, 8 ^ 0x30, 9 ^ 0x40, *bytes(11)])


@needs_core
@given(payload=PAYLOADS, before=PAYLOADS, tag=st.binary(min_size=4, max_size=20))
def test_the_compiled_ones_do_the_same(payload: bytes, before: bytes, tag: bytes) -> None:
    for buffer in (payload, bytearray(payload), memoryview(bytearray(b"x" + payload))[1:]):
        assert fields.cleared(buffer) == fields._cleared(payload)
        assert type(fields.cleared(buffer)) is bytes
        assert fields.foreign(buffer) is fields._foreign(payload)
    mended, expected = bytearray(payload), bytearray(payload)
    fields.mend(mended, before, tag)
    fields._mend(expected, before, tag)
    assert mended == expected
    assert fields.cleared(payload) is payload or any(payload[1:3] + payload[5:9])


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=needs_core), False])
@pytest.mark.parametrize("wrong", [None, 7, "x" * 509, memoryview(bytearray(40))[::2]])
def test_what_is_no_buffer_is_refused(compiled: bool, wrong: Any) -> None:
    calls = (fields.cleared, fields.foreign) if compiled else (fields._cleared, fields._foreign)
    mend = fields.mend if compiled else fields._mend
    for call in calls:
        with pytest.raises((TypeError, BufferError)):
            call(wrong)
    for arguments in ((wrong, bytes(9), bytes(4)), (bytearray(9), wrong, bytes(4))):
        with pytest.raises((TypeError, BufferError)):
            mend(*arguments)


@needs_core
def test_short_buffers_are_refused_before_anything_is_written() -> None:
    for short in range(9):
        for call in (fields.cleared, fields.foreign):
            with pytest.raises(ValueError, match=f"payload must be at least 9 bytes, got {short}"):
                call(bytes(short))
    payload = bytearray(9)
    for before, tag in ((bytes(8), b"\xff" * 4), (b"\xff" * 9, b"\xff" * 3)):
        with pytest.raises(ValueError, match="must be at least"):
            fields.mend(payload, before, tag)
        assert payload == bytes(9)
    with pytest.raises(ValueError, match="payload must be at least 9 bytes"):
        fields.mend(bytearray(8), bytes(9), bytes(4))
    for wrong in ((), (payload,), (payload, payload, bytes(4), 1)):
        with pytest.raises(TypeError):
            fields.mend(*wrong)
    with pytest.raises(BufferError):
        fields.mend(bytes(9), bytes(9), bytes(4))


def test_layers_without_a_core() -> None:
    """The known answers hold where there is no compiled core."""
    code = """
import sys
sys.modules["cellcrypt._core"] = None
from cellcrypt.compiled import core
from tests import test_onion_vectors as vectors
assert core is None and vectors.Circuit is not None
vectors.test_three_hops_both_ways("cryptography")
vectors.test_onion_service("cryptography", "a relay")
from cellcrypt.onion import fields
print(fields.cleared is fields._cleared)
"""
    assert run_code(code) == "True\n"
