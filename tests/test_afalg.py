"""The afalg backend over a model of AF_ALG: its bytes, its messages, its sockets, and what it says when calls fail.

The same backend meets a real kernel in tests/kernel.
"""

from __future__ import annotations

import errno
import gc
import os
import socket

import pytest

import cellcrypt
from cellcrypt import BackendUnavailable, CellCipher, CellFormat
from cellcrypt.backend import afalg
from cellcrypt.testing import conformance

from .model_af_alg import PAGE, Kernel, model_af_alg
from .support import KEY

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_ALG"), reason="this Python has no AF_ALG")

#: The calls that may fail while a cipher is made, in order, with what the reason calls them.
STAGES = {
    "socket": "socket(AF_ALG)",
    "bind": "bind(ctr(aes))",
    "setsockopt": "setsockopt(ALG_SET_KEY)",
    "accept": "accept",
    "sendmsg_afalg": "encrypting",
    "recv_into": "encrypting",
}
MEANINGS = {
    errno.EAFNOSUPPORT: "no AF_ALG",
    errno.EPERM: "forbids AF_ALG",
    errno.EACCES: "forbids AF_ALG",
    errno.ENOENT: "does not offer it",
    errno.ENOKEY: "did not take the key",
    errno.EMFILE: "two file descriptors",
    errno.ELIBBAD: os.strerror(errno.ELIBBAD),
}


@pytest.fixture
def kernel() -> object:
    with model_af_alg() as kernel:
        yield kernel


def reference(length: int, position: int = 0) -> bytes:
    with CellCipher(KEY, backend="cryptography") as cipher:
        cipher.seek(position)
        return cipher.keystream(length)


