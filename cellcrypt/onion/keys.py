"""Key derivation, and the cut of key material into the keys of one hop.

What lives here: the three key derivations that tor1 circuits use, HopKeys, and the table of layouts.

Rules of this file: lengths are bytes; a layout is data, one line each, and never guessed; no key ever reaches a repr
or a message. A new scheme of relay encryption adds its layouts to LAYOUTS, and its layers to SCHEMES in layers.py.

Theory: tor-spec, "Setting circuit keys" (KDF-TOR and KDF-RFC5869) and "Relay cells"; rend-spec-v3, "The onion service
handshake" (key expansion).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from ..buffers import Buffer, readable, told, whole

_NTOR = b"ntor-curve25519-sha256-1"
_HS_NTOR = b"tor-hs-ntor-curve25519-sha3-256-1"
#: The most that KDF-TOR gives: its counter is one byte, and SHA-1 is 20 bytes.
KDF_TOR_LIMIT: Final = 256 * 20
#: The most that HKDF-SHA256 gives: its counter is one byte from 1 on, and SHA-256 is 32 bytes (RFC 5869, section 2.3).
NTOR_LIMIT: Final = 255 * 32
#: SHAKE-256 has no end; this keeps a slip of the pen from filling memory.
HS_NTOR_LIMIT: Final = 1 << 20


def _key_length(length: int, limit: int) -> int:
    length = whole(length, "length", "bytes")
    if length > limit:
        raise ValueError(f"length must be at most {limit} bytes, got {told(length)}")
    return length


def kdf_tor(secret: Buffer, length: int) -> bytes:
    """Return `length` bytes of key material out of the secret of CREATE_FAST: SHA1(secret | 0) | SHA1(secret | 1) ...

    Args:
        secret: the client's 20 bytes, then the relay's 20 bytes. length: 0 to 5,120 bytes.

    Raises: TypeError, BufferError, ValueError (a length out of range).

    Spec: tor-spec, "KDF-TOR".
    """
    length = _key_length(length, KDF_TOR_LIMIT)
    start = hashlib.sha1(readable(secret, "secret"), usedforsecurity=False)
    material = bytearray()
    while len(material) < length:
        block = start.copy()
        block.update(bytes([len(material) // 20]))
        material += block.digest()
    return bytes(material[:length])


def ntor_expand(secret_input: Buffer, length: int) -> bytes:
    """Return `length` bytes of key material out of an ntor handshake, by HKDF-SHA256.

    Args:
        secret_input: what both sides of the handshake computed. length: 0 to 8,160 bytes.

    Raises: TypeError, BufferError, ValueError (a length out of range).

    Spec: tor-spec, 'The "ntor" handshake' and "KDF-RFC5869".
    """
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    length = _key_length(length, NTOR_LIMIT)
    view = readable(secret_input, "secret_input")
    if length == 0:
        return b""
    return HKDF(SHA256(), length, salt=_NTOR + b":key_extract", info=_NTOR + b":key_expand").derive(view)


def hs_ntor_expand(key_seed: Buffer, length: int) -> bytes:
    """Return `length` bytes of key material out of an onion service's handshake, by SHAKE-256.

    Args:
        key_seed: NTOR_KEY_SEED. length: 0 to 1,048,576 bytes.

    Raises: TypeError, BufferError, ValueError (a length out of range).

    Spec: rend-spec-v3, "The onion service handshake", key expansion.
    """
    length = _key_length(length, HS_NTOR_LIMIT)
    shake = hashlib.shake_256(readable(key_seed, "key_seed"))
    shake.update(_HS_NTOR + b":hs_key_expand")
    return shake.digest(length)


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """Say how key material of one length is cut.

    Args:
        scheme: the relay encryption that the keys are for.
        parts: (where, length in bytes) in the order of the material; where is "forward", "backward" or "kh".
    """

    scheme: str
    parts: tuple[tuple[str, int], ...]

    @property
    def length(self) -> int:
        """Bytes of key material."""
        return sum(length for _, length in self.parts)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HopKeys:
    """Hold the keys that a client shares with one hop. Immutable; no key shows in the repr.

    Args:
        scheme: the relay encryption that they are for; ClientLayer and RelayLayer choose by it.
        forward: the keys towards the exit, in the scheme's order (tor1: the digest's seed Df, the cipher's key Kf).
        backward: the keys towards the client, likewise.
        kh: KH, which isn't a key: CREATED_FAST repeats it as proof; to onion services it is the rendezvous nonce.
    """

    scheme: str
    forward: tuple[bytes, ...]
    backward: tuple[bytes, ...]
    kh: bytes = b""

    @classmethod
    def from_key_material(cls, material: Buffer, layout: str) -> HopKeys:
        """Cut `material` into the keys of a hop.

        Args:
            material: exactly as many bytes as the layout says. layout: a name from LAYOUTS.

        Raises: TypeError, BufferError, ValueError (an unknown layout, a wrong length).
        """
        try:
            choices = LAYOUTS[layout]
        except (KeyError, TypeError):
            # What is no str may be the material, in the wrong place.
            shown = repr(layout) if isinstance(layout, str) else type(layout).__name__
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {shown}") from None
        view = readable(material, "material")
        for choice in choices:
            if choice.length == len(view):
                break
        else:
            lengths = " or ".join(str(choice.length) for choice in choices)
            raise ValueError(f"material must be {lengths} bytes for layout {layout!r}, got {len(view)}")
        cut: dict[str, list[bytes]] = {"forward": [], "backward": [], "kh": []}
        start = 0
        for where, length in choice.parts:
            cut[where].append(bytes(view[start : start + length]))
            start += length
        return cls(choice.scheme, tuple(cut["forward"]), tuple(cut["backward"]), b"".join(cut["kh"]))

    def reversed(self) -> HopKeys:
        """Return the same keys with the directions swapped: an onion service is a client the other way round."""
        return HopKeys(self.scheme, self.backward, self.forward, self.kh)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HopKeys):
            return NotImplemented
        mine = (*self.forward, *self.backward, self.kh)
        theirs = (*other.forward, *other.backward, other.kh)
        same = [hmac.compare_digest(a, b) for a, b in zip(mine, theirs, strict=False)]
        return self.scheme == other.scheme and len(mine) == len(theirs) and all(same)

    def __hash__(self) -> int:
        return hash((self.scheme, self.forward, self.backward, self.kh))

    def __repr__(self) -> str:
        return f"<HopKeys for {self.scheme}>"


#: The known layouts; a scheme with keys of several lengths has one entry for each, told apart by the length alone.
#: Sources: tor-spec, "Setting circuit keys"; rend-spec-v3, key expansion.
LAYOUTS: Final[dict[str, tuple[KeyLayout, ...]]] = {
    # Df | Db | Kf | Kb
    "tor1": (KeyLayout("tor1", (("forward", 20), ("backward", 20), ("forward", 16), ("backward", 16))),),
    # KH | Df | Db | Kf | Kb
    "kdf-tor": (KeyLayout("tor1", (("kh", 20), ("forward", 20), ("backward", 20), ("forward", 16), ("backward", 16))),),
    # Df | Db | Kf | Kb | KH
    "ntor": (KeyLayout("tor1", (("forward", 20), ("backward", 20), ("forward", 16), ("backward", 16), ("kh", 20))),),
    # Df | Db | Kf | Kb, for SHA3-256 and AES-256
    "hs-v3": (KeyLayout("hs-v3", (("forward", 32), ("backward", 32), ("forward", 32), ("backward", 32))),),
    # Each way J's AES and POLYVAL keys, S's AES and POLYVAL keys, N (proposal 359); AES-128 or AES-256.
    "cgo": tuple(
        KeyLayout("cgo", tuple((way, length) for way in ("forward", "backward") for length in (aes, 16, aes, 16, 16)))
        for aes in (16, 32)
    ),
}
