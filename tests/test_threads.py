"""Several threads on one cipher: every byte of key stream once, or ConcurrentUseError; buffers that others resize."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cellcrypt import TOR_V3, CellCipher, CellFormat, ClosedError, ConcurrentUseError, crypt_each
from cellcrypt.testing import Subject

from .storm import insist, together
from .support import KEY, each_backend, each_subject
from .witness import keystream

CONTIGUOUS = CellFormat(0, 509)


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@each_subject
def test_every_byte_of_key_stream_is_used_once(subject: Subject) -> None:
    """80,000 cells in all by four threads, one call a cell: together they are the key stream, each cell once."""
    many = subject.path == "fused"
    each = 20_000 if many else 2_000
    cipher, zeros = subject.cipher(KEY), bytes(509)
    found: list[list[bytes]] = [[] for _ in range(4)]

    def work(mine: list[bytes]) -> None:
        for _ in range(each):
            mine.append(insist(cipher.crypt, zeros))

    together(*(lambda mine=mine: work(mine) for mine in found))
    assert cipher.position == 4 * each * 509
    whole = subject.cipher(KEY).keystream(4 * each * 509)
    assert whole[:1000] == keystream(KEY, bytes(16), 0, 1000)
    wanted = Counter(whole[at : at + 509] for at in range(0, len(whole), 509))
    assert Counter(cell for mine in found for cell in mine) == wanted


@each_subject
def test_batches_and_cells_and_key_stream_mixed(subject: Subject) -> None:
    """Batches so long that the core lets other threads run meanwhile."""
    cipher = subject.cipher(KEY)
    found: list[list[bytes]] = [[] for _ in range(3)]

    def batches(mine: list[bytes], cells: int) -> None:
        for _ in range(6):
            buffer = bytearray(509 * cells)
            insist(cipher.crypt_cells, buffer, CONTIGUOUS)
            mine += [bytes(buffer[at : at + 509]) for at in range(0, len(buffer), 509)]

    def single(mine: list[bytes]) -> None:
        for number in range(300):
            if number % 3 == 0:
                mine.append(insist(cipher.keystream, 509))
            elif number % 3 == 1:
                buffer = bytearray(509)
                insist(cipher.crypt_in_place, buffer)
                mine.append(bytes(buffer))
            else:
                wire = bytearray(512)
                insist(crypt_each, [cipher], wire, TOR_V3)
                mine.append(bytes(wire[3:]))

    together(lambda: batches(found[0], 700), lambda: batches(found[1], 260), lambda: single(found[2]))
    cells = [cell for mine in found for cell in mine]
    assert cipher.position == 509 * len(cells)
    whole = subject.cipher(KEY).keystream(509 * len(cells))
    assert Counter(cells) == Counter(whole[at : at + 509] for at in range(0, len(whole), 509))


@each_subject
def test_two_ciphers_in_two_threads_do_not_meet(subject: Subject) -> None:
    keys = [bytes([n]) * 16 for n in range(3)]
    made: dict[bytes, bytes] = {}

    def work(key: bytes) -> None:
        cipher, buffer = subject.cipher(key), bytearray(509 * 600)
        cipher.crypt_cells(buffer, CONTIGUOUS)
        made[key] = bytes(buffer) + b"".join(cipher.crypt(bytes(509)) for _ in range(50))

    together(*(lambda key=key: work(key) for key in keys))
    for key in keys:
        assert made[key] == subject.cipher(key).keystream(509 * 650)


@each_backend
def test_a_second_thread_is_told_so(subject: Subject) -> None:
    """While one thread is inside a long batch, every call of another works after it or raises; nothing is torn."""
    cipher, other = subject.cipher(KEY), subject.cipher(KEY)
    buffer, done, told = bytearray(512 * 8_000), threading.Event(), Counter[str]()

    def long() -> None:
        try:
            for _ in range(100):
                insist(cipher.crypt_cells, buffer, TOR_V3)
                if told["refused"] > 20:
                    break
        finally:
            done.set()

    def meddle() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: cipher.crypt(bytes(509)),
            lambda: cipher.crypt_in_place(bytearray(509)),
            lambda: cipher.crypt_into(bytes(509), bytearray(509)),
            lambda: cipher.crypt_cells(bytearray(512), TOR_V3),
            lambda: cipher.keystream(509),
            lambda: crypt_each([other, cipher], bytearray(1024), TOR_V3),
            lambda: cipher.clone().close(),
        ]
        while not done.is_set():
            for call in calls:
                try:
                    call()
                except ConcurrentUseError:
                    told["refused"] += 1
                assert cipher.position % 509 == 0
                repr(cipher)

    together(long, meddle)
    assert told["refused"]
    assert cipher.position % 509 == 0
    position = cipher.position
    assert cipher.crypt(bytes(509)) == keystream(KEY, bytes(16), position, 509)
    assert other.crypt(bytes(509)) == keystream(KEY, bytes(16), other.position - 509, 509)


@each_backend
def test_seek_and_close_while_others_work(subject: Subject) -> None:
    """No crash, no exception but ours, and after close() nobody gets a byte."""
    cipher, closed = subject.cipher(KEY, lookahead=700), threading.Event()

    def work(seed: int) -> None:
        draw = random.Random(seed)
        while True:
            try:
                which = draw.randrange(5)
                if which == 0:
                    cipher.seek(draw.randrange(2**70))
                elif which == 1:
                    cipher.crypt_cells(bytearray(512 * draw.randrange(600)), TOR_V3)
                elif which == 2:
                    cipher.crypt(bytes(509))
                elif which == 3:
                    cipher.clone().crypt(bytes(509))
                else:
                    cipher.keystream(draw.randrange(2000))
                assert not closed.is_set()
            except ConcurrentUseError:
                pass
            except ClosedError:
                return

    def close() -> None:
        threading.Event().wait(0.15)
        while True:
            try:
                cipher.close()
            except ConcurrentUseError:
                continue
            return

    together(lambda: work(1), lambda: work(2), close)
    with pytest.raises(ClosedError):
        cipher.keystream(1)


@each_backend
def test_a_buffer_that_another_thread_resizes(subject: Subject) -> None:
    """It gets BufferError while the buffer is written to, or comes before or after; the memory stays whole."""
    cipher, buffer, done = subject.cipher(KEY), bytearray(512 * 3000), threading.Event()
    seen = Counter[str]()

    def encrypt() -> None:
        try:
            for _ in range(100_000):
                with contextlib.suppress(ValueError):  # no whole number of cells, just now: that doesn't count
                    seen["taken"] += cipher.crypt_cells(buffer, TOR_V3) > 0
                if seen["resize refused"] > 5 or seen["taken"] == 300:
                    break
        finally:
            done.set()

    def resize() -> None:
        while not done.is_set():
            try:
                buffer.extend(bytes(100_000))
                del buffer[-100_000:]
            except BufferError:
                seen["resize refused"] += 1
                if len(buffer) > 512 * 3000:
                    _shorten(buffer, 512 * 3000)

    together(encrypt, resize)
    assert cipher.position % 509 == 0
    assert seen["resize refused"] or subject.backend != "native"


def _shorten(buffer: bytearray, length: int) -> None:
    while len(buffer) > length:
        try:
            del buffer[length:]
        except BufferError:
            continue


@each_backend
def test_ciphers_that_go_away_in_another_thread(subject: Subject) -> None:
    """crypt_each on a list that another thread empties and fills with new ciphers."""
    ciphers, done = [subject.cipher(KEY) for _ in range(20)], threading.Event()

    def encrypt() -> None:
        try:
            for _ in range(300):
                with contextlib.suppress(ValueError):  # not as many ciphers as cells, just now
                    crypt_each(ciphers, bytearray(512 * 20), TOR_V3)
        finally:
            done.set()

    def replace() -> None:
        while not done.is_set():
            kept: list[CellCipher] = [subject.cipher(KEY) for _ in range(20)]
            ciphers.clear()
            ciphers.extend(kept)

    together(encrypt, replace)
