"""Known answers on every backend, path and kernel; and every count of blocks that a kernel may leave over."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import cellcrypt
from cellcrypt import CellFormat
from cellcrypt.compiled import core
from cellcrypt.testing import Subject
from cellcrypt.xor import PATHS

from . import witness
from .support import each_backend, each_subject, subjects
from .vectors import CELLS, KEY_STREAM, MILLION_CELLS, SP800_38A, payload


@each_subject
def test_key_stream_vectors(subject: Subject) -> None:
    for vector in KEY_STREAM:
        key, iv, wanted = (bytes.fromhex(vector[name]) for name in ("key", "iv", "hex"))
        assert subject.cipher(key, iv).keystream(len(wanted)) == wanted, vector["case"]
        for first in range(len(wanted) + 1):  # every split of the stretch that crosses the carry
            cipher = subject.cipher(key, iv, payload_len=len(wanted))
            parts = cipher.keystream(first) + cipher.keystream(len(wanted) - first)
            assert parts == wanted, (vector["case"], first)
        cipher = subject.cipher(key, iv, payload_len=len(wanted))
        assert cipher.crypt(bytes(len(wanted))) == wanted, vector["case"]


@each_subject
def test_sp800_38a(subject: Subject) -> None:
    for vector in SP800_38A:
        key, counter, plain, wanted = (
            bytes.fromhex(vector[name]) for name in ("key", "counter", "plaintext", "ciphertext")
        )
        cipher = subject.cipher(key, counter, payload_len=len(plain))
        assert cipher.crypt(plain) == wanted, vector["section"]
        cipher.seek(0)
        assert cipher.crypt(wanted) == plain, vector["section"]


@each_subject
def test_seventeen_cells(subject: Subject) -> None:
    for vector in CELLS:
        length = vector["payload_len"]
        cipher = subject.cipher(bytes.fromhex(vector["key"]), payload_len=length)
        for i, wanted in enumerate(vector["sha256_of_each_encrypted_payload"]):
            assert hashlib.sha256(cipher.crypt(payload(i, length))).hexdigest() == wanted, i
            assert cipher.position == (i + 1) * length


@each_subject
def test_second_cell_begins_inside_a_block(subject: Subject) -> None:
    cipher = subject.cipher(bytes(16))
    first, second = cipher.crypt(bytes(509)), cipher.crypt(bytes(509))
    assert first.hex().startswith("66e94bd4ef8a2c3b884cfa59ca342b2e")
    assert first.hex().endswith("d94a44")
    assert second.hex().startswith("6804213ab4fb1d2b")


@each_backend
@pytest.mark.parametrize("key_len", [16, 24, 32])
def test_every_count_of_blocks_after_every_lead(subject: Subject, key_len: int) -> None:
    key = bytes(range(key_len))
    wanted = witness.keystream(key, bytes(16), 0, 16 * 70)
    for blocks in range(1, 68):
        for lead in range(16):
            length = 16 * blocks + (5 * blocks + lead) % 16
            cipher = subject.cipher(key, payload_len=length)
            cipher.keystream(lead)
            assert cipher.crypt(bytes(length)) == wanted[lead : lead + length], (blocks, lead)
            assert cipher.keystream(3) == wanted[lead + length : lead + length + 3], (blocks, lead)


def _compiled() -> list[Any]:
    """Return every backend on every path, and each further kernel with the longer key: conformance has them all.

    Interpreted loops would take minutes, so without a core there is the fused path alone.
    """
    best = (None, *cellcrypt.backends()["native"].kernels[:1])
    found = []
    for vector in MILLION_CELLS:
        for subject in subjects(paths=PATHS if core else ("fused",), payload_len=vector["payload_len"]):
            chosen = subject.values[0]
            if chosen.kernel in best or (chosen.path == "fused" and len(vector["key"]) == 64):
                found.append(
                    pytest.param(chosen, vector, id=f"{4 * len(vector['key'])}-{subject.id}", marks=subject.marks)
                )
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("subject", "vector"), _compiled())
def test_a_million_cells(subject: Subject, vector: dict[str, Any]) -> None:
    """The first tenth one call a cell, the rest in batches of many sizes: the key stream goes on across all of them."""
    length, cells = subject.payload_len, vector["cells"]
    cipher = subject.cipher(bytes.fromhex(vector["key"]))
    digest, zeros, contiguous = hashlib.sha256(), bytes(length), CellFormat(0, length)
    done = cells // 10
    for _ in range(done // 1000):
        digest.update(b"".join([cipher.crypt(zeros) for _ in range(1000)]))
    batch = 1
    while done < cells:
        batch = min(batch * 2 + 1, 2000, cells - done)
        buffer = bytearray(batch * length)
        assert cipher.crypt_cells(buffer, contiguous) == batch
        digest.update(buffer)
        done += batch
    assert cipher.position == cells * length
    assert digest.hexdigest() == vector["sha256_of_concatenated_encrypted_payloads"]
