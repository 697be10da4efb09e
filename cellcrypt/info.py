"""python -m cellcrypt info: what this installation can use, and why not more.

Rules of this file: `collect` gives plain data, which --json prints as it is; the text is made from the same data. A
variable that is set to what can't be used hides nothing else, and is told by the exit status.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from . import backend, compiled
from .errors import CellcryptError


def collect() -> dict[str, Any]:
    """Return what `info --json` prints: versions, processor, the compiled core, backends, and what None means.

    "wrong_variables" has each environment variable that is set to what can't be used, with the reason.
    """
    default, default_reason = _chosen(backend.choose)
    kernel, kernel_reason = None, None
    # Without a core there are no kernels, and nothing that the variable could mean.
    if compiled.core is not None and (default == "native" or os.environ.get(backend.KERNEL_VARIABLE)):
        kernel, kernel_reason = _chosen(backend.choose_kernel)
    wrong = {backend.ENVIRONMENT_VARIABLE: default_reason, backend.KERNEL_VARIABLE: kernel_reason}
    if default != "native":
        kernel, kernel_reason = None, None
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
        "wrong_variables": {name: why for name, why in wrong.items() if why is not None and os.environ.get(name)},
    }


def _chosen(choose: Callable[[None], str]) -> tuple[str | None, str | None]:
    """Return what None means here, or else why it means nothing."""
    try:
        return choose(None), None
    except (CellcryptError, ValueError) as error:
        return None, str(error)


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
    lines += [f"wrong      {why}" for why in found["wrong_variables"].values() if why not in meaning]
    lines.append(f"backend=None means {meaning}")
    return "\n".join(lines)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "info",
        help="processor features, backends and kernels: usable or not, and why",
        description="Tell where the package was loaded from, what the processor has, which backends and kernels can be"
        f" used, and why not the others. Exit with status 1 where {backend.ENVIRONMENT_VARIABLE} or"
        f" {backend.KERNEL_VARIABLE} is set to what can't be used; all the rest is told nevertheless.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what `collect` finds; return 1 where a variable is set to what can't be used."""
    found = collect()
    print(json.dumps(found, indent=2) if options.json else _text(found))
    return 1 if found["wrong_variables"] else 0
