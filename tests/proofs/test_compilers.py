"""The core under other compilers, optimisations and architectures: the same octets, no warning. `make compilers`.

How quick each build is, is printed and not judged: only on a machine without neighbours does it mean anything.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from ..support import absent, tool
from .kit import CSRC, PROGRAMS, SOURCES, build, full, run

pytestmark = full

COMPILERS = ("gcc", "clang")
LEVELS = ("-O1", "-O2", "-O3", "-O2 -flto")
STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}")
CORE = tuple(source for source in SOURCES if source.name in ("ctr.c", "cpu.c", "xor.c") or "kernel_" in source.name)


def program(folder: Path, source: str, compiler: str, level: str, *more: str) -> Path:
    flags = (*STRICT, *level.split(), *more)
    return build(folder / f"{source}-{compiler}-{level}".replace(" ", ""), PROGRAMS / f"{source}.c", *CORE,
                 compiler=compiler, flags=flags)  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_same_octets(tmp_path: Path, compiler: str, level: str) -> None:
    run(program(tmp_path, "test_kernels", compiler, level), "all", "quick")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_python_face_compiles_without_a_warning(tmp_path: Path, compiler: str) -> None:
    include = f"-I{sysconfig.get_path('include')}"
    for source in CSRC.glob("*.c"):
        options = ("-O2", "-fPIC", "-Wno-unused-parameter", include, "-c", source, "-o", tmp_path / "out.o")
        run(tool(compiler), *STRICT, *options)


def test_32_bits(tmp_path: Path) -> None:
    """The portable part; sizes and positions must not need 64-bit words."""
    try:
        target = program(tmp_path, "test_kernels", "gcc", "-O2", "-m32")
    except pytest.fail.Exception as failure:
        if "No such file or directory" not in str(failure) and "cannot find" not in str(failure):
            raise
        absent("m32", "the C compiler has no 32-bit library")
    assert "portable" in run(target, "all", "quick")


def test_arm64(tmp_path: Path) -> None:
    """The portable part, run by QEMU."""
    target = program(tmp_path, "test_kernels", "aarch64-linux-gnu-gcc", "-O2", "-static")
    assert "portable" in run(tool("qemu-aarch64"), target, "all", "quick", timeout=900)


def test_speed_of_each_build(tmp_path: Path) -> None:
    builds = {
        f"{compiler} {level}": program(tmp_path, "speed", compiler, level) for compiler in COMPILERS for level in LEVELS
    }
    least: dict[str, dict[str, list[float]]] = {name: {} for name in builds}
    for _ in range(5):  # in turns, so that a busy moment hits all of them
        for name, path in builds.items():
            for line in run(path).splitlines():
                kernel, *times = line.split()
                known = least[name].get(kernel, [1e300, 1e300])
                least[name][kernel] = [min(pair) for pair in zip(known, map(float, times), strict=True)]
    kernels = list(next(iter(least.values())))
    print(f"{'':<16}" + "".join(f"{kernel:>18}" for kernel in kernels) + "   (times the best build: one cell, batch)")
    for name, rows in least.items():
        ratios = []
        for kernel in kernels:
            best = [min(other[kernel][i] for other in least.values()) for i in range(2)]
            ratios.append(" ".join(f"{rows[kernel][i] / best[i]:8.2f}" for i in range(2)))
        print(f"{name:<16}" + "".join(f"{ratio:>18}" for ratio in ratios))
