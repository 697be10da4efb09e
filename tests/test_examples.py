"""Each example runs as its docstring says. fetch_through_tor needs real relays: tests/live has that."""

from __future__ import annotations

import subprocess
import sys


def test_two_nodes() -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.two_nodes"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hop 0 says: HELLO, HOP\n", b"")
