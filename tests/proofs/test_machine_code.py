"""The built extension's machine code: no secret decides a jump or an address; instruction sets stay in their kernels.

Valgrind 3.19 knows neither VAES nor AVX-512, so for those kernels this takes the place of tests/proofs/test_ctgrind.py.
What exactly is shown, and what is taken for granted, stands in taint.py. Planted leaks show that it can fail.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import pytest

from cellcrypt.compiled import core

from ..support import needs_core, tool
from .disassembly import Function, Library, take_apart
from .isa import instruction_set, may_use
from .kit import CSRC, FLAGS, PROGRAMS, build
from .taint import Analysis
from .values import PUBLIC, SECRET, Value, pointer

pytestmark = [
    needs_core,
    pytest.mark.skipif(platform.machine() != "x86_64", reason=f"reads x86-64 code, this is {platform.machine()}"),
]

#: A kernel's functions as the core calls them: where each argument is (System V ABI), and what it points to.
_CELLS = {
    "rdi": pointer("stream"),
    "rsi": pointer("payload"),
    "rdx": pointer("payload"),
    "rcx": PUBLIC,
    "r8": PUBLIC,
    "r9": PUBLIC,
}
_EXPAND = {"rdi": pointer("round keys"), "rsi": pointer("key"), "rdx": PUBLIC}
_BLOCK = {"rdi": pointer("round keys"), "rsi": PUBLIC, "rdx": pointer("out"), "rcx": pointer("block")}
ENTRIES: dict[str, dict[str, Value]] = {
    "xor_cells": _CELLS,
    "xor_one": {
        "rdi": pointer("stream of a secret counter"),
        "rsi": pointer("payload"),
        "rdx": pointer("payload"),
        "rcx": PUBLIC,
    },
    "keystream": {
        "rdi": pointer("round keys"),
        "rsi": PUBLIC,
        "rdx": SECRET,
        "rcx": SECRET,
        "r8": pointer("out"),
        "r9": PUBLIC,
    },
    "aes_limit": {"rdi": pointer("round keys"), "rsi": PUBLIC, "rdx": PUBLIC},
    "expand128": _EXPAND,
    "expand192": _EXPAND,
    "expand256": _EXPAND,
    "forget": {},
    # those of Counter Galois Onion, where the command is an octet of a header
    "prepare": {"rdi": pointer("powers"), "rsi": pointer("key")},
    "tweak": {
        "rdi": pointer("out"),
        "rsi": pointer("powers"),
        "rdx": pointer("tag"),
        "rcx": PUBLIC,
        "r8": pointer("payload"),
    },
    "product": {"rdi": pointer("out"), "rsi": pointer("key"), "rdx": pointer("block")},
    "turn_aesni": {"rdi": pointer("round keys"), "rsi": PUBLIC},
    **dict.fromkeys(("encrypt_aesni", "decrypt_aesni"), _BLOCK),
}
#: The sources with instructions beyond what x86-64 always has, and one set that each must be seen to use.
OWN_SETS = {
    "kernel_vaes512.c": "avx512",
    "kernel_vaes256.c": "vaes",
    "kernel_aesni.c": "aes",
    "polyval_vpclmul.c": "vpclmul",
    "polyval_pclmul.c": "pclmul",
    "aes_block.c": "aes",
}
LEAKS = (
    "array",
    "branch_on_key_stream",
    "count",
    "division",
    "early_exit_on_payload",
    "gather",
    "into_public_part",
    "stack",
    "table_index",
    "table_index_from_vector",
    "vector_compare",
)


@cache
def _extension() -> Library:
    tool("objdump")
    library = take_apart(Path(core.__file__))
    if any(name.startswith(("__asan", "__ubsan", "__tsan")) for name in library.labels.values()):
        pytest.skip("the core was built with a sanitizer, whose checks branch on everything")
    return library


def _run(library: Library, function: Function, arguments: dict[str, Value]) -> Analysis:
    analysis = Analysis(library)
    analysis.run(function, arguments)
    return analysis


@pytest.mark.parametrize("source", OWN_SETS)
def test_no_secret_decides_a_jump_or_an_address(source: str) -> None:
    library = _extension()
    functions = [f for f in library.of_source(source) if may_use(source, f.name) != {"base"}]
    assert functions, f"no function of {source} in {library.path}"
    reached: set[int] = set()
    for function in functions:
        if function.name in ENTRIES:
            analysis = _run(library, function, ENTRIES[function.name])
            assert not analysis.problems, "\n".join(analysis.problems.values())
            reached |= analysis.visited
    # What no entry reaches has not been shown: a part the analysis lost, or a function that ENTRIES must name.
    missed = [
        f"{function.name}: {i.address:#x}: {i.text}"
        for function in functions
        for i in library.instructions_of(function)
        if i.address not in reached and i.name not in ("nop", "xchg")
    ]
    assert not missed, "\n".join(missed[:20])


def test_it_is_noticed_where_a_secret_counter_decides() -> None:
    """As it would in a table of counters, for which a stream's is public."""
    library = _extension()
    (function,) = (f for f in library.of_source("kernel_vaes512.c") if f.name == "xor_cells")
    arguments = _CELLS | {"rdi": pointer("stream of a secret counter")}
    assert _run(library, function, arguments).problems


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Library:
    tool("objdump")
    target = tmp_path_factory.mktemp("planted") / "planted.so"
    extra = ("-shared", "-fPIC", f"-I{CSRC}", "-Wno-unused-parameter")
    return take_apart(build(target, PROGRAMS / "planted_leaks.c", flags=FLAGS, extra=extra))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found(planted: Library, leak: str) -> None:
    function = next(f for f in planted.functions if f.name == f"leak_{leak}")
    problems = _run(planted, function, _CELLS).problems.values()
    assert problems, leak
    assert all(f"leak_{leak}+" in problem for problem in problems), problems


def test_every_planted_function_is_looked_at(planted: Library) -> None:
    assert {f.name for f in planted.functions if f.name.startswith("leak_")} == {f"leak_{leak}" for leak in LEAKS}


@pytest.mark.parametrize("name", ["sound_selection", "sound_counter_index", "sound_kernel"])
def test_nothing_is_found_where_no_leak_is(planted: Library, name: str) -> None:
    function = next(f for f in planted.functions if f.name == name)
    problems = _run(planted, function, _CELLS).problems
    assert not problems, problems


def test_instruction_sets_stay_in_their_kernels() -> None:
    library, strays, used = _extension(), [], dict[str, set[str]]()
    for i in library.instructions.values():
        function = library.function_at(i.address)
        source = function.source if function else ""
        needed = instruction_set(i)
        used.setdefault(source, set()).add(needed)
        name = function.name if function else ""
        if needed not in may_use(source, name):
            strays.append(f"{source} {name}: {needed}: {i.text}")
    assert not strays, "\n".join(strays[:20])
    for source, own in OWN_SETS.items():
        assert own in used[source], "the check must see what the kernel is made of"
