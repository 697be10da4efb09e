"""python -m cellcrypt validate: what it covers, what it finds where, and that a run can be repeated."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import cellcrypt
from cellcrypt import cbc, crosscheck
from cellcrypt.__main__ import main
from cellcrypt.compiled import core
from cellcrypt.xor import PATHS

from .support import needs_core, python
from .witness import keystream

QUICK = ("--iterations=4", "--cells=20", "--blocks=20")

#: A backend on top of cryptography's whose fault its proof, within the first 8,653 bytes, does not meet.
PLUG_IN = """
from cellcrypt import BackendUnavailable, CellCipher

class Keystream:
    def __init__(self, key, iv):
        self.cipher = CellCipher(key, iv, backend="cryptography")
        self.calls = 0

    def xor_into(self, position, buffer):
        self.cipher.seek(position)
        stream = bytearray(self.cipher.keystream(len(buffer)))
        if 0 <= 9000 - position < len(stream):
            {fault}
        for i, octet in enumerate(stream):
            buffer[i] ^= octet
"""


def validate(tmp_path: Path, fault: str, *options: str) -> Any:
    """Run `validate --json` with a plug-in installed that has `fault` where it XORs key-stream byte 9,000."""
    (tmp_path / "broken_on_purpose.py").write_text(PLUG_IN.format(fault=fault))
    metadata = tmp_path / "broken_on_purpose-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-on-purpose\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[cellcrypt.backends]\nbroken = broken_on_purpose:Keystream\n")
    return python(
        "-m", "cellcrypt", "validate", *QUICK, "--seed=5", *options, environment={"PYTHONPATH": str(tmp_path)}
    )


@pytest.mark.parametrize("options", [(), ("--payload-len=508",), ("--payload-len=1", "--cells=9000")])
def test_a_wrong_octet_is_found_where_it_is(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = validate(tmp_path, "stream[9000 - position] ^= 4", *options, "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["mismatch"]
    payload_len = int(options[0].partition("=")[2]) if options else 509
    plan = crosscheck.Plan(seed=5, iterations=4, cells=20, payload_len=payload_len)
    cell, octet = divmod(9000 - crosscheck.Cells(plan, 0).position, payload_len)
    wanted = {"backend": "broken", "path": "byte", "cell": cell, "part": "payload", "octet": octet, "seed": 5}
    assert {name: found[name] for name in wanted} == wanted
    assert found["iteration"] == 0
    assert f"cell {cell}, octet {octet} of the payload" in found["message"]
    assert "differs from backend native" in found["message"] or core is None


def test_text_of_a_mismatch(tmp_path: Path) -> None:
    done = validate(tmp_path, "stream[9000 - position] ^= 4")
    assert done.returncode == 1
    assert not done.stderr
    assert "MISMATCH: backend broken, path byte: differs from " in done.stdout
    assert "seed 5" in done.stdout
    assert "all octets were right" not in done.stdout


def test_a_round_trip_that_fails(tmp_path: Path) -> None:
    """Wrong in single cells only, and only once: it decrypts otherwise than it encrypts."""
    done = validate(tmp_path, "stream[9000 - position] ^= len(stream) == 509", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["mismatch"]
    assert "decryption does not give the data back" in found["message"]
    assert found["backend"] == "broken"


def test_a_backend_that_fails_on_the_way(tmp_path: Path) -> None:
    done = validate(tmp_path, "raise BackendUnavailable('out of luck')", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["mismatch"]
    assert found["backend"] == "broken"
    assert "out of luck" in found["message"]
    assert "Traceback" not in done.stderr


def test_a_backend_that_fails_its_proof(tmp_path: Path) -> None:
    """It is never offered, but an installation that has one can't be trusted."""
    done = validate(tmp_path, "pass\n        stream[0] ^= 1", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["mismatch"]["message"].startswith("backend broken: it computes wrong key stream")


@needs_core
def test_a_kernel_that_fails_its_proof(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(cellcrypt.backend._kernel_faults, "portable", f"{cellcrypt.backend.WRONG} on purpose")
    assert main(["validate", *QUICK, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["mismatch"]
    assert found["message"] == "backend native, kernel portable: it computes wrong key stream on purpose"
    assert (found["backend"], found["kernel"]) == ("native", "portable")


def test_everything_is_covered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *QUICK, "--blocks=3", "--json", "--clock=2.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mismatch"] is None
    covered = {(row["backend"], row["kernel"], row["path"], row["work"]) for row in found["measured"]}
    usable = {name: state for name, state in cellcrypt.backends().items() if state.usable}
    works = ("encrypt, one call", "decrypt, a call per cell")
    assert covered == {
        (name, kernel, path, work)
        for name, state in usable.items()
        for kernel in state.kernels or (None,)
        for path in PATHS
        for work in works
    }
    assert set(found["unavailable"]) | set(usable) == set(cellcrypt.backends())
    assert found["clock"] == {"hz": 2.5e9, "how": "given"}
    cbc_rows = {(row["library"], row["blocks"], row["work"]) for row in found["measured_cbc"]}
    libraries = set(cbc.LIBRARIES) - set(found["unavailable_cbc"])
    assert libraries >= {"cryptography", "pycryptodome"}
    assert cbc_rows == {(name, n, work) for name in libraries for n in (20, 3) for work in ("encrypt", "decrypt")}
    for row in found["measured"] + found["measured_cbc"]:
        best, mean, worst = (row[name]["seconds"] for name in ("best", "mean", "worst"))
        assert 0 < best <= mean <= worst
        assert row["best"]["megabytes_per_second"] == pytest.approx(row["octets"] / best / 1e6)
        assert row["best"]["cycles_per_octet"] == pytest.approx(best * 2.5e9 / row["octets"])


@needs_core
def test_generic_against_optimised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kernels = set(cellcrypt.backends()["native"].kernels) - {"portable"}
    assert {row["kernel"] for row in found["against_portable"]} == kernels
    best = {(row["kernel"], row["path"], row["work"]): row["best"]["seconds"] for row in found["measured"]}
    for row in found["against_portable"]:
        path, work = row["path"], row["work"]
        times = best["portable", path, work] / best[row["kernel"], path, work]
        assert row["times_quicker"] == pytest.approx(times)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *QUICK, "--seed=77"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("seed 77; 4 iterations of 20 cells of 509 octets\nclock rate ")
    assert told.endswith("all octets were right\n")
    for name, state in cellcrypt.backends().items():
        assert f"\n{name} " in told or f"not checked: {name}: {state.reason}" in told


def test_a_seed_is_chosen_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = set()
    for _ in range(2):
        assert main(["validate", "--iterations=1", "--cells=1", "--blocks=1", "--json"]) == 0
        seeds.add(json.loads(capsys.readouterr().out)["seed"])
    assert len(seeds) == 2


def test_data_depends_on_seed_and_iteration_only() -> None:
    plans = [crosscheck.Plan(seed, 5, 17, 509) for seed in (1, 1, 2)]
    made = [[vars(crosscheck.Cells(plan, i)) | {"plan": None} for i in (3, 4)] for plan in plans]
    assert repr(made[0]) == repr(made[1])
    for name in ("key", "iv", "position", "plain"):
        assert len({repr(data[name]) for plan in made[1:] for data in plan}) == 4, name


def test_carries_are_met() -> None:
    """Three iterations in four carry past 2^32, 2^64 or 2^128 within the blocks that are used."""
    for iteration in range(400):
        numbers = random.Random(iteration)
        blocks = numbers.randrange(1, 50)
        iv = int.from_bytes(crosscheck.counter(numbers, iteration, blocks), "big")
        bits = (0, 32, 64, 128)[iteration % 4]
        if bits:
            assert (iv + blocks) >> bits == (iv >> bits) + 1
            assert iv % (1 << bits) != 0


def test_the_reference_is_the_witness() -> None:
    """What all backends agree on is AES-CTR: the plain-Python AES makes the same."""
    data = crosscheck.Cells(crosscheck.Plan(seed=9, iterations=1, cells=3, payload_len=509), 1)
    made, _, _ = data.encrypt_and_back(crosscheck.Subject("cryptography", None, "fused"))
    stream = keystream(data.key, data.iv, data.position, 3 * 509)
    for i in range(3):
        cell, plain = made[i * 514 : (i + 1) * 514], data.plain[i * 514 : (i + 1) * 514]
        assert cell[:5] == plain[:5]
        assert bytes(a ^ b for a, b in zip(cell[5:], plain[5:], strict=True)) == stream[i * 509 : (i + 1) * 509]


def test_most_backends_are_right_not_most_kernels() -> None:
    subjects = [
        *(crosscheck.Subject("native", kernel, "fused") for kernel in ("a", "b", "c")),
        crosscheck.Subject("cryptography", None, "fused"),
        crosscheck.Subject("pycryptodome", None, "fused"),
    ]
    made = dict(zip(subjects, (b"1", b"1", b"1", b"2", b"2"), strict=True))
    assert crosscheck.odd_one_out(made) == (subjects[0], subjects[3], True)
    made.pop(subjects[4])
    assert crosscheck.odd_one_out(made) == (subjects[3], subjects[0], False)
    assert crosscheck.odd_one_out(dict.fromkeys(subjects, b"3")) is None


def _broken_cbc(octet: int, encrypt_too: bool) -> cbc.Open:
    @contextmanager
    def open(key: bytes, iv: bytes, room: memoryview, length: int, encrypt: bool) -> Iterator[cbc.Pass]:
        with cbc.LIBRARIES["cryptography"](key, iv, room, length, encrypt) as run:

            def wrong() -> None:
                if length > octet and not encrypt and encrypt_too:
                    room[octet] ^= 1
                run()
                if length > octet and (not encrypt or encrypt_too):
                    room[octet] ^= encrypt or not encrypt_too

            yield wrong

    return open


@pytest.mark.parametrize(("encrypt_too", "what"), [(True, "differs from"), (False, "does not give the data back")])
def test_a_wrong_octet_of_cbc(
    encrypt_too: bool, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cbc.LIBRARIES, "pycryptodome", _broken_cbc(107, encrypt_too))
    assert main(["validate", *QUICK, "--seed=5", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["mismatch"]
    assert what in found["message"]
    wanted = {"path": "aes-cbc", "block": 6, "octet": 11, "iteration": 0, "seed": 5}
    assert {name: found[name] for name in wanted} == wanted
    assert "pycryptodome" in found["message"]


def test_a_library_that_fails_its_proof_of_cbc(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cbc.LIBRARIES, "pycryptodome", _broken_cbc(3, False))
    assert main(["validate", *QUICK, "--json"]) == 1
    assert "computes wrong AES-CBC" in json.loads(capsys.readouterr().out)["mismatch"]["message"]


@pytest.mark.parametrize(
    "option",
    ["--iterations=0", "--cells=-1", "--blocks=x", "--payload-len=65536", "--clock=0", "--clock=fast", "--seed=x"],
)
def test_bad_options(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["validate", option])
    assert caught.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cells=522248"], "argument --cells: must be at most 522,247 cells of 514 octets, as an iteration holds"),
        ([f"--cells={10**30}"], f"got {10**30:,} cells"),
        (["--cells=4097", "--payload-len=65535"], "must be at most 4,095 cells of 65,540 octets"),
        (["--blocks=16777216"], "argument --blocks: must be at most 16,777,215 blocks of 16 octets"),
        (["--blocks=20", f"--blocks={10**12}"], "got 1,000,000,000,000 blocks"),
        (["--cells=" + "9" * 5000], "--cells: must be a whole number of at least 1, got '9999999999... of 5,000 chara"),
        (["--payload-len=x"], "--payload-len: must be a whole number of bytes, got 'x'"),
        (["--payload-len=65536"], "payload_len must be 1 to 65535 bytes, got 65536"),
        (["--iterations=1.5"], "--iterations: must be a whole number of at least 1, got '1.5'"),
    ],
)
def test_absurd_sizes_are_wrong_usage(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and not 1, which says that octets were wrong."""
    with pytest.raises(SystemExit) as caught:
        main(["validate", *options, "--json"])
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.out == ""


def test_the_largest_iteration_is_what_random_makes() -> None:
    with pytest.raises(OverflowError):
        random.Random(1).randbytes(crosscheck.MOST_OCTETS + 1)


@pytest.mark.parametrize("where", ["randbytes of cells", "a library of cbc"])
def test_too_little_memory_is_no_mismatch(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none_left(*arguments: object) -> Any:
        raise MemoryError

    if where == "randbytes of cells":
        monkeypatch.setattr(crosscheck, "Cells", none_left)
    else:
        monkeypatch.setattr(cbc, "why_not", lambda open: None)
        monkeypatch.setitem(cbc.LIBRARIES, "cryptography", none_left)
    with pytest.raises(SystemExit) as caught:
        main(["validate", *QUICK])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "must fit into memory, several times over; got 20 cells of 509 octets and 20 blocks of 16 octets" in said
