"""The table of backends: which there are, which can be used here, and which one is meant by None.

Rules of this file: a backend is imported when it is asked for, never before; each proves itself with a known answer
before it counts as usable, once a process; a name that a built-in bears stays the built-in's; "afalg" is never chosen
by itself. Plug-ins come by the entry point group `cellcrypt.backends` (protocol.py says what they owe).
"""

from __future__ import annotations

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
_proved_kernels: set[str] = set()


def prove(open: Open) -> None:
    """Compare what a backend makes with NIST SP 800-38A, F.5.1, in two calls that part inside a block.

    Raises:
        ValueError: it is wrong.
    """
    keystream = open(_PROOF_KEY, _PROOF_IV)
    made = bytearray(_PROOF_PLAINTEXT)
    view = memoryview(made)
    keystream.xor_into(0, view[:13])
    keystream.xor_into(13, view[13:])
    close(keystream)
    if made != _PROOF_CIPHERTEXT:
        raise ValueError("it computes wrong key stream (NIST SP 800-38A, F.5.1)")


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
    """Return an exception as a reason in one line."""
    text = str(error)
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
        prove(found)
    except Exception as error:
        reason = why(error)
    else:
        _proved[name] = found
        if name == "native":
            compiled.core.short_cut(True, _default_order()[0] == name)
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
        ValueError: unknown name; the message says when it comes from the environment.
        BackendUnavailable: the named one, or every one that None could mean, can't be used here.
    """
    if name is not None:
        load(name)
        return name
    wanted = os.environ.get(ENVIRONMENT_VARIABLE)
    if wanted:
        try:
            load(wanted)
        except ValueError as error:
            raise ValueError(f"environment variable {ENVIRONMENT_VARIABLE}: {error}") from None
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


def _kernels() -> tuple[str, ...]:
    from .native import kernels

    return kernels()


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
        return native.kernels()[0]
    if not isinstance(name, str):
        raise TypeError(f"kernel must be a str or None, got {type(name).__name__}")
    if name not in native.known_kernels():
        raise ValueError(f"{source} must be one of {', '.join(native.known_kernels())}, got {name!r}")
    if name not in native.kernels():
        raise BackendUnavailable(
            f"{source} {name!r} can't run on this processor, which has {', '.join(native.kernels())}"
        )
    if name not in _proved_kernels:
        try:
            prove(lambda key, iv: native.open(key, iv, name))
        except ValueError as error:
            raise BackendUnavailable(f"{source} {name!r}: {error}") from None
        _proved_kernels.add(name)
    return name


def _default_order() -> tuple[str, ...]:
    return _CHOICE if _kernels()[:1] not in ((), ("portable",)) else _CHOICE[::-1]
