"""How key stream meets payload: the byte and word loops, and the table of paths.

Rules of this file: the loops are what they say. The compiled twins in csrc/xor.c are built so that no compiler turns
them into vector code, since comparing them is the point; the interpreted ones below are the definition, and serve where
there is no compiled core.

Theory: NIST SP 800-38A, section 6.5: C[j] = P[j] XOR O[j]. Word order does not matter to an XOR, so a word is read and
written in the machine's own.
"""

from __future__ import annotations

from collections.abc import Callable

from .compiled import core

#: XOR `keystream` into `out` in place: (out, keystream), views of one length.
Xor = Callable[[memoryview, memoryview], None]
#: XOR `keystream` into every payload of `buffer` in place; with `wipe` the key stream is all zero afterwards, so it
#: can't be used again and can be filled again: (buffer, header_len, payload_len, keystream, wipe).
XorCells = Callable[[memoryview, int, int, memoryview, bool], None]

WORD = 4  # bytes in a uint32


def interpreted_byte(out: memoryview, keystream: memoryview) -> None:
    """XOR one byte at a time."""
    for i in range(len(out)):
        out[i] ^= keystream[i]


def interpreted_word(out: memoryview, keystream: memoryview) -> None:
    """XOR one uint32 at a time, then the 0 to 3 bytes that are left: 509 bytes are 127 words and one byte."""
    words_len = len(out) - len(out) % WORD
    words, keystream_words = out[:words_len].cast("I"), keystream[:words_len].cast("I")
    for i in range(len(words)):
        words[i] ^= keystream_words[i]
    interpreted_byte(out[words_len:], keystream[words_len:])


def interpreted_wide(out: memoryview, keystream: memoryview) -> None:
    """XOR all bytes at once, as one long integer."""
    length = len(out)
    mixed = int.from_bytes(out, "little") ^ int.from_bytes(keystream, "little")
    out[:] = mixed.to_bytes(length, "little")


def _over_cells(xor: Xor) -> XorCells:
    def xor_cells(buffer: memoryview, header_len: int, payload_len: int, keystream: memoryview, wipe: bool) -> None:
        cell_len = header_len + payload_len
        for i in range(len(buffer) // cell_len):
            start = i * cell_len + header_len
            xor(buffer[start : start + payload_len], keystream[i * payload_len : (i + 1) * payload_len])
        if wipe:
            keystream[:] = bytes(len(keystream))

    return xor_cells


INTERPRETED: dict[str, Xor] = {"byte": interpreted_byte, "word": interpreted_word, "fused": interpreted_wide}

#: The table of paths. "fused" stands for the widest XOR: it is what a batch and key stream made ahead are XORed with.
XOR: dict[str, Xor]
XOR_CELLS: dict[str, XorCells]
if core is None:
    XOR = INTERPRETED
    XOR_CELLS = {path: _over_cells(xor) for path, xor in INTERPRETED.items()}
else:
    XOR = {"byte": core.xor_byte, "word": core.xor_word, "fused": core.xor_wide}
    XOR_CELLS = {"byte": core.xor_cells_byte, "word": core.xor_cells_word, "fused": core.xor_cells_wide}

PATHS = tuple(XOR)


def check_path(path: str) -> str:
    """Return `path`.

    Raises:
        TypeError: it is no str. ValueError: it is no known path.
    """
    if not isinstance(path, str):
        raise TypeError(f"path must be a str, got {type(path).__name__}")
    if path not in XOR:
        raise ValueError(f"path must be one of {', '.join(PATHS)}, got {path!r}")
    return path
