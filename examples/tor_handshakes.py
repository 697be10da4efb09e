"""The handshakes by which a client and a relay come to share the keys of a hop.

What lives here: what a client must know of a relay, and one class for each handshake. A handshake is used once:
request() is what goes to the relay, finish() turns the answer into keys, or raises HandshakeError where the relay isn't
the one that was meant. The handshake also settles how relay cells will be encrypted: by tor1, or after ntor-v3 by
Counter Galois Onion.

Theory: tor-spec, "CREATE and CREATED cells"; 'The "ntor" handshake'; "CREATE_FAST/CREATED_FAST cells"; proposal 332,
"ntor-v3"; proposal 346 for what is asked for in it, and proposal 324 for congestion control.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from cellcrypt import CellCipher
from cellcrypt.onion import CGO, TOR1, HopKeys, RelayLayout, kdf_tor, ntor_expand

NTOR_TYPE, NTOR_V3_TYPE = 2, 3
_PROTOID = b"ntor-curve25519-sha256-1"
_PROTOID_V3 = b"ntor3-curve25519-sha3_256-1"
#: What the keys of an ntor-v3 handshake are for (proposal 332, appendix A.2).
_CIRCUIT = b"circuit extend"
#: Extensions of ntor-v3's messages: ask for congestion control, grant it, ask for subprotocols.
CC_REQUEST, CC_RESPONSE, SUBPROTO_REQUEST = 1, 2, 3
#: Subprotocol Relay (2), version 6: relay cells by Counter Galois Onion.
_RELAY_CGO = bytes([2, 6])
_CGO_MATERIAL = 160


class HandshakeError(Exception):
    """The answer does not prove what it must."""


@dataclass(frozen=True)
class Relay:
    """Say where a relay is and by which keys it is known."""

    host: str
    port: int
    identity: bytes
    ed25519: bytes
    ntor_key: bytes

    @classmethod
    def from_descriptor(cls, text: str) -> Relay:
        """Return what a server descriptor says. Its signatures are not looked at.

        Spec: dir-spec, "Server descriptor format".
        """

        def line(pattern: str) -> re.Match[str]:
            found = re.search(f"^{pattern}$", text, re.MULTILINE)
            if found is None:
                raise ValueError(f"the descriptor has no line like {pattern}")
            return found

        def unpadded(value: str) -> bytes:
            return base64.b64decode(value + "=" * (-len(value) % 4))

        router = line(r"router \S+ (\S+) (\d+) .*")
        return cls(
            host=router[1],
            port=int(router[2]),
            identity=bytes.fromhex(line(r"fingerprint ([0-9A-F ]+)")[1]),
            ed25519=unpadded(line(r"master-key-ed25519 (\S+)")[1]),
            ntor_key=unpadded(line(r"ntor-onion-key (\S+)")[1]),
        )


class Handshake(Protocol):
    """What the client of a circuit asks of a handshake."""

    #: The type in CREATE2 and EXTEND2; None for CREATE_FAST, which has a cell of its own.
    htype: int | None
    #: After finish(): how relay cells with this hop are laid out, how many DATA cells one SENDME stands for, and
    #: whether its streams have windows of their own.
    cell_layout: RelayLayout
    sendme_every: int
    stream_windows: bool

    def request(self) -> bytes: ...

    def finish(self, reply: bytes) -> HopKeys: ...


class CreateFast:
    """CREATE_FAST: both sides send 20 random bytes. It proves nothing that the TLS link does not."""

    htype: int | None = None
    cell_layout: RelayLayout = TOR1
    sendme_every = 100
    stream_windows = True

    def __init__(self) -> None:
        self._x = os.urandom(20)

    def request(self) -> bytes:
        return self._x

    def finish(self, reply: bytes) -> HopKeys:
        y, proof = reply[:20], reply[20:40]
        keys = HopKeys.from_key_material(kdf_tor(self._x + y, 92), "kdf-tor")
        if not hmac.compare_digest(keys.kh, proof):
            raise HandshakeError("the relay did not get our half of the secret")
        return keys


class Ntor:
    """ntor: a Diffie-Hellman exchange on Curve25519 that proves who the relay is."""

    htype: int | None = NTOR_TYPE
    cell_layout: RelayLayout = TOR1
    sendme_every = 100
    stream_windows = True

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._x = X25519PrivateKey.generate()
        self._public = self._x.public_key().public_bytes_raw()

    def request(self) -> bytes:
        return self._relay.identity + self._relay.ntor_key + self._public

    def finish(self, reply: bytes) -> HopKeys:
        y, proof = reply[:32], reply[32:64]
        identity, b, x = self._relay.identity, self._relay.ntor_key, self._public
        secret_input = self._shared(y) + self._shared(b) + identity + b + x + y + _PROTOID
        verify = _tweaked(secret_input, b":verify")
        auth = _tweaked(verify + identity + b + y + x + _PROTOID + b"Server", b":mac")
        if not hmac.compare_digest(auth, proof):
            raise HandshakeError("the relay did not prove that it holds its onion key")
        return HopKeys.from_key_material(ntor_expand(secret_input, 92), "ntor")

    def _shared(self, public: bytes) -> bytes:
        return _exchange(self._x, public)


class NtorV3:
    """ntor-v3: ntor with a message each way. Asks for Counter Galois Onion, and for congestion control, which it needs.

    Args:
        relay: whom to prove. message, purpose: for the known answer in the tests; else what was said above.
    """

    htype: int | None = NTOR_V3_TYPE
    cell_layout: RelayLayout = CGO
    sendme_every = 0
    stream_windows = False

    def __init__(self, relay: Relay, message: bytes | None = None, purpose: bytes = _CIRCUIT) -> None:
        if message is None:
            message = _extensions({CC_REQUEST: b"", SUBPROTO_REQUEST: _RELAY_CGO})
        self._relay = relay
        self._message = message
        self._end = _PROTOID_V3 + _counted(purpose)
        self._x = X25519PrivateKey.generate()

    def request(self) -> bytes:
        self._public = self._x.public_key().public_bytes_raw()
        identity, b, x = self._relay.ed25519, self._relay.ntor_key, self._public
        self._bx = _exchange(self._x, b)
        keys = _expand(b"kdf_phase1", self._bx + identity + x + b + self._end, 64)
        sealed = _aes_256_ctr(keys[:32], self._message)
        self._mac = _hash(b"msg_mac", _counted(keys[32:]) + identity + b + x + sealed)
        return identity + b + x + sealed + self._mac

    def reply(self, reply: bytes, length: int) -> tuple[bytes, bytes]:
        """Return the relay's message and `length` bytes of key material."""
        y, proof, sealed = reply[:32], reply[32:64], reply[64:]
        identity, b, x = self._relay.ed25519, self._relay.ntor_key, self._public
        secret = _exchange(self._x, y) + self._bx + identity + b + x + y + self._end
        seed, verify = _hash(b"key_seed", secret), _hash(b"verify", secret)
        sent = verify + identity + b + y + x + self._mac + _counted(sealed) + _PROTOID_V3 + b"Server"
        if not hmac.compare_digest(_hash(b"auth_final", sent), proof):
            raise HandshakeError("the relay did not prove that it holds its onion key")
        stream = _expand(b"kdf_final", seed, 32 + length)
        return _aes_256_ctr(stream[:32], sealed), stream[32:]

    def finish(self, reply: bytes) -> HopKeys:
        message, material = self.reply(reply, _CGO_MATERIAL)
        granted = _parsed_extensions(message).get(CC_RESPONSE, b"")
        if len(granted) != 1 or not granted[0]:
            raise HandshakeError("the relay did not grant congestion control")
        self.sendme_every = granted[0]
        return HopKeys.from_key_material(material, "cgo")


