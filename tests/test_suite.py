"""The suite itself: what is required may not be skipped, and every run says its seed."""

from __future__ import annotations

from typing import Any

import pytest

from cellcrypt.backend import BUILT_IN

from .support import TOOLS, python

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
