"""What the proofs share: building C programs over the core, and running them.

Rules of this file: a tool that is missing skips the test, or fails it where CELLCRYPT_REQUIRE names the tool; a
program that does not build or does not end as it should fails the test with all that it said.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ..support import ROOT, tool

CSRC = ROOT / "cellcrypt" / "csrc"
PROGRAMS = ROOT / "tests" / "c"
#: The core without its Python face.
SOURCES = tuple(sorted(path for path in CSRC.glob("*.c") if not path.name.startswith("module")))
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}")
KERNELS = ("vaes512", "vaes256", "aesni", "portable")


def run(
    *command: str | Path, expected: int | None = 0, environment: Mapping[str, str] | None = None, timeout: float = 300
) -> str:
    """Run a program and return what it printed, on both streams; fail the test unless it ends with `expected`."""
    done = subprocess.run(
        [str(word) for word in command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    if expected is not None and done.returncode != expected:
        pytest.fail(f"{' '.join(map(str, command))}\nexit status {done.returncode}\n{done.stdout}")
    return done.stdout


def build(
    target: Path,
    *sources: Path,
    compiler: str = "cc",
    flags: Sequence[str] = FLAGS,
    extra: Sequence[str] = (),
) -> Path:
    """Compile and link `sources` into `target`."""
    run(tool(compiler), *flags, *extra, *sources, "-o", target)
    return target
