"""Tables as Markdown, which reads well in a terminal too: columns are padded to one width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first `left` columns are aligned left, the others right."""
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    widths = [max(width, 3) for width in widths]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join([line(header), line(rule), *map(line, rows)])


def count(number: int, one: str, many: str = "") -> str:
    """Return a number of things: 1 row, 2 rows."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def give(value: float, half: float, form: Callable[[float], str]) -> str:
    """Return a figure with its uncertainty; alone where one process can't tell that."""
    return f"{form(value)} ± {form(half)}" if math.isfinite(half) else form(value)


def ns(seconds: float | None) -> str:
    """Return a time in ns: three figures, or whole nanoseconds from 100 on; "-" for none."""
    if seconds is None:
        return "-"
    value = seconds * 1e9
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def ratio(value: float) -> str:
    """Return a ratio: three figures."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"
