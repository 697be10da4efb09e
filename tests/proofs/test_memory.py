"""After close() or deletion no part of a key, of its round keys or of its key stream is in the process's memory.

Another process holds the cipher, and this one reads its memory. While the cipher is open the same search must find
what it looks for. What the caller holds is the caller's to wipe: its own key, here wiped before the search.
`make memory` takes every kernel and key length.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support import ROOT, needs_core
from . import kit_scan
from .kit import KERNELS, full, usable

pytestmark = [
    needs_core,
    pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="there is no /proc/PID/mem to read"),
]


def look(kernel: str, kind: str, how: str, key: bytes) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return what is found while the cipher is open, and what after it is gone."""
    command = [sys.executable, "-m", "tests.proofs.secret_holder", kernel, kind, how, str(len(key))]
    wanted = kit_scan.patterns(key)
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        found = []
        holder.stdin.write(key)
        for expected in (b"open\n", b"gone\n"):
            assert holder.stdout.readline() == expected
            try:
                found.append({kind: kit_scan.find(holder.pid, wanted[kind]) for kind in wanted})
            except PermissionError as error:
                holder.kill()
                pytest.skip(f"may not read another process's memory: {error}")
            holder.stdin.write(b"\n")
        assert holder.wait(60) == 0
    return found[0], found[1]


#: A process each takes seconds, so the usual run leaves out some pairs of kernel and way to go.
CASES = [(kernel, "close", key_len) for kernel, key_len in zip(KERNELS, (16, 24, 32, 16), strict=True)]
CASES += [("best", "delete", 16), ("portable", "delete", 32)]
REST = [(kernel, how, n) for kernel in KERNELS for how in ("close", "delete") for n in (16, 24, 32)]
EVERY_CASE = [*CASES, *(pytest.param(*case, marks=full) for case in REST if case not in CASES)]


@pytest.mark.parametrize(("kernel", "how", "key_len"), EVERY_CASE)
def test_nothing_is_left(kernel: str, how: str, key_len: int) -> None:
    if kernel != "best":
        usable(kernel)
    held, left = look(kernel, "bytes", how, os.urandom(key_len))
    assert held["keys"], "the search can't even find the keys of an open cipher"
    assert held["key stream"], "the search can't even find the rest of the block that an open cipher is in"
    assert left == {"keys": [], "key stream": []}


@pytest.mark.parametrize("kind", ["bytearray", "named"])
def test_no_copy_of_the_key_is_made_on_the_way(kind: str) -> None:
    """Another buffer than bytes, and a kernel asked for by name, take a longer way into the core."""
    held, left = look("best", kind, "at once", os.urandom(32))
    assert held["keys"]
    assert left == {"keys": [], "key stream": []}
