"""Counter Galois Onion: relay encryption by a wide-block cipher whose keys roll forward.

What lives here: the cipher in Python, part by part, as the definition; its layers, which use the compiled core instead
where the backend is native: one C call for each cell (csrc/cgo.c does the same in the same words).

Rules of this file: the parts bear the proposal's names, and each class names the part that it is; lengths are bytes; a
call that raises has written nothing and moved nothing.

Theory: proposal 359, "Counter Galois Onion"; Degabriele, Melloni, Muench, Stam: "Counter Galois Onion (CGO)", 2025;
RFC 8452 for POLYVAL. A payload is X_L (16 bytes) and X_R (493). With the tweak H, which is T' and the cell's command:

    UIV+ encrypts:    Y_L = ET_J(H | X_R, X_L)       Y_R = X_R ^ PRF_S(Y_L, 0)
    UIV+ decrypts:    X_R = Y_R ^ PRF_S(Y_L, 0)      X_L = ET_J^-1(H | X_R, Y_L)

Whoever changes a bit of what gets encrypted gets 509 random bytes; not so with decryption. Therefore relays encrypt and
clients decrypt, in both directions. T' is Y_L of the cell before, so that a cell once damaged, lost, doubled or swapped
spoils all cells after it. A cell is a hop's own where its first block comes out as the hop's nonce N. After each of
those the update replaces J, S and N by PRF_S(Y_L, 1): who takes the keys later can't read what went before.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from operator import index
from typing import Final, NoReturn, Protocol

from ..backend import choose, choose_kernel, close, load, why
from ..backend.protocol import BLOCK
from ..buffers import Buffer, check_length, told, writable
from ..compiled import core
from ..errors import BackendUnavailable, ClosedError
from .keys import HopKeys
from .layers import PAYLOAD_LEN, RELAY, SCHEMES, ClientLayer, RelayLayer, Scheme
from .polyval import Polyval

#: Bytes of a tag, of a nonce, and of X_L.
TAG_LEN: Final = 16
#: The block of its key stream at which the PRF begins for t = 1: for t = 0 the 493 bytes of X_R take blocks 0 to 30.
_T1_BLOCK: Final = 31
#: The PRF's first counter is a multiple of this, so that no use of it carries into the other bits.
_PRF_BLOCKS: Final = 64


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


class _Et:
    """ET, the tweakable block cipher (LRW2): one AES block, masked before and after by the POLYVAL of its tweak."""

    __slots__ = ("_decrypt", "_hash", "keystream")

    def __init__(self, key: bytes, hash_key: bytes, backend: str, inverse: bool) -> None:
        self.keystream = load(backend)(key, bytes(BLOCK))
        self._decrypt = _inverse(key) if inverse else None
        self._hash = Polyval(hash_key).hash

    def _aes(self, block: bytes) -> bytes:
        """E(block): in counter mode it is the key stream of the block whose counter is `block`."""
        out = bytearray(BLOCK)
        self.keystream.xor_into(BLOCK * int.from_bytes(block, "big"), memoryview(out))
        return bytes(out)

    def encrypt(self, tweak: bytes, block: bytes) -> bytes:
        mask = self._hash(tweak)
        return _xor(self._aes(_xor(block, mask)), mask)

    def decrypt(self, tweak: bytes, block: bytes) -> bytes:
        assert self._decrypt is not None, "made for encryption"
        mask = self._hash(tweak)
        return _xor(self._decrypt(_xor(block, mask)), mask)


def _inverse(key: bytes) -> Callable[[bytes], bytes]:
    """Return AES decryption of one block, which backends don't owe; imported when a layer wants it."""
    from ..backend.pyca import inverse

    return inverse(key)


class _Prf:
    """PRF: AES-CTR from the counter that is the input's POLYVAL, its lowest six bits zero, plus 31 t."""

    __slots__ = ("_hash", "keystream")

    def __init__(self, key: bytes, hash_key: bytes, backend: str) -> None:
        self.keystream = load(backend)(key, bytes(BLOCK))
        self._hash = Polyval(hash_key).hash

    def xor_into(self, start: bytes, t: int, buffer: bytearray | memoryview) -> None:
        """XOR PRF(start, t) into `buffer`."""
        counter = int.from_bytes(self._hash(start), "big") // _PRF_BLOCKS * _PRF_BLOCKS + _T1_BLOCK * t
        self.keystream.xor_into(BLOCK * counter, memoryview(buffer))


