"""Threads that start together, and calls that wait for their turn: what the tests of threads and ThreadSanitizer share.

Rules of this file: the standard library and cellcrypt only, since ThreadSanitizer runs it where nothing else is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cellcrypt import ConcurrentUseError


def together(*works: Callable[[], None]) -> None:
    """Run each in a thread of its own, all from one moment on; raise what any of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def insist(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call until no other thread is inside; return what the call returns."""
    while True:
        try:
            return call(*arguments)
        except ConcurrentUseError:
            continue
