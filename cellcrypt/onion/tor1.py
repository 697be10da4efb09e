"""The relay encryption "tor1": AES-CTR, and a running digest by which a hop knows its own cells.

What lives here: the layers for circuits (AES-128 and SHA-1) and for onion services (AES-256 and SHA3-256).

Rules of this file: the cipher's call comes first, since it alone can refuse; it checks the payload, and where it raises
nothing has changed. The hot path of a cell that isn't ours is one call of the cipher and a look at two bytes.

Theory (tor-spec, "Relay cells"). Inside a payload stand command (1 byte), recognized (2), stream ID (2), digest (4),
length (2), data. A sender writes zero into recognized and digest, adds the whole payload to the running digest of its
direction, and writes the first 4 bytes of the result into the field. A receiver takes its layer off; where recognized
is zero, which 1 of 65,536 foreign cells has by chance, it does the same sum on a copy of its digest, and only a match
makes the cell its own and the copy the running digest. So a digest moves by the hop's own cells alone, while the key
stream moves by every cell that passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from hmac import compare_digest
from typing import Final, Protocol, Self

from ..buffers import Buffer, writable
from ..cipher import CellCipher
from .fields import cleared, digest_of, foreign, mend
from .keys import HopKeys
from .layers import PAYLOAD_LEN, RELAY, SCHEMES, ClientLayer, RelayLayer, Scheme

#: Bytes of a digest that a SENDME carries, whatever the hash (tor-spec, "SENDME cell format").
TAG_LEN: Final = 20
_DIGEST_LEN: Final = 4

#: The hash of each scheme; AES's key length is that of the keys.
_HASHES: Final = {"tor1": "sha1", "hs-v3": "sha3_256"}

_join = b"".join


def _copy(payload: Buffer) -> bytes:
    """Return the bytes of a buffer; what is none gets the gate's error."""
    try:
        return _join((payload,))
    except TypeError:
        return bytes(writable(payload, "payload"))


class _Digest(Protocol):
    def update(self, data: Buffer, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> Self: ...


class _Direction:
    """One direction of a hop: its key stream and its running digest."""

    __slots__ = ("_crypt", "_digest", "cipher")

    _digest: _Digest

    def __init__(self, scheme: str, keys: tuple[bytes, ...], backend: str | None) -> None:
        seed, key = keys
        self.cipher = CellCipher(key, payload_len=PAYLOAD_LEN, backend=backend)
        self._crypt = self.cipher.crypt_in_place
        self._digest = hashlib.new(_HASHES[scheme], seed, usedforsecurity=False)

    def pass_on(self, payload: Buffer, command: int = RELAY) -> None:
        """Add or take off the layer, whosever cell it is."""
        self._crypt(payload)

    def seal(self, payload: Buffer, command: int = RELAY) -> bytes:
        """Fill in recognized and digest, add the layer, return the tag.

        The layer goes on first, and the two fields are mended under it: in CTR mode a bit flipped in what is encrypted
        is a bit flipped in what will be decrypted. So what can raise comes before anything has changed, and no copy of
        the digest has to be kept for that case, which would be a sixth of the work.
        """
        plain = _copy(payload)
        self._crypt(payload)
        running = self._digest
        running.update(cleared(plain))
        tag = running.digest()[:TAG_LEN]
        mend(payload, plain, tag)
        return tag

    def open(self, payload: Buffer, command: int = RELAY) -> bytes | None:
        """Take the layer off; return the tag of a cell that is this hop's own, None for any other."""
        self._crypt(payload)
        if foreign(payload):
            return None
        running = self._digest.copy()
        running.update(cleared(payload))
        tag = running.digest()[:TAG_LEN]
        if not compare_digest(tag[:_DIGEST_LEN], digest_of(payload)[0]):
            return None
        self._digest = running
        return tag


class Tor1ClientLayer(ClientLayer):
    """The client's end in tor1. The contract: layers.py.

    The methods are attributes, the calls of a direction themselves: a frame less on the way of each cell.
    """

    __slots__ = ("_ciphers", "backward", "forward", "originate")

    originate: Callable[..., bytes]
    forward: Callable[..., None]
    backward: Callable[..., bytes | None]

    def __init__(self, keys: HopKeys, *, backend: str | None = None) -> None:
        forward = _Direction(keys.scheme, keys.forward, backend)
        backward = _Direction(keys.scheme, keys.backward, backend)
        self._ciphers = (forward.cipher, backward.cipher)
        self.originate = forward.seal
        self.forward = forward.pass_on
        self.backward = backward.open

    def close(self) -> None:
        for cipher in self._ciphers:
            cipher.close()


class Tor1RelayLayer(RelayLayer):
    """The relay's end in tor1. The contract: layers.py; the methods as in Tor1ClientLayer."""

    __slots__ = ("_ciphers", "backward", "forward", "originate")

    forward: Callable[..., bytes | None]
    originate: Callable[..., bytes]
    backward: Callable[..., None]

    def __init__(self, keys: HopKeys, *, backend: str | None = None) -> None:
        forward = _Direction(keys.scheme, keys.forward, backend)
        backward = _Direction(keys.scheme, keys.backward, backend)
        self._ciphers = (forward.cipher, backward.cipher)
        self.forward = forward.open
        self.originate = backward.seal
        self.backward = backward.pass_on

    def close(self) -> None:
        for cipher in self._ciphers:
            cipher.close()


for _name in _HASHES:
    SCHEMES[_name] = Scheme(Tor1ClientLayer, Tor1RelayLayer)
