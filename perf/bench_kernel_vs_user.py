"""What does encrypting in the kernel cost, against doing it in user space? The measurement of 2011, repeated.

    python -m perf.bench_kernel_vs_user                      every way that this machine has, 1,048,576 encryptions each
    python -m perf.bench_kernel_vs_user --count 10000 --json new.json
    python -m perf.bench_kernel_vs_user --pyperf --count 65536 -o cbc.json       the same as pyperf rows

One buffer of 4,096 octets, which begins with "Single block msg" and is zero after that, is encrypted with AES-128-CBC
in place, over and over: each encryption reads what the one before it wrote, and takes its last block as the IV. That
is what a socket or a context that goes on does by itself: the kernel keeps the last block of each message, a
library's context that of each call. So all ways end with the same octets, which `openssl enc -aes-128-cbc -nopad`,
once per encryption with the IV given, makes as well. Key and IV are those of RFC 3602, section 4, case 1; so is the
first block of the first encryption. AF_ALG is used twice: by send and recv, which copy the buffer into the kernel,
and by vmsplice and splice, which lend it the pages. Set-up, known answer and digest stand outside the clock.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cellcrypt import cbc
from cellcrypt.__main__ import program
from cellcrypt.backend import afalg, why

from .common import INTERRUPTED, Flags, check_output, fail, general_metadata, parse, positive, runner
from .tables import table
from .zero_copy import zero_copy

#: Encryptions in one measurement, as in 2011.
COUNT = 1_048_576
BUFFER_LEN = 4096  # octets
#: Encryptions between two looks at the clock: often enough to show progress, seldom enough not to be felt.
SLICE = 2048
#: SHA-256 of the buffer after COUNT encryptions, on which all ways agreed.
COUNT_SHA256 = "67f7b2e8793e138fe6ed07d645b9ad1c5b44034d9087a37413f5c80d6474a1ba"

WAYS: dict[str, cbc.Open] = {
    "cryptography": cbc.LIBRARIES["cryptography"],
    "pycryptodome": cbc.LIBRARIES["pycryptodome"],
    "afalg-send": cbc.LIBRARIES["afalg"],
    "afalg-splice": zero_copy,
}
KERNEL = ("afalg-send", "afalg-splice")


@dataclass
class Result:
    """One way: seconds as `time` gives them, for `done` encryptions."""

    way: str
    done: int = 0
    real: float = 0.0
    user: float = 0.0
    system: float = 0.0
    sha256: str = ""

    @property
    def octets(self) -> int:
        return self.done * BUFFER_LEN


def start() -> memoryview:
    """Return the buffer as it is at first: a page of its own, with the room that cryptography asks for behind it."""
    room = memoryview(mmap.mmap(-1, 2 * BUFFER_LEN))
    room[: len(cbc.PLAINTEXT)] = cbc.PLAINTEXT
    return room


def measure(way: str, count: int, show: Callable[[Result], None] = lambda result: None) -> Result:
    """Encrypt `count` times one way. An interrupt ends it early: the result then says how many were done."""
    room = start()
    result = Result(way)
    with WAYS[way](cbc.KEY, cbc.IV, room, BUFFER_LEN, True) as encrypt:
        try:
            while result.done < count:
                passes = min(SLICE, count - result.done)
                before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
                for _ in range(passes):
                    encrypt()
                ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
                result.done += passes
                result.real += ended - began
                result.user += after.ru_utime - before.ru_utime
                result.system += after.ru_stime - before.ru_stime
                show(result)
        except KeyboardInterrupt:
            return result
    result.sha256 = hashlib.sha256(room[:BUFFER_LEN]).hexdigest()
    return result


def progress(count: int, stream: Any = sys.stderr) -> Callable[[Result], None]:
    """Return what shows a measurement on its way: a line that is overwritten on a terminal, one in 5 s elsewhere."""
    terminal = stream.isatty()
    shown = [time.monotonic()]

    def show(result: Result) -> None:
        last = result.done == count
        if not last and time.monotonic() - shown[0] < (0.2 if terminal else 5.0):
            return
        shown[0] = time.monotonic()
        left = result.real * (count / result.done - 1)
        line = f"  {result.way:<13} {result.done:>9,} of {count:,}, {result.real:6.1f} s, about {left:.0f} s left "
        print(line, end="\r" if terminal and not last else "\n", file=stream, flush=True)

    return show


def left_out(ways: Sequence[str]) -> dict[str, str]:
    """Return the ways that can't be taken here, with the reason."""
    reasons = {way: cbc.why_not(WAYS[way]) for way in ways}
    return {way: reason for way, reason in reasons.items() if reason is not None}


