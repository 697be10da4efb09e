"""What objdump and readelf say about a linked library: its functions, by source file, and their instructions.

Rules of this file: nothing is guessed; a line that is not understood is an error. Local symbols follow the FILE symbol
of their source in the table (System V ABI, "Symbol Table"), and so four functions called `keystream` are told apart.
"""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SIZES = {"BYTE": 1, "WORD": 2, "DWORD": 4, "QWORD": 8, "XMMWORD": 16, "YMMWORD": 32, "ZMMWORD": 64}
_PREFIXES = {"notrack", "bnd", "lock", "rep", "repz", "repnz", "cs", "ds", "data16", "rex.W", "{vex}", "{evex}"}
_SUB_REGISTERS = {
    **{
        f"{start}{letter}{end}": f"r{letter}x"
        for letter in "abcd"
        for start, end in (("r", "x"), ("e", "x"), ("", "x"))
    },
    **{f"{letter}{half}": f"r{letter}x" for letter in "abcd" for half in "lh"},
    **{
        f"{start}{name}{end}": f"r{name}"
        for name in ("si", "di", "bp", "sp")
        for start in ("r", "e", "")
        for end in ("",)
    },
    **{f"{name}l": f"r{name}" for name in ("si", "di", "bp", "sp")},
    **{f"r{number}{end}": f"r{number}" for number in range(8, 16) for end in ("", "d", "w", "b")},
    **{f"{kind}mm{number}": f"v{number}" for number in range(32) for kind in "xyz"},
    **{f"k{number}": f"k{number}" for number in range(8)},
}
GENERAL = sorted({name for name in _SUB_REGISTERS.values() if name[0] == "r"})
_WIDTHS = {"x": 16, "y": 32, "z": 64}


@dataclass(frozen=True)
class Register:
    """A register operand: the whole register it is part of, and how many octets of that it names."""

    name: str
    size: int
    text: str


@dataclass(frozen=True)
class Memory:
    """A memory operand: registers added up (with a constant) make the address. `absolute` is what rip comes to."""

    size: int
    base: str | None
    index: str | None
    scale: int
    displacement: int
    absolute: int | None


@dataclass(frozen=True)
class Constant:
    """An immediate operand, or the target of a jump."""

    value: int


Operand = Register | Memory | Constant


@dataclass(frozen=True)
class Instruction:
    """One instruction. `masks` are the mask registers of EVEX; `zeroing` says what happens where a mask is off."""

    address: int
    text: str
    name: str
    prefixes: frozenset[str]
    operands: tuple[Operand, ...]
    masks: tuple[str, ...]
    zeroing: bool
    following: int

    @property
    def memory(self) -> Memory | None:
        return next((operand for operand in self.operands if isinstance(operand, Memory)), None)


@dataclass(frozen=True)
class Function:
    """A function symbol. `source` is the file it was compiled from; "" where the table does not say."""

    name: str
    source: str
    start: int
    size: int


@dataclass
class Library:
    """A linked library, taken apart."""

    path: Path
    functions: list[Function]
    instructions: dict[int, Instruction]
    sections: list[tuple[int, int, int]]
    octets: bytes
    labels: dict[int, str] = field(default_factory=dict)

    @property
    def nowhere(self) -> set[int]:
        """Where jumps go that the source calls unreachable: cold parts without an instruction."""
        return {f.start for f in self.functions if f.size == 0 and f.name.endswith(".cold")}

    def function_at(self, address: int) -> Function | None:
        return next((f for f in self.functions if f.start <= address < f.start + f.size), None)

    def of_source(self, source: str) -> list[Function]:
        return [f for f in self.functions if f.source == source and f.size]

    def instructions_of(self, function: Function) -> list[Instruction]:
        inside = range(function.start, function.start + function.size)
        return [found for address in inside if (found := self.instructions.get(address))]

    def word_at(self, address: int) -> int:
        """Return the signed 32-bit word that lies at a virtual address of the file."""
        for start, offset, size in self.sections:
            if start <= address <= start + size - 4:
                return int(struct.unpack_from("<i", self.octets, offset + address - start)[0])
        raise LookupError(f"no section holds {address:#x}")


