"""Every example in the README runs, as it stands there and in the order that it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .support import ROOT, python

README = ROOT / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.skipif(not BLOCKS, reason="the README has no example")
def test_examples(tmp_path: Path) -> None:
    """In one process, one after the other, with warnings as errors."""
    script = tmp_path / "readme.py"
    script.write_text("\n".join(BLOCKS), encoding="utf-8")
    done = python(str(script), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not BLOCKS, reason="the README has no example")
def test_the_first_example_stands_alone(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    script.write_text(BLOCKS[0], encoding="utf-8")
    done = python(str(script), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not BLOCKS, reason="the README has no example")
def test_it_warns_of_forks() -> None:
    assert "fork" in README.read_text(encoding="utf-8")


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_commands_exist() -> None:
    """Every `make X` and `python -m X` that the README names is there."""
    text = README.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for target in re.findall(r"`make ([a-z-]+)`", text) + re.findall(r"^make ([a-z-]+)", text, re.M):
        assert target in targets, target
    for module in re.findall(r"python3? -m ((?:cellcrypt|perf|examples)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
