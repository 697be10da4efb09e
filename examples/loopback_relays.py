"""Run Tor relays on this machine alone: loopback addresses, temporary folders, no directory, no network.

Run it: python -m examples.loopback_relays 3      (needs `tor`; ends with Ctrl-C)
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Seconds that a relay may take to end before it is killed.
_GRACE = 10.0

# No authority is there: one has to be named, lest tor take the public ones. A relay without a consensus serves as exit
# all the same (RefuseUnknownExits), and reaches other relays at private addresses (ExtendAllowPrivateAddresses).
_TORRC = """
DataDirectory {folder}/data
PidFile {folder}/pid
Log notice file {folder}/log
Nickname relay{number}
Address 127.0.0.1
ORPort 127.0.0.1:{port}
SocksPort 0
DirAuthority none orport=1 v3ident={nobody} 127.0.0.1:1 {nobody}
AssumeReachable 1
PublishServerDescriptor 0
ExtendAllowPrivateAddresses 1
ExitRelay 1
RefuseUnknownExits 0
ExitPolicyRejectPrivate 0
ExitPolicy accept 127.0.0.1:*
ExitPolicy reject *:*
ContactInfo loopback only
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def relays(count: int) -> Iterator[list[int]]:
    """Run `count` relays; give their OR ports. They are up a moment later, and gone afterwards, folders and all."""
    tor = shutil.which("tor")
    if tor is None:
        raise FileNotFoundError("there is no `tor` on this machine: install it (Debian: apt-get install tor)")
    started: list[subprocess.Popen[bytes]] = []
    ports = [_free_port() for _ in range(count)]
    with tempfile.TemporaryDirectory(prefix="relays-") as base:
        try:
            for number, port in enumerate(ports):
                folder = Path(base, f"relay{number}")
                folder.mkdir(mode=0o700)
                torrc = folder / "torrc"
                torrc.write_text(_TORRC.format(folder=folder, number=number, port=port, nobody="01" * 20))
                command = [tor, "--quiet", "--defaults-torrc", str(folder / "none"), "-f", str(torrc)]
                started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
            yield ports
        finally:
            _end(started)


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    for process in started:
        process.terminate()
    for process in started:
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1 relay, got {text!r}")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.loopback_relays",
        description="Run Tor relays on this machine alone, and print the address of each, until Ctrl-C. Needs `tor`.",
    )
    parser.add_argument("count", type=_count, nargs="?", default=3, help="how many relays (default: %(default)s)")
    count = parser.parse_args().count
    for number in (signal.SIGINT, signal.SIGTERM):  # no relay outlives this program
        signal.signal(number, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt), relays(count) as ports:
            print(*(f"127.0.0.1:{port}" for port in ports), flush=True)
            signal.pause()
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
