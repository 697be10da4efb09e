"""The proofs build what they need themselves, so they stay out of a run under a sanitizer (tests/sanitize.sh)."""

from __future__ import annotations

import os

import pytest

from .kit import Objects


@pytest.fixture(autouse=True)
def _no_sanitizer() -> None:
    preloaded = os.environ.get("LD_PRELOAD", "")
    if any(f"lib{name}san" in preloaded for name in ("a", "t", "ub")):
        pytest.skip(f"runs without the sanitizer that is preloaded: {preloaded}")


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The C core, compiled for test programs."""
    return Objects(tmp_path_factory.mktemp("objects"))
