"""The rooms of the house: what each module may import, and how long a file may be."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .support import ROOT

PACKAGE = ROOT / "cellcrypt"
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

#: Rooms that a room may reach, of ours. One that is not named here may reach any but onion and testing, and no other
#: than __main__'s commands may be reached from nowhere: a new room needs a line only where it is stricter or freer.
MAY_REACH: dict[str, set[str]] = {
    "formats": set(),
    "errors": set(),
    "compiled": set(),
    "buffers": {"errors", "compiled"},
    "xor": {"compiled"},
    "position": {"backend.protocol", "buffers", "errors"},
    "cipher": {"backend", "buffers", "compiled", "formats", "position", "xor", "library"},
    "library": {"backend", "backend.protocol", "buffers", "cipher", "compiled", "errors", "formats", "position", "xor"},
    "circuits": {"buffers", "cipher", "compiled", "errors", "formats"},
    "backend": {"backend.protocol", "backend.native", "compiled", "errors"},
    "backend.protocol": set(),
    "backend.native": {"backend.protocol", "compiled", "errors"},
    "backend.pyca": {"backend.protocol", "errors"},
    "backend.pycryptodome": {"backend.protocol", "errors"},
    "backend.afalg": {"backend.protocol", "errors", "xor"},
}
#: Foreign packages, each in the rooms that are there for it. Outside backend they serve other things than AES-CTR.
FOREIGN: dict[str, set[str]] = {
    "backend.pyca": {"cryptography"},
    "backend.pycryptodome": {"Crypto"},
    "onion.keys": {"cryptography"},
    "cbc": {"cryptography", "Crypto"},
}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _is_typing_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield every import, inside functions too, but those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not _is_typing_guard(node):
            yield from _imports(node)


def reached(path: Path) -> tuple[set[str], set[str]]:
    """Return the rooms and the foreign packages that a module reaches."""
    rooms: set[str] = set()
    foreign: set[str] = set()
    here = _name(path).split(".") if _name(path) else []
    package = here if path.name == "__init__.py" else here[:-1]
    known = {_name(other) for other in MODULES}
    for node in _imports(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            # `from . import x` reaches room x where there is one, else the names of the package.
            targets = []
            for alias in node.names:
                room = ".".join([*base, alias.name])
                targets.append("cellcrypt." + (room if room in known else ".".join(base)))
        else:
            targets = [str(node.module)]
        for target in targets:
            top, _, rest = target.partition(".")
            if top == "cellcrypt":
                rooms.add(rest)
            elif top not in sys.stdlib_module_names:
                foreign.add(top)
    return rooms - {_name(path)}, foreign


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_rooms(path: Path) -> None:
    name, (rooms, foreign) = _name(path), reached(path)
    assert foreign <= FOREIGN.get(name, set()), f"{name} imports {foreign}"
    if name in MAY_REACH:
        assert rooms <= MAY_REACH[name], f"{name} reaches {rooms - MAY_REACH[name]}"
    if not name.startswith(("onion", "testing")) and name not in ("__main__",):
        assert not {room for room in rooms if room.startswith("onion")}, f"{name} reaches the onion"
        assert not {room for room in rooms if room.startswith("testing")}, f"{name} reaches the conformance suite"
    adapters = {"backend.native", "backend.pyca", "backend.pycryptodome", "backend.afalg"}
    if name not in ("backend", "cbc", "onion.cgo"):  # the latter two compute other modes than CTR
        assert not rooms & adapters, f"{name} reaches adapters {rooms & adapters}: the table of backends gives them"


def test_the_table_names_rooms_that_there_are() -> None:
    names = {_name(path) for path in MODULES}
    for room in {*MAY_REACH, *FOREIGN} | set().union(*MAY_REACH.values()):
        assert room in names, f"{room} is gone: take it out of the table"


def test_one_place_imports_the_core() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert ("cellcrypt._core" in text) == (_name(path) == "compiled"), path


def test_only_the_module_files_see_python_h() -> None:
    for path in (PACKAGE / "csrc").iterdir():
        if "Python.h>" in path.read_text(encoding="utf-8"):
            assert path.name.startswith("module"), path


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_files_are_short_and_introduce_themselves(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module's docstring says what lives there"


def test_no_work_at_import() -> None:
    """No module reads the environment or probes while it is imported."""
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for part in ast.walk(node):
                if isinstance(part, ast.Lambda):
                    continue
                assert "environ" not in ast.dump(part), f"{path} reads the environment at import"
                assert not (isinstance(part, ast.Call) and ast.unparse(part.func) in ("open", "print")), path
