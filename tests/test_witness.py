"""The witness itself: FIPS-197's examples, and every short vector, so that the vectors are computed a third time."""

from __future__ import annotations

import hashlib

import pytest

from . import witness
from .vectors import CELLS, KEY_STREAM, SP800_38A, payload


@pytest.mark.parametrize(
    ("key_len", "wanted"),
    [
        (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (32, "8ea2b7ca516745bfeafc49904b496089"),
    ],
)
def test_fips_197_appendix_c(key_len: int, wanted: str) -> None:
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert witness.encrypt_block(bytes(range(key_len)), block).hex() == wanted


def test_key_stream_vectors() -> None:
    assert len(KEY_STREAM) == 15
    for vector in KEY_STREAM:
        wanted = bytes.fromhex(vector["hex"])
        made = witness.keystream(bytes.fromhex(vector["key"]), bytes.fromhex(vector["iv"]), 0, len(wanted))
        assert made == wanted, vector["case"]


def test_sp800_38a() -> None:
    for vector in SP800_38A:
        key, counter, plain, wanted = (
            bytes.fromhex(vector[name]) for name in ("key", "counter", "plaintext", "ciphertext")
        )
        assert witness.xor(plain, witness.keystream(key, counter, 0, len(plain))) == wanted, vector["section"]


def test_cells() -> None:
    for vector in CELLS:
        key, length = bytes.fromhex(vector["key"]), vector["payload_len"]
        for i, wanted in enumerate(vector["sha256_of_each_encrypted_payload"]):
            cell = witness.xor(payload(i, length), witness.keystream(key, bytes(16), i * length, length))
            assert hashlib.sha256(cell).hexdigest() == wanted


def test_any_position_is_the_same_stream() -> None:
    whole = witness.keystream(bytes(16), b"\xff" * 16, 0, 80)
    for start in range(40):
        assert witness.keystream(bytes(16), b"\xff" * 16, start, 40) == whole[start : start + 40]
