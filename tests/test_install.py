"""Installing: without a compiler it succeeds and says what is missing; the wheel and the sdist hold what they must."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .support import ROOT, python, tool

pytestmark = pytest.mark.slow

#: What a build needs of the tree; no .venv, no results of earlier builds.
PARTS = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "Makefile", "cellcrypt", "tests", "perf", "examples")
RUN = ["-m", "cellcrypt", "info", "--json"]


def _copy(target: Path) -> Path:
    target.mkdir()
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.pyc", "results", "*.egg-info")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=ignored)
        elif source.exists():
            shutil.copy(source, target / part)
    return target


def _pip(*arguments: str, environment: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(
        command, env=os.environ | (environment or {}), capture_output=True, text=True, timeout=300, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _only(site: Path) -> dict[str, Any]:
    """Return what makes a fresh Python see this installation and, with -S, none of the tree's."""
    libraries = sysconfig.get_paths()
    return {
        "environment": {"PYTHONPATH": os.pathsep.join([str(site), libraries["purelib"], libraries["platlib"]])},
        "cwd": site,
    }


def _info(site: Path) -> dict[str, Any]:
    done = python("-S", *RUN, **_only(site))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def empty_path(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment whose PATH has no compiler, and whose CC is one that fails."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("false", "sh", "env", "uname"):
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    return {"PATH": str(folder), "CC": "false", "CXX": "false"}


def test_without_a_compiler(tmp_path: Path, empty_path: dict[str, str]) -> None:
    source, site = _copy(tmp_path / "source"), tmp_path / "site"
    options = ("--no-build-isolation", "--no-deps", "--quiet", "--target", str(site))
    _pip("install", *options, str(source), environment=empty_path)
    assert not list(site.glob("cellcrypt/*.so"))
    found = _info(site)
    assert not found["core"]["compiled"]
    assert "compiler" in found["core"]["reason"]
    assert not found["backends"]["native"]["usable"]
    assert found["backends"]["native"]["reason"] == found["core"]["reason"]
    assert found["backends"]["cryptography"]["usable"]
    assert found["default_backend"] == "cryptography"
    code = (
        "import cellcrypt, os\n"
        "from cellcrypt.testing import check_backend\n"
        f"assert os.path.dirname(cellcrypt.__file__) == {str(site / 'cellcrypt')!r}, cellcrypt.__file__\n"
        "check_backend('cryptography', payload_lens=(509,))\n"
    )
    done = python("-S", "-c", code, **_only(site))
    assert done.returncode == 0, done.stderr


def test_source_distribution_and_wheel(tmp_path: Path) -> None:
    """The sdist holds all that a build and the tests need; the wheel that comes of it has the core, and works."""
    tool("cc")
    source, out, site = _copy(tmp_path / "source"), tmp_path / "out", tmp_path / "site"
    out.mkdir()
    build = f"from setuptools import build_meta; print(build_meta.build_sdist({str(out)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, timeout=120)
    [archive] = out.glob("cellcrypt-*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        tar.extractall(tmp_path / "again", filter="data")
    for path in sorted(ROOT.glob("cellcrypt/csrc/*.[ch]")):
        assert f"cellcrypt/csrc/{path.name}" in names
    # what the tests of the sdist need, beside the core
    tree = ("LICENSE", "README.md", "Makefile", "pyproject.toml", "tests/vectors/aes_ctr.json", "examples/two_nodes.py")
    assert names >= set(tree)

    [unpacked] = (tmp_path / "again").iterdir()
    said = _pip("wheel", "--verbose", "--no-build-isolation", "--no-deps", "--wheel-dir", str(out), str(unpacked))
    assert "absent from the `packages` configuration" not in said
    [wheel] = out.glob("cellcrypt-*.whl")
    held = zipfile.ZipFile(wheel).namelist()
    assert [name for name in held if name.startswith("cellcrypt/_core") and name.endswith(".so")]
    assert "cellcrypt/py.typed" in held
    for package in ("backend", "onion", "testing"):
        assert f"cellcrypt/{package}/__init__.py" in held
    assert not [name for name in held if name.startswith(("tests/", "perf/", "examples/", "cellcrypt/csrc/"))]
    assert any(name.endswith("LICENSE") for name in held)

    _pip("install", "--no-deps", "--quiet", "--target", str(site), str(wheel))
    found = _info(site)
    assert found["core"] == {"compiled": True, "reason": None}
    assert found["backends"]["native"]["usable"]
