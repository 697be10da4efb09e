"""python -m cellcrypt: info, validate.

Rules of this file: the command line only; what a command does lives in a module of its name.
"""

from __future__ import annotations

import argparse
import sys

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


if __name__ == "__main__":
    sys.exit(main())
