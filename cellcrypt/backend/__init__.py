"""The table of backends: which there are, which can be used here, and which one is meant by None.

Rules of this file: a backend is imported when it is asked for, never before; each proves itself with a known answer
before it counts as usable, once a process; a name that a built-in bears stays the built-in's; "afalg" is never chosen
by itself. Plug-ins come by the entry point group `cellcrypt.backends` (protocol.py says what they owe).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from .. import compiled
from ..errors import BackendUnavailable
from .protocol import Adapter, Keystream, Open

ENTRY_POINT_GROUP = "cellcrypt.backends"
ENVIRONMENT_VARIABLE = "CELLCRYPT_BACKEND"
KERNEL_VARIABLE = "CELLCRYPT_KERNEL"

_MODULES = {"native": ".native", "cryptography": ".pyca", "pycryptodome": ".pycryptodome", "afalg": ".afalg"}
BUILT_IN = tuple(_MODULES)
#: What None means, best first. native stands in front where it has AES instructions, behind where it has none.
_CHOICE = ("native", "cryptography")

#: NIST SP 800-38A, F.5.1 (CTR-AES128.Encrypt): key, initial counter block, plaintext and ciphertext of four blocks.
_PROOF_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
_PROOF_IV = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
_PROOF_PLAINTEXT = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
_PROOF_CIPHERTEXT = bytes.fromhex(
    "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
    "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"
)
#: SHA-256 over the key stream of seventeen cells of 509 bytes, which start at every byte of a block, under the keys
#: 00 01 02 ... of 16, 24 and 32 bytes with IV 0. Made by two libraries: CTR of one, single blocks (ECB) of the other.
_PROOF_CELLS = 17
_PROOF_CELL_LEN = 509
_PROOF_DIGEST = "d19ad440421fffc464de9544d03d0f8b65aea05650a1a8b318492be66930d72c"
#: How the reason of a backend begins that fails its proof.
WRONG = "it computes wrong key stream"


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can be used here. Immutable.

    `usable`; `reason` why not, None where usable; `version` of the library behind it, None where unknown; `kernels`
    the implementations that can be asked for by name, best first (native only).
    """

    usable: bool
    reason: str | None = None
    version: str | None = None
    kernels: tuple[str, ...] = ()


_proved: dict[str, Open] = {}
#: What each kernel that was proved is found to do wrong; None where it is right.
_kernel_faults: dict[str, str | None] = {}


def prove(open: Open) -> None:
    """Compare what a backend makes with known answers: NIST SP 800-38A, F.5.1, and cells at every place in a block.

    Raises:
        ValueError: it is wrong.
    """
    made = bytearray(_PROOF_PLAINTEXT)
    _xor_parts(open, _PROOF_KEY, _PROOF_IV, made, 13)
    if made != _PROOF_CIPHERTEXT:
        raise ValueError(f"{WRONG} (NIST SP 800-38A, F.5.1)")
    digest = hashlib.sha256()
    for key_len in (16, 24, 32):
        cells = bytearray(_PROOF_CELLS * _PROOF_CELL_LEN)
        _xor_parts(open, bytes(range(key_len)), bytes(16), cells, _PROOF_CELL_LEN)
        digest.update(cells)
    if digest.hexdigest() != _PROOF_DIGEST:
        raise ValueError(f"{WRONG} for cells of {_PROOF_CELL_LEN} bytes")


def _xor_parts(open: Open, key: bytes, iv: bytes, buffer: bytearray, part_len: int) -> None:
    keystream = open(key, iv)
    view = memoryview(buffer)
    try:
        for position in range(0, len(view), part_len):
            keystream.xor_into(position, view[position : position + part_len])
    finally:
        close(keystream)


def close(keystream: Keystream) -> None:
    """Let a backend wipe or release what it holds, where it offers that."""
    release = getattr(keystream, "close", None)
    if release is not None:
        release()


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in _MODULES}


def names() -> tuple[str, ...]:
    """Return the names of all known backends: the built-in ones, then installed plug-ins."""
    return BUILT_IN + tuple(_plug_ins())


def _adapter(name: str) -> Adapter:
    return cast(Adapter, import_module(_MODULES[name], __name__))


def why(error: BaseException) -> str:
    """Return an exception as a reason in one line; one that can't say what it is, by its type."""
    try:
        text = str(error)
    except Exception as another:
        text = f"(str() of it raises {type(another).__name__})"
    return text if isinstance(error, ValueError | BackendUnavailable) and text else f"{type(error).__name__}: {text}"


