"""The compiled core, or None and the reason: the one place that imports it.

Rules of this file: imports nothing of ours but the core; whoever wants the core asks here.
"""

from __future__ import annotations

import importlib
from typing import Any

#: The module cellcrypt._core, or None.
core: Any
#: Why there is no core; None where there is one.
reason: str | None
try:
    core, reason = importlib.import_module("cellcrypt._core"), None
except ImportError as error:
    core, reason = None, f"the C core was not built or can't be loaded ({error}); to get it, install with a C compiler"