def register(text: str) -> Register | None:
    """Return the register that `text` names."""
    name = _SUB_REGISTERS.get(text)
    if name is None:
        return None
    if name[0] == "v":
        return Register(name, _WIDTHS[text[0]], text)
    if name[0] == "k" or text == name:
        return Register(name, 8, text)
    size = 4 if text[0] == "e" or text[-1] == "d" else 1 if text[-1] in "lhb" else 2
    return Register(name, size, text)


def _signed(value: int) -> int:
    return value - (1 << 64 if value >> 63 else 0)


def _memory(text: str, absolute: int | None) -> Memory:
    size, _, inside = text.rpartition("[")
    terms = re.findall(r"([+-]?)([^+-]+)", inside.rstrip("]"))
    base = index = None
    scale, displacement = 1, 0
    for sign, term in terms:
        name, _, times = term.partition("*")
        found = register(name)
        if name in ("rip", "eip"):
            continue
        if found is None:
            displacement += _signed(int(term, 16)) * (-1 if sign == "-" else 1)
        elif times or (base is not None):
            index, scale = found.name, int(times or 1)
        else:
            base = found.name
    width = next((size_ for word, size_ in SIZES.items() if re.search(rf"\b{word}\b", size)), 8)
    return Memory(width, base, index, scale, displacement, absolute)


def parse(line: str, following: int) -> Instruction:
    """Return the instruction of a line of `objdump -d -M intel --no-show-raw-insn`."""
    at, _, code = line.strip().partition(":")
    code, _, comment = code.strip().partition("#")
    code = re.sub(r"<[^>]*>", "", code).strip()
    words = code.split()
    prefixes = set()
    while words[0] in _PREFIXES and len(words) > 1:
        prefixes.add(words.pop(0))
    name, rest = words[0], " ".join(words[1:])
    absolute = int(comment.split()[0], 16) if "rip" in rest and comment.split() else None
    masks: list[str] = []
    operands: list[Operand] = []
    for part in re.split(r",(?![^\[]*\])", rest) if rest else []:
        masks += re.findall(r"\{(k\d)\}", part)
        bare = re.sub(r"\{[^}]*\}", "", part).strip()
        if "[" in bare:
            operands.append(_memory(re.sub(r"\b[a-z]s:", "", bare), absolute))
        elif found := register(bare):
            operands.append(found)
        elif bare:
            operands.append(Constant(_signed(int(bare, 16))))
    return Instruction(
        int(at, 16), code, name, frozenset(prefixes), tuple(operands), tuple(masks), "{z}" in rest, following
    )


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _functions(path: Path) -> tuple[list[Function], dict[int, str]]:
    functions, labels, source = [], {}, ""
    for line in _run("readelf", "-sW", str(path)).partition("'.symtab'")[2].splitlines():
        words = line.split()
        if len(words) < 7 or not words[0].rstrip(":").isdigit() or words[6] == "UND":
            continue
        kind, binding, name = words[3], words[4], words[7] if len(words) > 7 else ""
        if kind == "FILE":
            source = name
        elif kind == "FUNC":
            functions.append(Function(name, source if binding == "LOCAL" else "", int(words[1], 16), int(words[2], 0)))
            labels[int(words[1], 16)] = name
    return functions, labels


def take_apart(path: Path) -> Library:
    """Read a linked x86-64 library; it must still have its symbols.

    Raises:
        ValueError: it has none. subprocess.CalledProcessError: objdump or readelf refuse it.
    """
    functions, labels = _functions(path)
    if not functions:
        raise ValueError(f"{path} has no symbols")
    listing = _run("objdump", "-d", "-M", "intel", "--no-show-raw-insn", str(path)).splitlines()
    for line in listing:
        if found := re.match(r"([0-9a-f]+) <(.+)@plt>:", line):
            labels[int(found[1], 16)] = found[2]
    lines = [line for line in listing if re.match(r"\s+[0-9a-f]+:\t\S", line) and "(bad)" not in line]
    addresses = [int(line.partition(":")[0], 16) for line in lines]
    instructions = {
        at: parse(line, after) for line, at, after in zip(lines, addresses, [*addresses[1:], -1], strict=True)
    }
    sections = []
    for line in _run("readelf", "-SW", str(path)).splitlines():
        if found := re.match(r"\s*\[\s*\d+\]\s+\S+\s+PROGBITS\s+(\S+)\s+(\S+)\s+(\S+)", line):
            sections.append((int(found[1], 16), int(found[2], 16), int(found[3], 16)))
    return Library(path, functions, instructions, sections, path.read_bytes(), labels)
