"""Without the compiled core everything works, more slowly: the suite again, in a process where it can't be imported."""

from __future__ import annotations

import json

import pytest

from cellcrypt.compiled import core

from .support import python, run_code

BLOCK_CORE = "import sys; sys.modules['cellcrypt._core'] = None\n"
#: What runs again. The others don't depend on the core, or need it.
MODULES = (
    "test_conformance",
    "test_known_answers",
    "test_arguments",
    "test_buffers",
    "test_state",
    "test_secrets",
    "test_threads",
    "test_loops",
    "test_plugins",
    "test_properties",
)

pytestmark = pytest.mark.skipif(core is None, reason="there is no core: this very run is the test")


def test_the_suite_without_the_core() -> None:
    files = [f"tests/{module}.py" for module in MODULES]
    # Without the core every library is served by the same lines of ours, so one of them is enough.
    choice = ["-m", "not slow", "-k", "not pycryptodome"]
    arguments = ["-q", "-p", "no:cacheprovider", "--maxfail=5", *choice, *files]
    code = f"{BLOCK_CORE}import pytest; sys.exit(pytest.main({arguments!r}))"
    # What is required of this run is not required of that one: it has no native backend.
    done = python("-c", code, environment={"CELLCRYPT_REQUIRE": "cryptography"}, timeout=500)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_native_says_why_it_is_missing() -> None:
    code = (
        f"{BLOCK_CORE}import cellcrypt, json\n"
        "found = cellcrypt.backends()['native']\n"
        "try: cellcrypt.CellCipher(bytes(16), backend='native')\n"
        "except cellcrypt.BackendUnavailable as error: said = str(error)\n"
        "print(json.dumps([found.usable, found.reason, list(found.kernels), said]))\n"
    )
    usable, reason, kernels, said = json.loads(run_code(code))
    assert (usable, kernels) == (False, [])
    assert "the C core was not built or can't be loaded" in reason
    assert "compiler" in reason
    assert said == f"backend 'native' is unavailable: {reason}"


def test_the_two_faces_are_one() -> None:
    """The core's type and the class that stands in for it have the same public names."""
    names = "sorted(n for n in dir(cellcrypt.CellCipher) if not n.startswith('_'))"
    show = f"import cellcrypt; print({names})"
    assert run_code(show) == run_code(BLOCK_CORE + show)
