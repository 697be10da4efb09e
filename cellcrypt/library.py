"""LibraryCipher: CellCipher over a library's AES.

Rules of this file: arguments are checked before anything is written (the gate is buffers.py); one thread at a time is
inside, a second gets ConcurrentUseError; what is lent to the core is taken back before anything here runs.

Any line can be the last one: KeyboardInterrupt comes between two of them, RecursionError at any call. So the position
moves before the first byte is written and back after the last one is restored, and nothing else is kept beside it: what
is made ahead knows its own place, and what the core has used is counted by the core for the cipher's whole life.
"""

from __future__ import annotations

from typing import NoReturn, Self, cast

from . import backend as _backends
from .backend.protocol import END, Keystream, LendingKeystream, Open
from .buffers import Buffer, WritableBuffer, check_length, readable, same_memory, whole, writable
from .cipher import CellCipher
from .compiled import core
from .errors import BackendUnavailable
from .formats import CellFormat, count_cells
from .position import check_position, describe, refusal
from .xor import XOR, XOR_CELLS

#: Key stream made at once for a batch, in bytes: what a batch needs of memory, however long it is.
BATCH_LEN = 1 << 17
#: Backends whose calls do not fail once their arguments are right, so that a payload is encrypted where it lies.
_UNFAILING = frozenset({"cryptography", "pycryptodome"})


class _Ahead:
    """Key stream made ahead of need: the first `have` bytes of `store` are those from position `first` on."""

    __slots__ = ("first", "have", "store")

    def __init__(self, length: int) -> None:
        self.store = memoryview(bytearray(length))
        self.first = self.have = 0

    def start(self, position: int) -> int:
        """Return where in `store` the byte at `position` is; `have` where it was not made."""
        start = position - self.first
        return start if 0 <= start <= self.have else self.have


