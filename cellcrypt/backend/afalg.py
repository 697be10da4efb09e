"""Backend "afalg": AES-CTR by the Linux kernel, through AF_ALG sockets.

What lives here: one bound socket a key, which holds the key inside the kernel, and one operation socket accepted from
it, over which messages of whole blocks go in and come back encrypted. A cipher thus holds two file descriptors.

Rules of this file: every message is whole blocks and carries its own counter block, so that the kernel's memory of
where it was never matters; exactly as much is asked back as was sent, and nothing ever waits (a blocking read past
the end of a message never returns); key stream for single cells is made ahead, since a message costs a few thousand
cycles however short it is; every OSError becomes BackendUnavailable with the errno's name. The contract stands in
protocol.py.

Theory: Linux, Documentation/crypto/userspace-if.rst, "Symmetric cipher API". The kernel ends each message at a block:
what is left of the last one is skipped without MSG_MORE and held back with it (seen on Linux 6.1).
"""

from __future__ import annotations

import os
import socket
import weakref
from errno import EACCES, EAFNOSUPPORT, EMFILE, ENFILE, ENOENT, ENOKEY, EPERM, errorcode
from pathlib import Path

from ..errors import BackendUnavailable
from ..xor import XOR
from .protocol import BLOCK, counter_block

ALGORITHM = "ctr(aes)"
#: The most that goes into one message, in bytes. Linux takes up to the socket's buffers (208 KiB unless configured
#: otherwise) and holds 64 KiB in one scatter list; from 16 KiB up the length no longer shows in the rate.
MESSAGE_LEN = 1 << 16
#: Buffers that are configured smaller still take a page (af_alg_sndbuf and af_alg_rcvbuf, include/crypto/if_alg.h).
PAGE = 4096
#: Key stream made ahead for single cells, in bytes: 32 cells a message.
AHEAD_LEN = 1 << 14

_ZEROS = memoryview(bytes(AHEAD_LEN))

_MEANINGS = {
    EAFNOSUPPORT: "this kernel has no AF_ALG, or a sandbox hides it",
    EPERM: "a sandbox or a security policy forbids AF_ALG",
    EACCES: "a sandbox or a security policy forbids AF_ALG",
    ENOENT: "the kernel does not offer it; is the module algif_skcipher installed?",
    ENOKEY: "the kernel did not take the key",
    EMFILE: "each cipher on afalg holds two file descriptors, and this process may open no more",
    ENFILE: "each cipher on afalg holds two file descriptors, and this system has no more",
}


def version() -> str:
    """Return the kernel's release, and its AES-CTR driver where it names one."""
    driver = _driver()
    return f"Linux {os.uname().release}" + (f" ({driver})" if driver else "")


