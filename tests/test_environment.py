"""What None means: CELLCRYPT_BACKEND and CELLCRYPT_KERNEL, the order of choice, and that importing loads nothing."""

from __future__ import annotations

import pytest

import cellcrypt
from cellcrypt import BackendUnavailable, CellCipher
from cellcrypt.backend import BUILT_IN
from cellcrypt.testing import Subject

from .support import KEY, each_backend, needs_core, run_code
from .witness import keystream

USABLE = [name for name in BUILT_IN if cellcrypt.backends()[name].usable]
NO_CORE = "import sys; sys.modules['cellcrypt._core'] = None\n"
NO_LIBRARY = "import sys; sys.modules['cryptography'] = None\n"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELLCRYPT_BACKEND", raising=False)
    monkeypatch.delenv("CELLCRYPT_KERNEL", raising=False)


@pytest.mark.parametrize("name", USABLE)
def test_the_variable_sets_what_none_means(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("CELLCRYPT_BACKEND", name)
    for cipher in (CellCipher(KEY), CellCipher(KEY, backend=None), CellCipher(KEY, path="word", payload_len=5)):
        assert cipher.backend == name
    assert CellCipher(KEY).crypt(bytes(509)) == keystream(KEY, bytes(16), 0, 509)


@pytest.mark.parametrize("bad", ["nonsense", "Native", " native", "fused", "native,cryptography"])
def test_a_bad_value_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("CELLCRYPT_BACKEND", bad)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^environment variable CELLCRYPT_BACKEND: ") as caught:
            CellCipher(KEY)
        assert repr(bad) in str(caught.value)
        assert ", ".join(BUILT_IN) in str(caught.value)
    monkeypatch.delenv("CELLCRYPT_BACKEND")
    CellCipher(KEY)


@each_backend
@pytest.mark.parametrize("value", ["nonsense", "pycryptodome", ""])
def test_it_never_touches_an_explicit_backend(monkeypatch: pytest.MonkeyPatch, subject: Subject, value: str) -> None:
    monkeypatch.setenv("CELLCRYPT_BACKEND", value)
    cipher = subject.cipher(KEY)
    assert cipher.backend == subject.backend
    assert cipher.clone().backend == subject.backend


def test_an_empty_value_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = CellCipher(KEY).backend
    monkeypatch.setenv("CELLCRYPT_BACKEND", "")
    assert CellCipher(KEY).backend == usual


def test_it_is_read_when_a_cipher_is_made_and_not_at_import() -> None:
    code = (
        "import os, cellcrypt\n"
        "try: cellcrypt.CellCipher(bytes(16))\n"
        "except ValueError as error: assert 'CELLCRYPT_BACKEND' in str(error)\n"
        "else: raise SystemExit('accepted')\n"
        "cellcrypt.backends()\n"
        "os.environ['CELLCRYPT_BACKEND'] = 'cryptography'\n"
        "assert cellcrypt.CellCipher(bytes(16)).backend == 'cryptography'\n"
        "del os.environ['CELLCRYPT_BACKEND']\n"
        "cellcrypt.CellCipher(bytes(16))\n"
    )
    run_code(code, environment={"CELLCRYPT_BACKEND": "nonsense"})


def test_the_order_of_choice() -> None:
    """native where it has AES instructions; else cryptography; never pycryptodome, afalg or a plug-in."""
    first = cellcrypt.backends()["native"].kernels[:1]
    assert CellCipher(KEY).backend == ("native" if first not in ((), ("portable",)) else "cryptography")
    made = "import cellcrypt; print(cellcrypt.CellCipher(bytes(16)).backend)"
    assert run_code(NO_CORE + made) == "cryptography\n"


@needs_core
def test_without_the_library_native_is_left() -> None:
    assert run_code(NO_LIBRARY + "import cellcrypt; print(cellcrypt.CellCipher(bytes(16)).backend)") == "native\n"


def test_none_with_nothing_usable() -> None:
    code = (
        NO_CORE + NO_LIBRARY + "import cellcrypt\n"
        "try: cellcrypt.CellCipher(bytes(16))\n"
        "except cellcrypt.BackendUnavailable as error: print(error)\n"
    )
    said = run_code(code)
    assert "'native' is unavailable: the C core" in said
    assert "'cryptography' is unavailable: " in said


def test_a_missing_library_is_a_reason() -> None:
    code = (
        "import sys; sys.modules['Crypto'] = None\n"
        "import cellcrypt\n"
        "print(cellcrypt.backends()['pycryptodome'].reason)\n"
        "try: cellcrypt.CellCipher(bytes(16), backend='pycryptodome')\n"
        "except cellcrypt.BackendUnavailable as error: print(error)\n"
    )
    reason, said = run_code(code).splitlines()
    assert "Crypto" in reason
    assert said == f"backend 'pycryptodome' is unavailable: {reason}"


@needs_core
@pytest.mark.parametrize("kernel", cellcrypt.backends()["native"].kernels)
def test_the_kernel_variable(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setenv("CELLCRYPT_KERNEL", kernel)
    cipher = CellCipher(KEY, backend="native")
    assert cipher.kernel == kernel
    assert cipher.crypt(bytes(509)) == keystream(KEY, bytes(16), 0, 509)
    for explicit in cellcrypt.backends()["native"].kernels:
        assert CellCipher(KEY, backend="native", kernel=explicit).kernel == explicit
    if cellcrypt.backends()["cryptography"].usable:
        assert CellCipher(KEY, backend="cryptography").kernel is None


@needs_core
def test_a_bad_kernel_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLCRYPT_KERNEL", "sse9")
    with pytest.raises(ValueError, match=r"^environment variable CELLCRYPT_KERNEL: kernel must be one of .*'sse9'"):
        CellCipher(KEY, backend="native")
    CellCipher(KEY, backend="native", kernel="portable")


def test_importing_loads_no_backend_library() -> None:
    code = (
        "import sys, cellcrypt, cellcrypt.testing\n"
        "cellcrypt.CellFormat(3, 509)\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'cryptography', 'Crypto', 'hypothesis', 'pytest', 'numpy'}, loaded\n"
    )
    run_code(code)


@pytest.mark.parametrize("name", USABLE)
def test_no_backend_loads_another_ones_library(name: str) -> None:
    library = {"cryptography": "cryptography", "pycryptodome": "Crypto"}.get(name)
    code = (
        "import sys, cellcrypt\n"
        f"cipher = cellcrypt.CellCipher(bytes(16), backend={name!r})\n"
        "cipher.crypt(bytes(509)); cipher.crypt_cells(bytearray(514), cellcrypt.TOR_V4); cipher.clone(); repr(cipher)\n"
        "cellcrypt.crypt_each([cipher], bytearray(514), cellcrypt.TOR_V4)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'cryptography', 'Crypto'}))\n"
    )
    assert run_code(code) == f"{library or ''}\n"


def test_an_unavailable_one_named_by_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(BUILT_IN) - set(USABLE):
        monkeypatch.setenv("CELLCRYPT_BACKEND", name)
        with pytest.raises(BackendUnavailable, match="environment variable CELLCRYPT_BACKEND: "):
            CellCipher(KEY)


WRONG = (
    "import cellcrypt.backend.{module} as adapter\n"
    "class Wrong(adapter.open):\n"
    "    def xor_into(self, position, buffer):\n"
    "        super().xor_into((position + 15) // 16 * 16, buffer)\n"
    "adapter.open = Wrong\n"
    "import cellcrypt\n"
)


@pytest.mark.parametrize(("name", "module"), [("cryptography", "pyca"), ("pycryptodome", "pycryptodome")])
def test_a_library_that_computes_wrong_key_stream_is_unavailable(name: str, module: str) -> None:
    """Each backend proves itself before it counts; None then goes on to the next, or says why there is none."""
    if name not in USABLE:
        pytest.skip(f"{name} is not here")
    code = (
        NO_CORE
        + WRONG.format(module=module)
        + (
            f"print(cellcrypt.backends()[{name!r}].reason)\n"
            "try: print(cellcrypt.CellCipher(bytes(16)).backend)\n"
            "except cellcrypt.BackendUnavailable as error: print(error)\n"
        )
    )
    reason, chosen = run_code(code).splitlines()
    assert "wrong key stream" in reason
    if name == "cryptography":
        assert f"backend 'cryptography' is unavailable: {reason}" in chosen
    else:
        assert chosen == "cryptography"
