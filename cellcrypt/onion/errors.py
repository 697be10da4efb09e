"""What only circuits can get wrong; the root of the tree is cellcrypt.errors.CellcryptError.

Rules of this file: as in cellcrypt/errors.py.
"""

from __future__ import annotations

from ..errors import CellcryptError


class UnrecognizedCell(CellcryptError):
    """No hop of the circuit recognized a backward cell, now or earlier: the circuit can't go on."""


class NoSuchHop(CellcryptError, IndexError):
    """The circuit has no hop of that number."""


class RelayCellError(CellcryptError, ValueError):
    """A field of a relay cell is out of range, or can't be as the cell says."""