def _driver() -> str | None:
    """Return what the kernel computes with: of the drivers for the algorithm, the one with the highest priority."""
    try:
        entries = Path("/proc/crypto").read_text(encoding="utf-8", errors="replace").split("\n\n")
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for entry in entries:
        pairs = (line.partition(":") for line in entry.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        if fields.get("name") == ALGORITHM and fields.get("internal") != "yes":
            found = int(fields.get("priority", "0")), fields.get("driver", "")
            best = found if best is None else max(best, found)
    return best[1] if best else None


def unavailable(doing: str, error: OSError) -> BackendUnavailable:
    """Return `error` as one of ours: what was being done, which errno, what that means here."""
    name = errorcode.get(error.errno, str(error.errno)) if error.errno is not None else type(error).__name__
    meaning = _MEANINGS.get(error.errno or 0) or error.strerror or str(error)
    return BackendUnavailable(f"{doing}: {name}: {meaning}")


def bound(key: bytes, algorithm: str = ALGORITHM) -> socket.socket:
    """Return a socket that holds `key` for `algorithm` inside the kernel.

    Raises:
        BackendUnavailable: the kernel won't.
    """
    family = getattr(socket, "AF_ALG", None)
    if family is None:
        raise BackendUnavailable("this Python has no AF_ALG: it is an interface of Linux")
    doing = "socket(AF_ALG)"
    made: socket.socket | None = None
    try:
        made = socket.socket(family, socket.SOCK_SEQPACKET)
        doing = f"bind({algorithm})"
        made.bind(("skcipher", algorithm))
        doing = "setsockopt(ALG_SET_KEY)"
        made.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
    except OSError as error:
        if made is not None:
            made.close()
        raise unavailable(doing, error) from None
    return made


def _close_all(sockets: list[socket.socket]) -> None:
    while sockets:
        sockets.pop().close()


class _Keystream:
    """The sockets stand in a list of their own, [bound, operation], which a finalizer closes when this is garbage."""

    __slots__ = ("__weakref__", "_ahead", "_at", "_grow", "_have", "_iv", "_message_len", "_pid", "_sockets")

    def __init__(self, key: bytes, iv: bytes) -> None:
        self._iv = int.from_bytes(iv, "big")
        self._sockets = [bound(key)]
        weakref.finalize(self, _close_all, self._sockets)
        #: Key stream made ahead: `_have` bytes from position `_at` on, which begins a block.
        self._ahead = memoryview(bytearray(AHEAD_LEN))
        self._at = self._have = 0
        #: How much to make next time: what is asked for at first, up to AHEAD_LEN where calls follow each other.
        self._grow = 0
        self._pid = 0
        self._hang_up()
        try:
            self._operation()
        except BackendUnavailable:
            self.close()
            raise

    def close(self) -> None:
        """Close both sockets, whereupon the kernel wipes the key, and wipe the key stream made ahead."""
        _close_all(self._sockets)
        self._ahead[:] = _ZEROS
        self._have = 0

    def xor_into(self, position: int, buffer: memoryview) -> None:
        done, length = 0, len(buffer)
        while done < length:
            skip = position + done - self._at
            if 0 <= skip < self._have:
                part = buffer[done : done + self._have - skip]
                XOR["fused"](part, self._ahead[skip : skip + len(part)])
                done += len(part)
            elif (length - done) >= AHEAD_LEN and (position + done) % BLOCK == 0:
                part = buffer[done : done + min(length - done, self._message_len) // BLOCK * BLOCK]
                self._crypt(position + done, part, part)
                done += len(part)
            else:
                self._make_ahead(position + done, length - done)

    def _make_ahead(self, position: int, wanted: int) -> None:
        """Make key stream from the block of `position` on, more of it each time that one call follows another."""
        start = position - position % BLOCK
        self._grow = min(2 * self._grow, AHEAD_LEN) if start == self._at + self._have else 0
        length = min(max(self._grow, -((start - position - wanted) // BLOCK) * BLOCK), AHEAD_LEN, self._message_len)
        self._grow = length
        self._have = 0
        self._crypt(start, _ZEROS[:length], self._ahead[:length])
        self._at, self._have = start, length

    def _crypt(self, position: int, source: memoryview, target: memoryview) -> None:
        """Encrypt one message: whole blocks, at the start of one, `source` and `target` alike in length."""
        counter = counter_block(self._iv, position).to_bytes(BLOCK, "big")
        operation = self._operation()
        try:
            sent = operation.sendmsg_afalg([source], op=socket.ALG_OP_ENCRYPT, iv=counter, flags=socket.MSG_DONTWAIT)
            got = operation.recv_into(target, sent, socket.MSG_DONTWAIT)
            if not sent == got == len(source):
                raise BackendUnavailable(f"a message of {len(source)} bytes: {sent} went in, {got} came back")
        except OSError as error:
            self._hang_up()
            raise unavailable("encrypting", error) from None
        except BaseException:  # also an interrupt between the two calls: what the socket still holds is not known
            self._hang_up()
            raise

    def _operation(self) -> socket.socket:
        """Return the operation socket, or a new one where there is none, or where it is shared since a fork."""
        if self._pid != os.getpid():
            self._hang_up()
        if len(self._sockets) == 1:
            try:
                operation, _ = self._sockets[0].accept()
                self._sockets.append(operation)
                room = (operation.getsockopt(socket.SOL_SOCKET, size) for size in (socket.SO_SNDBUF, socket.SO_RCVBUF))
                self._message_len = max(PAGE, min(MESSAGE_LEN, *room) // PAGE * PAGE)
            except OSError as error:
                self._hang_up()
                raise unavailable("accept", error) from None
            self._pid = os.getpid()
        return self._sockets[1]

    def _hang_up(self) -> None:
        _close_all(self._sockets[1:])
        del self._sockets[1:]
        self._message_len = PAGE  # what any socket takes: the next one's room is not known before it is there


open = _Keystream
