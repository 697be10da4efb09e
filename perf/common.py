"""What every suite shares: pyperf's Runner with options of ours, metadata, and refusals before any work.

Rules of this file: an option of ours is given to the workers in full, as the manager understood it, so that neither
defaults nor the environment can differ between them; a wrong option or a file that is in the way stops the program
before the first measurement.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyperf

from cellcrypt.formats import MAX_PAYLOAD_LEN, check_payload_len

from . import timer
from .rows import Row, describe
from .work import POOL, Work

#: Environment that a core built with sanitizers is loaded by (tests/sanitize.sh).
SANITIZER = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYCRYPTODOME_DISABLE_DEEPBIND", "PYTHONMALLOC")
#: Environment that changes what is measured: pyperf hands workers a bare one.
ENVIRONMENT = ("CELLCRYPT_BACKEND", "CELLCRYPT_KERNEL", "OPENSSL_ia32cap", "MALLOC_ARENA_MAX", *SANITIZER)
#: For so long, in seconds, a row runs before the clock of a slice starts: until code and buffers lie in the caches, and
#: the wide registers are awake. They sleep after 0.7 ms without AES on 256 or 512 bits, and wake in 0.1 ms,
#: at a third of the speed meanwhile (Ice Lake, December 2026; the rows pause[...] of native_rows.py show it).
WARM_UP_S = 0.0003
#: Written into every result: who may read it. Raised when the meaning of a row changes.
#: Since 2 the rows of update_into write into another buffer than they read, as cryptography asks for from 51 on.
SUITE_VERSION = 2

#: What a shell reports of a program that Ctrl-C stopped; ours end alike at SIGTERM.
INTERRUPTED = 130

#: A number on the command line has no more digits.
MOST_DIGITS = 18

#: An option of ours: (flag, attribute).
Flags = Sequence[tuple[str, str]]


def fail(message: str) -> NoReturn:
    """Say what is wrong and stop."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def stop(output: str, next_step: str) -> NoReturn:
    """End a run that was interrupted; `next_step` says what can be done with the part that `output` keeps."""
    kept = f"{output} keeps what was measured: {next_step}" if Path(output).exists() else "nothing was measured yet"
    print(f"interrupted; {kept}", file=sys.stderr)
    sys.exit(INTERRUPTED)


def run_child(command: Sequence[str], **more: Any) -> int:
    """Run a process that measures to its end; return its exit code. It ends with this one, and all that it started.

    In a session of its own, so that Ctrl-C reaches this process alone, which then stops it; so do SIGTERM, and SIGHUP
    of a terminal that is closed, which are Ctrl-C to this process from here on.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    child = subprocess.Popen(command, start_new_session=True, **more)
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _whole(text: str, wanted: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"must be {wanted}, got {text[: MOST_DIGITS + 1]!r}")
    return int(text)


def positive(text: str) -> int:
    """Return the number that an option gives, at least 1."""
    number = _whole(text, "a whole number of at least 1")
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def payload_len(text: str) -> int:
    """Return the payload length in bytes that an option gives."""
    number = _whole(text, f"1 to {MAX_PAYLOAD_LEN} bytes")
    try:
        return check_payload_len(number)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_output(path: str | None) -> None:
    """Stop unless a new file can be written at `path`."""
    if path is None:
        return
    target = Path(path)
    if target.exists():
        fail(f"{path} exists already: it is not overwritten")
    folder = target.absolute().parent
    if not folder.is_dir():
        fail(f"{path} can't be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        fail(f"{path} can't be written: folder {folder} is read-only")


def commit() -> str:
    """Return the commit that is measured, with "+" where the working tree differs from it, or "unknown"."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            ["git", "-C", str(here), "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if dirty else "")


def general_metadata(suite: str) -> dict[str, Any]:
    """Return what is the same for all rows of a run."""
    from cellcrypt import clock
    from cellcrypt.compiled import core

    found: dict[str, Any] = {
        "suite": suite,
        "suite_version": SUITE_VERSION,
        "commit": commit(),
        "core": "compiled" if core is not None else "missing",
        "measured": timer.measured(),
    }
    rate = clock.find()
    if rate.hz is not None:
        found.update(clock_mhz=round(rate.hz / 1e6), clock_how=rate.how)
    found.update({f"env_{name}": os.environ[name] for name in ENVIRONMENT if os.environ.get(name)})
    return found


def pass_on(flags: Flags) -> Callable[[list[str], argparse.Namespace], None]:
    """Return pyperf's add_cmdline_args for options of ours."""

    def add(command: list[str], options: argparse.Namespace) -> None:
        for flag, attribute in flags:
            value = getattr(options, attribute)
            if value is True:
                command.append(flag)
            elif isinstance(value, list):
                command.extend(f"{flag}={one}" for one in value)
            elif value is not None and value is not False:
                command.append(f"{flag}={value}")

    return add


def runner(suite: str, flags: Flags, metadata: dict[str, Any]) -> Any:
    """Return pyperf's Runner for a module of this folder. Loops need no calibration: one loop is cells enough."""
    return pyperf.Runner(
        loops=1, program_args=("-m", f"perf.{suite}"), add_cmdline_args=pass_on(flags), metadata=metadata
    )


def parse(made: Any, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line and refuse what can be refused now."""
    if "-h" not in (arguments or sys.argv) and not any("--worker" in one for one in arguments or sys.argv):
        probe, _ = made.argparser.parse_known_args(arguments)
        check_output(probe.output)
    options: argparse.Namespace = made.parse_args(arguments)
    options.inherit_environ = [*(options.inherit_environ or ()), *ENVIRONMENT]
    return options


def time_slice(work: Work, cells: int) -> float:
    """Run `cells` cells behind a warm-up; return what they took alone, in seconds.

    A slice must be longer than what a cipher makes ahead, or it might find all its key stream made by the warm-up.
    """
    end, some = time.monotonic() + WARM_UP_S, 1
    while time.monotonic() < end:
        work.run(some)
        some = min(2 * some, POOL)  # one at first: there are cells that take milliseconds
    return work.run(cells)


def time_row(loops: int, row: Row) -> float:
    """Measure loops * row.cells cells: set up, time in slices that lie in different places, check."""
    rng = random.Random(os.urandom(8))
    work = row.open(rng)
    cells = loops * row.cells
    seconds, done = 0.0, 0
    for part in range(row.slices):
        if part:
            work.move(rng)
        upto = cells * (part + 1) // row.slices
        if upto > done:
            seconds += time_slice(work, upto - done)
        done = upto
    work.check()
    return seconds


class Progress:
    """One line per row on standard error, with an estimate of what is left."""

    def __init__(self, rows: int, say: bool) -> None:
        self._rows, self._say, self._done, self._start = rows, say, 0, time.monotonic()

    def row(self, name: str) -> None:
        """Say that row `name` begins."""
        if self._say:
            left = ""
            if self._done:
                left = f", about {(time.monotonic() - self._start) / self._done * (self._rows - self._done):.0f} s left"
            print(f"  [{self._done + 1}/{self._rows}{left}] {name}", file=sys.stderr, flush=True)
        self._done += 1


def run_rows(made: Any, rows: Sequence[Row]) -> None:
    """Measure every row; in a worker the one that is asked for."""
    progress = Progress(len(rows), say=not made.args.worker)
    for number, row in enumerate(rows):
        progress.row(row.name)
        # What the library and the kernel are is known where the row is measured, and only there.
        here = made.args.worker and made.args.worker_task in (None, number)
        metadata = describe(row) if here else row.metadata
        made.bench_time_func(row.name, time_row, row, inner_loops=row.cells, metadata=metadata)
