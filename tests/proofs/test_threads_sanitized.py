"""ThreadSanitizer over a core built with it, while threads use one cipher and many (hammer.py). `make tsan`.

Python itself is not built with it, but its GIL is a mutex and a condition of the C library, which ThreadSanitizer
follows: what the GIL orders counts as ordered, and what runs without it does not.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from ..support import ROOT, absent, needs_core, tool
from .kit import CSRC, full, run

pytestmark = [full, needs_core]

RACE = 66


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose core is built with ThreadSanitizer."""
    folder = tmp_path_factory.mktemp("tsan")
    shutil.copytree(ROOT / "cellcrypt", folder / "cellcrypt", ignore=shutil.ignore_patterns("_core*", "__pycache__"))
    for part in ("tests/proofs/__init__.py", "tests/proofs/hammer.py", "tests/__init__.py", "tests/storm.py"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, folder / part)
    target = folder / "cellcrypt" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ("-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}")
    run(tool("cc"), *flags, *sorted(CSRC.glob("*.c")), "-o", target)
    return folder


def hammer(folder: Path, *arguments: str, expected: int) -> str:
    library = run(tool("cc"), "-print-file-name=libtsan.so").strip()
    if not Path(library).is_absolute():
        absent("libtsan", "the C compiler has no libtsan.so")
    setarch = shutil.which("setarch")  # ThreadSanitizer needs to know where things lie
    environment = os.environ | {
        "LD_PRELOAD": library,
        "PYTHONPATH": str(folder),
        "TSAN_OPTIONS": f"exitcode={RACE} halt_on_error=1",
    }
    program = (sys.executable, "-P", "-m", "tests.proofs.hammer", *arguments)
    return run(*((setarch, "-R") if setarch else ()), *program, environment=environment, expected=expected)


def test_no_race(sanitized: Path) -> None:
    assert "no complaint" in hammer(sanitized, expected=0)


def test_a_race_is_seen(sanitized: Path) -> None:
    assert "data race" in hammer(sanitized, "race", expected=RACE)
