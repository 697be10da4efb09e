"""No call, good or refused, keeps an object or a block of memory."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from copy import copy
from typing import Any

from cellcrypt import TOR_V3, TOR_V4, CellCipher, CellcryptError, crypt_each
from cellcrypt.testing import Subject

from .support import KEY, each_subject

END = 16 * 2**128
REFUSALS = (CellcryptError, TypeError, ValueError, BufferError)


def _calls(subject: Subject) -> tuple[list[Callable[[], Any]], list[Any]]:
    """Return calls of every kind, and the objects that they are made with."""
    cipher, other, closed = subject.cipher(KEY), subject.cipher(KEY, payload_len=508), subject.cipher(KEY)
    closed.close()
    payload, out, wire, short = bytes(509), bytearray(509), bytearray(1024), bytearray(508)
    view, gappy, queue, iv = memoryview(out), memoryview(bytearray(1018))[::2], [cipher, cipher], bytes(16)
    calls: list[Callable[[], Any]] = [
        lambda: cipher.seek(0),
        lambda: cipher.crypt(payload),
        lambda: cipher.crypt(view),
        lambda: cipher.crypt_in_place(out),
        lambda: cipher.crypt_in_place(view),
        lambda: cipher.crypt_into(payload, out),
        lambda: cipher.crypt_into(view, view),
        lambda: cipher.crypt_into(payload=payload, out=out),
        lambda: cipher.crypt_cells(wire, TOR_V3),
        lambda: cipher.crypt_cells(buffer=wire, cell_format=TOR_V3),
        lambda: crypt_each(queue, wire, TOR_V3),
        lambda: crypt_each(iter(queue), wire, TOR_V3),
        lambda: cipher.keystream(77),
        lambda: (cipher.position, cipher.path, cipher.backend, cipher.kernel, cipher.payload_len, repr(cipher)),
        lambda: cipher.clone(),
        lambda: copy(cipher).close(),
        lambda: subject.cipher(KEY, iv),
        lambda: subject.cipher(KEY, iv, lookahead=100).crypt(payload),
        # and refused ones
        lambda: cipher.crypt(short),
        lambda: cipher.crypt(gappy),
        lambda: cipher.crypt(5),  # type: ignore[arg-type]
        lambda: cipher.crypt_in_place(payload),
        lambda: cipher.crypt_into(payload, short),
        lambda: cipher.crypt_into(view, view[:-1]),
        lambda: cipher.crypt_into(payload, gappy),
        lambda: cipher.crypt_into(payload, 5),  # type: ignore[arg-type]
        lambda: cipher.crypt_into(payload=payload, into=out),  # type: ignore[call-arg]
        lambda: cipher.crypt_cells(wire, TOR_V4),
        lambda: cipher.crypt_cells(wire, None),  # type: ignore[arg-type]
        lambda: crypt_each(queue, wire, TOR_V4),
        lambda: crypt_each([cipher, other], wire, TOR_V3),
        lambda: crypt_each([cipher, closed], wire, TOR_V3),
        lambda: crypt_each([cipher, None], wire, TOR_V3),  # type: ignore[list-item]
        lambda: cipher.seek(END),
        lambda: cipher.keystream(-1),
        lambda: closed.crypt(payload),
        lambda: subject.cipher(KEY[:5], iv),
        lambda: subject.cipher(KEY, iv, path="slow"),
        lambda: subject.cipher(KEY, iv, payload_len=0),
        lambda: cipher.__reduce_ex__(2),
    ]
    return calls, [
        cipher,
        other,
        payload,
        out,
        wire,
        short,
        view,
        gappy,
        queue,
        iv,
        KEY,
        TOR_V3,
        TOR_V4,
        CellCipher,
        type(cipher),
        None,
    ]


@each_subject
def test_no_call_keeps_anything(subject: Subject) -> None:
    calls, used = _calls(subject)

    def run(times: int) -> None:
        for _ in range(times):
            for call in calls:
                with contextlib.suppress(*REFUSALS):
                    call()

    run(20)
    gc.collect()
    blocks, counts = sys.getallocatedblocks(), [sys.getrefcount(thing) for thing in used]
    run(300)
    gc.collect()
    more = [sys.getrefcount(thing) - count for thing, count in zip(used, counts, strict=True)]
    assert all(abs(difference) < 250 for difference in more), more
    assert sys.getallocatedblocks() - blocks < 250, "one block a round or more"
