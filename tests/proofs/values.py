"""What taint.py knows of a register or of a slot of the stack, and what becomes of it where paths meet.

Rules of this file: knows no instruction; in doubt a value becomes SECRET, or a pointer loses its region.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Value(NamedTuple):
    """PUBLIC, SECRET, or a pointer: its region, its distance in octets, and whether that varies from there upwards."""

    kind: str
    region: str = ""
    distance: int | None = 0
    varies: bool = False


PUBLIC, SECRET = Value("public"), Value("secret")


def pointer(region: str, distance: int | None = 0, varies: bool = False) -> Value:
    return Value("pointer", region, distance, varies)


def join(*values: Value) -> Value:
    """Return what holds for each of `values`."""
    if SECRET in values:
        return SECRET
    first = values[0] if values else PUBLIC
    if all(value == first for value in values):
        return first
    if all(value.kind == "pointer" and value.region == first.region for value in values):
        known = [value.distance for value in values if value.distance is not None]
        return pointer(first.region, min(known) if len(known) == len(values) else None, True)
    return PUBLIC


def taint(*values: Value) -> Value:
    """Return what an instruction makes of `values`: SECRET if one is, else PUBLIC, no pointer any more."""
    return SECRET if SECRET in values else PUBLIC


@dataclass
class State:
    """What is known before an instruction."""

    registers: dict[str, Value] = field(default_factory=dict)
    flags: Value = PUBLIC
    stack: dict[tuple[str, int, int], Value] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.registers), self.flags, dict(self.stack))

    def merged(self, other: State) -> State:
        names = self.registers.keys() | other.registers.keys()
        registers = {n: join(self.registers.get(n, SECRET), other.registers.get(n, SECRET)) for n in names}
        stack = {slot: join(self.stack[slot], other.stack[slot]) for slot in self.stack.keys() & other.stack.keys()}
        return State(registers, taint(self.flags, other.flags), stack)


def moved(value: Value, distance: int) -> Value:
    """Return a pointer `distance` octets further on; any other value as it is."""
    if value.kind == "pointer" and value.distance is not None:
        return value._replace(distance=value.distance + distance)
    return value


def add(a: Value, b: Value) -> Value:
    """Return the sum of two registers: a pointer and a number is a pointer that varies."""
    if SECRET in (a, b):
        return SECRET
    if a.kind == b.kind:
        return PUBLIC
    to = a if a.kind == "pointer" else b
    return to._replace(varies=True)
