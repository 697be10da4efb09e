"""python -m cellcrypt info: what can be used here, and why not more."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import cellcrypt
from cellcrypt.__main__ import main
from cellcrypt.backend import BUILT_IN
from cellcrypt.compiled import core

from .support import python, run_code


def test_text() -> None:
    done = python("-m", "cellcrypt", "info")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("cellcrypt ")
    for name, state in cellcrypt.backends().items():
        [line] = [line for line in lines if line.split()[:1] == [name]]
        assert ("usable" in line.split()[1]) == state.usable
        for word in (state.reason, state.version, *state.kernels):
            assert word is None or word in line
    cipher = cellcrypt.CellCipher(bytes(16))
    assert lines[-1] == f"backend=None means {cipher.backend}" + (f", kernel {cipher.kernel}" if cipher.kernel else "")
    assert f"loaded from {Path(cellcrypt.__file__).resolve().parent}" in lines


def test_json() -> None:
    done = python("-m", "cellcrypt", "info", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["backends"] == json.loads(
        json.dumps({name: asdict(state) for name, state in cellcrypt.backends().items()})
    )
    assert found["default_backend"] == cellcrypt.CellCipher(bytes(16)).backend
    assert found["default_backend_reason"] is None
    assert found["core"] == {"compiled": core is not None, "reason": found["core"]["reason"]}
    assert (found["core"]["reason"] is None) == (core is not None)
    assert found["processor"]["architecture"]
    if core is not None:
        features = found["processor"]["features"]
        assert {"aes", "vaes", "avx2"} <= set(features)
        flags = _kernels_flags()
        for name in ("aes", "vaes", "avx2", "avx512f"):
            assert flags is None or features[name] == (name in flags), f"{name} is not what the kernel says"


def _kernels_flags() -> set[str] | None:
    """Return what Linux says that the processor has, or None where it says nothing in this form."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), None)
    except OSError:
        return None


def test_without_core_and_library() -> None:
    """It explains instead of failing, whatever is missing."""
    code = (
        "import sys\n"
        "for name in ('cellcrypt._core', 'cryptography', 'Crypto'): sys.modules[name] = None\n"
        "from cellcrypt.__main__ import main\n"
        "sys.exit(main(['info']))\n"
    )
    said = run_code(code)
    assert "C core     missing: the C core was not built or can't be loaded" in said
    assert "compiler" in said
    assert "backend=None means nothing: " in said
    for name in BUILT_IN[:3]:
        [line] = [line for line in said.splitlines() if line.split()[:1] == [name]]
        assert "unavailable: " in line


@pytest.mark.parametrize("backend", ["native", "cryptography", None])
def test_a_bad_kernel_is_explained(backend: str | None) -> None:
    """Also where None means a backend that has no kernels: native may be asked for by name."""
    if core is None:
        pytest.skip("there is no core, so no kernel")
    variables = {"CELLCRYPT_KERNEL": "nonsense", "CELLCRYPT_BACKEND": backend}
    done = python("-m", "cellcrypt", "info", environment=variables)
    assert done.returncode == 1
    [told] = [line for line in done.stdout.splitlines() if "environment variable CELLCRYPT_KERNEL: kernel must" in line]
    if backend == "cryptography":
        assert told.startswith("wrong      environment")
        assert done.stdout.endswith("\nbackend=None means cryptography\n")
    elif backend == "native":
        assert told.startswith("backend=None means native, kernel none: environment")
    done = python("-m", "cellcrypt", "info", "--json", environment=variables)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert list(found["wrong_variables"]) == ["CELLCRYPT_KERNEL"]
    assert "got 'nonsense'" in found["wrong_variables"]["CELLCRYPT_KERNEL"]
    assert set(found["backends"]) >= set(BUILT_IN)


def test_a_named_kernel_means_native() -> None:
    if core is None:
        pytest.skip("there is no core, so no kernel")
    code = "from cellcrypt import CellCipher; print(CellCipher(bytes(16), kernel='portable'))"
    done = python("-c", code, environment={"CELLCRYPT_BACKEND": "cryptography"})
    assert "backend='native' kernel='portable'" in done.stdout


def test_a_bad_variable_is_explained() -> None:
    """All the rest is told nevertheless, and the exit status says that something is wrong."""
    variables = {"CELLCRYPT_BACKEND": "nonsense", "CELLCRYPT_KERNEL": None}
    done = python("-m", "cellcrypt", "info", environment=variables)
    assert (done.returncode, done.stderr) == (1, "")
    assert "backend=None means nothing: environment variable CELLCRYPT_BACKEND" in done.stdout
    assert done.stdout.count("CELLCRYPT_BACKEND") == 1
    for name in BUILT_IN:
        assert f"\n  {name} " in done.stdout
    done = python("-m", "cellcrypt", "info", "--json", environment=variables)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert list(found["wrong_variables"]) == ["CELLCRYPT_BACKEND"]
    assert found["wrong_variables"]["CELLCRYPT_BACKEND"] == found["default_backend_reason"]
    assert set(found["backends"]) >= set(BUILT_IN)


def test_empty_variables_are_none() -> None:
    done = python("-m", "cellcrypt", "info", "--json", environment={"CELLCRYPT_BACKEND": "", "CELLCRYPT_KERNEL": ""})
    assert (done.returncode, json.loads(done.stdout)["wrong_variables"]) == (0, {})


def test_help_tells_the_exit_status() -> None:
    done = python("-m", "cellcrypt", "info", "--help")
    assert "Exit with status 1 where CELLCRYPT_BACKEND or CELLCRYPT_KERNEL" in " ".join(done.stdout.split())


def test_bad_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["nonsense"], ["info", "--nonsense"], ["info", "extra"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "usage: python -m cellcrypt" in capsys.readouterr().err


def test_in_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    assert capsys.readouterr().out.startswith("cellcrypt ")