class _Uiv:
    """UIV+ under one pair of keys, J for ET and S for the PRF. Payloads are changed where they lie."""

    __slots__ = ("_et", "_prf", "nonce")

    def __init__(self, material: bytes, backend: str, inverse: bool) -> None:
        """Cut `material`, 80 or 112 bytes: J's AES key, J's POLYVAL key, S's AES key, S's POLYVAL key, N."""
        key_len = (len(material) - 3 * BLOCK) // 2
        s = key_len + BLOCK
        self._et = _Et(material[:key_len], material[key_len:s], backend, inverse)
        self._prf = _Prf(material[s : s + key_len], material[s + key_len : 2 * s], backend)
        self.nonce = material[2 * s :]

    def encrypt(self, tweak: bytes, payload: bytearray) -> bytes:
        """Encrypt `payload`; return Y_L."""
        y_l = self._et.encrypt(tweak + payload[TAG_LEN:], bytes(payload[:TAG_LEN]))
        payload[:TAG_LEN] = y_l
        self._prf.xor_into(y_l, 0, memoryview(payload)[TAG_LEN:])
        return y_l

    def decrypt(self, tweak: bytes, payload: bytearray) -> bytes:
        """Decrypt `payload`; return Y_L, which it began with."""
        y_l = bytes(payload[:TAG_LEN])
        self._prf.xor_into(y_l, 0, memoryview(payload)[TAG_LEN:])
        payload[:TAG_LEN] = self._et.decrypt(tweak + payload[TAG_LEN:], y_l)
        return y_l

    def update(self, y_l: bytes, length: int) -> bytes:
        """Return the material that replaces this pair and its nonce."""
        material = bytearray(length)
        self._prf.xor_into(y_l, 1, material)
        return bytes(material)

    def close(self) -> None:
        close(self._et.keystream)
        close(self._prf.keystream)


class Direction:
    """Hold one direction of a hop: the operations of proposal 359 on the state J, S, N and T'.

    Args:
        material: 80 bytes, or 112 with AES-256.
        client: True decrypts, as clients do in both directions; False encrypts, as relays do.
        tag: T', Y_L of the cell before; 16 zero bytes before the first.
        backend: the name of one whose key stream to use.

    `payload` is 509 bytes, writable, overwritten; `command` that of its wire cell, 0 to 255. All three calls raise
    (nothing written, nothing moved): TypeError, BufferError, PayloadLengthError, ValueError, ClosedError,
    BackendUnavailable.
    """

    __slots__ = ("_backend", "_client", "_length", "_tag", "_uiv")

    def __init__(self, material: bytes, client: bool, tag: bytes = bytes(TAG_LEN), *, backend: str) -> None:
        self._length = len(material)
        self._client = client
        self._backend = backend
        self._tag = tag
        self._uiv: _Uiv | None = _Uiv(material, backend, client)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Direction can't be copied or pickled: that would use its keys twice")

    def originate(self, payload: Buffer, command: int = RELAY) -> bytes:
        """Make `payload` this hop's own cell: put N into its first block, encrypt or decrypt, update. Return the tag.

        A tag is what a cell begins with as it crosses the relay's own link: here, what comes out.
        """
        uiv, view, cell, tweak = self._begin(payload, command)
        cell[:TAG_LEN] = uiv.nonce
        y_l = self._crypt(uiv, tweak, cell)
        self._finish(view, cell, y_l, self._updated(uiv, y_l))
        return bytes(cell[:TAG_LEN])

    def receive(self, payload: Buffer, command: int = RELAY) -> bytes | None:
        """Encrypt or decrypt `payload`. Where N comes out, it is this hop's own cell: update, and return the tag.

        Here the tag is what the cell began with. None for any other cell.
        """
        uiv, view, cell, tweak = self._begin(payload, command)
        tag = bytes(cell[:TAG_LEN])
        y_l = self._crypt(uiv, tweak, cell)
        ours = compare_digest(cell[:TAG_LEN], uiv.nonce)
        self._finish(view, cell, y_l, self._updated(uiv, y_l) if ours else uiv)
        return tag if ours else None

    def pass_on(self, payload: Buffer, command: int = RELAY) -> None:
        """Encrypt or decrypt `payload`, another hop's cell."""
        uiv, view, cell, tweak = self._begin(payload, command)
        self._finish(view, cell, self._crypt(uiv, tweak, cell), uiv)

    def _begin(self, payload: Buffer, command: int) -> tuple[_Uiv, memoryview, bytearray, bytes]:
        """Check, and return what a call works on: UIV+, the payload, a copy of it, and the tweak H."""
        view = writable(payload, "payload")
        check_length(len(view), "payload", PAYLOAD_LEN)
        command = index(command)
        if not 0 <= command <= 255:
            raise ValueError(f"command must be 0 to 255, got {told(command)}")
        if self._uiv is None:
            refuse_closed()
        return self._uiv, view, bytearray(view), self._tag + bytes([command])

    def _crypt(self, uiv: _Uiv, tweak: bytes, cell: bytearray) -> bytes:
        try:
            return (uiv.decrypt if self._client else uiv.encrypt)(tweak, cell)
        except Exception as error:
            raise _failed(self._backend, error) from None

    def _updated(self, uiv: _Uiv, y_l: bytes) -> _Uiv:
        try:
            return _Uiv(uiv.update(y_l, self._length), self._backend, self._client)
        except Exception as error:
            raise _failed(self._backend, error) from None

    def _finish(self, view: memoryview, cell: bytearray, y_l: bytes, uiv: _Uiv) -> None:
        """Write and move: nothing that can fail comes after this."""
        view[:] = cell
        self._tag = y_l
        if self._uiv is not uiv:
            self.close()
            self._uiv = uiv

    def close(self) -> None:
        """Let go of the keys; may be called again. Every other call then raises ClosedError."""
        if self._uiv is not None:
            self._uiv.close()
            self._uiv = None


