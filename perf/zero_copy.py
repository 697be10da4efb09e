"""AES-CBC by AF_ALG without copying into the kernel: vmsplice lends the buffer's pages to a pipe, splice hands them on.

Rules of this file: Linux only; what a kernel refuses (sockets that take no splice, no AF_ALG) becomes an error of ours.

Theory: vmsplice(2), splice(2); reading from the socket encrypts straight into the reader's pages.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from cellcrypt.cbc import Pass, afalg_operation


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@contextmanager
def zero_copy(key: bytes, iv: bytes, room: memoryview, length: int, encrypt: bool) -> Iterator[Pass]:
    """Open one key, IV and direction on the first `length` bytes of `room`, as cellcrypt.cbc says."""
    vmsplice = ctypes.CDLL(None, use_errno=True).vmsplice
    vmsplice.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    vmsplice.restype = ctypes.c_ssize_t
    buffer = room[:length]
    base = ctypes.c_char.from_buffer(buffer)
    iovec = _Iovec(ctypes.addressof(base), length)
    pointer = ctypes.addressof(iovec)
    with ExitStack() as stack:
        operation = stack.enter_context(afalg_operation(key, iv, encrypt))
        pipe_out, pipe_in = os.pipe()
        stack.callback(os.close, pipe_out)
        stack.callback(os.close, pipe_in)
        if length > fcntl.fcntl(pipe_in, fcntl.F_GETPIPE_SZ):
            fcntl.fcntl(pipe_in, fcntl.F_SETPIPE_SZ, length)
        number, recv_into, splice = operation.fileno(), operation.recv_into, os.splice

        def run() -> None:
            lent = vmsplice(pipe_in, pointer, 1, 0)
            if lent != length:
                raise OSError(ctypes.get_errno() if lent < 0 else errno.EMSGSIZE, f"vmsplice took {lent} of {length}")
            if splice(pipe_out, number, length) != length or recv_into(buffer, length, socket.MSG_DONTWAIT) != length:
                raise OSError(errno.EMSGSIZE, f"not all of {length} bytes went through the pipe")

        yield run
    del base
