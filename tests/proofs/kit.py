"""What the proofs share: building C programs over the core, and running them.

Rules of this file: a tool that is missing skips the test, or fails it where CELLCRYPT_REQUIRE names the tool; a
program that does not build or does not end as it should fails the test with all that it said.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cellcrypt.compiled import core

from ..support import ROOT, tool

CSRC = ROOT / "cellcrypt" / "csrc"
PROGRAMS = ROOT / "tests" / "c"
#: The core without its Python face.
SOURCES = tuple(sorted(path for path in CSRC.glob("*.c") if not path.name.startswith("module")))
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}")
#: The long proofs; the make targets in tests/proofs' name switch them on.
full = pytest.mark.skipif(not os.environ.get("CELLCRYPT_FULL"), reason="takes minutes: make proofs runs it")
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
    run(tool(compiler), *flags, *sources, *extra, "-o", target)
    return target


class Objects:
    """The core without its Python face, compiled once for all the programs that are linked with it."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / f"{source.stem}.o" for source in SOURCES]
        for source, target in zip(SOURCES, self.files, strict=True):
            run(tool("cc"), *FLAGS, "-c", source, "-o", target)

    def link(self, target: Path, *sources: Path, extra: Sequence[str] = ()) -> Path:
        return build(target, *sources, *self.files, extra=extra)


def usable(kernel: str) -> None:
    """Skip the test where this processor can't run `kernel`."""
    if core is None or kernel not in core.kernels():
        pytest.skip(f"this processor can't run kernel {kernel}")
