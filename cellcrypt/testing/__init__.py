"""The conformance suite: what every backend must do, as checks that run anywhere.

For the author of a plug-in backend, one line:

    from cellcrypt.testing import check_backend; check_backend("mine")

or, with a line of report for each check, under pytest:

    @pytest.mark.parametrize("check", conformance("mine"), ids=str)
    def test_mine(check): check()

Rules of this package: needs no test framework; a check is a function of a Subject, raises AssertionError where the
backend is wrong, and stands in the tables below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from .. import backend as _backends
from ..xor import PATHS
from . import refusals, right_bytes
from .subject import Reference, Subject

__all__ = [
    "BACKEND_CHECKS",
    "CHECKS",
    "PAYLOAD_LENS",
    "Check",
    "Reference",
    "Subject",
    "check_backend",
    "conformance",
    "cryptography_reference",
]

#: Payloads to try: the two that matter, the shortest, a block and its neighbours.
PAYLOAD_LENS = (509, 508, 1, 15, 16, 17)

#: What a CellCipher over the backend must do.
CHECKS: tuple[Callable[[Subject], None], ...] = (
    right_bytes.known_answers,
    right_bytes.one_call_a_cell,
    right_bytes.unaligned,
    right_bytes.cells_of_a_batch,
    right_bytes.cells_of_many_circuits,
    right_bytes.empty,
    right_bytes.split_everywhere,
    right_bytes.carries,
    right_bytes.seek,
    right_bytes.interleaved,
    right_bytes.called_through_the_class,
    right_bytes.lookahead,
    right_bytes.long_requests,
    refusals.refused,
    refusals.overlap,
    refusals.end_of_keystream,
    refusals.closed,
)
#: What the backend must do by itself, whatever the path and payload.
BACKEND_CHECKS: tuple[Callable[[Subject], None], ...] = (right_bytes.positions_in_any_order,)


@dataclass(frozen=True)
class Check:
    """One named check: call it; it raises AssertionError where the backend is wrong."""

    name: str
    run: Callable[[Subject], None]
    subject: Subject

    def __call__(self) -> None:
        self.run(self.subject)

    def __str__(self) -> str:
        return self.name


def cryptography_reference(key: bytes, iv: bytes, position: int, length: int) -> bytes:
    """Return key stream made by the cryptography backend, in one call from a fresh context."""
    made = bytearray(length)
    _backends.load("cryptography")(key, iv).xor_into(position, memoryview(made))
    return bytes(made)


def conformance(
    backend: str,
    *,
    paths: Iterable[str] = PATHS,
    payload_lens: Iterable[int] = PAYLOAD_LENS,
    reference: Reference = cryptography_reference,
) -> list[Check]:
    """Return every check of `backend`, on each path and payload length, and with each kernel where it has several.

    Raises:
        ValueError: no such backend. BackendUnavailable: it can't be used here; the message says why.
    """
    _backends.load(backend)
    kernels = _backends.availability(backend).kernels or (None,)
    paths, payload_lens = tuple(paths), tuple(payload_lens)
    alone = Subject(backend, paths[0], kernels[0], payload_lens[0], reference)
    found = [Check(f"{backend}-{run.__name__}", run, alone) for run in BACKEND_CHECKS]
    for kernel, path, payload_len in product(kernels, paths, payload_lens):
        subject = Subject(backend, path, kernel, payload_len, reference)
        found += [Check(f"{subject}-{run.__name__}", run, subject) for run in CHECKS]
    return found


def check_backend(backend: str, **options: Any) -> int:
    """Run every check of `conformance(backend, **options)`; return how many there were.

    Raises:
        AssertionError: some failed; the message lists them all. ValueError, BackendUnavailable: as `conformance`.
    """
    checks, failed = conformance(backend, **options), []
    for check in checks:
        try:
            check()
        except Exception as error:
            failed.append(f"{check}: {type(error).__name__}: {error}")
    if failed:
        raise AssertionError(f"{len(failed)} of {len(checks)} checks failed\n" + "\n".join(failed))
    return len(checks)
