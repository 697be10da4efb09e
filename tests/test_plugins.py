"""Third-party backends, from a distribution that is installed for real."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cellcrypt
from cellcrypt import TOR_V3, BackendUnavailable, CellCipher, ConcurrentUseError, crypt_each
from cellcrypt.backend import BUILT_IN
from cellcrypt.testing import check_backend, conformance

from .support import KEY, ROOT, run_code
from .witness import keystream, xor

IV = bytes(16)
GOOD = ("test-good", "test-raises", "test-meddles", "test-closes", "test-fails-to-close")
#: Wrong in a way that its proof does not show: the conformance suite must.
WRONG = (
    "test-carry32",
    "test-carry64",
    "test-nowrap",
    "test-position64",
    "test-remembers",
    "test-short",
    "test-shared",
)
#: Why each of these can't be used.
BROKEN = {
    "test-wrong": "wrong key stream",
    "test-refuses": "Trouble: no token in the slot",
    "test-gives-nothing": "AttributeError",
    "test-no-callable": "TypeError",
    "test-missing-name": "AttributeError",
    "test-missing-module": "ModuleNotFoundError: No module named 'cellcrypt_test_absent'",
    "test-broken": "ZeroDivisionError",
    "test-exits": "SystemExit",
    "test-speechless": "Speechless: (str() of it raises ZeroDivisionError)",
}

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "cellcrypt-test-plugins"
version = "7.5"
[tool.setuptools]
py-modules = ["cellcrypt_test_plugins", "cellcrypt_test_broken", "cellcrypt_test_exits"]
[project.entry-points."cellcrypt.backends"]
test-good = "cellcrypt_test_plugins:Good"
test-raises = "cellcrypt_test_plugins:Raises"
test-meddles = "cellcrypt_test_plugins:Meddles"
test-closes = "cellcrypt_test_plugins:Closes"
test-fails-to-close = "cellcrypt_test_plugins:FailsToClose"
test-carry32 = "cellcrypt_test_plugins:Carry32"
test-carry64 = "cellcrypt_test_plugins:Carry64"
test-nowrap = "cellcrypt_test_plugins:NoWrap"
test-position64 = "cellcrypt_test_plugins:Position64"
test-remembers = "cellcrypt_test_plugins:Remembers"
test-short = "cellcrypt_test_plugins:Short"
test-shared = "cellcrypt_test_plugins:Shared"
test-wrong = "cellcrypt_test_plugins:Wrong"
test-refuses = "cellcrypt_test_plugins:refuses"
test-gives-nothing = "cellcrypt_test_plugins:gives_nothing"
test-no-callable = "cellcrypt_test_plugins:no_callable"
test-missing-name = "cellcrypt_test_plugins:absent"
test-missing-module = "cellcrypt_test_absent:Good"
test-broken = "cellcrypt_test_broken:Good"
test-exits = "cellcrypt_test_exits:Good"
test-speechless = "cellcrypt_test_plugins:speechless"
native = "cellcrypt_test_plugins:Wrong"
cryptography = "cellcrypt_test_plugins:Wrong"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install the distribution into a folder on sys.path."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    plugins = (ROOT / "tests" / "plugins" / "backends.py").read_text(encoding="utf-8")
    (source / "cellcrypt_test_plugins.py").write_text(plugins, encoding="utf-8")
    (source / "cellcrypt_test_broken.py").write_text("1 // 0\n", encoding="utf-8")
    (source / "cellcrypt_test_exits.py").write_text("import sys; sys.exit('bye')\n", encoding="utf-8")
    install = ["-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--target", str(target)]
    subprocess.run([sys.executable, *install, str(source)], check=True, capture_output=True, timeout=120)
    sys.path.insert(0, str(target))
    importlib.invalidate_caches()
    yield target
    sys.path.remove(str(target))
    importlib.invalidate_caches()


@pytest.fixture
def plugins(installed: Path) -> Iterator[Any]:
    """Return the module of the plug-ins, all of them harmless again."""
    module = importlib.import_module("cellcrypt_test_plugins")
    yield module
    module.Raises.fuse = module.Meddles.hook = module.FailsToClose.fuse = None


@pytest.mark.usefixtures("installed")
def test_backends_reports_every_plug_in() -> None:
    found = cellcrypt.backends()
    assert tuple(found)[: len(BUILT_IN)] == BUILT_IN
    for name in (*GOOD, *WRONG):
        assert found[name] == cellcrypt.Availability(usable=True, reason=None, version="7.5", kernels=())
    for name, why in BROKEN.items():
        assert not found[name].usable
        assert why in str(found[name].reason), found[name]
        assert found[name].version == "7.5"


@pytest.mark.usefixtures("installed")
def test_a_name_that_a_built_in_bears_stays_the_built_in() -> None:
    with pytest.raises(ValueError, match="backend must be one of") as caught:
        CellCipher(KEY, backend="nonsense")
    for name in ("native", "cryptography", "test-good"):
        assert str(caught.value).split().count(f"{name},") == 1
    cipher = CellCipher(KEY, backend="cryptography")
    assert cipher.crypt(bytes(509)) + cipher.crypt(bytes(509)) == keystream(KEY, IV, 0, 1018)
    assert cellcrypt.backends()["cryptography"].version != "7.5"
    assert cellcrypt.backends()["native"].version != "7.5"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plug_in_is_unavailable_with_the_reason(name: str) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        CellCipher(KEY, backend=name)
    assert name in str(caught.value)
    assert BROKEN[name] in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    with pytest.raises(BackendUnavailable):
        conformance(name)


@pytest.mark.usefixtures("installed")
def test_the_good_one_conforms() -> None:
    assert check_backend("test-good", payload_lens=(509, 508, 1)) > 100


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", WRONG)
def test_the_conformance_suite_finds_each_fault(name: str) -> None:
    with pytest.raises(AssertionError, match=r"^\d+ of \d+ checks failed\n"):
        check_backend(name, paths=("fused",), payload_lens=(509,))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("path", ["byte", "word", "fused"])
def test_seventeen_cells(path: str) -> None:
    cipher = CellCipher(KEY, backend="test-good", path=path)
    assert (cipher.backend, cipher.kernel, cipher.path) == ("test-good", None, path)
    stream = keystream(KEY, IV, 0, 17 * 509)
    assert b"".join(cipher.crypt(bytes(509)) for _ in range(17)) == stream


@pytest.mark.parametrize("lookahead", [0, 1000])
@pytest.mark.parametrize("path", ["byte", "word", "fused"])
def test_one_that_raises_changes_nothing(plugins: Any, path: str, lookahead: int) -> None:
    """Whatever it wrote before: a single cell is unchanged, the position stays, and the next right call is right."""
    cipher = CellCipher(KEY, backend="test-raises", path=path, lookahead=lookahead)
    assert cipher.crypt(bytes(509)) == keystream(KEY, IV, 0, 509)
    cipher.seek(509)
    payload, out = bytearray(range(256)) * 2, bytearray(b"\xcc" * 509)
    del payload[509:]
    before = bytes(payload)
    for call, args in (
        (cipher.crypt, (payload,)),
        (cipher.crypt, (before,)),
        (cipher.crypt_into, (payload, out)),
        (cipher.crypt_into, (before, out)),
        (cipher.crypt_in_place, (payload,)),
        (cipher.crypt_cells, (payload, cellcrypt.CellFormat(0, 509))),
        (crypt_each, ([cipher], payload, cellcrypt.CellFormat(0, 509))),
        (cipher.keystream, (3,)),
    ):
        plugins.Raises.fuse = 0
        with pytest.raises(BackendUnavailable) as caught:
            call(*args)
        assert "backend 'test-raises' failed: Trouble: the token was pulled" in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        plugins.Raises.fuse = None
        assert payload == before
        assert out == b"\xcc" * 509
        assert cipher.position == 509
        assert cipher.crypt(before) == xor(before, keystream(KEY, IV, 509, 509))
        cipher.seek(509)


def test_a_batch_that_fails_on_the_way_says_how_far_it_came(plugins: Any) -> None:
    cipher, cells = CellCipher(KEY, backend="test-raises"), 1000
    wire = bytearray(512 * cells)
    plugins.Raises.fuse = 2
    with pytest.raises(BackendUnavailable, match=r"\((\d+) of 1000 cells are done\)") as caught:
        cipher.crypt_cells(wire, TOR_V3)
    done = int(str(caught.value).partition("(")[2].split()[0])
    assert 0 < done < cells
    assert cipher.position == 509 * done
    plugins.Raises.fuse = None
    assert not any(wire[512 * done :])
    cipher.crypt_cells(memoryview(wire)[512 * done :], TOR_V3)
    whole = CellCipher(KEY, backend="cryptography").keystream(509 * cells)
    assert b"".join(bytes(wire[at + 3 : at + 512]) for at in range(0, len(wire), 512)) == whole


def test_crypt_each_that_fails_on_the_way_says_how_far_it_came(plugins: Any) -> None:
    good, bad = CellCipher(KEY, backend="cryptography"), CellCipher(KEY, backend="test-raises")
    plugins.Raises.fuse = 1
    wire = bytearray(512 * 5)
    with pytest.raises(BackendUnavailable, match=r"\(3 of 5 cells are done\)"):
        crypt_each([good, bad, good, bad, good], wire, TOR_V3)
    assert (good.position, bad.position) == (1018, 509)
    assert wire[3:512] == wire[515:1024] == keystream(KEY, IV, 0, 509)
    assert not any(wire[1536:])
    plugins.Raises.fuse = None
    crypt_each([bad, good], memoryview(wire)[1536:], TOR_V3)
    assert wire[1539:2048] == keystream(KEY, IV, 509, 509)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_of_the_plug_in_passes(plugins: Any, interrupt: type[BaseException]) -> None:
    """Ctrl-C inside a plug-in reaches the program as it is; the cell is unchanged and the cipher goes on."""

    def hook() -> None:
        raise interrupt

    cipher, payload = CellCipher(KEY, backend="test-meddles"), bytearray(509)
    plugins.Meddles.hook = hook
    for call in (cipher.crypt, cipher.crypt_in_place):
        with pytest.raises(interrupt):
            call(payload)
    assert not any(payload)
    assert cipher.position == 0
    plugins.Meddles.hook = None
    assert cipher.crypt(bytes(509)) == keystream(KEY, IV, 0, 509)


def test_one_that_meddles(plugins: Any) -> None:
    """A plug-in that uses the very cipher, or resizes the very buffer, meets a closed door."""
    cipher, payload, met = CellCipher(KEY, backend="test-meddles"), bytearray(509), []

    def hook() -> None:
        for meddle in (
            lambda: cipher.crypt(bytes(509)),
            lambda: cipher.seek(0),
            lambda: cipher.clone(),
            lambda: cipher.close(),
            lambda: crypt_each([cipher], bytearray(512), TOR_V3),
            lambda: payload.extend(b"x"),
        ):
            with pytest.raises((ConcurrentUseError, BufferError)):
                meddle()
            met.append(meddle)

    plugins.Meddles.hook = hook
    cipher.crypt_in_place(payload)
    assert len(met) == 6
    assert payload == keystream(KEY, IV, 0, 509)
    assert cipher.position == 509


def test_close_reaches_the_plug_in(plugins: Any) -> None:
    cipher = CellCipher(KEY, backend="test-closes")
    before = plugins.Closes.closed
    cipher.close()
    cipher.close()
    assert plugins.Closes.closed == before + 1
    bad = CellCipher(KEY, backend="test-fails-to-close")
    plugins.FailsToClose.fuse = True
    with pytest.raises(BackendUnavailable, match="did not close: Trouble: it would not close"):
        bad.close()
    with pytest.raises(cellcrypt.ClosedError):
        bad.crypt(bytes(509))
    bad.close()


def test_plug_ins_load_when_they_are_asked_for(installed: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "import cellcrypt\n"
        "cellcrypt.CellCipher(bytes(16), backend='cryptography').crypt(bytes(509))\n"
        "assert 'cellcrypt_test_plugins' not in sys.modules\n"
        "cellcrypt.CellCipher(bytes(16), backend='test-good')\n"
        "assert 'cellcrypt_test_plugins' in sys.modules\n"
        "assert 'cellcrypt_test_broken' not in sys.modules\n"
    )
    run_code(code)


@pytest.mark.usefixtures("installed")
def test_environment_may_name_a_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLCRYPT_BACKEND", "test-good")
    assert CellCipher(KEY).backend == "test-good"
    monkeypatch.setenv("CELLCRYPT_BACKEND", "test-refuses")
    with pytest.raises(BackendUnavailable, match=r"CELLCRYPT_BACKEND.*test-refuses.*no token"):
        CellCipher(KEY)
