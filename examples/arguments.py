"""Arguments that the examples take on the command line: what is wrong with one is said before any work."""

from __future__ import annotations

from argparse import ArgumentTypeError
from urllib.parse import urlsplit


def url(text: str) -> str:
    """Return a URL that can be fetched without TLS."""
    try:
        parts = urlsplit(text)
        known = parts.scheme == "http" and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none
        known = False
    if not known:
        raise ArgumentTypeError(f"must be http://HOST:PORT/PATH, got {text!r}")
    return text


def address(text: str) -> tuple[str, int]:
    """Return the host and port of a relay."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ArgumentTypeError(f"must be HOST:PORT with a port of 1 to 65535, got {text!r}")
    return host, int(port)
