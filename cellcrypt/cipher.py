"""CellCipher: one key stream over many cells, and the one owner of its position.

What lives here: the cipher over the library backends, whole; with the compiled core it is a subclass of the core's own
CellCipher, which serves the native backend and hands over here for any other; without the core it is CellCipher itself.

Rules of this file: arguments are checked before anything is written (the gate is buffers.py); the position moves last,
and by what was written; one thread at a time is inside, a second gets ConcurrentUseError.

Theory: one key, one IV, one 128-bit block counter per direction of a hop; cell n uses key-stream bytes n * L to
(n + 1) * L (tor-spec, "Relay cells"; NIST SP 800-38A, section 6.5).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NoReturn, Self

from . import backend as _backends
from .backend.protocol import END, Keystream, Open
from .buffers import (
    IV_LENGTH,
    KEY_LENGTHS,
    Buffer,
    WritableBuffer,
    check_length,
    readable,
    same_memory,
    secret,
    whole,
    writable,
)
from .compiled import core
from .errors import BackendUnavailable, ClosedError, ConcurrentUseError, KeystreamExhausted
from .formats import CellFormat, check_payload_len, count_cells
from .xor import XOR, XOR_CELLS, check_path

#: Key stream made at once for a batch, in bytes: what a batch needs of memory, however long it is.
BATCH_LEN = 1 << 17
#: The most that may be made ahead, in bytes.
MAX_LOOKAHEAD = 1 << 30
#: Backends whose calls do not fail once their arguments are right, so that a payload is encrypted where it lies.
_UNFAILING = frozenset({"cryptography", "pycryptodome"})

_TAKEN = "another thread is inside this cipher: give each thread its own, or lock around the calls"


class _Ahead:
    """Key stream made ahead of need: bytes `start` to `end` of `store` are the next ones of the key stream."""

    __slots__ = ("end", "start", "store")

    def __init__(self, length: int) -> None:
        self.store = memoryview(bytearray(length))
        self.start = self.end = 0


_Base = object if TYPE_CHECKING or core is None else core.CellCipher


class CellCipher(_Base):
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
            else the best that this processor has. Only with backend native.

    Raises:
        TypeError: an argument of a wrong type. BufferError: key or iv not contiguous. ValueError: a wrong length, an
        unknown name. BackendUnavailable: the backend or kernel can't be used here; the message says why.

    Spec: NIST SP 800-38A, section 6.5; tor-spec, "Relay cells".
    """

    __slots__ = (
        "_ahead",
        "_backend",
        "_iv",
        "_key",
        "_keystream",
        "_lookahead",
        "_path",
        "_payload_len",
        "_position",
        "_scratch",
        "_turn",
    )

    _keystream: Keystream | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls is not CellCipher:
            raise TypeError("CellCipher can't be subclassed: hold one instead")
        return _Base.__new__(cls)

    def __init__(
        self,
        key: Buffer,
        iv: Buffer = bytes(IV_LENGTH),
        *,
        payload_len: int = 509,
        path: str = "fused",
        backend: str | None = None,
        lookahead: int = 0,
        kernel: str | None = None,
    ) -> None:
        if getattr(self, "_turn", None) is not None:
            raise TypeError("a CellCipher is made once: make another for another key")
        self._key = bytearray(secret(key, "key", KEY_LENGTHS))
        self._iv = secret(iv, "iv", (IV_LENGTH,))
        self._payload_len = check_payload_len(payload_len)
        self._path = check_path(path)
        self._lookahead = whole(lookahead, "lookahead", "bytes")
        if self._lookahead > MAX_LOOKAHEAD:
            raise ValueError(f"lookahead must be at most {MAX_LOOKAHEAD} bytes, got {self._lookahead}")
        self._backend = _backends.choose(backend)
        if kernel is not None:
            raise ValueError(f"kernel is for backend native only, got kernel {kernel!r} with {self._backend}")
        self._keystream = self._opened(_backends.load(self._backend))
        self._position = 0
        # The byte and word paths make a cell's key stream first; so does every path that makes it ahead.
        ahead = self._lookahead > 0 or self._path != "fused"
        self._ahead = _Ahead(self._payload_len + self._lookahead) if ahead else None
        self._scratch = None if self._backend in _UNFAILING else bytearray(self._payload_len)
        self._turn = threading.Lock()

    def _opened(self, open: Open) -> Keystream:
        try:
            return open(bytes(self._key), self._iv)
        except Exception as error:
            reason = f"backend {self._backend!r} did not open: {_backends.why(error)}"
        raise BackendUnavailable(reason)

    # -- one cell ----------------------------------------------------------------------------------------------------

    def crypt(self, payload: Buffer) -> bytes:
        """Return `payload` encrypted or decrypted, and move the position by its length.

        Args:
            payload: `payload_len` bytes; not changed.

        Raises (nothing moved): TypeError, BufferError, PayloadLengthError, KeystreamExhausted, ClosedError,
        ConcurrentUseError, BackendUnavailable (the backend failed).
        """
        view = readable(payload, "payload")
        check_length(view, "payload", self._payload_len)
        out = bytearray(view)
        self._one(memoryview(out))
        return bytes(out)

    def crypt_into(self, payload: Buffer, out: WritableBuffer) -> None:
        """Write `payload`, encrypted or decrypted, into `out`, and move the position by its length.

        Args:
            payload: `payload_len` bytes; not changed.
            out: writable, of the same length; the same memory as `payload`, or apart from it.

        Raises (nothing written, nothing moved): as `crypt`, and OverlapError.
        """
        source, target = readable(payload, "payload"), writable(out, "out")
        check_length(source, "payload", self._payload_len)
        check_length(target, "out", self._payload_len)
        self._one(target, None if same_memory(source, target) else source)

    def crypt_in_place(self, buffer: WritableBuffer) -> None:
        """Encrypt or decrypt `buffer` where it lies, and move the position by its length.

        Args:
            buffer: writable, `payload_len` bytes.

        Raises (nothing written, nothing moved): as `crypt`.
        """
        view = writable(buffer, "payload")
        check_length(view, "payload", self._payload_len)
        self._one(view)

    def _one(self, view: memoryview, source: memoryview | None = None) -> None:
        keystream = self._claim(len(view))
        try:
            self._one_claimed(keystream, view, source)
        finally:
            self._turn.release()

    def _one_claimed(self, keystream: Keystream, view: memoryview, source: memoryview | None = None) -> None:
        if self._ahead is not None:
            made = self._from_ahead(keystream, self._ahead, len(view))
            if source is not None:
                view[:] = source
            XOR[self._path](view, made)
        elif self._scratch is None:
            if source is not None:
                view[:] = source
            keystream.xor_into(self._position, view)
        else:
            scratch = self._scratch
            scratch[:] = view if source is None else source
            self._xor_into(keystream, memoryview(scratch))
            view[:] = scratch
        self._position += len(view)

    # -- many cells --------------------------------------------------------------------------------------------------

    def crypt_cells(self, buffer: WritableBuffer, cell_format: CellFormat) -> int:
        """Encrypt or decrypt every wire cell in `buffer` where it lies; headers stay. Return how many cells there were.

        Args:
            buffer: writable, a whole number of cells of `cell_format`; empty is 0 cells.
            cell_format: its payload length is the cipher's.

        Raises (nothing written, nothing moved): TypeError, BufferError, ValueError (no whole number of cells, another
        payload length), KeystreamExhausted, ClosedError, ConcurrentUseError. BackendUnavailable where the backend fails
        on the way: the message says how many cells are done, and the position is after them.
        """
        payload_len = self._payload_len
        view = writable(buffer, "buffer")
        count = count_cells(len(view), cell_format, payload_len)
        header_len, cell_len = cell_format.header_len, cell_format.cell_len
        keystream = self._claim(count * payload_len)
        try:
            at_once = max(1, BATCH_LEN // payload_len)
            batch = bytearray(min(count, at_once) * payload_len)
            for first in range(0, count, at_once):
                cells = min(at_once, count - first)
                made = memoryview(batch)[: cells * payload_len]
                try:
                    self._make(keystream, made)
                except BackendUnavailable as error:
                    raise BackendUnavailable(f"{error} ({first} of {count} cells are done)") from None
                part = view[first * cell_len : (first + cells) * cell_len]
                XOR_CELLS[self._path](part, header_len, payload_len, made)
                self._position += len(made)
            return count
        finally:
            self._turn.release()

    def keystream(self, length: int) -> bytes:
        """Return the next `length` bytes of key stream, and move the position past them.

        Raises (nothing moved): TypeError, ValueError (negative), KeystreamExhausted, ClosedError, ConcurrentUseError,
        BackendUnavailable.
        """
        length = whole(length, "length", "bytes")
        keystream = self._claim(length)
        try:
            out = bytearray(length)
            self._make(keystream, memoryview(out))
            self._position += length
            return bytes(out)
        finally:
            self._turn.release()

    # -- where the key stream comes from -------------------------------------------------------------------------------

    def _claim(self, length: int) -> Keystream:
        """Take this thread's turn, which `_release` ends, if `length` more bytes of key stream are left."""
        if not self._turn.acquire(False):
            raise ConcurrentUseError(_TAKEN)
        keystream = self._keystream
        if keystream is not None and self._position + length <= END:
            return keystream
        self._turn.release()
        if keystream is None:
            raise ClosedError("the cipher is closed")
        raise KeystreamExhausted(
            f"{length} bytes of key stream were asked for, {END - self._position} bytes are left before its end"
        )

    def _release(self) -> None:
        self._turn.release()

    def _xor_into(self, keystream: Keystream, view: memoryview, skip: int = 0) -> None:
        try:
            keystream.xor_into(self._position + skip, view)
        except Exception as error:
            reason = f"backend {self._backend!r} failed: {_backends.why(error)}"
        else:
            return
        raise BackendUnavailable(reason)

    def _make(self, keystream: Keystream, out: memoryview) -> None:
        """Fill `out` with the next key stream: what was made ahead, then the backend's own. The position stays."""
        have = 0
        if self._ahead is not None:
            ahead = self._ahead
            have = min(ahead.end - ahead.start, len(out))
            out[:have] = ahead.store[ahead.start : ahead.start + have]
        rest = out[have:]
        rest[:] = bytes(len(rest))
        self._xor_into(keystream, rest, have)
        if self._ahead is not None:
            self._ahead.start += have

    def _from_ahead(self, keystream: Keystream, ahead: _Ahead, length: int) -> memoryview:
        """Return the next `length` bytes of key stream made ahead, after making more where they are too few."""
        have = ahead.end - ahead.start
        if have < length:
            store = ahead.store
            store[:have] = bytes(store[ahead.start : ahead.end])
            more = min(max(length - have, self._lookahead), END - self._position - have)
            fresh = store[have : have + more]
            fresh[:] = bytes(more)
            ahead.start, ahead.end = 0, have
            self._xor_into(keystream, fresh, have)
            ahead.end = have + more
        start = ahead.start
        ahead.start = start + length
        return ahead.store[start : start + length]

    # -- the position --------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Key-stream bytes used so far, 0 to 16 * 2**128."""
        return self._position

    def seek(self, position: int) -> None:
        """Go to any byte of the key stream. To go back is to use key stream twice: for tests and lost cells only.

        Args:
            position: 0 to 16 * 2**128 - 1, in bytes.

        Raises (nothing moved): TypeError, ValueError (negative), KeystreamExhausted (past the last byte), ClosedError,
        ConcurrentUseError.
        """
        position = whole(position, "position", "bytes")
        if position >= END:
            raise KeystreamExhausted(f"position must be below {END} bytes, got {position}")
        self._claim(0)
        try:
            self._position = position
            if self._ahead is not None:
                self._ahead.start = self._ahead.end = 0
        finally:
            self._turn.release()

    def clone(self) -> Self:
        """Return an independent cipher at the same position: the only way to get the same key stream twice.

        Raises: ClosedError, ConcurrentUseError, BackendUnavailable.
        """
        self._claim(0)
        try:
            twin = type(self)(
                self._key,
                self._iv,
                payload_len=self._payload_len,
                path=self._path,
                backend=self._backend,
                lookahead=self._lookahead,
            )
            twin._position = self._position
            return twin
        finally:
            self._turn.release()

    def close(self) -> None:
        """Wipe the key, the round keys and the key stream as far as the backend's library lets us; may be called again.

        Every later call but close() raises ClosedError. Raises: ConcurrentUseError.
        """
        if not self._turn.acquire(False):
            raise ConcurrentUseError(_TAKEN)
        try:
            keystream, self._keystream = self._keystream, None
            self._key[:] = bytes(len(self._key))
            if self._ahead is not None:
                self._ahead.store[:] = bytes(len(self._ahead.store))
            if self._scratch is not None:
                self._scratch[:] = bytes(len(self._scratch))
            if keystream is not None:
                try:
                    _backends.close(keystream)
                except Exception as error:
                    raise BackendUnavailable(
                        f"backend {self._backend!r} did not close: {_backends.why(error)}"
                    ) from None
        finally:
            self._turn.release()

    # -- what was chosen -----------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._backend

    @property
    def path(self) -> str:
        """How key stream meets payload."""
        return self._path

    @property
    def payload_len(self) -> int:
        """Bytes in a payload."""
        return self._payload_len

    @property
    def kernel(self) -> str | None:
        """The AES implementation inside the native backend; None for any other."""
        return None

    def __repr__(self) -> str:
        state = "closed" if self._keystream is None else f"position={self._position}"
        return f"<CellCipher backend={self._backend!r} path={self._path!r} payload_len={self._payload_len} {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a CellCipher can't be pickled: that would use its key stream twice")
