"""Each example, and each block of the README, runs as it stands. Real relays: tests/live."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_readme(block: str) -> None:
    exec(compile(block, README, "exec"), {})


def test_readme_has_examples() -> None:
    assert len(BLOCKS) >= 2


def test_two_nodes() -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.two_nodes"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hop 0 says: HELLO, HOP\n", b"")
