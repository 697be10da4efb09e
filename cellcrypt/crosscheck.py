"""Every backend, kernel and path against all others, on random data, timed: what `validate` does.

Rules of this file: all data comes from the plan's seed, so that a run can be repeated; the clock covers the encryption
or decryption and nothing else; the first wrong octet raises Mismatch, which says where it is. Where results differ, the
one that most backends agree on is taken as right, however many kernels and paths of one backend say otherwise.

Theory: the counter block is near 2^32, 2^64 or 2^128 in three iterations out of four (NIST SP 800-38A, appendix B.1),
so that the carries are met; the position is any, so that cells start at every offset in a block.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from . import backend as backends
from . import cbc
from .backend.protocol import BLOCK, COUNTERS
from .cipher import CellCipher
from .errors import CellcryptError
from .formats import CellFormat
from .xor import PATHS

#: Bytes of header before each payload: they must come out as they went in, and put payloads at odd addresses.
HEADER_LEN = 5

#: The most octets of random data that one iteration may take: what random.Random makes at once (2^31 bits), less one.
MOST_OCTETS = 2**28 - 1

#: (what is being done, iteration, of how many)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """How much to do, on data from which seed."""

    seed: int
    iterations: int
    cells: int
    payload_len: int
    progress: Progress = lambda what, iteration, of: None

    def numbers(self, iteration: int, *what: object) -> random.Random:
        """Return the generator of one iteration, which does not depend on the iterations before it."""
        return random.Random("/".join(map(str, (self.seed, *what, iteration))))


@dataclass
class Measured:
    """Seconds of every iteration of one row, each over `octets` octets."""

    names: dict[str, str | int | None]
    octets: int
    seconds: list[float] = field(default_factory=list)


class Mismatch(Exception):
    """The first wrong octet, or the first backend that failed."""

    def __init__(self, message: str, **where: str | int | None) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class Subject:
    """One backend with one kernel on one path."""

    backend: str
    kernel: str | None
    path: str

    def __str__(self) -> str:
        kernel = "" if self.kernel is None else f", kernel {self.kernel}"
        return f"backend {self.backend}{kernel}, path {self.path}"


def subjects() -> tuple[list[Subject], dict[str, str]]:
    """Return whatever can encrypt cells here, and the reasons of those backends that can't.

    Raises:
        Mismatch: a backend or kernel computes wrong key stream for the known answer already. It is never offered then,
            but its processor or library can't be trusted.
    """
    for kernel, fault in backends.kernel_faults().items():
        raise Mismatch(f"backend native, kernel {kernel}: {fault}", backend="native", kernel=kernel, path=None)
    found: list[Subject] = []
    unavailable: dict[str, str] = {}
    for name, state in backends.backends().items():
        if state.usable:
            found += [Subject(name, kernel, path) for kernel in state.kernels or (None,) for path in PATHS]
        elif backends.WRONG in (state.reason or ""):
            raise Mismatch(f"backend {name}: {state.reason}", backend=name, kernel=None, path=None)
        else:
            unavailable[name] = state.reason or "no reason"
    return found, unavailable


def first_difference(made: Sequence[int], wanted: Sequence[int]) -> int:
    """Return the index of the first octet that differs."""
    return next(i for i, (a, b) in enumerate(zip(made, wanted, strict=True)) if a != b)


def counter(numbers: random.Random, iteration: int, blocks: int) -> bytes:
    """Return an IV whose counter carries past 2^32, 2^64 or 2^128 within `blocks`; every fourth time, any IV."""
    bits = (0, 32, 64, 128)[iteration % 4]
    value = numbers.randrange(COUNTERS)
    if bits:
        value += (1 << bits) - value % (1 << bits) - numbers.randrange(1, max(1, blocks) + 1)
    return (value % COUNTERS).to_bytes(BLOCK, "big")


def odd_one_out(made: dict[Subject, bytes]) -> tuple[Subject, Subject, bool] | None:
    """Return a subject that differs, one that it differs from, and whether most backends agree with the latter."""
    groups: dict[bytes, list[Subject]] = {}
    for subject, octets in made.items():
        groups.setdefault(octets, []).append(subject)
    if len(groups) == 1:
        return None
    votes = {octets: len({subject.backend for subject in group}) for octets, group in groups.items()}
    right = max(groups, key=lambda octets: votes[octets])
    wrong = next(subject for subject, octets in made.items() if octets != right)
    return wrong, groups[right][0], [*votes.values()].count(votes[right]) == 1


class Cells:
    """The data of one iteration: wire cells with a key, an IV and a position."""

    def __init__(self, plan: Plan, iteration: int) -> None:
        numbers = plan.numbers(iteration, "cells")
        self.plan, self.iteration = plan, iteration
        self.cell_format = CellFormat(HEADER_LEN, plan.payload_len)
        self.key = numbers.randbytes(numbers.choice((16, 24, 32)))
        self.position = numbers.randrange(1 << 10)
        blocks = (self.position + plan.cells * plan.payload_len) // BLOCK
        self.iv = counter(numbers, iteration, blocks)
        self.plain = numbers.randbytes(plan.cells * self.cell_format.cell_len)

    def mismatch(self, subject: Subject, at: int, what: str) -> Mismatch:
        cell, octet = divmod(at, self.cell_format.cell_len)
        part = "payload" if octet >= HEADER_LEN else "header"
        octet -= HEADER_LEN if part == "payload" else 0
        return Mismatch(
            f"{subject}: {what}: cell {cell}, octet {octet} of the {part} (iteration {self.iteration},"
            f" {8 * len(self.key)}-bit key, position {self.position}, seed {self.plan.seed})",
            backend=subject.backend,
            kernel=subject.kernel,
            path=subject.path,
            cell=cell,
            part=part,
            octet=octet,
            iteration=self.iteration,
            seed=self.plan.seed,
        )

    def encrypt_and_back(self, subject: Subject) -> tuple[bytes, float, float]:
        """Encrypt in one call and decrypt in a call per cell; return what was encrypted and both times in seconds."""
        payload_len, cell_len = self.plan.payload_len, self.cell_format.cell_len
        buffer = bytearray(self.plain)
        payloads = [memoryview(buffer)[at + HEADER_LEN : at + cell_len] for at in range(0, len(buffer), cell_len)]
        with CellCipher(
            self.key,
            self.iv,
            payload_len=payload_len,
            path=subject.path,
            backend=subject.backend,
            kernel=subject.kernel,
        ) as cipher:
            cipher.seek(self.position)
            start = time.perf_counter()
            cipher.crypt_cells(buffer, self.cell_format)
            encrypted_in = time.perf_counter() - start
            encrypted = bytes(buffer)
            cipher.seek(self.position)
            crypt_in_place = cipher.crypt_in_place
            start = time.perf_counter()
            for payload in payloads:
                crypt_in_place(payload)
            decrypted_in = time.perf_counter() - start
        if buffer != self.plain:
            at = first_difference(buffer, self.plain)
            raise self.mismatch(subject, at, "decryption does not give the data back")
        return encrypted, encrypted_in, decrypted_in


def cells(plan: Plan) -> tuple[list[Measured], dict[str, str]]:
    """Check and measure every backend, kernel and path; return the rows, and why the other backends can't be used.

    Raises:
        Mismatch: at the first wrong octet.
    """
    found, unavailable = subjects()
    octets = plan.cells * plan.payload_len
    rows = {
        (subject, work): Measured(
            {"backend": subject.backend, "kernel": subject.kernel, "path": subject.path, "work": work}, octets
        )
        for subject in found
        for work in ("encrypt, one call", "decrypt, a call per cell")
    }
    for iteration in range(plan.iterations):
        plan.progress("cells", iteration, plan.iterations)
        data = Cells(plan, iteration)
        made: dict[Subject, bytes] = {}
        for subject in found:
            try:
                made[subject], encrypted_in, decrypted_in = data.encrypt_and_back(subject)
            except CellcryptError as error:
                raise data.mismatch(subject, HEADER_LEN, f"{type(error).__name__}: {error}") from None
            rows[subject, "encrypt, one call"].seconds.append(encrypted_in)
            rows[subject, "decrypt, a call per cell"].seconds.append(decrypted_in)
        odd = odd_one_out(made)
        if odd is not None:
            wrong, other, sure = odd
            what = f"differs from {other}" + ("" if sure else ", and it is not known which of them is right")
            raise data.mismatch(wrong, first_difference(made[wrong], made[other]), what)
    return list(rows.values()), unavailable


def aes_cbc(plan: Plan, blocks_of: Iterable[int]) -> tuple[list[Measured], dict[str, str]]:
    """Check and measure AES-CBC on the libraries that have it, `blocks` blocks an iteration; return as `cells` does.

    Raises:
        Mismatch: at the first wrong octet.
    """
    unavailable = {name: reason for name, open in cbc.LIBRARIES.items() if (reason := cbc.why_not(open)) is not None}
    for name, reason in unavailable.items():
        if reason == cbc.WRONG:
            raise Mismatch(f"library {name}: {reason}", backend=name, kernel=None, path="aes-cbc")
    libraries = {name: open for name, open in cbc.LIBRARIES.items() if name not in unavailable}
    rows: list[Measured] = []
    for blocks in blocks_of:
        pair = {name: _cbc_rows(name, blocks) for name in libraries}
        rows += [row for both in pair.values() for row in both]
        for iteration in range(plan.iterations):
            plan.progress(f"AES-CBC, {blocks} blocks", iteration, plan.iterations)
            made: dict[Subject, bytes] = {}
            for name, open in libraries.items():
                subject = Subject(name, None, "aes-cbc")
                made[subject] = _cbc_and_back(plan, iteration, blocks, subject, open, *pair[name])
            odd = odd_one_out(made)
            if odd is not None:
                wrong, other, _ = odd
                at = first_difference(made[wrong], made[other])
                raise _cbc_mismatch(plan, iteration, wrong, at, f"differs from {other}")
    return rows, unavailable


def _cbc_rows(name: str, blocks: int) -> tuple[Measured, Measured]:
    names: dict[str, str | int | None] = {"library": name, "blocks": blocks}
    octets = blocks * BLOCK
    return Measured(names | {"work": "encrypt"}, octets), Measured(names | {"work": "decrypt"}, octets)


def _cbc_and_back(
    plan: Plan, iteration: int, blocks: int, subject: Subject, open: cbc.Open, encrypted: Measured, decrypted: Measured
) -> bytes:
    numbers = plan.numbers(iteration, "cbc", blocks)
    key, iv, length = numbers.randbytes(16), numbers.randbytes(16), blocks * BLOCK
    plain = numbers.randbytes(length)
    room = memoryview(bytearray(plain) + bytes(cbc.SLACK))
    try:
        with open(key, iv, room, length, True) as encrypt:
            start = time.perf_counter()
            encrypt()
            encrypted.seconds.append(time.perf_counter() - start)
        made = bytes(room[:length])
        with open(key, iv, room, length, False) as decrypt:
            start = time.perf_counter()
            decrypt()
            decrypted.seconds.append(time.perf_counter() - start)
    except MemoryError:  # says nothing about the octets
        raise
    except Exception as error:
        raise _cbc_mismatch(plan, iteration, subject, 0, f"{type(error).__name__}: {error}") from None
    if room[:length] != plain:
        at = first_difference(room[:length], plain)
        raise _cbc_mismatch(plan, iteration, subject, at, "decryption does not give the data back")
    return made


def _cbc_mismatch(plan: Plan, iteration: int, subject: Subject, at: int, what: str) -> Mismatch:
    block, octet = divmod(at, BLOCK)
    return Mismatch(
        f"{subject}: {what}: block {block}, octet {octet} (iteration {iteration}, seed {plan.seed})",
        backend=subject.backend,
        kernel=None,
        path=subject.path,
        block=block,
        octet=octet,
        iteration=iteration,
        seed=plan.seed,
    )
