"""A program for valgrind: every call of the native cipher, with key and payloads marked as secret.

Usage: valgrind python -m tests.proofs.under_memcheck MARK_LIBRARY KERNEL [leak]

Prints the number of errors that memcheck saw in between, which must be 0; with `leak`, one is planted in this file.
"""

from __future__ import annotations

import ctypes
import gc
import sys

from cellcrypt import ALIGNED_508, TOR_V3, TOR_V4, CellCipher, CellFormat, crypt_each
from cellcrypt.buffers import address

PATHS = ("fused", "byte", "word")


def refused(call: object, *arguments: object) -> None:
    try:
        call(*arguments)  # type: ignore[operator]
    except (ValueError, TypeError, BufferError):
        return
    raise AssertionError(f"{call} took {arguments}")


def main() -> int:
    mark, kernel, leak = ctypes.CDLL(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["leak"]

    def secret(buffer: bytes | bytearray) -> bytes | bytearray:
        mark.mark_secret(ctypes.c_void_p(address(memoryview(buffer))), ctypes.c_ulong(len(buffer)))
        return buffer

    def fresh(length: int) -> bytes:
        made = bytes(bytearray(length))
        secret(made)
        return made

    def use(key: bytes, path: str) -> None:
        cipher = CellCipher(key, backend="native", path=path, kernel=kernel)
        payload, cell, wire = fresh(509), bytearray(509), bytearray(514 * 300)
        secret(cell)
        for _ in range(17):
            cipher.crypt(payload)
            cipher.crypt_into(payload, cell)
            cipher.crypt_in_place(cell)
            cipher.crypt_in_place(memoryview(wire)[5:514])
            cipher.crypt(memoryview(cell))
        secret(wire)
        cipher.crypt_cells(memoryview(wire)[: 514 * 16], TOR_V4)
        cipher.crypt_cells(wire, TOR_V4)  # long enough to let go of the GIL
        refused(cipher.crypt, fresh(508))
        refused(cipher.crypt_into, cell, memoryview(cell)[1:])
        refused(cipher.crypt_into, memoryview(wire)[:509], memoryview(wire)[1:510])
        refused(cipher.crypt_cells, wire, ALIGNED_508)
        cipher.keystream(1000)
        cipher.seek(12345)
        twin = cipher.clone()
        crypt_each([cipher, twin, cipher], secret(bytearray(512 * 3)), TOR_V3)
        assert "position" in repr(twin)
        assert twin.position != cipher.position
        twin.close()
        refused(twin.crypt, payload)
        short = CellCipher(key, backend="native", path=path, kernel=kernel, payload_len=40)
        short.crypt_cells(secret(bytearray(41 * 5)), CellFormat(1, 40))

    # once with everything public, so that what Python does the first time is not counted
    for path in PATHS:
        use(bytes(16), path)
    CellCipher(bytes(16), backend="native").crypt(bytes(509))
    CellCipher(bytearray(16), backend="native")
    gc.collect()
    gc.disable()  # what Python itself reads undefined is not counted either
    before = mark.errors_so_far()
    assert before != 0xFFFFFFFF, "valgrind is not running this"
    for key_len in (16, 24, 32):
        key = fresh(key_len)
        for path in PATHS:
            use(key, path)
        CellCipher(key, backend="native").crypt(fresh(509))  # the short cut
        CellCipher(bytearray(key), backend="native")
    if leak:
        assert fresh(509)[7] != 1
    print(mark.errors_so_far() - before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
