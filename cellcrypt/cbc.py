"""AES-CBC by the libraries that have it: for measurements and for `validate` only, the cell cipher has none.

What lives here: a table of libraries; each entry opens one key, IV and direction on one buffer and gives a function
that makes one pass over it in place. Passes are chained: the IV of each is the last ciphertext block of the one
before, as if all passes were one long message.

Rules of this file: a library is imported when it is asked for; each proves itself with a known answer before it counts.

Theory: NIST SP 800-38A, section 6.2; RFC 3602, section 4, case 1.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from .backend import afalg, why
from .backend.protocol import BLOCK

#: RFC 3602, section 4, case 1.
KEY = bytes.fromhex("06a9214036b8a15b512e03d534120006")
IV = bytes.fromhex("3dafba429d9eb430b422da802c9fac41")
PLAINTEXT = b"Single block msg"
CIPHERTEXT = bytes.fromhex("e353779c1079aeb82708942dbe77181a")

#: The reason of a library that fails its proof.
WRONG = "it computes wrong AES-CBC (RFC 3602, section 4, case 1)"

#: Bytes that a buffer must have past its end, which stay as they are: cryptography asks for the room.
SLACK = BLOCK - 1

#: Make one pass over the buffer.
Pass = Callable[[], object]
#: (key, iv, room, length, encrypt): `room` is writable, its first `length` bytes, whole blocks, are the buffer, and
#: SLACK bytes more follow. Whatever is open is closed with the context.
Open = Callable[[bytes, bytes, memoryview, int, bool], AbstractContextManager[Pass]]


@contextmanager
def _cryptography(key: bytes, iv: bytes, room: memoryview, length: int, encrypt: bool) -> Iterator[Pass]:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES(key), modes.CBC(iv))
    context = cipher.encryptor() if encrypt else cipher.decryptor()
    buffer, written = room[:length], room[: length + SLACK]
    # Versions from 51 on refuse to write where they read. The copy is a small part of a pass.
    yield lambda: context.update_into(bytes(buffer), written)


@contextmanager
def _pycryptodome(key: bytes, iv: bytes, room: memoryview, length: int, encrypt: bool) -> Iterator[Pass]:
    from Crypto.Cipher import AES

    cipher = AES.new(key, AES.MODE_CBC, iv=iv)
    buffer = room[:length]
    yield partial(cipher.encrypt if encrypt else cipher.decrypt, buffer, output=buffer)


@contextmanager
def afalg_operation(key: bytes, iv: bytes, encrypt: bool) -> Iterator[socket.socket]:
    """Open an operation socket for AES-CBC that has its IV and direction; it keeps the chain between messages."""
    doing = "accept"
    with afalg.bound(key, "cbc(aes)") as bound:
        try:
            operation, _ = bound.accept()
            with operation:
                doing = "sendmsg"
                direction = socket.ALG_OP_ENCRYPT if encrypt else socket.ALG_OP_DECRYPT
                operation.sendmsg_afalg([], op=direction, iv=iv, flags=socket.MSG_MORE)
                doing = "AES-CBC"
                yield operation
        except OSError as error:
            raise afalg.unavailable(doing, error) from None


@contextmanager
def _afalg(key: bytes, iv: bytes, room: memoryview, length: int, encrypt: bool) -> Iterator[Pass]:
    parts = [room[start : min(start + afalg.MESSAGE_LEN, length)] for start in range(0, length, afalg.MESSAGE_LEN)]
    with afalg_operation(key, iv, encrypt) as operation:
        send, recv_into = operation.send, operation.recv_into

        def run() -> None:
            for part in parts:
                sent = send(part, socket.MSG_DONTWAIT)
                if recv_into(part, sent, socket.MSG_DONTWAIT) != len(part):
                    raise OSError(errno.EMSGSIZE, f"a message of {len(part)} bytes: {sent} went in")

        yield run


LIBRARIES: dict[str, Open] = {"cryptography": _cryptography, "pycryptodome": _pycryptodome, "afalg": _afalg}


def prove(open: Open) -> None:
    """Compare what a library makes with RFC 3602, both directions, two passes.

    Raises:
        ValueError: it is wrong. BackendUnavailable, ImportError: it can't be used here.
    """
    room = memoryview(bytearray(PLAINTEXT) + bytes(SLACK))
    with open(KEY, IV, room, BLOCK, True) as run:
        run()
        once = bytes(room[:BLOCK])
        run()
    with open(KEY, once, room, BLOCK, False) as run:
        run()
    back_once = bytes(room[:BLOCK])
    with open(KEY, IV, room, BLOCK, False) as run:
        run()
    if (once, back_once, bytes(room[:BLOCK])) != (CIPHERTEXT, CIPHERTEXT, PLAINTEXT):
        raise ValueError(WRONG)


def why_not(open: Open) -> str | None:
    """Return why a library can't be used here; None where it can."""
    try:
        prove(open)
    except ImportError as error:
        return f"not installed ({error})"
    except Exception as error:
        return why(error)
    return None
