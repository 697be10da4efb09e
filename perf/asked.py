"""What is asked of a run, and whether it shows it: one verdict a line.

Rules of this file: a line is a ratio of two rows of one run, computed in each process (or round) alone: the median
over them, and MAD. MUST is what a release owes, AIM what is near the limits of the processor. A line that lacks a row
says which, and passes no verdict; those of which a run has neither row are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from pyperf._utils import median_abs_dev

from .results import Results
from .stats import estimate, together
from .tables import ratio, table

BARE = "bare[cryptography.update_into,{n}]"


@dataclass(frozen=True)
class Line:
    """One thing that is asked: `over` / `row` is at least `must` ("x"), or `row` / `over` at most `must` ("of").

    `needs` says what a run must be given to have `row`, where that is more than the kernel in its name.
    """

    title: str
    row: str
    over: str
    must: float
    aim: float | None = None
    at_least: bool = True
    needs: str = ""


NATIVE_LINES = (
    Line("crypt_in_place, bytearray, against update_into", "call[native/{k},in_place,{n}]", BARE, 6.5, 7.5),
    Line("crypt_in_place, memoryview of a wire cell", "call[native/{k},memoryview,{n}]", BARE, 5.5, 6.5),
    Line("crypt_into", "call[native/{k},into,{n}]", BARE, 5.5, 6.2),
    Line("crypt", "call[native/{k},new,{n}]", BARE, 4.8, 5.5),
    Line(
        "crypt_cells, 1,000 wire cells, of the AES limit",
        "batch[native/{k},{n},1000]",
        "limit[{k},{n}]",
        1,
        0.92,
        False,
    ),
    Line(
        "crypt_cells, 1,000 wire cells, against one long pass",
        "batch[native/{k},{n},1000]",
        "pass[cryptography.update_into,{n},1000]",
        4.4,
        5,
    ),
    Line(
        "crypt_cells, 16 wire cells, against a pass over 16",
        "batch[native/{k},{n},16]",
        "pass[cryptography.update_into,{n},16]",
        2.8,
        3.3,
    ),
    Line(
        "crypt_cells, a million wire cells, of XOR over that memory",
        "batch[native/{k},{n},1000000]",
        "memory[xor,{n},1000000]",
        1.15,
        1,
        False,
    ),
    Line(
        "crypt_each, 1,000 circuits, against update_into",
        "each[native,{n},1000]",
        "visit[cryptography,{n},1000]",
        10,
        13,
    ),
    Line("crypt_each, 100,000 circuits", "each[native,{n},100000]", "visit[cryptography,{n},100000]", 8, 13),
    Line("AES-NI kernel: in place", "call[native/aesni,in_place,{n}]", BARE, 2.6, 3),
    Line(
        "AES-NI kernel: 1,000 wire cells, against one long pass",
        "batch[native/aesni,{n},1000]",
        "pass[cryptography.update_into,{n},1000]",
        1.1,
        1.25,
    ),
    Line("VAES-256 kernel: in place", "call[native/vaes256,in_place,{n}]", BARE, 4.5, 5.2),
    Line(
        "VAES-256 kernel: 1,000 wire cells, against one long pass",
        "batch[native/vaes256,{n},1000]",
        "pass[cryptography.update_into,{n},1000]",
        1.8,
        2.2,
    ),
    Line(
        "two pinned threads, 1,000 cells a call, against one",
        "threads[native,{n},1000,2]",
        "threads[native,{n},1000,1]",
        1.8,
        1.95,
        needs="two processors",
    ),
    Line("a cipher from a key, against Cipher(...).encryptor()", "make[native]", "make[cryptography]", 10),
)
CELL_LINES = (
    Line("fused over cryptography, of the bare update_into", "cells[cryptography,fused,{n}]", BARE, 1.8, 1.4, False),
    Line(
        "crypt_cells over cryptography, 1,000 wire cells", "batch[cryptography,fused,{n},1000]", BARE, 0.4, None, False
    ),
    Line(
        "pycryptodome with 16 KiB of lookahead, against bare encrypt",
        "cells[pycryptodome,fused,{n},lookahead=16384]",
        "bare[pycryptodome.encrypt,{n}]",
        4,
    ),
    Line("XOR alone: by uint32, against by bytes", "xor[word,{n}]", "xor[byte,{n}]", 2.5),
)
#: With the native backend.
ONION_LINES = (
    Line("tor1: relay forward of a foreign cell", "onion[tor1,native,relay_forward]", BARE, 1.0, None, False),
    Line("tor1: client send through three hops", "onion[tor1,native,send,3]", BARE, 8, 6, False),
    Line("CGO: relay forward of a foreign cell", "onion[cgo,native,relay_forward]", BARE, 0.6, 0.45, False),
    Line("CGO: relay originate, which rolls the keys", "onion[cgo,native,relay_originate]", BARE, 1.5, 1.0, False),
)
#: The kernel that the lines above without a kernel's name are about.
BEST = "vaes512"


@dataclass(frozen=True)
class Verdict:
    """A line as a run shows it; `value` None where a row is missing, then `word` says which."""

    line: Line
    value: float | None
    mad: float | None  # None for one process
    word: str
    asked_for: bool = True  # whether the run has any of its rows


def judge(line: Line, results: Results, payload_len: int, kernel: str) -> Verdict:
    """Return the verdict on one line."""
    names = [name.format(k=kernel, n=payload_len) for name in (line.row, line.over)]
    rows = [results.get(name) for name in names]
    missing = [name for name, row in zip(names, rows, strict=True) if row is None]
    if missing:
        needs = f", which needs {line.needs}" if line.needs else ""
        return Verdict(
            line, None, None, f"not measured: no row {missing[0]} in this run{needs}", len(missing) < len(names)
        )
    row, over = rows
    top, bottom = (over, row) if line.at_least else (row, over)
    assert top is not None
    assert bottom is not None
    paired = [above / below for above, below in together(top, bottom)]
    if not paired:
        return Verdict(line, None, None, "not measured: no process or round has both rows")
    value = median(paired)
    mad = median_abs_dev(paired) if len(paired) > 1 else None

    def reaches(bound: float) -> bool:
        return bool(value >= bound if line.at_least else value <= bound)

    if not reaches(line.must):
        word = "MISSED"
    elif line.aim is not None and reaches(line.aim):
        word = "aim"
    else:
        word = "must"
    if not abs(value - line.must) > estimate(paired).half:  # which one process can't tell
        word += ", not surely"
    return Verdict(line, value, mad, word)


def verdicts(results: Results, lines: Sequence[Line], payload_len: int = 509, kernel: str = BEST) -> Iterator[Verdict]:
    """Yield the verdict on every line. `kernel` takes the best one's place where the processor lacks that."""
    for line in lines:
        verdict = judge(line, results, payload_len, kernel)
        if kernel != BEST and "{k}" in line.row + line.over and verdict.value is not None:
            verdict = Verdict(line, verdict.value, verdict.mad, f"{verdict.word} (asked of {BEST}, this is {kernel})")
        yield verdict