def refuse_closed() -> NoReturn:
    """Raise what a closed layer raises; the compiled core asks too."""
    raise ClosedError("the layer is closed")


def _failed(backend: str, error: Exception) -> BackendUnavailable:
    return BackendUnavailable(f"backend {backend!r} failed: {why(error)}")


class _Calls(Protocol):
    """What _core.Cgo and Direction have in common."""

    def originate(self, payload: Buffer, command: int = ..., /) -> bytes: ...
    def receive(self, payload: Buffer, command: int = ..., /) -> bytes | None: ...
    def pass_on(self, payload: Buffer, command: int = ..., /) -> None: ...
    def close(self) -> None: ...


def _direction(keys: tuple[bytes, ...], client: bool, backend: str) -> _Calls:
    material = b"".join(keys)
    if backend == "native":
        made: _Calls = core.Cgo(material, client, bytes(TAG_LEN), choose_kernel(None))
        return made
    return Direction(material, client, backend=backend)


class CgoClientLayer(ClientLayer):
    """The client's end in CGO. The contract: layers.py. The methods are attributes, the calls of a direction."""

    __slots__ = ("_directions", "backward", "forward", "originate")

    originate: Callable[..., bytes]
    forward: Callable[..., None]
    backward: Callable[..., bytes | None]

    def __init__(self, keys: HopKeys, *, backend: str | None = None) -> None:
        name = choose(backend)
        forward = _direction(keys.forward, True, name)
        backward = _direction(keys.backward, True, name)
        self._directions = (forward, backward)
        self.originate = forward.originate
        self.forward = forward.pass_on
        self.backward = backward.receive

    def close(self) -> None:
        for direction in self._directions:
            direction.close()


class CgoRelayLayer(RelayLayer):
    """The relay's end in CGO. The contract: layers.py; the methods as in CgoClientLayer."""

    __slots__ = ("_directions", "backward", "forward", "originate")

    forward: Callable[..., bytes | None]
    originate: Callable[..., bytes]
    backward: Callable[..., None]

    def __init__(self, keys: HopKeys, *, backend: str | None = None) -> None:
        name = choose(backend)
        forward = _direction(keys.forward, False, name)
        backward = _direction(keys.backward, False, name)
        self._directions = (forward, backward)
        self.forward = forward.receive
        self.originate = backward.originate
        self.backward = backward.pass_on

    def close(self) -> None:
        for direction in self._directions:
            direction.close()


SCHEMES["cgo"] = Scheme(CgoClientLayer, CgoRelayLayer)
