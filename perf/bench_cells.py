"""How much time does a cell take, for each backend, path and payload length? A pyperf suite.

    python -m perf.bench_cells -o cells.json                everything that this machine has, by pyperf's own defaults:
                                                            rows minutes apart, so no difference of two is claimed
    python -m perf.bench_cells --quick --backend native --payload-len 509 --payload-len 508
    python -m perf.rounds -o cells.json bench_cells --quick     the same in rounds; what `make bench` does

All options of pyperf work too. The rows and their names stand in rows.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cellcrypt import BackendUnavailable, backends
from cellcrypt.backend import load, names
from cellcrypt.compiled import core
from cellcrypt.compiled import reason as no_core

from . import timer
from .cold import circuits_needed
from .common import fail, general_metadata, parse, payload_len, positive, run_rows, runner
from .rows import Choice, suite

#: Cells in one value.
CELLS = 1_000_000
PAYLOAD_LENS = (509, 508)
PATHS = ("fused", "byte", "word")
#: Never measured unless asked for: it needs sockets that most hosts forbid.
ON_REQUEST = ("afalg",)
#: --quick: as few processes as give a spread, one value each; the work warms itself up.
QUICK = {"processes": 3, "values": 1, "warmups": 0}

FLAGS = (
    ("--cells", "cells"),
    ("--backend", "backend"),
    ("--path", "path"),
    ("--payload-len", "payload_len"),
    ("--kernel", "kernel"),
    ("--circuits", "circuits"),
    ("--cold", "cold"),
    ("--interpreted", "interpreted"),
    ("--quick", "quick"),
    ("--only", "only"),
    ("--cpu-time", "cpu_time"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this suite."""
    add = parser.add_argument_group("cells").add_argument
    add("--cells", type=positive, default=CELLS, help=f"cells in one value (default: {CELLS})")
    add("--backend", action="append", choices=names(), help="repeatable; default: every usable one but afalg")
    add("--path", action="append", choices=PATHS, help="repeatable; default: all")
    add("--payload-len", action="append", type=payload_len, help="bytes; repeatable; default: 509 and 508")
    add("--kernel", help="the native backend's kernel; default: the best that this processor has")
    add("--cold", action="store_true", help="also with a working set far past the last cache")
    add("--circuits", type=positive, help="circuits in a cold row; default: by the size of the last cache")
    add("--interpreted", action="store_true", help="also the interpreted byte and word paths, over fewer cells")
    add("--quick", action="store_true", help="3 processes of one value each; pycryptodome not cold")
    add("--cpu-time", action="store_true", help="measure processor time, on a machine with neighbours")
    add("--only", action="append", help="only the row of this name; repeatable")


def settle(options: argparse.Namespace) -> Choice:
    """Fill in what was not asked for, so that workers are told everything; refuse what can't be measured here."""
    if options.backend is None:
        found = {name: state for name, state in backends().items() if name not in ON_REQUEST}
        options.backend = [name for name, state in found.items() if state.usable]
        if not options.worker:
            for name, state in found.items():
                if not state.usable:
                    print(f"  left out: {name}: {state.reason}", file=sys.stderr)
        if not options.backend:
            fail("no backend can be used here")
    else:
        for name in options.backend:
            try:
                load(name)
            except BackendUnavailable as error:
                fail(str(error))
    if options.kernel is not None:
        kernels = backends()["native"].kernels
        if options.kernel not in kernels:
            fail(f"--kernel must be one of {', '.join(kernels) or 'none: native is unavailable'}, got {options.kernel}")
    options.path = options.path or list(PATHS)
    options.payload_len = options.payload_len or list(PAYLOAD_LENS)
    options.circuits = options.circuits or circuits_needed()
    if not options.worker:
        if core is None and {"byte", "word"} & set(options.path):
            print(f"  left out: compiled byte and word paths: {no_core}", file=sys.stderr)
        if options.interpreted:
            print("  interpreted paths: fewer cells in a value, see rows.INTERPRETED_SHARE", file=sys.stderr)
    return Choice(
        cells=options.cells,
        backends=tuple(dict.fromkeys(options.backend)),
        paths=tuple(dict.fromkeys(options.path)),
        payload_lens=tuple(dict.fromkeys(options.payload_len)),
        cold=options.cold,
        circuits=options.circuits,
        interpreted=options.interpreted,
        kernel=options.kernel or "",
        brief=options.quick,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure."""
    made = runner("bench_cells", FLAGS, general_metadata("bench_cells"))
    add_options(made.argparser)
    quick = "--quick" in (sys.argv[1:] if arguments is None else arguments)
    if quick:
        made.argparser.set_defaults(**QUICK)
    options = parse(made, arguments)
    timer.use(options.cpu_time)
    made.metadata["measured"] = timer.measured()
    rows = suite(settle(options))
    if options.only:
        known = {row.name for row in rows}
        for name in options.only:
            if name not in known:
                fail(f"--only: there is no row {name}; there are {', '.join(sorted(known))}")
        rows = [row for row in rows if row.name in options.only]
    if not rows:
        fail("nothing to measure: with neither a compiled core nor path fused, ask for --interpreted")
    run_rows(made, rows)


if __name__ == "__main__":
    main()
