"""Key stream from another library than the one that is measured, to check results with.

Theory: the byte at position p comes from block p // 16 of AES-CTR under a zero IV (NIST SP 800-38A, section 6.5).
"""

from __future__ import annotations

BLOCK = 16


def keystream(key: bytes, position: int, length: int) -> bytes:
    """Return `length` bytes of key stream from byte `position` on: by pycryptodome, else by cryptography."""
    block, within = divmod(position, BLOCK)
    try:
        from Crypto.Cipher import AES
    except ImportError:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter = block.to_bytes(BLOCK, "big")
        encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        return encryptor.update(bytes(within + length))[within:]
    context = AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=block)
    return bytes(context.encrypt(bytes(within + length))[within:])
