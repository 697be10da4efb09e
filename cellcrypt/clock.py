"""The processor's clock rate, for cycles per octet, and how it is known.

Rules of this file: a figure never comes without its source. A rate that is measured is the one that code really gets,
turbo and all, at that moment; the one that Linux reports is nominal on many virtual machines.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from .compiled import core

#: Additions, each of which needs the one before it: one cycle each on every processor that Python runs on in earnest.
_CHAIN = 2_000_000
_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock rate in Hz, None where it is not known, and how it is known."""

    hz: float | None
    how: str


def given(ghz: float) -> Clock:
    """Return a rate that somebody gave."""
    return Clock(ghz * 1e9, "given")


def find() -> Clock:
    """Measure the clock rate with a chain of additions in the compiled core; without one, return what Linux reports."""
    if core is not None:
        best = float("inf")
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            core.dependent_adds(_CHAIN)
            best = min(best, time.perf_counter() - start)
        how = f"measured: {_CHAIN:,} dependent additions, one cycle each, best of {_ROUNDS} rounds"
        return Clock(_CHAIN / best, how)
    return reported()


def reported() -> Clock:
    """Return what Linux reports in /proc/cpuinfo for the first processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "cpu MHz":
                    return Clock(
                        float(value) * 1e6, "reported by /proc/cpuinfo, not measured: there is no compiled core"
                    )
    except (OSError, ValueError):
        pass
    return Clock(None, "not known: there is no compiled core and /proc/cpuinfo says nothing; give --clock")
