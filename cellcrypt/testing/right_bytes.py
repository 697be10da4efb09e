"""Checks that the bytes are right: whatever the call, split, place in memory, starting position or carry.

Rules of this file: every check asserts the position after every call.

Theory: NIST SP 800-38A, section 6.5 and appendix B.1; 509 = 13 (mod 16), so 17 cells meet every offset in a block.
"""

from __future__ import annotations

from copy import copy, deepcopy
from itertools import pairwise

from .. import backend as _backends
from ..backend.protocol import BLOCK, END, Keystream
from ..cipher import CellCipher
from ..circuits import crypt_each
from ..formats import CellFormat
from .subject import CELLS, KEY, KEY_LENGTHS, POISON, ZERO_IV, Subject, key_of, pattern, same


def known_answers(s: Subject) -> None:
    """NIST SP 800-38A, F.5.1, F.5.3 and F.5.5; and the all-zero key, cell 2 beginning inside a block."""
    iv = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    for key, first_block in (
        ("2b7e151628aed2a6abf7158809cf4f3c", "ec8cdf7398607cb0f2d21675ea9ea1e4"),
        ("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", "717d2dc639128334a6167a488ded7921"),
        ("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", "0bdf7df1591716335e9a8b15c860c502"),
    ):
        same("key stream", s.cipher(bytes.fromhex(key), iv).keystream(16).hex(), first_block)
    stream = s.cipher(bytes(16)).keystream(517)
    same("key stream of the zero key", stream[:16].hex(), "66e94bd4ef8a2c3b884cfa59ca342b2e")
    same("cell 2 of 509 bytes", stream[506:].hex(), "d94a44" + "6804213ab4fb1d2b")


def one_call_a_cell(s: Subject) -> None:
    """crypt, crypt_in_place and crypt_into give the same bytes, the position moves by each cell, the source stays."""
    length = s.payload_len
    for key in map(key_of, KEY_LENGTHS):
        ciphers = [s.cipher(key) for _ in range(4)]
        for i in range(CELLS):
            payload = pattern(length, i)
            wanted = s.expected(key, i * length, payload)
            place, source, out, both = bytearray(payload), bytearray(payload), bytearray(length), bytearray(payload)
            same("crypt", ciphers[0].crypt(payload), wanted)
            ciphers[1].crypt_in_place(place)
            ciphers[2].crypt_into(source, out)
            ciphers[3].crypt_into(both, memoryview(both))
            same("crypt_in_place", place, wanted)
            same("crypt_into", out, wanted)
            same("crypt_into of a payload into itself", both, wanted)
            same("payload after crypt_into", source, payload)
            for cipher in ciphers:
                same("position", cipher.position, (i + 1) * length)


def unaligned(s: Subject) -> None:
    """Payload and destination at any address; the bytes around the destination stay."""
    length = s.payload_len
    cipher, position = s.cipher(KEY), 0
    for i in range(CELLS):
        source, out = bytearray(length + 64), bytearray([POISON]) * (length + 64)
        source[i : i + length] = pattern(length, i)
        wanted = s.expected(KEY, position, pattern(length, i))
        target = (5 * i + 1) % CELLS
        with memoryview(source) as view, memoryview(out) as out_view:
            cipher.crypt_into(view[i : i + length], out_view[target : target + length])
            same("unaligned crypt_into", out[target : target + length], wanted)
            cipher.seek(position)
            out_view[target : target + length] = pattern(length, i)
            cipher.crypt_in_place(out_view[target : target + length])
        same("unaligned crypt_in_place", out[target : target + length], wanted)
        same("bytes around the destination", set(out[:target] + out[target + length :]), {POISON})
        position += length


def _wire(cell_format: CellFormat, cells: int) -> tuple[bytearray, list[slice]]:
    step, header_len = cell_format.cell_len, cell_format.header_len
    return bytearray(pattern(step * cells, 7)), [slice(i * step + header_len, (i + 1) * step) for i in range(cells)]


def cells_of_a_batch(s: Subject) -> None:
    """crypt_cells: every payload of the buffer, no header, nothing after the last cell; however it is split."""
    for header_len in (0, 1, 2, 3, 4, 5, 16, 255):
        cell_format = CellFormat(header_len, s.payload_len)
        plain, payloads = _wire(cell_format, CELLS)
        wanted = bytearray(plain)
        for i, payload in enumerate(payloads):
            wanted[payload] = s.expected(KEY, 5 + i * s.payload_len, bytes(plain[payload]))
        for first in range(CELLS + 1):
            cipher = s.cipher(KEY)
            cipher.keystream(5)
            around = bytearray([POISON]) * (len(plain) + 2)
            around[1:-1] = plain
            middle = 1 + first * cell_format.cell_len
            with memoryview(around) as view:
                same("cells", cipher.crypt_cells(view[1:middle], cell_format), first)
                same("position", cipher.position, 5 + first * s.payload_len)
                same("cells", cipher.crypt_cells(view[middle:-1], cell_format), CELLS - first)
            same("position", cipher.position, 5 + CELLS * s.payload_len)
            same(f"wire cells with headers of {header_len}", around[1:-1], bytes(wanted))
            same("bytes around the buffer", (around[0], around[-1]), (POISON, POISON))


