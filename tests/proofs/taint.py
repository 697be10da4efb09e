"""Follow secrets through the machine code of a kernel, and name each place where one could show in the time it takes.

What is shown: from the entry on, over every path, no secret value
  - is part of an address, an index of a gather, or the count of a string instruction;
  - decides a conditional jump, or where an indirect one goes;
  - goes through an instruction whose time depends on its operands (division);
  - leaves for static data or for a part of the stream that counts as public.
Conditional moves, masks and set-on-condition do not depend on data in their time: their results are secret, no more.

How: abstract interpretation. A register or a slot of the stack holds PUBLIC, SECRET, or a pointer into a region with
its distance from where the region starts (the least one, where it varies). What is read from payloads, keys, round keys
and the spare block is secret; so is whatever this analysis can't follow: a load through an unknown pointer, or from a
slot of which it does not know who wrote it. Public are the arguments, the rest of the stream, and static data.

What is taken for granted, and shown elsewhere: a store at a varying place on the stack stays inside the array whose
start it was computed from (ARRAY octets at most; the sanitizers see to that). An instruction that is not in the tables
below is an error, never skipped.
"""

from __future__ import annotations

import re

from .disassembly import Constant, Function, Instruction, Library, Memory, Operand, Register
from .values import PUBLIC, SECRET, State, Value, add, join, moved, pointer, taint

