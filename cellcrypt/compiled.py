"""The compiled core, or None and the reason: the one place that imports it.

Rules of this file: imports nothing of ours but the core; whoever wants the core asks here.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

#: The folder that cellcrypt is loaded from: a clone in the current folder hides an installed package.
LOCATION = Path(__file__).resolve().parent

#: The module cellcrypt._core, or None.
core: Any
#: Why there is no core; None where there is one.
reason: str | None
try:
    core, reason = importlib.import_module("cellcrypt._core"), None
except ImportError as error:
    core = None
    reason = (
        f"the C core was not built or can't be loaded ({error}) in {LOCATION}; to get it, install with a C compiler; "
        "to run from a folder of sources, install that folder itself: pip install -e"
    )
