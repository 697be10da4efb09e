"""python -m cellcrypt validate: know that an installation can be trusted, and what it costs.

What lives here: the command: its options, its tables, its JSON. What is compared and measured stands in crosscheck.py.

Rules of this file: the seed is always shown, so that every run can be repeated; exit status 1 for the first wrong
octet and for nothing else, 2 for what can't be asked for.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from . import clock as clocks
from . import crosscheck
from .backend.protocol import BLOCK
from .formats import CellFormat

ITERATIONS = 1000
CELLS = 80  # 40,720 octets in payloads of 509: about as many as 2,560 blocks
#: AES blocks in one iteration of AES-CBC, as in the xnu kernel's own test.
BLOCKS = (2560, 256)


def _whole(text: str, expected: str) -> int:
    try:
        return int(text)
    except ValueError:
        got = text if len(text) < 30 else f"{text[:10]}... of {len(text):,} characters"
        raise argparse.ArgumentTypeError(f"must be {expected}, got {got!r}") from None


def _positive(text: str) -> int:
    number = _whole(text, "a whole number of at least 1")
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _seed(text: str) -> int:
    return _whole(text, "a whole number")


def _payload_len(text: str) -> int:
    number = _whole(text, "a whole number of bytes")
    try:
        return CellFormat(crosscheck.HEADER_LEN, number).payload_len
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _gigahertz(text: str) -> float:
    number = float(text)
    if not 0.01 <= number <= 100:
        raise argparse.ArgumentTypeError(f"must be 0.01 to 100 GHz, got {text}")
    return number


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "validate",
        help="check every backend, kernel and path against all others on random data, and measure them",
        description="Encrypt random cells with every backend, kernel and path, decrypt them, compare with the data and"
        " with every other backend; then the same for AES-CBC on the libraries that have it. Stop at the first wrong"
        " octet, say where it is, and exit with status 1 (2: what was asked for can't be done). Show mean, best and"
        " worst iteration of each.",
    )
    add = parser.add_argument
    add("--iterations", type=_positive, default=ITERATIONS, help="of everything (default: %(default)s)")
    add("--cells", type=_positive, default=CELLS, help="cells in an iteration (default: %(default)s)")
    add("--payload-len", type=_payload_len, default=509, help="octets in a payload (default: %(default)s)")
    add("--blocks", type=_positive, action="append", help="AES-CBC blocks in an iteration, repeatable (2560 and 256)")
    add("--seed", type=_seed, help="of the random data, to repeat a run (default: a new one, which is shown)")
    add("--clock", type=_gigahertz, metavar="GHZ", help="the processor's clock rate (default: measured where possible)")
    add("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run, refuse=parser.error)


def _check_sizes(options: argparse.Namespace, blocks: Sequence[int]) -> None:
    """Refuse, with exit status 2, what no iteration can hold."""
    cell_len = crosscheck.HEADER_LEN + options.payload_len
    for option, number, unit, size in (
        ("--cells", options.cells, "cells", cell_len),
        *(("--blocks", number, "blocks", BLOCK) for number in blocks),
    ):
        if number * size > crosscheck.MOST_OCTETS:
            options.refuse(
                f"argument {option}: must be at most {crosscheck.MOST_OCTETS // size:,} {unit} of {size:,} octets, as"
                f" an iteration holds at most {crosscheck.MOST_OCTETS:,} octets; got {number:,} {unit}"
            )


def _row(measured: crosscheck.Measured, hz: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {**measured.names, "octets": measured.octets}
    times = measured.seconds
    for name, seconds in (("mean", fmean(times)), ("best", min(times)), ("worst", max(times))):
        row[name] = {
            "seconds": seconds,
            "megabytes_per_second": measured.octets / seconds / 1e6,
            "cycles_per_octet": None if hz is None else seconds * hz / measured.octets,
        }
    return row


def _against_portable(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many times quicker than the portable kernel each other kernel is, by their best iterations."""
    native = [row for row in rows if row["backend"] == "native"]
    portable = {(row["path"], row["work"]): row["best"]["seconds"] for row in native if row["kernel"] == "portable"}
    return [
        {
            **{name: row[name] for name in ("kernel", "path", "work")},
            "times_quicker": portable[row["path"], row["work"]] / row["best"]["seconds"],
        }
        for row in native
        if row["kernel"] != "portable" and (row["path"], row["work"]) in portable
    ]


