"""What does a cell cost at each place of a circuit, and what of that is AES, what the digest?

    python -m perf.bench_onion -o onion.json            some minutes
    python -m perf.bench_onion -o onion.json --quick    three processes, fewer cells
    python -m perf.bench_onion --table onion.json       the table of a run that is there already

All rows of a backend are measured alternately in one process (interleave.py says why); they stand in onion_rows.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cellcrypt import backends
from cellcrypt.__main__ import program
from cellcrypt.onion import PAYLOAD_LEN

from .asked import BARE, ONION_LINES, asked_table
from .common import fail, general_metadata
from .interleave import PYTHON, Amount, Plan, add_options, measure_one, settle
from .onion_rows import SCHEMES, groups
from .results import BadResults, Results, load
from .stats import summary
from .tables import ns, ratio, table

FULL, QUICK = Amount(10, 1_000_000), Amount(3, 100_000)
BACKENDS = ("native", "cryptography")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.bench_onion", description=__doc__.partition("\n")[0])
    add_options(parser, FULL, QUICK, "JSON file to write; must not exist, unless --resume", "--table")
    add = parser.add_argument
    add("--backend", choices=BACKENDS, help="default: native where it is usable, else cryptography")
    add("--scheme", action="append", choices=tuple(SCHEMES), help="repeatable; default: all")
    return parser


def onion_table(results: Results) -> str:
    """Return the table of a run, each row against the bare call."""
    bare = results.get(BARE.format(n=PAYLOAD_LEN))
    lines = []
    for name, row in results.rows():
        found = summary(row)
        against = ratio(found.median / bare.median()) if bare is not None else ""
        lines.append([name, ns(found.median), ns(found.mad), ns(found.best), ns(found.worst), against])
    return table(["row", "ns per cell", "MAD", "best", "worst", "of the bare call"], lines)


def show(path: str) -> None:
    """Print what was asked, and everything that was measured."""
    try:
        results = load(path)
    except BadResults as error:
        fail(str(error))
    if results.kind != "bench_onion":
        fail(f"{path}: written by suite {results.kind}, this shows those of bench_onion")
    print(asked_table(results, ONION_LINES))
    print()
    print(onion_table(results))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    settle(options, FULL, QUICK)
    if options.shown:
        show(options.shown)
        return
    usable = [name for name in BACKENDS if backends()[name].usable]
    backend = options.backend or usable[0]
    if backend not in usable:
        fail(f"backend {backend} can't be measured here: {backends()[backend].reason}")
    schemes = tuple(dict.fromkeys(options.scheme or SCHEMES))
    found = groups(schemes, backend, options.cells)
    metadata = general_metadata("bench_onion")
    if options.group:
        measure_one(options, found, metadata)
        return
    if options.output is None:
        fail("-o FILE is needed: results are kept")
    plan = Plan(
        metadata=metadata,
        groups=found,
        rounds=options.processes,
        values=options.values,
        command=[PYTHON, "-m", "perf.bench_onion", *arguments],
        output=options.output,
        resume=options.resume,
    )
    plan.run()
    show(options.output)


if __name__ == "__main__":
    program(main)