def cells_of_many_circuits(s: Subject) -> None:
    """crypt_each: cell i through cipher i, one cipher several times in order, headers untouched."""
    cell_format = CellFormat(5, s.payload_len)
    keys = [key_of(KEY_LENGTHS[i % 3])[::-1] + b"" for i in range(3)]
    ciphers = [s.cipher(key) for key in keys]
    for number, cipher in enumerate(ciphers):
        cipher.seek(1000 * number + number)
    order = [(i * i + i // 5) % 3 for i in range(CELLS)]
    plain, payloads = _wire(cell_format, CELLS)
    wanted, positions = bytearray(plain), [cipher.position for cipher in ciphers]
    for number, payload in zip(order, payloads, strict=True):
        wanted[payload] = s.expected(keys[number], positions[number], bytes(plain[payload]))
        positions[number] += s.payload_len
    same("cells", crypt_each([ciphers[number] for number in order], plain, cell_format), CELLS)
    same("cells of many circuits", plain, bytes(wanted))
    same("positions", [cipher.position for cipher in ciphers], positions)


def empty(s: Subject) -> None:
    """Nothing to do is 0 cells or no bytes, and moves nothing."""
    cipher, cell_format = s.cipher(KEY), CellFormat(3, s.payload_len)
    cipher.keystream(7)
    same("cells", cipher.crypt_cells(bytearray(), cell_format), 0)
    same("cells", crypt_each([], bytearray(), cell_format), 0)
    same("key stream", cipher.keystream(0), b"")
    same("position", cipher.position, 7)
    same("crypt", cipher.crypt(bytes(s.payload_len)), s.reference(KEY, ZERO_IV, 7, s.payload_len))


def split_everywhere(s: Subject) -> None:
    """Key stream in two pieces, parted at every byte, then a cell, is the key stream in one."""
    whole = 70
    wanted = s.reference(KEY, ZERO_IV, 0, whole + s.payload_len)
    cipher = s.cipher(KEY)
    for first in range(whole + 1):
        cipher.seek(0)
        parts = cipher.keystream(first), cipher.keystream(whole - first), cipher.crypt(bytes(s.payload_len))
        same(f"key stream parted at {first}", b"".join(parts), wanted)
        same("position", cipher.position, len(wanted))


def carries(s: Subject) -> None:
    """The counter's carry past 2^32, 2^64, 2^96 and its wrap at 2^128, at every place in a call, by IV and by seek."""
    length = s.payload_len
    blocks_before = sorted({*range(8), *range(max(0, length // BLOCK - 9), length // BLOCK + 2)})
    for power in (8, 32, 64, 96, 128):
        for before in blocks_before:
            iv = (2**power - 1 - before).to_bytes(BLOCK, "big")
            lead = (7 * before + power) % BLOCK
            cipher = s.cipher(KEY, iv)
            made = cipher.keystream(lead) + cipher.crypt(bytes(length)) + cipher.keystream(40)
            same(f"carry at 2^{power} after {before} blocks", made, s.reference(KEY, iv, 0, len(made)))
            if power == 128:
                continue
            cipher = s.cipher(KEY, ZERO_IV)
            position = BLOCK * (2**power - 1 - before) + lead
            cipher.seek(position)
            batch = bytearray(2 * length)
            cipher.crypt_cells(batch, CellFormat(0, length))
            same(f"carry at 2^{power} after a seek", batch, s.reference(KEY, ZERO_IV, position, len(batch)))
            same("position", cipher.position, position + len(batch))


def seek(s: Subject) -> None:
    """After a seek nothing of the block before it is left; the same place gives the same bytes."""
    cipher, length = s.cipher(KEY), s.payload_len
    for position in (0, 5, 0, 16, 15, 17, 2**20 + 3, 1, 2**32 * 16 - 1, 2**64 + 9, END // 2 + 11, 3, 3):
        cipher.crypt(bytes(length))
        cipher.seek(position)
        same("position", cipher.position, position)
        same(f"after a seek to {position}", cipher.keystream(3), s.reference(KEY, ZERO_IV, position, 3))
        same("cell", cipher.crypt(bytes(length)), s.reference(KEY, ZERO_IV, position + 3, length))


def interleaved(s: Subject) -> None:
    """Two keys, and an original and its clones, advanced by turns: each keeps its own place."""
    length = s.payload_len
    a, b = s.cipher(KEY), s.cipher(key_of(32))
    a.keystream(3)
    twins = [a, a.clone(), copy(a), deepcopy(a)]
    for i in range(CELLS):
        for twin in twins[i % 4 :] + twins[: i % 4]:
            same("clone", twin.crypt(bytes(length)), s.reference(KEY, ZERO_IV, 3 + i * length, length))
        same("other", b.crypt(bytes(length)), s.reference(key_of(32), ZERO_IV, i * length, length))
    same("positions", {twin.position for twin in twins}, {3 + CELLS * length})
    same("what a clone keeps", {(t.backend, t.path, t.kernel, t.payload_len) for t in twins}, {_choice(s, a)})


def _choice(s: Subject, cipher: CellCipher) -> tuple[str, str, str | None, int]:
    return s.backend, s.path, s.kernel or cipher.kernel, s.payload_len


def called_through_the_class(s: Subject) -> None:
    """CellCipher.crypt(cipher, payload) is cipher.crypt(payload), whatever kind of CellCipher the backend made."""
    cipher, length = s.cipher(KEY), s.payload_len
    batch = bytearray(2 * length)
    made = CellCipher.crypt(cipher, bytes(length)) + CellCipher.keystream(cipher, 21)
    same("cells", CellCipher.crypt_cells(cipher, batch, CellFormat(0, length)), 2)
    made += batch + CellCipher.crypt(CellCipher.clone(cipher), bytes(length))
    same("bytes", made, s.reference(KEY, ZERO_IV, 0, len(made)))
    CellCipher.seek(cipher, 3)
    same("position", cipher.position, 3)
    same("after a seek", CellCipher.crypt(cipher, bytes(length)), s.reference(KEY, ZERO_IV, 3, length))


def lookahead(s: Subject) -> None:
    """Key stream made ahead of need changes no byte, whatever calls are mixed."""
    length = s.payload_len
    for ahead in (1, 16, 1000, 16_384):
        cipher, made = s.cipher(KEY, lookahead=ahead), b""
        for i in range(CELLS):
            made += cipher.crypt(bytes(length)) + cipher.keystream(i)
            batch = bytearray(length * (i % 3))
            cipher.crypt_cells(batch, CellFormat(0, length))
            made += batch
            same("position", cipher.position, len(made))
            cipher = cipher.clone() if i % 5 == 4 else cipher
        same(f"lookahead {ahead}", made, s.reference(KEY, ZERO_IV, 0, len(made)))
        cipher.seek(9)
        same("after a seek", cipher.crypt(bytes(length)), s.reference(KEY, ZERO_IV, 9, length))


def long_requests(s: Subject) -> None:
    """Requests past every limit on one message (64 KiB and around) are split, and the bytes stay right."""
    cipher, twin = s.cipher(KEY), s.cipher(KEY)
    for length in (65_535, 65_536, 65_537, 200_003):
        pieces = b"".join(twin.keystream(min(4099, length - at)) for at in range(0, length, 4099))
        same(f"{length} bytes", cipher.keystream(length), pieces)
    end = cipher.position
    same("position", twin.position, end)
    same("the end", pieces[-64:], s.reference(KEY, ZERO_IV, end - 64, 64))
    cells = 140_000 // s.payload_len
    batch = bytearray((s.payload_len + 5) * cells)
    cipher.crypt_cells(batch, CellFormat(5, s.payload_len))
    single = b"".join(bytes(5) + twin.keystream(s.payload_len) for _ in range(cells))
    same(f"{cells} cells at once", batch, single)


def positions_in_any_order(s: Subject) -> None:
    """xor_into answers for (position, length) alone: forwards, backwards, again, two streams by turns, any length."""
    for key in map(key_of, KEY_LENGTHS):
        iv = pattern(BLOCK, len(key))
        streams: list[Keystream] = [_backends.load(s.backend)(key, iv) for _ in range(2)]
        cuts = [0, 1, 16, 17, 33, 509, 510, 1018, 1024, 1527]
        for start, stop in [*pairwise(cuts), *reversed([*pairwise(cuts)]), (0, 1527), (3, 3), (5, 4096), (5, 70)]:
            for offset, stream in zip((0, 2**36 - 700), streams, strict=True):
                data = bytearray(pattern(stop - start + 2))
                stream.xor_into(offset + start, memoryview(data)[1:-1])
                wanted = pattern(stop - start + 2)
                middle = s.expected(key, offset + start, wanted[1:-1], iv)
                same(f"bytes {start} to {stop}", data, wanted[:1] + middle + wanted[-1:])
