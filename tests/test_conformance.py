"""The conformance suite on every built-in backend, with the witness as the reference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cellcrypt
from cellcrypt.backend import BUILT_IN
from cellcrypt.testing import Check, conformance

from . import witness
from .support import REQUIRED


def _checks() -> Iterator[object]:
    for name in BUILT_IN:
        state = cellcrypt.backends()[name]
        if state.usable:
            yield from conformance(name, reference=witness.keystream)
        elif name in REQUIRED:
            yield lambda name=name: cellcrypt.CellCipher(bytes(16), backend=name)
        else:
            yield pytest.param(None, id=name, marks=pytest.mark.skip(reason=f"backend {name}: {state.reason}"))


@pytest.mark.parametrize("check", [*_checks()], ids=str)
def test_conformance(check: Check) -> None:
    check()


@pytest.mark.parametrize("backend", [name for name in BUILT_IN if cellcrypt.backends()[name].usable])
def test_longest_payload(backend: str) -> None:
    """Payloads of 65,535 bytes, whose key stream is too long for the witness."""
    for check in conformance(backend, paths=("fused",), payload_lens=(65_535,)):
        if check.name.endswith(("one_call_a_cell", "seek", "refused", "overlap", "end_of_keystream")):
            check()