LEGEND = (
    "x: how many times as quick as what it is set against; without x: its time as a share of that. must: what every "
    "release owes; aim: near the processor's limits. A verdict names what is reached; MISSED: not even must. Not "
    "surely: must lies within the 95% interval of what was measured, or a single process measured it."
)


def asked_table(results: Results, asked: Sequence[Line], payload_len: int = 509, kernel: str = BEST) -> str:
    """Return the table with a verdict a line, and how to read it."""
    lines, without = [], 0
    for found in verdicts(results, asked, payload_len, kernel):
        if not found.asked_for:
            without += 1
            continue
        line = found.line
        sign, unit = ("≥", "x") if line.at_least else ("≤", "")
        aim = "" if line.aim is None else f"{sign} {line.aim:g}{unit}"
        value = (
            ""
            if found.value is None
            else f"{ratio(found.value)}{unit}" + (" (one process)" if found.mad is None else f" ± {found.mad:.2f}")
        )
        lines.append([line.title, f"{sign} {line.must:g}{unit}", aim, value, found.word])
    told = [table(["", "must", "aim", "measured, ± MAD", "verdict"], lines), LEGEND] if lines else []
    if without:
        told.append(f"Of the {len(asked)} things asked {without} are left out: this run has none of their rows.")
    return "\n\n".join(told)
