"""The plots of the study, as SVG and PNG.

Rules of this file: bars begin at zero; axes are logarithmic for growth only; the spread is drawn (MAD, or a ratio's 95%
interval); a ratio has a line at 1.0; colours are Okabe and Ito's, told apart by colour-blind people too, and markers
differ as well. The same data give the same bytes: no date, no random ids.
"""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from cellcrypt import TOR_V4

from .answers import Data, Series, near
from .cold import CIRCUIT_LEN
from .stats import difference, summary

#: Okabe and Ito, "Color Universal Design" (2008), without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")
SIZE = (4.8, 3.7)  # inches: on a telephone's screen the text is still 11 pixels high
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "cellcrypt",
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
}
#: Sweeps whose points are drawn as bars; there, a series so many times slower than the quickest one is left out.
BARS = ("paths", "cold", "schemes")
FAR = 20
LOWER = "ns per cell (lower is better)"


def _number(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _short(value: float, _: object = None) -> str:
    """Return a number for an axis of many decades: 1, 10, 100, 1k, ..., 1M."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _lines(axes: Any, series: dict[str, Series], scale: Callable[[Any], float] = lambda x: 1e9) -> None:
    for i, (name, points) in enumerate(series.items()):
        xs = sorted(points)
        found = [summary(points[x]) for x in xs]
        middle = [one.median * scale(x) for x, one in zip(xs, found, strict=True)]
        low = [(one.median - (one.mad or 0.0)) * scale(x) for x, one in zip(xs, found, strict=True)]
        high = [(one.median + (one.mad or 0.0)) * scale(x) for x, one in zip(xs, found, strict=True)]
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(xs, middle, color=colour, marker=MARKERS[i % len(MARKERS)], markersize=3.5, linewidth=1.2, label=name)
        axes.fill_between(xs, low, high, color=colour, alpha=0.25, linewidth=0)


def _columns(labels: Sequence[str]) -> int:
    return 1 if max(map(len, labels), default=0) > 26 else 2


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=_columns(labels), frameon=False, fontsize=9)


def _growth(data: Data, sweep: str, axis: str) -> Any:
    figure, axes = plt.subplots(figsize=SIZE)
    _lines(axes, data.series(sweep))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(axis)
    axes.set_ylabel(LOWER)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: _number(value) if str(value)[0] in "25" else ""))
    axes.tick_params(axis="y", which="minor", labelsize=9)
    _legend(figure, axes)
    return figure


def _linear(data: Data, sweep: str, axis: str) -> Any:
    figure, axes = plt.subplots(figsize=SIZE)
    _lines(axes, data.series(sweep))
    axes.set_xlabel(axis)
    axes.set_ylabel(LOWER)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))
    _legend(figure, axes)
    return figure


def lengths(data: Data, axis: str) -> Any:
    """Time per cell against payload length near 509; multiples of 16 are marked."""
    figure, axes = plt.subplots(figsize=SIZE)
    shown = {name: {n: points[n] for n in near(points)} for name, points in data.series("lengths").items()}
    _lines(axes, shown)
    axes.grid(axis="x", visible=False)
    for n in sorted({n for points in shown.values() for n in points if n % 16 == 0}):
        axes.axvline(n, color="#000000", alpha=0.35, linewidth=0.8)
    axes.axvline(509, color="#000000", linewidth=0.9, linestyle=":")
    axes.set_xlabel(f"{axis} (lines: multiples of 16; dotted: 509)")
    axes.set_ylabel(LOWER)
    axes.set_ylim(bottom=0)
    _legend(figure, axes)
    return figure


def _bars(groups: Sequence[str], series: dict[str, Series], of: Callable[[str, Any], tuple[float, float]]) -> Any:
    """Horizontal bars: one bunch a group, one bar a series."""
    height = 0.8 / max(1, len(series))
    figure, axes = plt.subplots(figsize=(SIZE[0], 1.3 + 0.34 * len(groups) * max(1.2, len(series) * 0.62)))
    for i, (name, points) in enumerate(series.items()):
        at = [k + i * height for k, x in enumerate(groups) if x in points]
        found = [of(name, x) for x in groups if x in points]
        axes.barh(
            at,
            [value for value, _ in found],
            height * 0.92,
            xerr=[mad for _, mad in found],
            color=COLOURS[i % len(COLOURS)],
            label=name,
            error_kw={"elinewidth": 1, "ecolor": "#444444"},
        )
    axes.set_yticks([k + height * (len(series) - 1) / 2 for k in range(len(groups))], groups)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    return figure, axes


def _groups(series: dict[str, Series]) -> list[str]:
    return list(dict.fromkeys(x for points in series.values() for x in points))


def far(data: Data, sweep: str) -> list[str]:
    """Return a sweep's series that are too far from the quickest to be drawn beside it, by their points' medians."""
    if sweep not in BARS:
        return []
    series = data.series(sweep)
    middle = {name: statistics.median(row.median() for row in points.values()) for name, points in series.items()}
    return [name for name in series if middle[name] > FAR * min(middle.values())]


def bars(data: Data, _: str, sweep: str) -> Any:
    """Time per cell as bars."""
    left_out = far(data, sweep)
    series = {name: points for name, points in data.series(sweep).items() if name not in left_out}

    def of(name: str, x: str) -> tuple[float, float]:
        found = summary(series[name][x])
        return found.median * 1e9, (found.mad or 0.0) * 1e9

    figure, axes = _bars(_groups(series), series, of)
    axes.set_xlabel(LOWER)
    _legend(figure, axes)
    return figure


def formats(data: Data, _: str) -> Any:
    """Each format's time as a ratio to the baseline's."""
    series = data.series("formats")
    groups = _groups(series)
    baseline = groups[0]

    def of(name: str, x: str) -> tuple[float, float]:
        step = difference(series[name][baseline], series[name][x], data.floor)
        return step.ratio, step.half if math.isfinite(step.half) else 0.0

    figure, axes = _bars(groups, series, of)
    axes.axvline(1.0, color="#000000", linewidth=1)
    axes.set_xlabel(f"time per cell, {baseline} = 1.0 (lower is better)")
    _legend(figure, axes)
    return figure


def _with_caches(data: Data, sweep: str, axis: str, each: int) -> Any:
    """Growth, with a line where `each` bytes for every x fill a cache."""
    figure = _growth(data, sweep, axis)
    axes = figure.axes[0]
    most = max(x for points in data.series(sweep).values() for x in points)
    for name, size in cache_sizes(data):
        if 1 < size / each < most:
            axes.axvline(size / each, color="#000000", alpha=0.5, linewidth=0.8, linestyle="--")
            axes.text(size / each, 0.99, f" {name}", transform=axes.get_xaxis_transform(), fontsize=9, va="top")
    return figure


def cache_sizes(data: Data) -> list[tuple[str, int]]:
    """Return the caches of the machine that was measured, by name, in bytes."""
    meta = data.results.metadata
    return [(name, int(meta[f"cache_{name}"])) for name in ("L1d", "L2", "L3") if f"cache_{name}" in meta]


PLOTS: dict[str, Callable[[Data, str], Any]] = {
    "formats": formats,
    "lengths": lengths,
    "offsets": lambda data, axis: _linear(data, "offsets", axis),
    "hops": lambda data, axis: _linear(data, "hops", axis),
    "batches": lambda data, axis: _with_caches(data, "batches", axis, TOR_V4.cell_len),
    "circuits": lambda data, axis: _with_caches(data, "circuits", axis, CIRCUIT_LEN),
    "threads": lambda data, axis: _linear(data, "threads", axis),
    **{sweep: partial(bars, sweep=sweep) for sweep in BARS},
}


def draw(sweep: str, data: Data, axis: str) -> tuple[bytes, bytes]:
    """Return a sweep's plot as SVG and as PNG."""
    with plt.rc_context({**matplotlib.rcParamsDefault, **STYLE, "backend": "Agg"}):
        figure = PLOTS[sweep](data, axis)
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=200, metadata={"Software": None})
        plt.close(figure)
    return svg.getvalue(), png.getvalue()
