"""The suite itself: what is required may not be skipped, and every run says its seed."""

from __future__ import annotations

import platform
from typing import Any

import pytest

import cellcrypt
from cellcrypt.backend import BUILT_IN, kernel_faults
from cellcrypt.compiled import core, reason

from .support import TOOLS, python, tool

BLOCK_CORE = "import sys; sys.modules['cellcrypt._core'] = None\n"


def _pytest(*arguments: str, block: str = "", **environment: str) -> Any:
    code = f"import sys\n{block}import pytest; sys.exit(pytest.main({['-p', 'no:cacheprovider', *arguments]!r}))"
    return python("-c", code, environment=environment)


def test_an_unknown_requirement_is_an_error() -> None:
    done = _pytest("--collect-only", "-q", "tests/test_formats.py", CELLCRYPT_REQUIRE="native,sse9")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "got sse9" in done.stdout + done.stderr
    for name in (*BUILT_IN, *TOOLS):
        assert name in done.stdout + done.stderr


def test_an_absent_backend_skips_and_fails_where_it_is_required() -> None:
    which = ("-q", "-rs", "tests/test_known_answers.py", "-k", "sp800 and native")
    skipped = _pytest(*which, block=BLOCK_CORE, CELLCRYPT_REQUIRE="")
    assert skipped.returncode == 0, skipped.stdout
    assert "backend native: the C core was not built" in skipped.stdout
    failed = _pytest(*which, block=BLOCK_CORE, CELLCRYPT_REQUIRE="pycryptodome, native")
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED, failed.stdout
    assert "BackendUnavailable: backend 'native' is unavailable" in failed.stdout


def test_an_absent_tool_skips_and_fails_where_it_is_required() -> None:
    which = ("-q", "-rs", "tests/test_loops.py", "-k", "installed_core and bytes")
    block = "import os; os.environ['PATH'] = '/nowhere'\n"
    skipped = _pytest(*which, block=block, CELLCRYPT_REQUIRE="")
    assert skipped.returncode == 0, skipped.stdout
    failed = _pytest(*which, block=block, CELLCRYPT_REQUIRE="objdump,core")
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED, failed.stdout
    assert "CELLCRYPT_REQUIRE names objdump" in failed.stdout or "cellcrypt._core" in failed.stdout


def test_every_run_says_its_seed() -> None:
    first, second = (_pytest("--collect-only", "tests/test_formats.py").stdout for _ in range(2))
    [seed] = [line for line in first.splitlines() if line.startswith("properties: --hypothesis-seed=")]
    assert seed not in second
    given = _pytest("--collect-only", "tests/test_formats.py", "--hypothesis-seed=77").stdout
    assert "--hypothesis-seed=77;" in given


def test_nothing_is_skipped_because_it_is_broken() -> None:
    """A backend or kernel that computes wrong key stream is left out by the package; here that is a failure."""
    assert kernel_faults() == {}
    for name, state in cellcrypt.backends().items():
        assert "wrong key stream" not in str(state.reason), f"{name}: {state.reason}"
    if core is not None:
        native = cellcrypt.backends()["native"]
        assert native.usable, native.reason
        assert native.kernels == tuple(core.kernels())


def test_with_a_compiler_there_is_a_core() -> None:
    """The extension is optional, so a core that does not compile would be skipped without a word."""
    if core is None:
        with_compiler = tool("cc")
        pytest.fail(f"{with_compiler} is there, but the core is not: {reason}")
    assert core.__name__ == "cellcrypt._core"


@pytest.mark.skipif(core is None or platform.machine() != "x86_64", reason="kernels of x86-64 in the core")
def test_every_kernel_that_this_processor_can_run_is_there() -> None:
    """By what Linux says of the processor, which is not what the core asks."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    kernels = cellcrypt.backends()["native"].kernels
    assert "portable" in kernels
    assert ("aesni" in kernels) == ({"aes", "ssse3"} <= flags)
    assert ("vaes256" in kernels) == ({"vaes", "avx2"} <= flags)
    assert ("vaes512" in kernels) == ({"vaes", "avx512f", "avx512bw"} <= flags)