def load(name: str) -> Open:
    """Return the proved `open` of backend `name`, importing it at first use.

    Raises:
        TypeError: `name` is no str. ValueError: no backend has that name; the message lists those that there are.
        BackendUnavailable: it can't be used here; the message says why.
    """
    if not isinstance(name, str):
        raise TypeError(f"backend must be a str or None, got {type(name).__name__}")
    found = _proved.get(name)
    if found is not None:
        return found
    plug_ins = {} if name in _MODULES else _plug_ins()
    if name not in _MODULES and name not in plug_ins:
        raise ValueError(f"backend must be one of {', '.join(names())}, got {name!r}")
    try:
        found = _adapter(name).open if name in _MODULES else cast(Open, plug_ins[name].load())
        if name == "native":
            _prove_native()
        else:
            prove(found)
    except (Exception, SystemExit) as error:  # a plug-in that exits at import is broken too
        reason = why(error)
        if isinstance(error, ModuleNotFoundError) and name in ("cryptography", "pycryptodome"):
            reason += f"; to get it: pip install {name}"
    else:
        _proved[name] = found
        if name == "native":
            # The short cut takes the first kernel that the processor says it has, which must be the first right one.
            compiled.core.short_cut(_kernels()[0] == compiled.core.kernels()[0], _default_order()[0] == name)
        return found
    raise BackendUnavailable(f"backend {name!r} is unavailable: {reason}")


def availability(name: str) -> Availability:
    """Return whether backend `name` can be used here; never raises for a name from `names()`."""
    try:
        load(name)
    except BackendUnavailable as error:
        return Availability(usable=False, reason=str(error).partition(" is unavailable: ")[2], version=_version(name))
    return Availability(usable=True, version=_version(name), kernels=_kernels() if name == "native" else ())


def _version(name: str) -> str | None:
    try:
        if name in _MODULES:
            return _adapter(name).version()
        distribution = _plug_ins()[name].dist
        return distribution.version if distribution else None
    except Exception:
        return None


def backends() -> dict[str, Availability]:
    """Return every known backend by name, built-in and plugged in, with whether it can be used here and why not.

    Imports each of them. A broken plug-in is reported and breaks nothing.
    """
    return {name: availability(name) for name in names()}


def choose(name: str | None) -> str:
    """Return the backend that `name` means: itself; for None what CELLCRYPT_BACKEND says, or the quickest usable.

    Raises:
        ValueError: unknown name. BackendUnavailable: the named one, or every one that None could mean, can't be used
        here. The message says when the name comes from the environment.
    """
    if name is not None:
        load(name)
        return name
    wanted = os.environ.get(ENVIRONMENT_VARIABLE)
    if wanted:
        try:
            load(wanted)
        except (ValueError, BackendUnavailable) as error:
            raise type(error)(f"environment variable {ENVIRONMENT_VARIABLE}: {error}") from None
        return wanted
    reasons = []
    for candidate in _default_order():
        try:
            load(candidate)
        except BackendUnavailable as error:
            reasons.append(str(error))
        else:
            return candidate
    raise BackendUnavailable("; ".join(reasons))


def _fault(kernel: str) -> str | None:
    """Return what a kernel that this processor runs does wrong; None where it proves itself."""
    from . import native

    if kernel not in _kernel_faults:
        try:
            prove(lambda key, iv: native.open(key, iv, kernel))
        except ValueError as error:
            _kernel_faults[kernel] = str(error)
        else:
            _kernel_faults[kernel] = None
    return _kernel_faults[kernel]


def kernel_faults() -> dict[str, str]:
    """Return the kernels that this processor says it runs and that are wrong all the same, with what is wrong."""
    from . import native

    return {kernel: fault for kernel in native.kernels() if (fault := _fault(kernel)) is not None}


def _kernels() -> tuple[str, ...]:
    """Return the kernels that this processor runs and that prove themselves, best first.

    A processor can say that it has instructions and yet be wrong in them: QEMU 7.2 claims VAES, and its 256-bit AES
    round takes the lower half twice.
    """
    from . import native

    return tuple(kernel for kernel in native.kernels() if _fault(kernel) is None)


def _prove_native() -> None:
    from . import native

    if native.kernels() and not _kernels():
        raise ValueError("; ".join(f"kernel {kernel}: {_fault(kernel)}" for kernel in native.kernels()))
    prove(lambda key, iv: native.open(key, iv, next(iter(_kernels()), None)))


def choose_kernel(name: str | None) -> str:
    """Return the kernel that `name` means: itself; for None what CELLCRYPT_KERNEL says, or this processor's best.

    Raises:
        TypeError: no str. ValueError: unknown name; the message says when it comes from the environment.
        BackendUnavailable: this processor can't run it, or it does not prove itself.
    """
    from . import native

    source = "kernel"
    if name is None and (name := os.environ.get(KERNEL_VARIABLE) or None):
        source = f"environment variable {KERNEL_VARIABLE}: kernel"
    if name is None:
        return _kernels()[0]
    if not isinstance(name, str):
        raise TypeError(f"kernel must be a str or None, got {type(name).__name__}")
    if name not in native.known_kernels():
        raise ValueError(f"{source} must be one of {', '.join(native.known_kernels())}, got {name!r}")
    if name not in native.kernels():
        raise BackendUnavailable(
            f"{source} {name!r} can't run on this processor, which has {', '.join(native.kernels())}"
        )
    if fault := _fault(name):
        raise BackendUnavailable(f"{source} {name!r}: {fault}")
    return name


def _default_order() -> tuple[str, ...]:
    return _CHOICE if _kernels()[:1] not in ((), ("portable",)) else _CHOICE[::-1]
