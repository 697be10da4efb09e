"""CellCipher: what users make, over any backend, and the contract of every call.

Rules of this file: arguments are checked and the backend is chosen here; the work is done elsewhere. Where the core is
compiled, its own type takes the place of the class below: it does the work of the native backend itself, and comes to
`make` for any other, which gives a LibraryCipher, a subclass of it. It is a type of C because a Python frame between
the caller and the kernel costs more than the encryption. Without the core every cipher is a LibraryCipher, and a method
below that calls itself is one that was reached through the class (CellCipher.clone(cipher)): it calls the object's own.

Theory: one key, one IV, one 128-bit block counter per direction of a hop; cell n uses key-stream bytes n * L to
(n + 1) * L (tor-spec, "Relay cells"; NIST SP 800-38A, section 6.5).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from . import backend as _backends
from .buffers import IV_LENGTH, KEY_LENGTHS, Buffer, WritableBuffer, secret, told, whole
from .compiled import core
from .formats import CellFormat, check_payload_len
from .position import refuse_pickling
from .xor import check_path

#: The most that may be made ahead, in bytes.
MAX_LOOKAHEAD = 1 << 30


class CellCipher:
    """Encrypt the payloads of cells with AES-CTR, one key stream from the first cell to the last.

    Encrypting and decrypting are the same operation. A cipher serves one direction of one hop. After a fork, parent and
    child hold the same key stream: let only one of them go on. Not picklable; copy.copy and copy.deepcopy mean clone().

    Args:
        key: 16, 24 or 32 bytes; copied. iv: 16 bytes, the first counter block; copied.
        payload_len: 1 to 65,535 bytes.
        path: "byte", "word" or "fused": how key stream meets payload; the bytes are the same.
        backend: a name from `backends()`, or None for what CELLCRYPT_BACKEND says, else the quickest usable of native
            and cryptography.
        lookahead: bytes of key stream that may be made ahead of need, 0 to 2**30. It trades memory for latency;
            native makes none, its kernels being quicker than the look into a cache.
        kernel: a name from `backends()["native"].kernels`, for tests and studies; None for what CELLCRYPT_KERNEL says,
            else the best that this processor has. Naming one means backend native.

    Raises:
        TypeError: an argument of a wrong type. BufferError: key or iv not contiguous. ValueError: a wrong length, an
        unknown name. BackendUnavailable: the backend or kernel can't be used here; the message says why.

    Spec: NIST SP 800-38A, section 6.5; tor-spec, "Relay cells".
    """

    __slots__ = ("_lock",)
    _lock: threading.Lock
    _lent_used = 0

    def __new__(
        cls,
        key: Buffer,
        iv: Buffer = bytes(IV_LENGTH),
        *,
        payload_len: int = 509,
        path: str = "fused",
        backend: str | None = None,
        lookahead: int = 0,
        kernel: str | None = None,
    ) -> CellCipher:
        return make(key, iv, payload_len=payload_len, path=path, backend=backend, lookahead=lookahead, kernel=kernel)

    def __init_subclass__(cls) -> None:
        if cls.__module__ != "cellcrypt.library":
            raise TypeError("CellCipher can't be subclassed: hold one instead")

    def crypt(self, payload: Buffer, /) -> bytes:
        """Return `payload` encrypted or decrypted, and move the position by its length.

        Args:
            payload: `payload_len` bytes; not changed.

        Raises (nothing moved): TypeError, BufferError, PayloadLengthError, KeystreamExhausted, ClosedError,
        ConcurrentUseError, BackendUnavailable (the backend failed).
        """
        return self._crypt(payload)

    def crypt_into(self, payload: Buffer, out: WritableBuffer) -> None:
        """Write `payload`, encrypted or decrypted, into `out`, and move the position by its length.

        Args:
            payload: `payload_len` bytes; not changed.
            out: writable, of the same length; the same memory as `payload`, or apart from it.

        Raises (nothing written, nothing moved): as `crypt`, and OverlapError.
        """
        self._crypt_into(payload, out)

    def crypt_in_place(self, payload: WritableBuffer, /) -> None:
        """Encrypt or decrypt `payload` where it lies, and move the position by its length.

        Args:
            payload: writable, `payload_len` bytes.

        Raises (nothing written, nothing moved): as `crypt`.
        """
        self._crypt_in_place(payload)

    def crypt_cells(self, buffer: WritableBuffer, cell_format: CellFormat) -> int:
        """Encrypt or decrypt every wire cell in `buffer` where it lies; headers stay. Return how many cells there were.

        Args:
            buffer: writable, a whole number of cells of `cell_format`; empty is 0 cells.
            cell_format: its payload length is the cipher's.

        Raises (nothing written, nothing moved): TypeError, BufferError, ValueError (no whole number of cells, another
        payload length), KeystreamExhausted, ClosedError, ConcurrentUseError. BackendUnavailable where the backend fails
        on the way: the message says how many cells are done, and the position is after them.
        """
        return self.crypt_cells(buffer, cell_format)

    def keystream(self, length: int, /) -> bytes:
        """Return the next `length` bytes of key stream, and move the position past them.

        Raises (nothing moved): TypeError, ValueError (negative), KeystreamExhausted, ClosedError, ConcurrentUseError,
        BackendUnavailable.
        """
        return self.keystream(length)

    def seek(self, position: int, /) -> None:
        """Go to any byte of the key stream. To go back is to use key stream twice: for tests and lost cells only.

        Args:
            position: 0 to 16 * 2**128 - 1, in bytes.

        Raises (nothing moved): TypeError, ValueError (negative), KeystreamExhausted (past the last byte), ClosedError,
        ConcurrentUseError.
        """
        self.seek(position)

    def clone(self) -> Self:
        """Return an independent cipher at the same position: the only way to get the same key stream twice.

        Raises: ClosedError, ConcurrentUseError, BackendUnavailable.
        """
        return self.clone()

    def close(self) -> None:
        """Wipe the key, the round keys and the key stream as far as the backend's library lets us; may be called again.

        Every later call but close() raises ClosedError. Raises: ConcurrentUseError.
        """
        self.close()

    @property
    def position(self) -> int:
        """Key-stream bytes used so far, 0 to 16 * 2**128; readable after close() too."""
        raise NotImplementedError

    @property
    def backend(self) -> str:
        """The backend's name."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """How key stream meets payload: "byte", "word" or "fused"."""
        raise NotImplementedError

    @property
    def payload_len(self) -> int:
        """Bytes in a payload."""
        raise NotImplementedError

    @property
    def kernel(self) -> str | None:
        """The AES implementation inside the native backend; None for any other."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickling(self)

    # -- what the core's type has too, for library.py and circuits.py ------------------------------------------------

    @classmethod
    def _blank(cls) -> Self:
        self = object.__new__(cls)
        self._lock = threading.Lock()
        return self

    def _take(self) -> bool:
        return self._lock.acquire(False)

    def _release(self) -> None:
        self._lock.release()

    def _claim(self, length: int) -> object:
        raise NotImplementedError

    def _one_claimed(self, keystream: Any, view: memoryview) -> None:
        raise NotImplementedError

    def _give(self) -> None:
        raise NotImplementedError

    def _lend(self, *loan: object) -> None:
        """Lend nothing: there is no core to lend to."""

    def _reclaim(self) -> bool:
        return False

    def _crypt(self, payload: Buffer) -> bytes:
        raise NotImplementedError

    def _crypt_into(self, payload: Buffer, out: WritableBuffer) -> None:
        raise NotImplementedError

    def _crypt_in_place(self, payload: WritableBuffer) -> None:
        raise NotImplementedError


def make(
    key: Buffer,
    iv: Buffer = bytes(IV_LENGTH),
    *,
    payload_len: int = 509,
    path: str = "fused",
    backend: str | None = None,
    lookahead: int = 0,
    kernel: str | None = None,
) -> CellCipher:
    """Return the cipher that CellCipher(...) means; the core's type comes here for all but the usual native one."""
    ahead = whole(lookahead, "lookahead", "bytes")
    if ahead > MAX_LOOKAHEAD:
        raise ValueError(f"lookahead must be at most {MAX_LOOKAHEAD} bytes, got {told(ahead)}")
    checked = (
        secret(key, "key", KEY_LENGTHS),
        secret(iv, "iv", (IV_LENGTH,)),
        check_payload_len(payload_len),
        check_path(path),
    )
    if kernel is not None and not isinstance(kernel, str):
        raise TypeError(f"kernel must be a str or None, got {type(kernel).__name__}")
    name = _backends.choose("native" if backend is None and kernel is not None else backend)
    if name == "native":
        return cast(CellCipher, core.native_cipher(*checked, _backends.choose_kernel(kernel)))
    if kernel is not None:
        raise ValueError(f"kernel must be None with backend {name!r}, got {kernel!r}: only native has kernels")
    from .library import LibraryCipher

    key_view, iv_view, *others = checked
    return LibraryCipher(name, bytes(key_view), bytes(iv_view), *others, ahead)


make.__qualname__ = "CellCipher"  # what a TypeError for a missing or misspelt argument calls it
if not TYPE_CHECKING and core is not None:
    CellCipher = core.CellCipher
