"""python -m cellcrypt info: what this installation can use, and why not more.

Rules of this file: `collect` gives plain data, which --json prints as it is; the text is made from the same data.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from . import backend, compiled
from .errors import CellcryptError


def collect() -> dict[str, Any]:
    """Return what `info --json` prints: versions, processor, the compiled core, backends, and what None means."""
    try:
        default: str | None = backend.choose(None)
        default_reason = None
    except (CellcryptError, ValueError) as error:
        default, default_reason = None, str(error)
    kernel, kernel_reason = None, None
    if default == "native":
        try:
            kernel = backend.choose_kernel(None)
        except (CellcryptError, ValueError) as error:
            kernel_reason = str(error)
    return {
        "cellcrypt": version("cellcrypt"),
        "location": str(compiled.LOCATION),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}",
        "processor": {
            "architecture": platform.machine(),
            "model": _processor_model(),
            "features": {} if compiled.core is None else compiled.core.cpu_features(),
        },
        "core": {"compiled": compiled.core is not None, "reason": compiled.reason},
        "backends": {name: asdict(found) for name, found in backend.backends().items()},
        "default_backend": default,
        "default_backend_reason": default_reason,
        "default_kernel": kernel,
        "default_kernel_reason": kernel_reason,
    }


def _processor_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _text(found: dict[str, Any]) -> str:
    processor, core = found["processor"], found["core"]
    features = [name for name, present in processor["features"].items() if present]
    missing = [name for name, present in processor["features"].items() if not present]
    lines = [
        f"cellcrypt {found['cellcrypt']}, {found['python']}, {found['system']}",
        f"loaded from {found['location']}",
        f"processor  {processor['model']} ({processor['architecture']})",
    ]
    if processor["features"]:
        lines.append(f"           has {' '.join(features) or 'none'}; lacks {' '.join(missing) or 'none'}")
    lines.append(f"C core     {'compiled' if core['compiled'] else 'missing: ' + core['reason']}")
    lines.append("backends")
    for name, state in found["backends"].items():
        usable = "usable" if state["usable"] else f"unavailable: {state['reason']}"
        kernels = f"; kernels {', '.join(state['kernels'])}" if state["kernels"] else ""
        lines.append(f"  {name:<14} {usable}{kernels}{'; ' + state['version'] if state['version'] else ''}")
    meaning = found["default_backend"] or "nothing: " + found["default_backend_reason"]
    if found["default_backend"] == "native":
        meaning += f", kernel {found['default_kernel'] or 'none: ' + found['default_kernel_reason']}"
    lines.append(f"backend=None means {meaning}")
    return "\n".join(lines)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("info", help="processor features, backends and kernels: usable or not, and why")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what `collect` finds."""
    found = collect()
    print(json.dumps(found, indent=2) if options.json else _text(found))
    return 0
