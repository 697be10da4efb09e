"""The study's report: one HTML file that needs nothing else, and Markdown with SVG and PNG files beside it.

Rules of this file: nothing but the JSON goes in, so that the same JSON gives the same bytes; each figure's caption
names the file and the rows that it comes from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from .answers import CGO_HEADER_LEN, EXTREMES, RELAY_HEADER_LEN, Data, answer, sort
from .plots import draw, far
from .results import BadResults, Results
from .stats import floor_text, summary
from .sweeps import SWEEPS, Sweep
from .tables import ns, table
from .timer import WALL

TITLE = "What a cell format costs"
#: What a reader opens.
FILES = ("report.html", "report.md")
#: A noise floor above which a reader is told what to do about it.
MUCH = 0.15
NOISY = "That is much: other programs ran, and --cpu-time may show more. "
COLUMNS = ("series", "x", "ns per cell", "MAD", "best", "worst", "values", "cells a value", "MB/s")


@dataclass(frozen=True)
class Part:
    """A sweep in the report."""

    name: str
    title: str
    question: str
    answer: list[str]
    caption: str
    rows: list[list[str]]
    svg: str
    table: str


def machine(results: Results) -> str:
    """Return what ran, where and when, in a paragraph."""
    meta, dates = results.metadata, results.suite.get_dates()
    versions: dict[str, None] = {}
    for _, row in results.rows():
        found = row.get_metadata()
        if "backend_version" in found:
            kernel = f", kernel {found['kernel']}" if "kernel" in found and not found.get("wanted_kernel") else ""
            versions.setdefault(f"{found['backend']} {found['backend_version']}{kernel}")
    whole = [one for one in versions if one.startswith("native") and "kernel" in one] or [
        one for one in versions if one.startswith("native")
    ]
    shown = whole[:1] + [one for one in versions if not one.startswith("native")]
    when = f"{dates[0]:%Y-%m-%d %H:%M} to {dates[1]:%Y-%m-%d %H:%M}" if dates else "undated"
    return (
        f"{meta.get('cpu_model_name', 'unknown processor')}, {meta.get('cpu_count', '?')} processors, "
        f"{meta.get('platform', '')}, Python {str(meta.get('python_version', '')).partition(' ')[0]}; "
        f"{'; '.join(shown)}; {when}; commit {meta.get('commit', 'unknown')}; "
        f"command: {meta.get('command', 'unknown')}."
    )


def reading(data: Data) -> str:
    """Return how the figures are to be read."""
    clock = data.results.metadata.get("measured", WALL)
    return (
        f"Times are medians over processes, in nanoseconds a cell ({clock}; for threads always {WALL}): "
        "lower is better; one MB is 10**6 bytes of payload. Spread is the MAD, drawn as a line or a band; in an answer "
        "± is half the 95% interval. "
        "Rows that are compared were measured alternately in one process, and what made all rows of a "
        "process slow alike is taken out before they are compared. A difference is claimed only where its whole 95% "
        "interval (Student's t over the processes) lies beyond the noise floor, which in this run (halves of one row "
        f"against each other) is {floor_text(data.floor)}, or "
        f"beyond that of its own rows where it is larger; between the best and the worst of many, beyond {EXTREMES} of "
        "them. "
        f"{NOISY if MUCH < data.floor < math.inf else ''}"
        f"A useful byte is one that is left after a relay header: {RELAY_HEADER_LEN} bytes under tor1, "
        f"{CGO_HEADER_LEN} under CGO, whose own cost the last question is about."
    )


def _rows(name: str, data: Data) -> Iterator[list[str]]:
    for series, points in data.series(name).items():
        for x, row in points.items():
            found, meta = summary(row), row.get_metadata()
            rate = int(meta["payload_len"]) / found.median / 1e6
            yield [
                series,
                f"{x:,}" if isinstance(x, int) else str(x),
                *map(ns, (found.median, found.mad, found.best, found.worst)),
                str(found.values),
                f"{int(meta['cells']):,}",
                f"{rate:,.0f}",
            ]


def _inline(svg: bytes, name: str, title: str) -> str:
    """Return an SVG to put into HTML: without its prologue, with unique ids, and a title for those who can't see it."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


def _left_out(name: str, data: Data) -> str:
    left = far(data, name)
    return f"In the table only, since many times slower: {'; '.join(left)}. " if left else ""


def part(sweep: Sweep, data: Data, folder: Path) -> Part:
    """Return a sweep's part of the report; write its plot as SVG and PNG."""
    svg, png = draw(sweep.name, data, sweep.axis)
    (folder / f"{sweep.name}.svg").write_bytes(svg)
    (folder / f"{sweep.name}.png").write_bytes(png)
    rows = list(_rows(sweep.name, data))
    caption = (
        f"{sweep.title}: median and MAD of {min(int(row[6]) for row in rows)} or more values a point. "
        f"{_left_out(sweep.name, data)}"
        f"From rows study[{sweep.name},SERIES,X] of {Path(data.results.path).name}. {machine(data.results)}"
    )
    return Part(
        sweep.name,
        sweep.title,
        sweep.question,
        list(answer(sweep.name, data)),
        caption,
        rows,
        _inline(svg, sweep.name, sweep.title),
        table(COLUMNS, rows, 2),
    )


def write(results: Results, folder: Path) -> list[Part]:
    """Write the report on a study into a folder, as FILES; return its parts.

    Raises:
        BadResults: the results are not a study's.
    """
    if results.kind != "study":
        raise BadResults(f"{results.path}: written by suite {results.kind}, a report needs one of study")
    data = sort(results)
    if not data.sweeps:
        raise BadResults(f"{results.path}: there is no row of a sweep in it")
    folder.mkdir(parents=True, exist_ok=True)
    parts = [part(sweep, data, folder) for sweep in SWEEPS if data.series(sweep.name)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=lambda name: bool(name and ".html" in name),
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    context: dict[str, Any] = {
        "title": TITLE,
        "machine": machine(results),
        "reading": reading(data),
        "parts": parts,
        "columns": COLUMNS,
    }
    for name in FILES:
        (folder / name).write_text(environment.get_template(f"{name}.j2").render(context), encoding="utf-8")
    return parts
