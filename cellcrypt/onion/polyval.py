"""POLYVAL in plain Python: the readable definition, and what serves where there is no compiled core.

Rules of this file: imports nothing of ours; field elements are integers whose bit i is the coefficient of x^i, which is
what 16 bytes in little-endian order say (RFC 8452, section 3). Not constant time, since no arithmetic on Python's
integers is: whoever can time this process to the microsecond should have the compiled core.

Theory: RFC 8452, section 3. The field is GF(2^128) modulo x^128 + x^127 + x^126 + x^121 + 1, and its product here is
dot(a, b) = a * b * x^-128. POLYVAL(H, X_1 .. X_n) is S_n, where S_0 = 0 and S_i = dot(S_(i-1) + X_i, H).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

BLOCK: Final = 16
#: The polynomial without its lowest term, divided by x: what halving an odd element adds.
_HALF: Final = (1 << 127) | (1 << 126) | (1 << 125) | (1 << 120)


def _halves(element: int) -> Iterable[int]:
    """Yield the element divided by x, by x^2, ... by x^128."""
    for _ in range(128):
        element = element >> 1 ^ _HALF * (element & 1)
        yield element


class Polyval:
    """Hold a POLYVAL key of 16 bytes."""

    __slots__ = ("_terms",)

    def __init__(self, key: bytes) -> None:
        #: H * x^(i - 128) for i from 127 down to 0: bit i of a factor adds one of them to the product.
        self._terms = tuple(_halves(int.from_bytes(key, "little")))

    def _dot(self, factor: int) -> int:
        product = 0
        for bit, term in zip(format(factor, "0128b"), self._terms, strict=True):
            if bit == "1":
                product ^= term
        return product

    def hash(self, message: bytes) -> bytes:
        """Return POLYVAL of `message`, padded with zero bytes to whole blocks."""
        total = 0
        for start in range(0, len(message), BLOCK):
            total = self._dot(total ^ int.from_bytes(message[start : start + BLOCK], "little"))
        return total.to_bytes(BLOCK, "little")
