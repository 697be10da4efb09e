"""Backend "cryptography": AES-CTR by the cryptography package, which computes with OpenSSL.

Rules of this file: the only one that imports cryptography for AES-CTR; the contract stands in protocol.py. Its
versions from 51 on refuse to write where they read, so what is XORed in place is read from a copy.
"""

from __future__ import annotations

from collections.abc import Callable

import cryptography
from cryptography.hazmat.backends.openssl.backend import backend as openssl
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from .protocol import BLOCK, Lent, counter_block


def version() -> str:
    return f"{cryptography.__version__} ({openssl.openssl_version_text()})"


class _Keystream:
    __slots__ = ("_iv", "_key", "_next", "_update_into")

    def __init__(self, key: bytes, iv: bytes) -> None:
        self._key = algorithms.AES(key)
        self._iv = int.from_bytes(iv, "big")
        self._reopen(0)

    def _reopen(self, position: int) -> None:
        counter = counter_block(self._iv, position).to_bytes(BLOCK, "big")
        context = Cipher(self._key, modes.CTR(counter)).encryptor()
        self._update_into = context.update_into
        within = position % BLOCK
        self._update_into(bytes(within), bytearray(within))
        self._next = position

    def xor_into(self, position: int, buffer: memoryview) -> None:
        if position != self._next:
            self._reopen(position)
        self._next = -1  # no position: should the next line raise, the context is not trusted again
        self._update_into(bytes(buffer), buffer)
        self._next = position + len(buffer)

    def lend(self, position: int) -> Lent:
        if position != self._next:
            self._reopen(position)
        self._next = -1
        return self._update_into

    def take_back(self, position: int) -> None:
        self._next = position


open = _Keystream


def inverse(key: bytes) -> Callable[[bytes], bytes]:
    """Return AES decryption of one block, which no counter mode has: for the client's end of Counter Galois Onion."""
    return Cipher(algorithms.AES(key), modes.ECB()).decryptor().update
