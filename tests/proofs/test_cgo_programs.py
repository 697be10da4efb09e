"""Counter Galois Onion in C, without Python: against itself as the papers read, on other builds, and under valgrind.

test_cgo.c compares; ctgrind_cgo.c marks keys, nonces and payloads as undefined, so that memcheck reports each jump and
address that depends on one. Kernels that valgrind does not know are in test_machine_code.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support import tool
from .kit import PROGRAMS, SOURCES, Objects, build, run, usable

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FOUND, WRONG = 9, 3
PAIRS = [("portable", "portable"), ("aesni", "pclmul"), ("portable", "pclmul"), ("aesni", "portable")]


def test_everything_that_this_processor_runs(tmp_path: Path, objects: Objects) -> None:
    assert "checks passed" in run(objects.link(tmp_path / "test_cgo", PROGRAMS / "test_cgo.c"))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_under_the_sanitizers(tmp_path: Path, objects: Objects, compiler: str) -> None:
    """The scheme's own sources; the kernels of AES take minutes to compile so, and have programs of their own."""
    own = [source for source in SOURCES if source.stem.startswith(("cgo", "polyval", "aes_block"))]
    assert len(own) == 5
    rest = [file for file in objects.files if file.stem not in {source.stem for source in own}]
    target = build(tmp_path / "test_cgo", PROGRAMS / "test_cgo.c", *own, *rest, compiler=compiler, extra=SANITIZERS)
    assert "checks passed" in run(target, "few")


def test_in_32_bits(tmp_path: Path) -> None:
    target = tmp_path / "test_cgo"
    probe = tmp_path / "probe.c"
    probe.write_text("#include <stdio.h>\nint main(void) { return 0; }\n")
    if " error: " in run(tool("gcc"), "-m32", probe, "-o", tmp_path / "probe", expected=None):
        pytest.skip("the compiler has no 32-bit library (Debian: gcc-multilib)")
    build(target, PROGRAMS / "test_cgo.c", *SOURCES, compiler="gcc", extra=("-m32", "-Wno-psabi"))
    assert "checks passed" in run(target)


def test_on_arm64(tmp_path: Path) -> None:
    target = tmp_path / "test_cgo"
    build(target, PROGRAMS / "test_cgo.c", *SOURCES, compiler="aarch64-linux-gnu-gcc", extra=("-static",))
    assert "checks passed" in run(tool("qemu-aarch64"), target, "few")


@pytest.mark.parametrize("processor", ["Nehalem", "Westmere"])
def test_on_old_processors(tmp_path: Path, objects: Objects, processor: str) -> None:
    """Nehalem has neither AES nor carry-less multiplication, Westmere has both, and nothing wider."""
    target = objects.link(tmp_path / "test_cgo", PROGRAMS / "test_cgo.c")
    assert "checks passed" in run(tool("qemu-x86_64"), "-cpu", processor, target, "few")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, objects: Objects) -> Path:
    tool("valgrind")
    return objects.link(tmp_path_factory.mktemp("ctgrind_cgo") / "ctgrind_cgo", PROGRAMS / "ctgrind_cgo.c")


def memcheck(*command: str | Path, expected: int) -> str:
    return run("valgrind", "--quiet", "--error-limit=no", f"--error-exitcode={FOUND}", *command, expected=expected)


@pytest.mark.parametrize(("kernel", "polyval"), PAIRS)
def test_no_secret_decides_a_jump_or_an_address(driver: Path, kernel: str, polyval: str) -> None:
    usable(kernel)
    memcheck(driver, kernel, polyval, expected=0)


def test_a_planted_branch_is_found(driver: Path) -> None:
    assert "Conditional jump" in memcheck(driver, "portable", "portable", "branch", expected=FOUND)


def test_the_driver_knows_whether_valgrind_runs_it(driver: Path) -> None:
    run(driver, "portable", "portable", expected=WRONG)