#: The largest array on a kernel's stack, in octets: the two-round table and one vector, two deltas, and a page of room.
ARRAY = 16 * 256 + 64 + 2 * 64 + 4096
#: Octets of cc_stream that are secret: round keys, then the spare block. The rest is public, except that Counter Galois
#: Onion's counter, which comes next, is a secret too.
STREAMS = {"stream": 256, "stream of a secret counter": 272}
#: Functions of the C library that kernels may call. Their time depends on lengths and addresses.
_EXTERNAL = frozenset({"memset", "memcpy", "cc_wipe"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MOVES = _words("mov movabs movq movd vmovq vmovd")
_EXTENDS = _words("movzx movsx movsxd movbe")
_SETS_FLAGS = _words(
    "add sub and or xor neg inc dec shl shr sar rol ror imul adc sbb bt btr bts andn bzhi bextr popcnt tzcnt lzcnt bsf"
    " bsr shld shrd blsr blsi blsmsk"
)
_NO_FLAGS = _words("not bswap shlx shrx sarx rorx cbw cwde cdqe cwd cdq cqo")
_COMPARES = _words("cmp test bt ptest vptest vtestps kortestb kortestw kortestd kortestq ktestb ktestw ktestd ktestq")
_NOTHING = _words(
    "nop endbr64 vzeroupper vzeroall prefetcht0 prefetcht1 prefetcht2 prefetchnta prefetchw mfence lfence"
)
_NOT_SAME_IS_PUBLIC = _words("test ptest vptest")
_SSE = re.compile(
    r"p(xor|and|or|andn|add|sub|sll|srl|sra|shuf|unpck|cmp|blend|extr|insr|mul|min|max|abs|align|mov|ack)\w*$"
    r"|aes(enc|enclast|dec|declast|keygenassist|imc)$|pclmul\w+$|mov(dqa|dqu|aps|ups|apd|upd|hps|lps|hpd|lpd|lhps|hlps|ddup|nti|ntdq)$"
    r"|(xor|and|or|andn|shuf|unpckl|unpckh)p[sd]$|blendvp[sd]$|lddqu$"
)
_ONE_WAY = re.compile(r"v?mov|v?lddqu|vp?broadcast|kmov|v?pmov|pshuf|v?pabs|vpopcnt")
_READS_DESTINATION = re.compile(r"v(pternlog|permt2|permi2|pdpbusd|pmadd52)\w*$|vp?blendm")
_DIVISION = re.compile(r"v?(div|idiv|sqrt)\w*$")
_SAME_IS_ZERO = re.compile(r"v?pxor[dq]?$|v?xorp[sd]$|xor$|sub$|v?pcmpeq[bwdq]$|v?psub[bwdq]$|kxn?or[bwdq]$")


class Analysis:
    """One run over one entry: `problems` are what was found, `visited` the addresses that were reached."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.problems: dict[tuple[int, str], str] = {}
        self.visited: set[int] = set()

    def run(self, function: Function, arguments: dict[str, Value]) -> None:
        """Follow `function`, entered with `arguments` in its registers; everything else is unknown."""
        state = State(
            dict.fromkeys(("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", *(f"r{n}" for n in range(8, 16))), SECRET)
        )
        state.registers |= arguments
        state.registers["rsp"] = pointer("stack")
        self._follow(function.start, state, 0)

    # -- paths -------------------------------------------------------------------------------------------------------

    def _problem(self, instruction: Instruction, what: str) -> None:
        where = self.library.function_at(instruction.address)
        name = f"{where.source}: {where.name}+{instruction.address - where.start:#x}" if where else "?"
        self.problems.setdefault((instruction.address, what), f"{name}: {what}: {instruction.text}")

    def _follow(self, start: int, entry: State, depth: int) -> State | None:
        """Return the state after the call of what begins at `start`, or None if it does not return."""
        if depth > 8:
            raise RecursionError(f"calls nest deeper than 8 at {start:#x}")
        before, todo, times, after = {start: entry}, [start], dict[int, int](), None
        while todo:
            at = todo.pop()
            state = before[at].copy()
            while True:
                instruction = self.library.instructions.get(at)
                if instruction is None:
                    raise LookupError(f"no instruction at {at:#x}, reached from {start:#x}")
                self.visited.add(at)
                targets, returns = self._step(instruction, state, depth)
                if returns:
                    after = state if after is None else after.merged(state)
                for target in targets:
                    known = before.get(target)
                    merged = state if known is None else known.merged(state)
                    if known is None or merged != known:
                        times[target] = times.get(target, 0) + 1
                        before[target] = (self._widened(merged) if times[target] > 40 else merged).copy()
                        todo.append(target)
                if instruction.name == "jmp" or returns:
                    break
                at = instruction.following
                if at in before:
                    merged = before[at].merged(state)
                    if merged != before[at]:
                        before[at] = merged
                        todo.append(at)
                    break
        return after

    @staticmethod
    def _widened(state: State) -> State:
        for name, value in state.registers.items():
            if value.kind == "pointer" and value.varies:
                state.registers[name] = pointer(value.region, None, True)
        return state

    def _step(self, i: Instruction, state: State, depth: int) -> tuple[list[int], bool]:
        """Take one instruction. Return where else it may go on, and whether it returns to the caller."""
        if (memory := i.memory) is not None and i.name not in ("lea", "nop"):
            self._check_address(i, memory, state)
        name = i.name
        if name == "ret":
            return [], True
        if name in ("jmp", "call") and not isinstance(i.operands[0], Constant):
            return self._indirect(i, state), False
        if name == "call":
            self._call(i, state, depth)
            return [], False
        if name.startswith("j"):
            assert isinstance(i.operands[0], Constant)
            secret = state.flags if name not in ("jrcxz", "jecxz") else state.registers["rcx"]
            if name != "jmp" and secret == SECRET:
                self._problem(i, "a secret decides a jump")
            target = i.operands[0].value
            if (
                name == "jmp"
                and target in self.library.labels
                and (external := self.library.labels[target]) in _EXTERNAL
            ):
                self._external(i, external, state)
                return [], True
            return ([] if target in self.library.nowhere else [target]), False
        self._compute(i, state)
        return [], False

    def _indirect(self, i: Instruction, state: State) -> list[int]:
        value = self._read(i, i.operands[0], state)
        here = self.library.function_at(i.address)
        if value == SECRET:
            self._problem(i, "a secret decides where a jump goes")
        elif i.name == "call" or value.region != "constants" or value.distance is None or here is None:
            self._problem(i, "can't follow this jump")
        else:  # a switch: its table holds distances from the table to the cases
            targets, at = [], value.distance
            while (target := value.distance + self.library.word_at(at)) in self.library.instructions:
                if target not in self.library.nowhere:
                    if self.library.function_at(target) != here:
                        break
                    targets.append(target)
                at += 4
            return targets
        return []

    def _call(self, i: Instruction, state: State, depth: int) -> None:
        assert isinstance(i.operands[0], Constant)
        target = i.operands[0].value
        name = self.library.labels.get(target, "")
        if name in _EXTERNAL:
            self._external(i, name, state)
            return
        if self.library.function_at(target) is None:
            self._problem(i, f"can't follow a call of {name or hex(target)}")
            return
        rsp = state.registers["rsp"]
        inside = state.copy()
        self._push(inside, PUBLIC)
        after = self._follow(target, inside, depth + 1)
        if after is not None:
            state.registers, state.flags, state.stack = after.registers, after.flags, after.stack
        state.registers["rsp"] = rsp

    def _external(self, i: Instruction, name: str, state: State) -> None:
        for register in ("rdi", "rdx") if name == "memset" else ("rdi", "rsi", "rdx"):
            if state.registers[register] == SECRET:
                self._problem(i, f"a secret is the address or the length that {name} is called with")
        self._store(i, state, state.registers["rdi"]._replace(varies=True), 1, SECRET)
        destination = state.registers["rdi"]
        for register in ("rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"):
            state.registers[register] = PUBLIC
        for register in list(state.registers):
            if register[0] in "vk":
                state.registers[register] = SECRET
        state.registers["rax"], state.flags = destination, PUBLIC

    # -- memory ------------------------------------------------------------------------------------------------------

    def _address(self, memory: Memory, state: State) -> Value:
        if memory.absolute is not None:
            return pointer("constants", memory.absolute)
        base = state.registers[memory.base] if memory.base else PUBLIC
        if memory.index:
            base = add(
                base, state.registers[memory.index] if memory.scale == 1 else taint(state.registers[memory.index])
            )
        return moved(base, memory.displacement)

    def _check_address(self, i: Instruction, memory: Memory, state: State) -> None:
        for name in (memory.base, memory.index):
            if name and state.registers.get(name, SECRET) == SECRET:
                self._problem(i, "a secret is part of an address")

    def _load(self, address: Value, size: int, state: State) -> Value:
        if address.region == "constants":
            return PUBLIC
        if address.region in STREAMS:
            secret = STREAMS[address.region]
            known = not address.varies and address.distance is not None and address.distance >= secret
            return PUBLIC if known else SECRET
        if address.region.startswith("stack") and not address.varies and address.distance is not None:
            start = address.distance
            exact = state.stack.get((address.region, start, size))
            if exact is not None:
                return exact
            inside = (
                v
                for (r, a, n), v in state.stack.items()
                if r == address.region and a <= start and start + size <= a + n
            )
            return taint(next(inside, SECRET))
        return SECRET

    def _store(self, i: Instruction, state: State, address: Value, size: int, value: Value) -> None:
        if address.region.startswith("stack"):
            if address.distance is None:
                self._problem(i, "can't follow this store to the stack")
                return
            start, end = address.distance, address.distance + (ARRAY if address.varies else size)
            for slot in [(r, a, n) for r, a, n in state.stack if r == address.region and a < end and start < a + n]:
                del state.stack[slot]
            if not address.varies:
                state.stack[address.region, start, size] = value
        elif address.region in STREAMS:
            secret = STREAMS[address.region]
            inside = not address.varies and address.distance is not None and address.distance + size <= secret
            if value == SECRET and not inside:
                self._problem(i, "a secret goes to a public part of the stream")
        elif address.region == "constants":
            self._problem(i, "a store to static data")
        elif not address.region and address != SECRET:
            self._problem(i, "can't follow this store")

    def _push(self, state: State, value: Value) -> None:
        rsp = state.registers["rsp"] = moved(state.registers["rsp"], -8)
        assert rsp.distance is not None
        state.stack[rsp.region, rsp.distance, 8] = value

    # -- computing ---------------------------------------------------------------------------------------------------

    def _read(self, i: Instruction, operand: Operand, state: State) -> Value:
        if isinstance(operand, Register):
            value = state.registers.get(operand.name, SECRET)
            return value if operand.size >= 8 else taint(value)
        if isinstance(operand, Memory):
            return self._load(self._address(operand, state), operand.size, state)
        return PUBLIC

    def _write(self, i: Instruction, operand: Operand, value: Value, state: State) -> None:
        if isinstance(operand, Register):
            if operand.size < 4:  # the rest of the register stays
                value = taint(value, state.registers.get(operand.name, SECRET))
            elif operand.size == 4:
                value = taint(value)
            state.registers[operand.name] = value
        elif isinstance(operand, Memory):
            self._store(i, state, self._address(operand, state), operand.size, value)

    def _compute(self, i: Instruction, state: State) -> None:
        name, operands = i.name, i.operands
        if name in _NOTHING:
            return
        values = [self._read(i, operand, state) for operand in operands]
        values += [state.registers.get(mask, SECRET) for mask in i.masks]
        all_of = taint(*values)
        if _DIVISION.match(name):
            if SECRET in (all_of, state.registers["rax"], state.registers["rdx"]):
                self._problem(i, "a secret is divided")
            state.registers["rax"] = state.registers["rdx"] = state.flags = all_of
        elif i.prefixes & {"rep", "repz", "repnz"}:
            self._string(i, state)
        elif name in _COMPARES:
            same = len(operands) == 2 and operands[0] == operands[1]
            same = same and name not in _NOT_SAME_IS_PUBLIC and name[0] != "k"
            state.flags = PUBLIC if same else all_of
        elif name == "push":
            self._push(state, values[0])
        elif name == "pop":
            self._write(i, operands[0], self._load(state.registers["rsp"], 8, state), state)
            state.registers["rsp"] = moved(state.registers["rsp"], 8)
        elif name == "leave":
            state.registers["rsp"] = moved(state.registers["rbp"], 8)
            state.registers["rbp"] = self._load(state.registers["rbp"], 8, state)
        elif name == "lea":
            assert isinstance(operands[1], Memory)
            self._write(i, operands[0], self._address(operands[1], state), state)
        elif name in _MOVES:
            self._write(i, operands[0], values[1], state)
        elif name in _EXTENDS:
            self._write(i, operands[0], taint(values[1]), state)
        elif name.startswith("cmov"):
            self._write(i, operands[0], taint(state.flags) if state.flags == SECRET else join(*values), state)
        elif name.startswith("set"):
            self._write(i, operands[0], taint(state.flags), state)
        elif name in ("mul", "mulx"):
            raise NotImplementedError(f"{i.text}: not in the tables of this analysis")
        elif name == "xchg" and operands[0] == operands[1]:
            return  # padding
        elif name == "xchg":
            self._write(i, operands[0], values[1], state)
            self._write(i, operands[1], values[0], state)
        elif name in _SETS_FLAGS or name in _NO_FLAGS:
            self._arithmetic(i, values, state)
        elif name[0] == "v" or name[0] == "k" or _SSE.match(name):
            self._vector(i, values, state)
        else:
            raise NotImplementedError(f"{i.text}: not in the tables of this analysis")

    def _arithmetic(self, i: Instruction, values: list[Value], state: State) -> None:
        name, operands = i.name, i.operands
        extra = [state.flags] if name in ("adc", "sbb") else []
        same = len(operands) == 2 and operands[0] == operands[1] and isinstance(operands[0], Register)
        if name in ("cbw", "cwde", "cdqe"):
            state.registers["rax"] = taint(state.registers["rax"])
            return
        if name in ("cwd", "cdq", "cqo"):
            state.registers["rdx"] = taint(state.registers["rax"])
            return
        if same and _SAME_IS_ZERO.match(name):
            result = PUBLIC
        elif name == "add":
            result = add(values[0], values[1])
            if isinstance(operands[1], Constant):
                result = moved(values[0], operands[1].value)
        elif name == "sub" and isinstance(operands[1], Constant):
            result = moved(values[0], -operands[1].value)
        elif name == "sub" and (values[0].kind, values[1]) == ("pointer", PUBLIC):
            result = pointer(values[0].region, None, True)
        elif name == "and" and isinstance(operands[0], Register) and operands[0].name == "rsp":
            result = pointer(f"stack aligned at {i.address:#x}")
        elif len(operands) == 3 or name in ("shlx", "shrx", "sarx", "rorx", "popcnt", "tzcnt", "lzcnt", "blsr", "blsi"):
            result = taint(*values[1:])
        else:
            result = taint(*values, *extra)
        self._write(i, operands[0], result, state)
        if name not in _NO_FLAGS:
            state.flags = taint(*values, *extra)

    def _vector(self, i: Instruction, values: list[Value], state: State) -> None:
        operands = i.operands
        to_memory = isinstance(operands[0], Memory)
        one_way = len(operands) == 2 and _ONE_WAY.match(i.name)
        keeps = (
            (i.name[0] not in "vk" and not one_way)
            or bool(_READS_DESTINATION.match(i.name))
            or (bool(i.masks) and not i.zeroing and not to_memory)
            or len(operands) == 1
        )
        sources = operands[1:3] if len(operands) > 2 else operands
        zero = len(sources) == 2 and sources[0] == sources[1] and _SAME_IS_ZERO.match(i.name)
        ones = i.name.startswith("vpternlog") and operands[-1] in (Constant(0), Constant(0xFF))
        if (zero or ones) and not i.masks:
            result = PUBLIC
        else:
            result = taint(*(values if keeps else values[1:]))
            if i.name.startswith(("pblendv", "blendv")):
                result = taint(result, state.registers.get("v0", SECRET))
        self._write(i, operands[0], result, state)

    def _string(self, i: Instruction, state: State) -> None:
        moved = ("rdi", "rcx", "rsi") if i.name.startswith("movs") else ("rdi", "rcx")
        if not i.name.startswith(("movs", "stos")):
            raise NotImplementedError(f"{i.text}: not in the tables of this analysis")
        if SECRET in [state.registers[name] for name in moved]:
            self._problem(i, "a secret is the address or the count of a string instruction")
        self._store(i, state, state.registers["rdi"]._replace(varies=True), 1, SECRET)
        for name in moved:
            state.registers[name] = add(state.registers[name], PUBLIC)
