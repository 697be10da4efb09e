"""What may not be found in a process's memory, and how it is looked for.

Rules of this file: the searched process never sees what is searched for, or it would find itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import witness

#: Cells of the longest batch: long enough to let go of the GIL and for the kernels' tables.
CELLS = 300
#: Where the last cell starts that is encrypted; the block that it ends in stays in an open cipher.
LAST_CELL = 3 * 509
#: Octets of a pattern: half a block, so that any 16 octets in a row hold one.
PART = 8


def _parts(name: str, octets: bytes) -> Iterator[tuple[str, bytes]]:
    for at in range(0, len(octets) - PART + 1, PART):
        yield f"{name}, octets {at} to {at + PART - 1}", octets[at : at + PART]


def patterns(key: bytes) -> dict[str, list[tuple[str, bytes]]]:
    """Return what betrays a key, by kind: the key and its round keys, and key stream of cells that were encrypted."""
    schedule = bytes(octet for round_key in witness._round_keys(key) for octet in round_key)
    stream = [
        part
        for position in (
            0,
            5 + 509,
            LAST_CELL,
            LAST_CELL + 509 - 32,
            509 * 35,
            509 * (35 + CELLS) - 64,
            509 * (37 + CELLS) - 64,
        )
        for part in _parts(f"key stream from {position}", witness.keystream(key, bytes(16), position // 16 * 16, 64))
    ]
    return {"keys": [*_parts("key", key), *_parts("round keys", schedule)], "key stream": stream}


def writable_memory(pid: int) -> Iterator[tuple[str, bytes]]:
    """Return each writable mapping of a process, with what /proc/PID/maps says of it."""
    with (
        open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps,
        open(f"/proc/{pid}/mem", "rb", 0) as mem,
    ):
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line)
            if found and found[3].startswith("rw"):
                start, end = int(found[1], 16), int(found[2], 16)
                mem.seek(start)
                try:
                    yield line.strip(), mem.read(end - start)
                except OSError:  # a mapping that goes away, or one of a device
                    continue


def find(pid: int, wanted: list[tuple[str, bytes]]) -> list[str]:
    """Return where in a process's memory which of `wanted` was found."""
    found = []
    for mapping, memory in writable_memory(pid):
        for name, octets in wanted:
            if (at := memory.find(octets)) >= 0:
                found.append(f"{name}: at {at:#x} of {mapping}")
    return found