@pytest.mark.parametrize("room", [212_992, PAGE, 4608])
def test_conformance_on_the_model(room: int) -> None:
    """Every check; sockets with the least room that an administrator may give them cost time, never bytes."""
    with model_af_alg(room) as kernel:
        for check in conformance("afalg", paths=("fused", "word"), payload_lens=(509, 16)):
            check()
        gc.collect()
        assert not kernel.open
        assert max(kernel.messages) <= max(PAGE, room // PAGE * PAGE)


def test_messages_are_whole_blocks_and_made_ahead(kernel: Kernel) -> None:
    """A thousand cells take few messages, whose lengths grow from what was asked for to AHEAD_LEN."""
    with CellCipher(KEY, backend="afalg") as cipher:
        kernel.messages.clear()
        made = b"".join(cipher.crypt(bytes(509)) for _ in range(1000))
    assert made == reference(509_000)
    assert not [length for length in kernel.messages if length % 16]
    assert kernel.messages[:3] == [512, 1024, 2048]
    assert len(kernel.messages) <= 509_000 / afalg.AHEAD_LEN + 6


def test_a_seek_makes_only_what_is_asked_for(kernel: Kernel) -> None:
    with CellCipher(KEY, backend="afalg") as cipher:
        for position in (10**6, 5, 2**100 + 3):
            kernel.messages.clear()
            cipher.seek(position)
            assert cipher.crypt(bytes(509)) == reference(509, position)
            assert sum(kernel.messages) <= 509 + 31


def test_long_requests_are_split(kernel: Kernel) -> None:
    with CellCipher(KEY, backend="afalg") as cipher:
        cipher.keystream(5)
        kernel.messages.clear()
        assert cipher.keystream(1_000_003) == reference(1_000_003, 5)
    assert max(kernel.messages) == afalg.MESSAGE_LEN
    assert sum(kernel.messages) < 1_000_003 + 2 * afalg.AHEAD_LEN


def test_sockets_are_closed(kernel: Kernel) -> None:
    """By close(), by a clone's close(), by garbage, also where the cipher stands in a cycle of references."""
    cipher = CellCipher(KEY, backend="afalg")
    clone = cipher.clone()
    assert len(kernel.open) == 4
    clone.close()
    assert len(kernel.open) == 2
    cipher.close()
    assert not kernel.open
    for _ in range(3):
        ring: list[object] = [CellCipher(KEY, backend="afalg")]
        ring.append(ring)
        del ring
    CellCipher(KEY, backend="afalg")
    gc.collect()
    assert not kernel.open


@pytest.mark.parametrize("number", MEANINGS, ids=lambda number: errno.errorcode[number])
@pytest.mark.parametrize("call", STAGES)
def test_reasons(kernel: Kernel, call: str, number: int) -> None:
    """Whichever call fails: a reason with the call, the errno's name and what it means; everything else works."""
    kernel.failures[call] = OSError(number, os.strerror(number))
    found = cellcrypt.backends()
    assert not found["afalg"].usable
    reason = found["afalg"].reason
    assert reason is not None
    assert reason.startswith(f"{STAGES[call]}: {errno.errorcode[number]}: ")
    assert MEANINGS[number] in reason
    assert not kernel.open
    with pytest.raises(BackendUnavailable, match=errno.errorcode[number]) as caught:
        CellCipher(KEY, backend="afalg")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert CellCipher(KEY, backend="cryptography").keystream(3) == reference(3)
    assert found["cryptography"].usable


@pytest.mark.parametrize("call", ["sendmsg_afalg", "recv_into", "recv_into, after it"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOMEM, "no"), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_failure_on_the_way(kernel: Kernel, call: str, failure: BaseException) -> None:
    """A call that fails has changed nothing, and the next gives the right bytes, whatever the socket still held."""
    expected = BackendUnavailable if isinstance(failure, Exception) else type(failure)
    with CellCipher(KEY, backend="afalg") as cipher:
        payload = bytearray(cipher.crypt(bytes(509)))
        kernel.failures[call] = [failure]
        with pytest.raises(expected):
            cipher.crypt_in_place(payload)
        assert bytes(payload) == reference(509)
        assert cipher.position == 509
        assert cipher.crypt(bytes(509)) == reference(509, 509)
        cells = bytearray(3000 * 514)
        kernel.failures[call] = [None, None, failure]
        with pytest.raises(expected):
            cipher.crypt_cells(cells, CellFormat(5, 509))
        done = cipher.position // 509 - 2
        assert cells == b"".join(bytes(5) + reference(509, (2 + i) * 509) for i in range(done)) + bytes(
            (3000 - done) * 514
        )
    assert not kernel.open


def test_short_answers_are_errors(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes or gives less than a message is reported, and trusted again only over a new socket."""
    with CellCipher(KEY, backend="afalg") as cipher:
        kernel.room = PAGE  # shrinks behind the backend's back
        with pytest.raises(BackendUnavailable, match="4096 went in"):
            cipher.keystream(50_000)
        assert cipher.keystream(50_000) == reference(50_000)


def test_a_fork_parts_the_sockets(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child does not go on over its parent's operation socket, where answers would get mixed up."""
    with CellCipher(KEY, backend="afalg") as cipher:
        cipher.crypt(bytes(509))
        before = set(kernel.open)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert cipher.crypt(bytes(509)) == reference(509, 509)
        assert len(kernel.open) == 2
        assert len(kernel.open & before) == 1


def test_never_chosen_by_itself(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELLCRYPT_BACKEND", raising=False)
    assert CellCipher(KEY).backend != "afalg"
    monkeypatch.setenv("CELLCRYPT_BACKEND", "afalg")
    with CellCipher(KEY) as cipher:
        assert cipher.backend == "afalg"


def test_key_is_wiped(kernel: Kernel) -> None:
    """After close(), neither sockets nor key stream made ahead are left."""
    keystream = afalg.open(KEY, bytes(16))
    buffer = bytearray(509)
    keystream.xor_into(0, memoryview(buffer))
    ahead = keystream._ahead
    assert bytes(ahead[:509]) == bytes(buffer)
    keystream.close()
    assert not any(ahead)
    assert not kernel.open


def test_python_without_af_alg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cellcrypt.backend, "_proved", {})
    monkeypatch.delattr(socket, "AF_ALG")
    assert "interface of Linux" in str(cellcrypt.backends()["afalg"].reason)
