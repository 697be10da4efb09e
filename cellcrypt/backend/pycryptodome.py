"""Backend "pycryptodome": AES-CTR by the pycryptodome package.

Rules of this file: the only one that imports Crypto for AES-CTR; the contract stands in protocol.py.
"""

from __future__ import annotations

import Crypto
from Crypto.Cipher import AES

from .protocol import BLOCK, Lent, counter_block


def version() -> str:
    return ".".join(map(str, Crypto.version_info))


class _Keystream:
    __slots__ = ("_encrypt", "_iv", "_key", "_next")

    def __init__(self, key: bytes, iv: bytes) -> None:
        self._key = key
        self._iv = int.from_bytes(iv, "big")
        self._reopen(0)

    def _reopen(self, position: int) -> None:
        context = AES.new(self._key, AES.MODE_CTR, nonce=b"", initial_value=counter_block(self._iv, position))
        self._encrypt = context.encrypt
        self._encrypt(bytes(position % BLOCK))
        self._next = position

    def xor_into(self, position: int, buffer: memoryview) -> None:
        if position != self._next:
            self._reopen(position)
        self._next = -1  # no position: should the next line raise, the context is not trusted again
        self._encrypt(buffer, output=buffer)
        self._next = position + len(buffer)

    def lend(self, position: int) -> Lent:
        if position != self._next:
            self._reopen(position)
        self._next = -1
        encrypt = self._encrypt
        return lambda source, destination: encrypt(source, output=destination)

    def take_back(self, position: int) -> None:
        self._next = position


open = _Keystream
