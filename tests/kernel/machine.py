"""A virtual machine that runs Debian's kernel on this machine's own root folder, read-only, by emulation.

Rules of this file: nothing is fetched or installed here (fetch.sh does that); the machine ends with the command, or is
ended when it takes too long; what the command writes into one given folder is all that comes back.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

#: Seconds until a machine that has not ended is ended. The whole group takes two or three minutes on two free cores.
TIMEOUT = 1500


class CannotBoot(Exception):
    """Something that a virtual machine needs is missing."""


@dataclass(frozen=True)
class Ended:
    """What is known of a machine that has ended."""

    seconds: float
    console: str


def cache() -> Path:
    """Return the folder into which fetch.sh unpacks."""
    own = os.environ.get("CELLCRYPT_KERNEL_CACHE")
    return Path(own or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cellcrypt" / "kernel")


def kernel_image() -> Path:
    """Return the unpacked kernel."""
    found = sorted((cache() / "root" / "boot").glob("vmlinuz-*"))
    if not found:
        raise CannotBoot(f"there is no kernel in {cache()}: sh tests/kernel/fetch.sh puts one there")
    return found[-1]


def command_path() -> str:
    """Return a PATH on which everything is that a machine needs."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    for program, package in (
        ("vng", "virtme-ng from PyPI"),
        ("qemu-system-x86_64", "Debian's qemu-system-x86"),
        ("depmod", "Debian's kmod"),
        ("busybox", "Debian's busybox-static"),
    ):
        if shutil.which(program, path=path) is None:
            raise CannotBoot(f"there is no program {program} ({package})")
    return path


def run(script: str, folder: Path) -> Ended:
    """Boot, run the shell script as root with `folder` writable, and wait until the machine has ended.

    The rest of the root folder is this machine's, read-only. The processor is emulated, with one core, since nested
    virtualisation hangs on some hosts that offer it.

    Raises:
        CannotBoot: something that this needs is missing.
    """
    environment = os.environ | {"PATH": command_path()}
    image = kernel_image()
    inside = folder / "inside.sh"
    inside.write_text(script, encoding="utf-8")
    command = ["vng", "--disable-kvm", "-r", str(image), "--cpus", "1", "--memory", "1G", "--force-9p", "--verbose"]
    command += [f"--rwdir={folder}", "--", f"sh {inside}"]
    start = time.monotonic()
    with (folder / "console.txt").open("w+", encoding="utf-8", errors="replace") as console:
        machine = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            machine.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            console.write(f"\nended after {TIMEOUT} s\n")
        finally:
            if machine.poll() is None:
                os.killpg(machine.pid, signal.SIGKILL)
                machine.wait()
        console.flush()
        console.seek(0)
        return Ended(time.monotonic() - start, console.read())
