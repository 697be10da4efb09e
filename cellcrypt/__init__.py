"""AES-CTR over the fixed-size cells of onion routers: one key stream per direction of a hop, to the bit.

The public names; no logic lives here. Importing this loads no backend's library.
"""

from __future__ import annotations

from .backend import Availability, backends
from .cipher import CellCipher
from .circuits import crypt_each
from .errors import (
    BackendUnavailable,
    CellcryptError,
    ClosedError,
    ConcurrentUseError,
    KeystreamExhausted,
    OverlapError,
    PayloadLengthError,
)
from .formats import ALIGNED_508, TOR_V3, TOR_V4, CellFormat

__all__ = [
    "ALIGNED_508",
    "TOR_V3",
    "TOR_V4",
    "Availability",
    "BackendUnavailable",
    "CellCipher",
    "CellFormat",
    "CellcryptError",
    "ClosedError",
    "ConcurrentUseError",
    "KeystreamExhausted",
    "OverlapError",
    "PayloadLengthError",
    "backends",
    "crypt_each",
]
