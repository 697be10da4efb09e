"""The clock that rows are measured with: wall time, or the processor time of the thread.

Rules of this file: wall time unless --cpu-time was asked for; what was used stands in the metadata (`measured`), and
runs of the two are never compared. Processor time leaves out what the system gave to other programs meanwhile, so that
a machine with neighbours can tell rows apart; it knows nothing of waiting, nor of a hypervisor's other guests.
"""

from __future__ import annotations

import time

WALL, PROCESSOR = "wall time", "processor time of the thread"
_clock = time.perf_counter


def use(cpu_time: bool) -> None:
    """Choose the clock of this process."""
    global _clock
    _clock = time.thread_time if cpu_time else time.perf_counter


def measured() -> str:
    """Return which clock is in use, for the metadata."""
    return PROCESSOR if _clock is time.thread_time else WALL


def now() -> float:
    """Return the time, in seconds from some point."""
    return _clock()
