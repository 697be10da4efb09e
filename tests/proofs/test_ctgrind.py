"""Valgrind's memcheck with every secret marked as undefined: no jump and no address depends on one.

For the portable and the AES-NI kernel and all code around them; valgrind 3.19 knows neither VAES nor AVX-512, for those
see test_machine_code.py. Each check has a planted leak. `make ctgrind` runs all of it, `make test` the C part.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ..support import ROOT, needs_core, tool
from .kit import PROGRAMS, Objects, build, full, run, usable

FOUND, WRONG = 9, 3
each_kernel = pytest.mark.parametrize("kernel", ["portable", "aesni"])


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, objects: Objects) -> Path:
    tool("valgrind")
    return objects.link(tmp_path_factory.mktemp("ctgrind") / "ctgrind", PROGRAMS / "ctgrind.c")


def memcheck(*command: str | Path, expected: int) -> str:
    return run("valgrind", "--quiet", "--error-limit=no", f"--error-exitcode={FOUND}", *command, expected=expected)


@each_kernel
def test_kernel_and_key_stream(driver: Path, kernel: str) -> None:
    usable(kernel)
    memcheck(driver, kernel, expected=0)


def test_a_planted_branch_is_found(driver: Path) -> None:
    assert "Conditional jump" in memcheck(driver, "portable", "branch", expected=FOUND)


def test_a_planted_table_index_is_found(driver: Path) -> None:
    assert "Use of uninitialised value" in memcheck(driver, "portable", "index", expected=FOUND)


def test_the_driver_knows_whether_valgrind_runs_it(driver: Path) -> None:
    run(driver, "portable", expected=WRONG)


@full
@needs_core
@pytest.mark.parametrize(
    ("arguments", "clean"), [(("portable",), True), (("aesni",), True), (("aesni", "leak"), False)]
)
def test_every_call_of_the_cipher(tmp_path: Path, arguments: tuple[str, ...], clean: bool) -> None:
    tool("valgrind")
    usable(arguments[0])
    mark = build(tmp_path / "mark.so", PROGRAMS / "mark.c", extra=("-shared", "-fPIC"))
    log = tmp_path / "log"
    options = ("--error-limit=no", f"--log-file={log}")
    program = (sys.executable, "-m", "tests.proofs.under_memcheck", mark)
    environment = os.environ | {"PYTHONMALLOC": "malloc", "PYTHONPATH": str(ROOT)}
    said = run("valgrind", *options, *program, *arguments, environment=environment)
    errors = int(said.split()[-1])
    assert (errors == 0) is clean, f"{errors} errors\n{log.read_text()[-20000:]}"