class LibraryCipher(CellCipher):
    """A CellCipher over a backend other than native; the contract stands there.

    Where there is a core, it serves a cell by itself while what was lent to it (`_give`) is enough, without a Python
    frame of ours: 59 ns a cell beside the library's own call instead of 1,130 (Xeon at 2.6 GHz, 30 November 2026).
    """

    __slots__ = (
        "_ahead",
        "_backend",
        "_iv",
        "_key",
        "_keystream",
        "_lookahead",
        "_moved",
        "_path",
        "_payload_len",
        "_scratch",
    )

    _ahead: _Ahead | None
    _backend: str
    _iv: bytes
    _key: bytearray
    _keystream: Keystream | None
    _lookahead: int
    _moved: int  # the position, less what the core has used
    _path: str
    _payload_len: int
    _scratch: bytearray | None

    def __new__(cls, backend: str, key: bytes, iv: bytes, payload_len: int, path: str, lookahead: int) -> Self:
        # Every argument has been checked, in cipher.py.
        self = cls._blank()
        self._backend, self._payload_len, self._path, self._lookahead = backend, payload_len, path, lookahead
        self._key = bytearray(key)
        self._iv = iv
        self._keystream = self._opened(_backends.load(backend))
        self._moved = 0
        # The byte and word paths make a cell's key stream first; so does every path that makes it ahead.
        ahead = lookahead > 0 or path != "fused"
        self._ahead = _Ahead(payload_len + lookahead) if ahead else None
        self._scratch = None if backend in _UNFAILING else bytearray(payload_len)
        self._claim(0)
        self._give()
        return self

    def __init__(self, *arguments: object, **options: object) -> None:
        """Do nothing: __new__ has made the cipher. Without the core these are the arguments of CellCipher(...)."""

    def _opened(self, open: Open) -> Keystream:
        try:
            return open(bytes(self._key), self._iv)
        except Exception as error:
            reason = f"backend {self._backend!r} did not open: {_backends.why(error)}"
        raise BackendUnavailable(reason)

    # -- one cell --------------------------------------------------------------------------------------------------

    def _crypt(self, payload: Buffer) -> bytes:
        view = readable(payload, "payload")
        check_length(len(view), "payload", self._payload_len)
        out = bytearray(view)
        self._one(memoryview(out))
        return bytes(out)

    def _crypt_into(self, payload: Buffer, out: WritableBuffer) -> None:
        source, target = readable(payload, "payload"), writable(out, "out")
        check_length(len(source), "payload", self._payload_len)
        check_length(len(target), "out", self._payload_len)
        self._one(target, None if same_memory(source, target) else source)

    def _crypt_in_place(self, payload: WritableBuffer) -> None:
        view = writable(payload, "payload")
        check_length(len(view), "payload", self._payload_len)
        self._one(view)

    def _one(self, view: memoryview, source: memoryview | None = None) -> None:
        keystream = self._claim(len(view))
        try:
            self._one_claimed(keystream, view, source)
        finally:
            self._give()

    def _one_claimed(self, keystream: Keystream, view: memoryview, source: memoryview | None = None) -> None:
        length, scratch, made = len(view), self._scratch, None
        if self._ahead is not None:
            made = self._from_ahead(keystream, self._ahead, length)
        elif scratch is not None:
            scratch[:] = view if source is None else source
            self._xor_into(keystream, memoryview(scratch))
            source = memoryview(scratch)
        before = bytes(view)
        self._moved += length
        try:
            if source is not None:
                view[:] = source
            if made is not None:
                XOR[self._path](view, made)
            elif scratch is None:
                self._xor_into(keystream, view, -length)
        except BaseException:
            view[:] = before
            self._moved -= length
            raise

    # -- many cells --------------------------------------------------------------------------------------------------

    def crypt_cells(self, buffer: WritableBuffer, cell_format: CellFormat) -> int:
        payload_len = self._payload_len
        view = writable(buffer, "buffer")
        count = count_cells(len(view), cell_format, payload_len)
        header_len, cell_len = cell_format.header_len, cell_format.cell_len
        keystream = self._claim(count * payload_len)
        try:
            at_once = max(1, BATCH_LEN // payload_len)
            batch = bytearray(min(count, at_once) * payload_len)  # zero again after each XOR
            for first in range(0, count, at_once):
                cells = min(at_once, count - first)
                made = memoryview(batch)[: cells * payload_len]
                try:
                    self._make(keystream, made)
                except BackendUnavailable as error:
                    raise BackendUnavailable(f"{error} ({first} of {count} cells are done)") from None
                part = view[first * cell_len : (first + cells) * cell_len]
                self._moved += len(made)
                XOR_CELLS[self._path](part, header_len, payload_len, made, True)
            return count
        finally:
            self._give()

    def keystream(self, length: int, /) -> bytes:
        length = whole(length, "length", "bytes")
        keystream = self._claim(length)
        try:
            try:
                out = bytearray(length)
            except OverflowError:
                raise MemoryError from None
            self._make(keystream, memoryview(out))
            self._moved += length
            return bytes(out)
        finally:
            self._give()

    # -- where the key stream comes from -----------------------------------------------------------------------------

    def _claim(self, length: int) -> Keystream:
        """Take this thread's turn, which `_give` ends, if `length` bytes are left, and take back what was lent."""
        if not self._take():
            raise refusal(True, False, 0, length)
        try:
            keystream, position = self._keystream, self.position
            if self._reclaim() and not self._lookahead:
                cast(LendingKeystream, keystream).take_back(position)
            if keystream is None or position + length > END:
                raise refusal(False, keystream is None, position, length)
        except BaseException:
            self._release()
            raise
        return keystream

    def _give(self) -> None:
        """Lend to the core what the next cell needs, and end this thread's turn."""
        try:
            if core is not None and self._keystream is not None:
                self._lend_next(self._keystream)
        except Exception:
            pass  # nothing is lent, so the next call comes here, and says what is wrong if it still is
        finally:
            self._release()

    def _lend_next(self, keystream: Keystream) -> None:
        lend = getattr(keystream, "lend", None)
        ahead, path, length, position = self._ahead, self._path, self._payload_len, self.position
        left = min(END - position, 1 << 62)
        if self._lookahead and ahead is not None:
            self._lend(None, ahead.store, None, ahead.start(position), ahead.have, path, length, left)
        elif lend is not None and self._scratch is None:
            store = cell = None
            if ahead is not None:
                store, ahead.have = ahead.store, 0  # the core fills it
                cell = store[:length]
            self._lend(lend(position), store, cell, 0, 0, path, length, left)

    def _lent_failed(self, error: BaseException | None) -> NoReturn:
        # The loan has ended. The context is not told its position, so it is not trusted again and another is opened.
        raise BackendUnavailable(f"backend {self._backend!r} failed: {_backends.why(error or Exception())}") from None

    def _xor_into(self, keystream: Keystream, view: memoryview, skip: int = 0) -> None:
        try:
            keystream.xor_into(self.position + skip, view)
        except Exception as error:
            reason = f"backend {self._backend!r} failed: {_backends.why(error)}"
        else:
            return
        raise BackendUnavailable(reason)

    def _make(self, keystream: Keystream, out: memoryview) -> None:
        """Fill `out`, all zero, with the next key stream: what was made ahead, then more. The position stays."""
        have = 0
        if self._ahead is not None:
            ahead = self._ahead
            rest = ahead.store[ahead.start(self.position) : ahead.have][: len(out)]
            have = len(rest)
            out[:have] = rest
        self._xor_into(keystream, out[have:], have)

    def _from_ahead(self, keystream: Keystream, ahead: _Ahead, length: int) -> memoryview:
        """Return the next `length` bytes of key stream made ahead, after making more where they are too few."""
        position, store = self.position, ahead.store
        start = ahead.start(position)
        have = ahead.have - start
        if have < length:
            rest = bytes(store[start : ahead.have])
            ahead.have = start = 0
            store[:have] = rest
            ahead.first = position
            ahead.have = have
            more = min(max(length - have, self._lookahead), END - position - have)
            fresh = store[have : have + more]
            fresh[:] = bytes(more)
            self._xor_into(keystream, fresh, have)
            ahead.have = have + more
        return store[start : start + length]

    # -- the position ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._moved + self._lent_used

    def seek(self, position: int, /) -> None:
        position = check_position(position)
        self._claim(0)
        try:
            if self._ahead is not None:
                self._ahead.have = 0
            self._moved = position - self._lent_used
        finally:
            self._give()

    def clone(self) -> Self:
        self._claim(0)
        try:
            twin = type(self)(self._backend, bytes(self._key), self._iv, self._payload_len, self._path, self._lookahead)
            twin._claim(0)
            twin._moved = self.position
            twin._give()
            return twin
        finally:
            self._give()

    def close(self) -> None:
        if not self._take():
            raise refusal(True, False, 0, 0)
        try:
            self._reclaim()
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
            self._give()

    # -- what was chosen -----------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        return self._backend

    @property
    def path(self) -> str:
        return self._path

    @property
    def payload_len(self) -> int:
        return self._payload_len

    @property
    def kernel(self) -> str | None:
        return None

    def __repr__(self) -> str:
        return describe(self, self._keystream is None)
