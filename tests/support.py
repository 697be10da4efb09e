"""What the tests share: who is tested, what must be there, and how to ask another process.

Rules of this file: an absent backend or tool skips with the reason, and fails where CELLCRYPT_REQUIRE names it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import cellcrypt
from cellcrypt.backend import BUILT_IN
from cellcrypt.compiled import core, reason
from cellcrypt.testing import Subject
from cellcrypt.xor import PATHS

from . import witness

ROOT = Path(__file__).resolve().parent.parent
KEY = bytes(range(100, 116))

#: Programs and parts that tests use and that may be absent; with the backends, what CELLCRYPT_REQUIRE may name.
TOOLS = (
    *("core", "cc", "clang", "kernel", "objdump", "openssl", "qemu-x86_64", "tor", "valgrind", "venv"),
    *("aarch64-linux-gnu-gcc", "qemu-aarch64", "libtsan", "m32"),
)
REQUIRED = frozenset(filter(None, os.environ.get("CELLCRYPT_REQUIRE", "").replace(" ", "").split(",")))


def subjects(*, paths: tuple[str, ...] = PATHS, payload_len: int = 509) -> list[Any]:
    """Return pytest parameters: every built-in backend on each of `paths` with each kernel."""
    found = []
    for name, state in cellcrypt.backends().items():
        if name not in BUILT_IN:
            continue
        # A required backend that is absent runs like any other, and so fails with its reason.
        absent = not state.usable and name not in REQUIRED
        marks = pytest.mark.skip(reason=f"backend {name}: {state.reason}") if absent else ()
        for kernel in state.kernels or (None,):
            for path in paths if state.usable else paths[-1:]:
                subject = Subject(name, path, kernel, payload_len, witness.keystream)
                found.append(pytest.param(subject, id=f"{subject}", marks=marks))
    return found


each_subject = pytest.mark.parametrize("subject", subjects())
#: One path is enough where the path can't matter.
each_backend = pytest.mark.parametrize("subject", subjects(paths=("fused",)))
needs_core = pytest.mark.skipif(core is None and "core" not in REQUIRED, reason=f"{reason}")


def tool(name: str) -> str:
    """Return the path of a program; skip the test where it is absent, fail it where it is required."""
    path = shutil.which(name)
    if path is None:
        absent(name, f"no program {name} on PATH")
    return str(path)


def absent(name: str, why: str) -> None:
    """Skip the test because `name` is absent, or fail it where `name` is required."""
    assert name in TOOLS, f"{name} belongs into TOOLS"
    if name in REQUIRED:
        pytest.fail(f"CELLCRYPT_REQUIRE names {name}: {why}")
    pytest.skip(why)


def python(
    *arguments: str, environment: Mapping[str, str | None] | None = None, cwd: Path = ROOT, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run this Python with warnings as errors; a variable that is None is taken out of the environment."""
    variables = os.environ | (environment or {})
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=cwd,
        env={name: value for name, value in variables.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def run_code(code: str, **options: Any) -> str:
    """Return what a fresh Python prints for `code`; fail the test where it fails."""
    done = python("-c", code, **options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
