"""Calls that end between two lines: Ctrl-C, no room for another frame. No key stream serves twice, no cipher is torn.

An interrupt is raised at each instruction of our own Python in turn. The native backend has none on the way.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cellcrypt
from cellcrypt import BackendUnavailable, CellCipher, CellFormat, ConcurrentUseError, crypt_each
from cellcrypt.testing import Subject

from .support import KEY, each_subject
from .witness import keystream

CONTIGUOUS = CellFormat(0, 509)
OURS = str(Path(cellcrypt.__file__).parent)
LOOKAHEADS = (0, 2000)

#: Calls that take one payload's key stream; the buffer is written where the call writes at all.
CALLS: dict[str, Callable[[CellCipher, bytearray], Any]] = {
    "crypt": lambda cipher, buffer: cipher.crypt(bytes(509)),
    "crypt_in_place": lambda cipher, buffer: cipher.crypt_in_place(memoryview(buffer)),
    "crypt_into": lambda cipher, buffer: cipher.crypt_into(bytearray(509), buffer),
    "crypt_cells": lambda cipher, buffer: cipher.crypt_cells(buffer, CONTIGUOUS),
    "crypt_each": lambda cipher, buffer: crypt_each([cipher], buffer, CONTIGUOUS),
    "keystream": lambda cipher, buffer: cipher.keystream(509),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
each_lookahead = pytest.mark.parametrize("lookahead", LOOKAHEADS)


class _Interrupt:
    """Raise KeyboardInterrupt at the instruction of ours that has this number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        return self._local

    def _local(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._local


def _cipher(subject: Subject, lookahead: int, cells: int) -> CellCipher:
    cipher = subject.cipher(KEY, lookahead=lookahead)
    for _ in range(cells):
        cipher.crypt(bytes(509))
    return cipher


@each_call
@each_lookahead
@each_subject
def test_an_interrupt_anywhere(subject: Subject, lookahead: int, call: Callable[[CellCipher, bytearray], Any]) -> None:
    if subject.path == "word" or (subject.backend == "native" and lookahead):
        pytest.skip("as path byte, as without")
    whole = keystream(KEY, bytes(16), 0, 509 * 4)
    before = sys.gettrace()
    for cells in (0, 1):
        number = 1
        while True:
            cipher, buffer, interrupt = _cipher(subject, lookahead, cells), bytearray(509), _Interrupt(number)
            interrupted = False
            sys.settrace(interrupt)
            try:
                call(cipher, buffer)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                sys.settrace(before)
            if interrupt.left > 0:
                break
            assert interrupted, f"instruction {number}: the interrupt was lost"
            position = cipher.position
            assert position in (cells * 509, cells * 509 + 509)
            if any(buffer):
                assert position == cells * 509 + 509, f"instruction {number}: written, not moved"
                assert buffer == whole[cells * 509 : position]
            try:
                following = cipher.crypt(bytes(509))
            except ConcurrentUseError:
                pass  # its turn never ended: not of use any more, but safe
            else:
                assert following == whole[position : position + 509], f"instruction {number}"
            number += 1
        assert number > 5 or subject.backend == "native" or call is not CALLS["keystream"]


def _at_depth(depth: int, call: Callable[[], Any]) -> Any:
    return call() if depth == 0 else _at_depth(depth - 1, call)


@each_call
@each_lookahead
@each_subject
def test_no_room_for_another_frame(
    subject: Subject, lookahead: int, call: Callable[[CellCipher, bytearray], Any]
) -> None:
    """Whatever depth the call fails at, it has changed nothing, and the cipher goes on."""
    if subject.path == "word" or (subject.backend == "native" and lookahead):
        pytest.skip("as path byte, as without")
    frame, used = sys._getframe(), 0
    while frame.f_back:
        frame, used = frame.f_back, used + 1
    room, wanted, failed = sys.getrecursionlimit() - used, keystream(KEY, bytes(16), 509, 509), 0
    for depth in range(room - 60, room):
        cipher, buffer = _cipher(subject, lookahead, 1), bytearray(509)
        try:
            _at_depth(depth, lambda cipher=cipher, buffer=buffer: call(cipher, buffer))  # type: ignore[misc]
        except (RecursionError, BackendUnavailable):
            failed += 1
            assert (cipher.position, any(buffer)) == (509, False), f"depth {depth}"
            assert cipher.crypt(bytes(509)) == wanted, f"depth {depth}"
    assert failed


@each_subject
def test_no_view_outlives_the_memory_that_it_shows(subject: Subject) -> None:
    """A debugger may keep what it saw; the payload's memory is another's by then."""
    cipher, kept = _cipher(subject, 0, 1), list[Any]()

    def look(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            kept.extend(value for value in frame.f_locals.values() if isinstance(value, memoryview))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        cipher.crypt(bytes(509))
        cipher.crypt_in_place(memoryview(bytearray(509)))
    finally:
        sys.setprofile(before)
    for view in kept:
        with contextlib.suppress(ValueError):  # released
            assert view.obj is not None
