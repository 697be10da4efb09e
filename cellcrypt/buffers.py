"""The one gate for bytes-like arguments.

Rules of this file: whatever comes in, what goes on is a flat view of bytes; a non-contiguous buffer, a read-only
destination or a wrong type is refused here, before anything is written, with Python's own exception types. What the
items are is nothing to us: a buffer that can't say it is taken all the same, by every backend.

Lengths are bytes whatever the item size: array('I', 127) is 508.
"""

from __future__ import annotations

import ctypes
from operator import index
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, TypeAlias

from .compiled import core
from .errors import OverlapError, PayloadLengthError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

#: Any C-contiguous bytes-like object, whatever its item size; and one that can be written.
Buffer: TypeAlias = "ReadableBuffer"
WritableBuffer: TypeAlias = "WriteableBuffer"

KEY_LENGTHS = (16, 24, 32)
IV_LENGTH = 16
#: An integer of more bits is told by a power of two: str() refuses thousands of digits, and nobody reads them.
_TOLD_BITS = 256


class _PyBuffer(ctypes.Structure):
    """Py_buffer (Python/C API, "Buffer structure"): the way to an address without a compiled core."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


#: PyBUF_STRIDED_RO: where the items lie, and not what they are.
_STRIDED_RO = 0x18


class _Exported:
    """A buffer that its owner exports without saying what its items are; released when this goes."""

    def __init__(self, owner: object) -> None:
        self.raw = _PyBuffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(owner), ctypes.byref(self.raw), _STRIDED_RO)

    def __del__(self) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self.raw))


def _without_format(buffer: object, name: str) -> memoryview:
    """Return a flat view of a buffer whose items have no name in the buffer protocol: numpy's times, for one.

    memoryview asks for that name; octets need none, and the compiled core, which asks for none, takes such a buffer.

    Raises:
        BufferError: not C-contiguous. Whatever its owner raises: it exports nothing in this way either.
    """
    exported = _Exported(buffer)
    raw = exported.raw
    if not ctypes.pythonapi.PyBuffer_IsContiguous(ctypes.byref(raw), ctypes.c_char(b"C")):
        strides, shape = (
            tuple((ctypes.c_ssize_t * raw.ndim).from_address(address)) for address in (raw.strides, raw.shape)
        )
        raise BufferError(f"{name} must be C-contiguous, got strides {strides} for shape {shape}") from None
    octets: Any = (ctypes.c_ubyte * raw.len).from_address(raw.buf) if raw.len else (ctypes.c_ubyte * 0)()
    octets.exported = exported  # as long as there is a view
    view = memoryview(octets).cast("B")
    return view.toreadonly() if raw.readonly else view


def readable(buffer: Buffer, name: str) -> memoryview:
    """Return a flat view of the bytes of `buffer`, called `name` in errors.

    Raises:
        TypeError: not bytes-like. BufferError: not C-contiguous.
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(f"{name} must be a bytes-like object, got {type(buffer).__name__}") from None
    except (ValueError, BufferError):
        if isinstance(buffer, memoryview):  # released
            raise
        view = _without_format(buffer, name)
    if not view.c_contiguous:
        raise BufferError(f"{name} must be C-contiguous, got strides {view.strides} for shape {view.shape}")
    if view.format == "B" and view.ndim == 1:
        return view
    return PickleBuffer(view).raw()


def writable(buffer: WritableBuffer, name: str) -> memoryview:
    """Return a flat view through which `buffer` can be written.

    Raises:
        TypeError: not bytes-like. BufferError: read-only or not C-contiguous.
    """
    view = readable(buffer, name)
    if view.readonly:
        raise BufferError(f"{name} must be writable, got a read-only {type(buffer).__name__}")
    return view


def check_length(length: int, name: str, expected: int) -> None:
    """Raise PayloadLengthError unless `length` is `expected` bytes."""
    if length != expected:
        raise PayloadLengthError(f"{name} must be {expected} bytes, got {length}")


def secret(value: Buffer, name: str, lengths: tuple[int, ...]) -> memoryview:
    """Return a flat view of a key or IV: no copy, since Python could not wipe one.

    Raises:
        TypeError: not bytes-like. ValueError: a length not among `lengths`; the message shows lengths only.
    """
    view = readable(value, name)
    if len(view) not in lengths:
        allowed = " or ".join(
            [", ".join(map(str, lengths[:-1])), str(lengths[-1])] if lengths[1:] else [str(lengths[0])]
        )
        raise ValueError(f"{name} must be {allowed} bytes, got {len(view)}")
    return view


def told(number: int) -> str:
    """Return an integer that came, as a message tells it."""
    power = number.bit_length() - 1
    if power < _TOLD_BITS:
        return str(number)
    return f"2**{power} or more" if number > 0 else f"-2**{power} or less"


def whole(value: int, name: str, unit: str) -> int:
    """Return `value` as an int of at least 0.

    Raises:
        TypeError: it is no integer (a bool is none). ValueError: it is negative.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got bool")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}") from None
    if number < 0:
        raise ValueError(f"{name} must be at least 0 {unit}, got {told(number)}")
    return number


def _interpreted_address(view: memoryview) -> int:
    return int(_Exported(view).raw.buf or 0)


address = _interpreted_address if core is None else core.address


def overlap(distance: int) -> OverlapError:
    """Return the error for an `out` that begins `distance` bytes from its payload and overlaps it."""
    return OverlapError(f"out must be payload itself or apart from it, got one that begins {distance:+d} bytes from it")


def same_memory(source: memoryview, out: memoryview) -> bool:
    """Return whether two views of one length are the same memory; False where they share none of it.

    Raises:
        OverlapError: they overlap without being the same.
    """
    distance = address(out) - address(source)
    if distance and abs(distance) < len(out):
        raise overlap(distance)
    return distance == 0
