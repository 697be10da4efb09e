"""The handshakes by which a client and a relay come to share the keys of a hop.

What lives here: what a client must know of a relay, and one class for each handshake. A handshake is used once:
request() is what goes to the relay, finish() turns the answer into keys, or raises HandshakeError where the relay isn't
the one that was meant.

Theory: tor-spec, "CREATE and CREATED cells"; 'The "ntor" handshake'; "CREATE_FAST/CREATED_FAST cells".
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

from cellcrypt.onion import TOR1, HopKeys, RelayLayout, kdf_tor, ntor_expand

NTOR_TYPE = 2
_PROTOID = b"ntor-curve25519-sha256-1"


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
    #: After finish(): how relay cells with this hop are laid out, and how many DATA cells one SENDME stands for.
    cell_layout: RelayLayout
    sendme_every: int

    def request(self) -> bytes: ...

    def finish(self, reply: bytes) -> HopKeys: ...


class CreateFast:
    """CREATE_FAST: both sides send 20 random bytes. It proves nothing that the TLS link does not."""

    htype: int | None = None
    cell_layout: RelayLayout = TOR1
    sendme_every = 100

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
        try:
            return self._x.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:  # all zero: a point of small order
            raise HandshakeError(f"the relay's key is none: {error}") from None


def _tweaked(message: bytes, name: bytes) -> bytes:
    return hmac.digest(_PROTOID + name, message, hashlib.sha256)
