"""Results made by hand, to test what is computed from results."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyperf

from perf.common import SUITE_VERSION

SHARED = {"suite": "bench_cells", "suite_version": SUITE_VERSION, "commit": "0" * 12, "unit": "second", "loops": 1}


def noisy(median: float, count: int, seed: int, spread: float = 0.005) -> list[float]:
    """Return `count` values around `median`."""
    rng = random.Random(seed)
    return [median * (1 + rng.gauss(0, spread)) for _ in range(count)]


def benchmark(name: str, values: Sequence[float], metadata: Mapping[str, Any]) -> Any:
    """Return pyperf's Benchmark of a row, one process a value."""
    meta = {**SHARED, **metadata, "name": name, "inner_loops": int(metadata.get("cells", 1_000_000))}
    runs = [
        pyperf.Run(
            [value], metadata={**meta, "date": f"2026-01-02 03:04:{i:02}", "duration": 1.0}, collect_metadata=False
        )
        for i, value in enumerate(values)
    ]
    return pyperf.Benchmark(runs)


def cells(backend: str, path: str, payload_len: int, values: Sequence[float], **more: Any) -> Any:
    """Return a row of the cell suite."""
    meta = {"kind": "cells", "backend": backend, "path": path, "payload_len": payload_len, "cells": 1_000_000, **more}
    return benchmark(f"cells[{backend},{path},{payload_len}]", values, meta)


def bare(values: Sequence[float], payload_len: int = 509) -> Any:
    """Return the row that rows over cryptography are divided by."""
    meta = {"kind": "bare", "backend": "cryptography", "call": "update_into", "payload_len": payload_len}
    return benchmark(f"bare[cryptography.update_into,{payload_len}]", values, {**meta, "cells": 1_000_000})


def write(path: Path, rows: Sequence[Any]) -> str:
    """Write a file of results."""
    pyperf.BenchmarkSuite(list(rows)).dump(str(path))
    return str(path)