def report(results: Sequence[Result], missing: dict[str, str], count: int) -> str:
    """Return the table, what was left out, and whether the buffers are the same."""
    user = [result.real / result.done for result in results if result.done and result.way not in KERNEL]
    best = min(user, default=None)
    rows = []
    for result in results:
        if not result.done:
            continue
        each = result.real / result.done
        rows.append(
            [
                result.way + ("" if result.done == count else f" (stopped after {result.done:,})"),
                *(f"{seconds:.2f}" for seconds in (result.real, result.user, result.system)),
                f"{each * 1e9:,.0f}",
                f"{result.octets / result.real / 1e6:,.0f}",
                f"{each / best:.2f}" if best else "",
            ]
        )
    header = ["way", "real s", "user s", "system s", "ns each", "MB/s", "against the quickest in user space"]
    lines = [
        f"AES-128-CBC, {count:,} encryptions of one buffer of {BUFFER_LEN:,} octets in place, chained; "
        f"Linux {os.uname().release}, Python {platform.python_version()}",
        "",
        table(header, rows),
        "",
        *(f"left out: {way}: {reason}" for way, reason in missing.items()),
    ]
    digests = {result.sha256 for result in results if result.sha256}
    if len(digests) == 1:
        lines.append(f"SHA-256 of the buffer at the end, the same for all: {digests.pop()}")
    elif digests:
        lines += [f"DIFFERENT: SHA-256 of the buffer by {one.way}: {one.sha256}" for one in results if one.sha256]
    return "\n".join(lines)


def agree(results: Sequence[Result], count: int) -> bool:
    """Return whether all complete results end with the same octets, and with the known ones where they are known."""
    digests = {result.sha256 for result in results if result.sha256}
    return len(digests | ({COUNT_SHA256} if digests and count == COUNT else set())) <= 1


def run(ways: Sequence[str], count: int, json_path: str | None) -> int:
    """Measure each way in turn and print the table; what is done so far survives an interrupt."""
    missing = left_out(ways)
    results: list[Result] = []
    interrupted = False
    for way in ways:
        if way in missing:
            continue
        try:
            result = measure(way, count, progress(count))
        except Exception as error:
            missing[way] = why(error)
            continue
        except KeyboardInterrupt:
            interrupted = True
            break
        results.append(result)
        if result.done < count:
            interrupted = True
            break
    if interrupted:
        print("interrupted: this is what was done", file=sys.stderr)
    print(report(results, missing, count))
    same = agree(results, count)
    if json_path is not None:
        found = {
            "count": count,
            "buffer_octets": BUFFER_LEN,
            "results": [asdict(result) for result in results],
            "left_out": missing,
            "same_octets": same,
            "kernel": afalg.version(),
            "python": platform.python_version(),
        }
        with Path(json_path).open("x", encoding="utf-8") as file:
            file.write(json.dumps(found, indent=2) + "\n")
    if not results:
        return 2
    return 1 if not same else INTERRUPTED if interrupted else 0


def time_way(loops: int, way: str, count: int) -> float:
    """Measure loops * count encryptions for pyperf, and check the octets after the clock."""
    result = measure(way, loops * count)
    other = next((name for name in WAYS if name != way and cbc.why_not(WAYS[name]) is None), way)
    wanted = COUNT_SHA256 if loops * count == COUNT else measure(other, loops * count).sha256
    if result.sha256 != wanted:
        fail(f"{way}: {loops * count} encryptions gave SHA-256 {result.sha256}, not {wanted}")
    return result.real


FLAGS: Flags = (("--pyperf", "pyperf"), ("--count", "count"), ("--way", "way"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this suite."""
    parser.add_argument("--count", type=positive, default=COUNT, help=f"encryptions (default: {COUNT})")
    parser.add_argument("--way", action="append", choices=tuple(WAYS), help="repeatable; default: all")
    parser.add_argument("--pyperf", action="store_true", help="make pyperf rows; all options of pyperf work then too")


def pyperf_main(arguments: Sequence[str] | None) -> None:
    """Measure with pyperf's Runner: one row a way, one value `count` encryptions."""
    made = runner("bench_kernel_vs_user", FLAGS, general_metadata("bench_kernel_vs_user"))
    add_options(made.argparser)
    options = parse(made, arguments)
    ways = options.way or list(WAYS)
    missing = {} if options.worker else left_out(ways)
    for way, reason in missing.items():
        print(f"  left out: {way}: {reason}", file=sys.stderr)
    options.way = [way for way in ways if way not in missing]
    if not options.way:
        fail("no way can be taken here")
    for way in options.way:
        if not options.worker:
            print(f"  {way}", file=sys.stderr, flush=True)
        metadata = {"way": way, "encryptions": options.count, "buffer_octets": BUFFER_LEN}
        name = f"cbc[{way},{BUFFER_LEN}]"
        made.bench_time_func(name, time_way, way, options.count, inner_loops=options.count, metadata=metadata)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure."""
    if "--pyperf" in (sys.argv[1:] if arguments is None else arguments):
        pyperf_main(arguments)
        return 0
    parser = argparse.ArgumentParser(prog="python -m perf.bench_kernel_vs_user", description=__doc__.split("\n")[0])
    add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the results there too; never overwrites")
    options = parser.parse_args(arguments)
    check_output(options.json)
    return run(tuple(dict.fromkeys(options.way or WAYS)), options.count, options.json)


if __name__ == "__main__":
    program(main)
