"""What came out: the table of a run, 2007's question answered from it, and two runs compared.

    python -m perf.report out/cells.json                the table and the answer
    python -m perf.report --clock 3.5 out/cells.json    with cycles counted at 3.5 GHz
    python -m perf.report compare A.json B.json         two machines, or two versions

Rules of this file: prints what stats.py computes and computes nothing itself but units. A ratio is only quoted between
rows of one run. The output is Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from cellcrypt.__main__ import program

from .asked import CELL_LINES, asked_table
from .compare import compare
from .results import BadResults, Results, load
from .rows import BARE
from .stats import PARTS, VARIANTS, Question, difference, floor_text, noise_floor, part_text, question, summary
from .tables import ns, ratio, table
from .timer import WALL


def denominator(name: str, metadata: dict[str, Any], results: Results) -> Any | None:
    """Return the row that a row is divided by: the bare call of its library; for native that of cryptography."""
    kind, payload_len = metadata.get("kind"), metadata.get("payload_len")
    backend = "cryptography" if metadata.get("backend") == "native" else str(metadata.get("backend"))
    if kind == "xor":
        return results.get(f"xor[byte,{payload_len}]")
    if backend not in BARE:
        return None
    call = f"{backend}.{BARE[backend][0]},{payload_len}]"
    return results.get(f"{'cold' if kind == 'cold' else 'bare'}[{call}")


def main_table(results: Results, clock: float | None) -> str:
    """Return the table of a run."""
    header = ["row", "ns per cell", "MAD", "best", "worst", "values", "MB/s"]
    header += ["cycles per byte"] if clock else []
    header += ["against the bare call"]
    lines = []
    for name, row in results.rows():
        found, metadata = summary(row), row.get_metadata()
        payload_len = metadata.get("payload_len")
        line = [name, ns(found.median), ns(found.mad), ns(found.best), ns(found.worst), str(found.values)]
        line.append(f"{payload_len / found.median / 1e6:,.0f}" if payload_len else "")
        if clock:
            line.append(f"{found.median * clock / payload_len:.2f}" if payload_len else "")
        base = denominator(name, metadata, results)
        line.append(ratio(found.median / base.median()) if base is not None else "")
        lines.append(line)
    return table(header, lines)


def header(results: Results, clock: float | None, how: str) -> Iterator[str]:
    """Yield what ran, where and when."""
    meta, dates = results.metadata, results.suite.get_dates()
    yield f"## {results.path}"
    yield ""
    yield (
        f"{meta.get('cpu_model_name', 'unknown processor')}, {meta.get('platform', '')}, "
        f"Python {str(meta.get('python_version', '')).partition(' ')[0]}, commit {meta.get('commit', 'unknown')}, "
        f"{dates[0]:%Y-%m-%d %H:%M} to {dates[1]:%H:%M}."
        if dates
        else "undated"
    )
    versions = sorted(
        {
            f"{found['backend']} {found['backend_version']}" + (f" ({found['kernel']})" if "kernel" in found else "")
            for _, row in results.rows()
            if "backend_version" in (found := row.get_metadata())
        }
    )
    yield "Backends: " + "; ".join(versions) + "."
    yield (
        f"Lower is better. Times are medians in nanoseconds per cell ({meta.get('measured', WALL)}), one MB is 10**6 "
        "bytes of payload."
    )
    if clock:
        yield f"Cycles are counted at {clock / 1e9:.2f} GHz, {how}."
    yield f"Noise floor of this run (A/A, halves of one row against each other): {floor_text(noise_floor(results))}."
    yield (
        "A difference is claimed in words only, and only where its whole 95% interval lies beyond this floor, or "
        "beyond that of its own rows where it is larger; a ratio in a table is one of medians. ± is half the "
        "95% interval."
    )
    yield ""


def questions(results: Results) -> Iterator[Question]:
    """Yield 2007's question answered for every backend that has all four variants."""
    floor = noise_floor(results)
    backends = dict.fromkeys(str(row.get_metadata().get("backend")) for _, row in results.rows())
    for backend in backends:
        for end in ("]", ",interpreted]"):
            rows = {name: results.get(f"cells[{backend},{path},{n}{end}") for name, path, n in VARIANTS}
            if all(row is not None for row in rows.values()):
                yield question(backend + (" (interpreted)" if end != "]" else ""), rows, floor)


def answer(found: Question) -> Iterator[str]:
    """Yield the answer to 2007's question for one backend."""
    yield f"### 509 or 508, byte or word: {found.backend}"
    yield ""
    base = found.variants["509 by bytes"].median
    lines = [
        [name, ns(variant.median), ns(variant.mad), f"{variant.median / base - 1:+.1%}"]
        for name, variant in found.variants.items()
    ]
    yield table(["variant", "ns per cell", "MAD", "against 509 by bytes"], lines)
    yield ""
    yield f"A cell, from 509 by bytes to 508 by uint32: {'; '.join(part_text(found, name) for name in PARTS)}."
    yield ""
    for name, step in found.steps.items():
        yield f"- {name}: {step.text}"
    yield ""


def warm_and_cold(results: Results) -> Iterator[str]:
    """Yield the rows that were measured cold beside their warm twins."""
    floor, lines = noise_floor(results), []
    for name, row in results.rows():
        if not name.startswith("cold["):
            continue
        inner = name.removeprefix("cold")
        warm = results.get(f"cells{inner}") or results.get(f"bare{inner}")
        if warm is not None:
            step = difference(warm, row, floor)
            lines.append([inner[1:-1], ns(warm.median()), ns(row.median()), step.tell(f"{step.times} times the time")])
    if lines:
        yield "### Warm and cold"
        yield ""
        yield table(["row", "warm, ns", "cold, ns", "cold against warm"], lines)
        yield ""
        yield "Cold: every cell is of another circuit, whose key and buffer were last used a whole working set ago."
        yield ""


def report(results: Results, clock_ghz: float | None) -> str:
    """Return the whole report on one run."""
    told = results.clock()
    clock, how = (clock_ghz * 1e9, "as given by --clock") if clock_ghz else told or (None, "")
    lines = [*header(results, clock, how), main_table(results, clock), ""]
    for found in questions(results):
        lines += answer(found)
    lines += warm_and_cold(results)
    if results.kind == "bench_cells":
        lines += ["### What is asked", "", asked_table(results, CELL_LINES), ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a report or a comparison."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["compare"]:
            parser = argparse.ArgumentParser(
                prog="python -m perf.report compare", description="Set two runs side by side, row by row."
            )
            parser.add_argument("old", help="pyperf JSON that the other is compared with")
            parser.add_argument("new", help="pyperf JSON; a ratio is its time as a share of the old one's")
            chosen = parser.parse_args(arguments[1:])
            print(compare(load(chosen.old), load(chosen.new)))
            return
        parser = argparse.ArgumentParser(prog="python -m perf.report", description=__doc__.partition("\n")[0])
        parser.add_argument("--clock", type=float, metavar="GHZ", help="the processor's true clock rate")
        parser.add_argument(
            "file", nargs="+", help="pyperf JSON; or the word compare and two such files, the old one first"
        )
        options = parser.parse_args(arguments)
        for path in options.file:
            print(report(load(path), options.clock))
    except BadResults as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    program(main)
