"""The example client's ntor-v3 against the known answer of proposal 332, appendix X.2."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from examples.tor_handshakes import HandshakeError, NtorV3, Relay

unhex = bytes.fromhex

RELAY = Relay(
    host="127.0.0.1",
    port=1,
    identity=bytes(20),
    ed25519=unhex("9fad2af287ef942632833d21f946c6260c33fae6172b60006e86e4a6911753a2"),
    ntor_key=unhex("f8307a2bc1870b00b828bb74dbb8fd88e632a6375ab3bcd1ae706aaa8b6cdd1d"),
)
CLIENT_KEY = unhex("b825a3719147bcbe5fb1d0b0fcb9c09e51948048e2e3283d2ab7b45b5ef38b49")
MESSAGE, PURPOSE, ANSWER = b"hello world", b"xyzzy", b"Hola Mundo"
REQUEST = unhex(
    "9fad2af287ef942632833d21f946c6260c33fae6172b60006e86e4a6911753a2"
    "f8307a2bc1870b00b828bb74dbb8fd88e632a6375ab3bcd1ae706aaa8b6cdd1d"
    "252fe9ae91264c91d4ecb8501f79d0387e34ad8ca0f7c995184f7d11d5da4f46"
    "3bebd9151fd3b47c180abc"
    "9e044d53565f04d82bbb3bebed3d06cea65db8be9c72b68cd461942088502f67"
)
REPLY = unhex(
    "4bf4814326fdab45ad5184f5518bd7fae25dc59374062698201a50a22954246d"
    "2fc5f8773ca824542bc6cf6f57c7c29bbf4e5476461ab130c5b18ab0a9127665"
    "1202c3e1e87c0d32054c"
)
KEYSTREAM = unhex(
    "9c19b631fd94ed86a817e01f6c80b0743a43f5faebd39cfaa8b00fa8bcc65c3b"
    "feaa403d91acbd68a821bf6ee8504602b094a254392a07737d5662768c7a9fb1"
)


@pytest.fixture
def handshake(monkeypatch: pytest.MonkeyPatch) -> NtorV3:
    key = X25519PrivateKey.from_private_bytes(CLIENT_KEY)
    monkeypatch.setattr("examples.tor_handshakes.X25519PrivateKey.generate", lambda: key, raising=True)
    return NtorV3(RELAY, MESSAGE, PURPOSE)


def test_known_answer(handshake: NtorV3) -> None:
    assert handshake.request() == REQUEST
    assert handshake.reply(REPLY, len(KEYSTREAM)) == (ANSWER, KEYSTREAM)


@pytest.mark.parametrize("octet", [0, 31, 32, 63, 64, len(REPLY) - 1])
def test_a_changed_reply_proves_nothing(handshake: NtorV3, octet: int) -> None:
    handshake.request()
    changed = bytearray(REPLY)
    changed[octet] ^= 1
    with pytest.raises(HandshakeError):
        handshake.reply(bytes(changed), 32)
