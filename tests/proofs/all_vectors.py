"""Run every known answer through the kernel that is chosen here, and print which that is; for other processors.

Usage: [CELLCRYPT_KERNEL=name] python -m tests.proofs.all_vectors
"""

from __future__ import annotations

import hashlib
import sys

from cellcrypt import CellCipher, CellFormat, backends

from ..vectors import CELLS, KEY_STREAM, SP800_38A, payload


def cipher(key: str, iv: str = "00" * 16, payload_len: int = 509) -> CellCipher:
    return CellCipher(bytes.fromhex(key), bytes.fromhex(iv), payload_len=payload_len, backend="native")


def same(made: object, wanted: object, case: object) -> None:
    if made != wanted:
        raise AssertionError(f"{case}: wrong octets")


def main() -> int:
    for vector in KEY_STREAM:
        wanted = bytes.fromhex(vector["hex"])
        same(cipher(vector["key"], vector["iv"]).keystream(len(wanted)), wanted, vector["case"])
    for vector in SP800_38A:
        plain, secret = bytes.fromhex(vector["plaintext"]), bytes.fromhex(vector["ciphertext"])
        same(cipher(vector["key"], vector["counter"], len(plain)).crypt(plain), secret, vector["section"])
    for vector in CELLS:
        length = vector["payload_len"]
        digests = vector["sha256_of_each_encrypted_payload"]
        one_by_one, batch = cipher(vector["key"], payload_len=length), cipher(vector["key"], payload_len=length)
        cells = bytearray(b"".join(bytes(5) + payload(i, length) for i in range(len(digests))))
        batch.crypt_cells(cells, CellFormat(5, length))
        for i, digest in enumerate(digests):
            same(hashlib.sha256(one_by_one.crypt(payload(i, length))).hexdigest(), digest, (length, i))
            at = (5 + length) * i + 5
            same(hashlib.sha256(cells[at : at + length]).hexdigest(), digest, (length, i, "batch"))
    print(cipher("00" * 16).kernel, *backends()["native"].kernels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