def collect(plan: crosscheck.Plan, blocks: Sequence[int], clock: clocks.Clock) -> dict[str, Any]:
    """Check and measure everything; return what --json prints. "mismatch" is None where all octets were right."""
    found: dict[str, Any] = {
        "seed": plan.seed,
        "iterations": plan.iterations,
        "cells": plan.cells,
        "payload_len": plan.payload_len,
        "blocks": list(blocks),
        "clock": asdict(clock),
        "measured": [],
        "against_portable": [],
        "measured_cbc": [],
        "unavailable": {},
        "unavailable_cbc": {},
        "mismatch": None,
    }
    try:
        rows, found["unavailable"] = crosscheck.cells(plan)
        found["measured"] = [_row(measured, clock.hz) for measured in rows]
        found["against_portable"] = _against_portable(found["measured"])
        rows, found["unavailable_cbc"] = crosscheck.aes_cbc(plan, blocks)
        found["measured_cbc"] = [_row(measured, clock.hz) for measured in rows]
    except crosscheck.Mismatch as mismatch:
        found["mismatch"] = mismatch.where | {"message": str(mismatch)}
    return found


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines: the named columns, then time, MB/s and cycles per octet, each as mean, best and worst."""
    header = [*names]
    for title in ("us", "MB/s", "cycles/octet"):
        header += [f"{title}: mean", "best", "worst"]
    lines = [header]
    for row in rows:
        line = [str(row[name]) if row[name] is not None else "" for name in names]
        iterations = [row[which] for which in ("mean", "best", "worst")]
        line += [f"{one['seconds'] * 1e6:,.1f}" for one in iterations]
        line += [f"{one['megabytes_per_second']:,.0f}" for one in iterations]
        cycles = [one["cycles_per_octet"] for one in iterations]
        line += ["" if figure is None else f"{figure:.2f}" for figure in cycles]
        lines.append(line)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = len(names)
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _text(found: dict[str, Any]) -> str:
    clock = found["clock"]
    rate = "clock rate" if clock["hz"] is None else f"clock rate {clock['hz'] / 1e9:.3f} GHz,"
    lines = [
        f"seed {found['seed']}; {found['iterations']:,} iterations of {found['cells']:,} cells of"
        f" {found['payload_len']:,} octets",
        f"{rate} {clock['how']}",
    ]
    if found["measured"]:
        lines += ["", *_table(("backend", "kernel", "path", "work"), found["measured"])]
    if found["against_portable"]:
        lines += ["", "generic against optimised: the portable kernel's best time over that of"]
        lines += [
            f"  {row['kernel']:<9} {row['path']:<6} {row['work']:<25} {row['times_quicker']:6.2f}"
            for row in found["against_portable"]
        ]
    if found["measured_cbc"]:
        lines += ["", "AES-CBC, 128-bit keys", *_table(("library", "blocks", "work"), found["measured_cbc"])]
    lines.append("")
    lines += [f"not checked: {name}: {reason}" for name, reason in found["unavailable"].items()]
    lines += [f"not checked: AES-CBC by {name}: {reason}" for name, reason in found["unavailable_cbc"].items()]
    mismatch = found["mismatch"]
    lines.append(f"MISMATCH: {mismatch['message']}" if mismatch else "all octets were right")
    return "\n".join(lines)


def _progress() -> crosscheck.Progress:
    """Return what shows on a terminal how far it is; nothing elsewhere."""
    last = [0.0]

    def show(what: str, iteration: int, of: int) -> None:
        if time.monotonic() - last[0] > 0.2:
            last[0] = time.monotonic()
            print(f"  {what}: iteration {iteration:,} of {of:,}   ", end="\r", file=sys.stderr, flush=True)

    return show if sys.stderr.isatty() else lambda what, iteration, of: None


def run(options: argparse.Namespace) -> int:
    """Validate, print, and return 1 where an octet was wrong; exit with 2 where the sizes can't be had."""
    blocks = tuple(dict.fromkeys(options.blocks or BLOCKS))
    _check_sizes(options, blocks)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    plan = crosscheck.Plan(seed, options.iterations, options.cells, options.payload_len, _progress())
    clock = clocks.find() if options.clock is None else clocks.given(options.clock)
    try:
        found = collect(plan, blocks, clock)
    except MemoryError:
        options.refuse(
            f"arguments --cells and --blocks: must fit into memory, several times over; got {options.cells:,} cells of"
            f" {options.payload_len:,} octets and {max(blocks):,} blocks of {BLOCK} octets"
        )
        raise
    except KeyboardInterrupt:
        print(f"interrupted; the seed was {seed}, nothing was wrong so far", file=sys.stderr)
        return 130
    print(json.dumps(found, indent=2) if options.json else _text(found))
    return 1 if found["mismatch"] else 0
