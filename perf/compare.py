"""Two runs of one suite side by side: two machines, or two versions.

Rules of this file: a row is compared with its namesake only, and only where both measured the same thing (MEANING);
whether a difference is one is decided by stats.between_runs, with the larger noise floor of the two runs.
"""

from __future__ import annotations

from .results import BadResults, Results
from .stats import between_runs, floor_text, noise_floor
from .tables import ns, ratio, table
from .timer import WALL

#: What must be the same for two rows to mean the same.
MEANING = (
    "kind",
    "backend",
    "path",
    "payload_len",
    "cells",
    "call",
    "at_once",
    "lookahead",
    "circuits",
    "hops",
    "threads",
    "cell_format",
    "interpreted",
)
#: What may differ, and is said where it does.
TOLD = ("cpu_model_name", "python_version", "platform", "commit")


def check(old: Results, new: Results) -> list[str]:
    """Return the names that both have.

    Raises:
        BadResults: they are of different suites, have no row in common, or a row means two things.
    """
    if old.kind != new.kind:
        raise BadResults(f"{old.path} is of suite {old.kind}, {new.path} of {new.kind}: they can't be compared")
    if old.metadata["suite_version"] != new.metadata["suite_version"]:
        raise BadResults(
            f"{old.path} has version {old.metadata['suite_version']} of the suite, {new.path} "
            f"{new.metadata['suite_version']}: rows mean different things"
        )
    clocks = [results.metadata.get("measured", WALL) for results in (old, new)]
    if clocks[0] != clocks[1]:
        raise BadResults(f"{old.path} has {clocks[0]}, {new.path} {clocks[1]}: they can't be compared")
    names = [name for name, _ in old.rows() if new.get(name) is not None]
    if not names:
        raise BadResults(f"{old.path} and {new.path} have no row in common")
    for name in names:
        a, b = old.suite.get_benchmark(name).get_metadata(), new.suite.get_benchmark(name).get_metadata()
        for key in MEANING:
            if a.get(key) != b.get(key):
                different = f"{key} is {a.get(key)} in {old.path} and {b.get(key)} in {new.path}"
                raise BadResults(f"{name}: {different}: they can't be compared")
    return names


def compare(old: Results, new: Results) -> str:
    """Return the comparison as Markdown."""
    names = check(old, new)
    floor = max(noise_floor(old), noise_floor(new))
    lines = [f"Old: {old.path}. New: {new.path}. Noise floor: {floor_text(floor)}, the larger of the two runs'."]
    for key in TOLD:
        a, b = old.metadata.get(key), new.metadata.get(key)
        if a != b:
            lines.append(f"- {key}: {a} → {b}")
    rows = []
    claimed = 0
    for name in names:
        before, after = old.suite.get_benchmark(name), new.suite.get_benchmark(name)
        step = between_runs(before, after, floor)
        claimed += step.claimed
        rows.append([name, ns(before.median()), ns(after.median()), ratio(step.ratio), step.text])
    lines += ["", table(["row", "old, ns", "new, ns", "new / old", "verdict"], rows), ""]
    lines.append(f"{claimed} of {len(names)} rows differ by more than noise.")
    only = [name for name, _ in old.rows() if name not in names] + [n for n, _ in new.rows() if n not in names]
    if only:
        lines.append(f"In one of the two only: {', '.join(only)}.")
    return "\n".join(lines)
