"""The performance suites: one question each, on pyperf.

    bench_cells     a million cells through every backend and path, beside the calls that a user would otherwise write
    bench_kernel_vs_user    AES-CBC in the kernel and in user space: the measurement of 2011
    bench_onion     a cell at each place of a circuit, beside the bare cipher and the bare digest
    rounds          any suite in rounds, so that a machine's drift meets all rows alike
    report          the table, 2007's question, and two runs compared

Rules of this folder: every value covers at least a million cells unless asked otherwise; keys and buffers are set up
outside the clock, results are checked after it; every option of ours reaches the processes that measure, and the
metadata says what ran; statistics are pyperf's own.
"""

from __future__ import annotations

import sys
from types import TracebackType


def _interrupted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in a word that Ctrl-C came where a script has nothing to keep, such as during its imports."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # so Python has it while it looks for the script
    sys.excepthook = _interrupted
