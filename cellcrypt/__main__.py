"""python -m cellcrypt: info, validate.

Rules of this file: the command line only; what a command does lives in a module of its name.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from . import info, validate


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m cellcrypt", description="Tell about and check an installation of cellcrypt."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (info, validate):
        module.add_parser(commands)
    options = parser.parse_args(arguments)
    return int(options.run(options))


def program(command: Callable[[], int | None]) -> NoReturn:
    """Run a program's `main` and exit with its status; quietly where nobody reads its output to the end, as `head`."""
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):  # else Python flushes once more, and fails
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status)


if __name__ == "__main__":
    program(main)
