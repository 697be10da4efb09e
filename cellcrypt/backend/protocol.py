"""What a backend owes, written once.

A backend is a module (or a plug-in's entry point) with a callable `open`. What `open` returns answers for (position,
length) and remembers nothing that matters: its one operation is "XOR the key stream that starts at this position into
this buffer". It may keep a live context for the position that it expects next, since a fresh one is dear; a miss costs
time, never bytes.

Theory: NIST SP 800-38A, section 6.5 and appendix B.1, with all 128 bits of the counter block incremented. The byte at
position p comes from block p // 16, whose counter is (IV + p // 16) mod 2**128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

BLOCK = 16  # bytes in an AES block (FIPS-197, section 3.1)
COUNTERS = 1 << 128  # counter values before the key stream would repeat
#: The position at which the key stream ends, in bytes.
END = BLOCK * COUNTERS


class Keystream(Protocol):
    """One key and IV, ready to give key stream."""

    def xor_into(self, position: int, buffer: memoryview, /) -> None:
        """XOR the key stream that starts at byte `position` into all of `buffer`.

        Args:
            position: 0 to 16 * 2**128; position + len(buffer) does not pass that end (the caller has checked).
            buffer: flat, contiguous, writable, of any length; nobody else touches it during the call.

        Raises:
            Whatever it likes: the caller turns it into BackendUnavailable and restores what it can.
        """


#: A library's call (source, destination): XOR the next key stream into source and write that to destination, of one
#: length, never of the same memory. Each call goes on where the last one ended.
Lent = Callable[[Any, Any], object]


class LendingKeystream(Keystream, Protocol):
    """A built-in's Keystream that can lend its live context: the core then calls the library without a Python frame."""

    def lend(self, position: int, /) -> Lent:
        """Return the call that goes on from byte `position`. Until `take_back`, nothing is known of its position."""

    def take_back(self, position: int, /) -> None:
        """End the loan: the context now stands at byte `position`. Not called where it failed."""


class Open(Protocol):
    """Make a Keystream for a key of 16, 24 or 32 bytes and an IV of 16."""

    def __call__(self, key: bytes, iv: bytes, /) -> Keystream: ...


class Adapter(Protocol):
    """A built-in backend's module."""

    @staticmethod
    def open(key: bytes, iv: bytes, /) -> Keystream: ...

    @staticmethod
    def version() -> str:
        """Return the foreign library's version, and what it computes with where that is another library."""


def counter_block(iv: int, position: int) -> int:
    """Return the counter of the block that holds byte `position`, for the IV as an integer."""
    return (iv + position // BLOCK) % COUNTERS
