"""Plug-in backends, one `open` a kind, over the block cipher of the cryptography package.

Rules of this file: the first one is right. Each of the others is wrong in one way that a real one could be, and proves
itself all the same, unless its name says otherwise.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


class Good:
    """Whole blocks by AES-ECB, cut to what is asked for."""

    def __init__(self, key: bytes, iv: bytes) -> None:
        self._aes = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        self._iv = int.from_bytes(iv, "big")

    def counter(self, block: int) -> int:
        return (self._iv + block) % 2**128

    def keystream(self, position: int, length: int) -> bytes:
        first, within = divmod(position, 16)
        blocks = range(first, (position + length + 15) // 16)
        counters = b"".join(self.counter(block).to_bytes(16, "big") for block in blocks)
        return self._aes.update(counters)[within : within + length]

    def xor_into(self, position: int, buffer: memoryview) -> None:
        mixed = int.from_bytes(buffer, "big") ^ int.from_bytes(self.keystream(position, len(buffer)), "big")
        buffer[:] = mixed.to_bytes(len(buffer), "big")


class Speechless(Exception):
    """It can't say what happened."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def speechless(key: bytes, iv: bytes) -> Good:
    raise Speechless


class Carry32(Good):
    """The lowest 32 bits of the counter wrap by themselves."""

    def counter(self, block: int) -> int:
        return self._iv >> 32 << 32 | (self._iv + block) % 2**32


class Carry64(Good):
    """The carry past 2^64 is lost."""

    def counter(self, block: int) -> int:
        return self._iv >> 64 << 64 | (self._iv + block) % 2**64


class NoWrap(Good):
    """The counter does not wrap at 2^128, but fails."""

    def counter(self, block: int) -> int:
        return self._iv + block


class Position64(Good):
    """Positions are kept in 64 bits."""

    def xor_into(self, position: int, buffer: memoryview) -> None:
        super().xor_into(position % 2**64, buffer)


class Remembers(Good):
    """Goes on from where it was, whatever the position, but for the first block."""

    _next = 0

    def xor_into(self, position: int, buffer: memoryview) -> None:
        super().xor_into(self._next if position >= 16 else position, buffer)
        self._next = (self._next if position >= 16 else position) + len(buffer)


class Short(Good):
    """Makes no more than 64 KiB in one call."""

    def xor_into(self, position: int, buffer: memoryview) -> None:
        super().xor_into(position, buffer[:65_536])


class Shared(Good):
    """Two streams of one process share their key."""

    _last: Any = None

    def __init__(self, key: bytes, iv: bytes) -> None:
        super().__init__(key, iv)
        Shared._last = self

    def keystream(self, position: int, length: int) -> bytes:
        self._aes = Shared._last._aes
        return super().keystream(position, length)


class Wrong(Good):
    """Does not prove itself: every cell begins at a block."""

    def xor_into(self, position: int, buffer: memoryview) -> None:
        super().xor_into((position + 15) // 16 * 16, buffer)


class Trouble(Exception):
    """An exception type of the plug-in's own."""


class Raises(Good):
    """Spoils the buffer and raises, from the call on that `fuse` counts down to."""

    fuse: Any = None

    def xor_into(self, position: int, buffer: memoryview) -> None:
        if Raises.fuse is not None:
            Raises.fuse -= 1
            if Raises.fuse < 0:
                buffer[:] = b"\xbb" * len(buffer)
                raise Trouble("the token was pulled")
        super().xor_into(position, buffer)


class Meddles(Good):
    """Calls whatever the test puts into `hook` while it works."""

    hook: Any = None

    def xor_into(self, position: int, buffer: memoryview) -> None:
        super().xor_into(position, buffer)
        if Meddles.hook is not None:
            Meddles.hook()


class Closes(Good):
    """Has a close(), and counts."""

    closed = 0

    def close(self) -> None:
        Closes.closed += 1


class FailsToClose(Good):
    fuse: Any = None

    def close(self) -> None:
        if FailsToClose.fuse:
            raise Trouble("it would not close")


def refuses(key: bytes, iv: bytes) -> Any:
    raise Trouble("no token in the slot")


def gives_nothing(key: bytes, iv: bytes) -> Any:
    return None


no_callable = 5
