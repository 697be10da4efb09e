"""A model of AF_ALG's symmetric cipher sockets, to drive the afalg backend where there are none, and to make it fail.

It keeps the rules that were seen on Linux 6.1: a message ends at a block, whose rest is skipped; a send takes no more
than the socket's buffer holds; a read for more than there is returns short if it may not wait, and never returns if it
may, which the model turns into an AssertionError. AES comes from the cryptography package, block by block.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import cellcrypt.backend

PAGE = 4096


class Kernel:
    """What all sockets of one test share: what is open, how much was asked for, and what is to fail."""

    def __init__(self, room: int = 212_992) -> None:
        self.room = room
        self.open: set[ModelSocket] = set()
        self.messages: list[int] = []
        #: Exceptions to raise, by the name of the call; a list gives one a call, None being success.
        self.failures: dict[str, Any] = {}

    def check(self, call: str) -> None:
        failure = self.failures.get(call)
        if isinstance(failure, list):
            failure = failure.pop(0) if failure else None
        if failure is not None:
            raise failure

    def socket(self, family: int, kind: int) -> ModelSocket:
        self.check("socket")
        assert family == socket.AF_ALG
        assert kind == socket.SOCK_SEQPACKET
        return ModelSocket(self, None)


class ModelSocket:
    def __init__(self, kernel: Kernel, key: bytes | None) -> None:
        self.kernel, self.key = kernel, key
        self.held = b""
        kernel.open.add(self)

    def bind(self, address: tuple[str, str]) -> None:
        self.kernel.check("bind")
        assert address[0] == "skcipher"

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self.kernel.check("setsockopt")
        assert (level, option) == (socket.SOL_ALG, socket.ALG_SET_KEY)
        self.key = bytes(value)

    def getsockopt(self, level: int, option: int) -> int:
        assert level == socket.SOL_SOCKET
        assert option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
        return self.kernel.room

    def accept(self) -> tuple[ModelSocket, None]:
        self.kernel.check("accept")
        assert self in self.kernel.open
        return ModelSocket(self.kernel, self.key), None

    def sendmsg_afalg(self, parts: list[memoryview], *, op: int, iv: bytes, flags: int) -> int:
        self.kernel.check("sendmsg_afalg")
        assert self in self.kernel.open
        assert op == socket.ALG_OP_ENCRYPT
        assert not self.held, "a message goes in before the last one came out"
        assert flags & socket.MSG_DONTWAIT, "a send that may wait can wait for ever"
        data = b"".join(parts)[: max(PAGE, self.kernel.room // PAGE * PAGE)]
        assert self.key is not None
        whole = data + bytes(-len(data) % 16)
        context = Cipher(algorithms.AES(self.key), modes.CTR(iv)).encryptor()
        self.held = context.update(whole)[: len(data)]
        self.kernel.messages.append(len(data))
        return len(data)

    def recv_into(self, buffer: memoryview, length: int, flags: int) -> int:
        self.kernel.check("recv_into")
        assert self in self.kernel.open
        assert flags & socket.MSG_DONTWAIT, "a read past the end of a message waits for ever"
        part, self.held = self.held[:length], b""
        memoryview(buffer)[: len(part)] = part
        self.kernel.check("recv_into, after it")
        return len(part)

    def __enter__(self) -> ModelSocket:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.kernel.open.discard(self)


@contextmanager
def model_af_alg(room: int = 212_992) -> Iterator[Kernel]:
    """Put the model in the place of AF_ALG while the block runs; whether it is usable is found out anew."""
    kernel = Kernel(room)
    proved = cellcrypt.backend._proved
    with mock.patch.dict(proved), mock.patch("cellcrypt.backend.afalg.socket.socket", kernel.socket):
        proved.pop("afalg", None)
        yield kernel