def _exchange(private: X25519PrivateKey, public: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # all zero: a point of small order
        raise HandshakeError(f"the relay's key is none: {error}") from None


def _tweaked(message: bytes, name: bytes) -> bytes:
    return hmac.digest(_PROTOID + name, message, hashlib.sha256)


def _counted(data: bytes) -> bytes:
    """ENCAP of proposal 332: the length in 8 bytes comes first."""
    return len(data).to_bytes(8, "big") + data


def _hash(name: bytes, message: bytes) -> bytes:
    return hashlib.sha3_256(_counted(_PROTOID_V3 + b":" + name) + message).digest()


def _expand(name: bytes, secret: bytes, length: int) -> bytes:
    return hashlib.shake_256(_counted(_PROTOID_V3 + b":" + name) + secret).digest(length)


def _aes_256_ctr(key: bytes, message: bytes) -> bytes:
    return CellCipher(key, payload_len=len(message)).crypt(message) if message else b""


def _extensions(fields: dict[int, bytes]) -> bytes:
    """Return extension fields as a message has them: how many, then type, length and value of each."""
    return bytes([len(fields)]) + b"".join(bytes([kind, len(value)]) + value for kind, value in fields.items())


def _parsed_extensions(message: bytes) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    at = 1
    for _ in range(message[0] if message else 0):
        kind, length = message[at : at + 2] if len(message) >= at + 2 else (0, len(message))
        value = message[at + 2 : at + 2 + length]
        if len(value) != length:
            raise HandshakeError("the relay's message is cut short")
        fields.setdefault(kind, value)
        at += 2 + length
    return fields
