"""The AES-CBC measurements: the same octets by every way as by the openssl program; what is left out; interruption."""

from __future__ import annotations

import errno
import hashlib
import json
import signal
import subprocess
from pathlib import Path

import pyperf
import pytest

from cellcrypt import cbc
from perf import bench_kernel_vs_user as bench

from .model_af_alg import model_af_alg
from .support import python, tool

#: The ways that need no kernel's help.
USER = tuple(way for way in bench.WAYS if way not in bench.KERNEL)


def openssl_sha256(count: int) -> str:
    """Encrypt the buffer `count` times with the openssl program, the IV given each time."""
    openssl, iv = tool("openssl"), cbc.IV
    buffer = cbc.PLAINTEXT + bytes(bench.BUFFER_LEN - 16)
    for _ in range(count):
        command = [openssl, "enc", "-aes-128-cbc", "-nopad", "-K", cbc.KEY.hex(), "-iv", iv.hex()]
        buffer = subprocess.run(command, input=buffer, capture_output=True, check=True, timeout=60).stdout
        iv = buffer[-16:]
    return hashlib.sha256(buffer).hexdigest()


@pytest.mark.parametrize("way", USER)
def test_same_octets_as_openssl(way: str) -> None:
    for count in (1, 2, 7):
        assert bench.measure(way, count).sha256 == openssl_sha256(count), count


def test_command(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = python("-m", "perf.bench_kernel_vs_user", "--count=3000", f"--json={out}")
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    ways = [result["way"] for result in found["results"]]
    assert set(USER) <= set(ways)
    assert set(ways) | set(found["left_out"]) == set(bench.WAYS)
    assert found["same_octets"]
    assert {result["sha256"] for result in found["results"]} == {bench.measure("cryptography", 3000).sha256}
    for way in bench.WAYS:
        assert f"| {way} " in done.stdout or f"left out: {way}: " in done.stdout
    assert "the same for all" in done.stdout
    again = python("-m", "perf.bench_kernel_vs_user", "--count=1", f"--json={out}")
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_interrupt_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first way is done, the second is stopped on its way: both stand in the table, the third does not begin."""
    calls = []

    def show(result: bench.Result) -> None:
        calls.append(result.way)
        if calls.count("pycryptodome") == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(bench, "progress", lambda count: show)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    assert bench.run(("cryptography", "pycryptodome", "cryptography"), 3 * bench.SLICE, None) == 130
    told = capsys.readouterr()
    assert "interrupted" in told.err
    assert "| cryptography " in told.out
    assert f"| pycryptodome (stopped after {2 * bench.SLICE:,}) " in told.out
    assert calls[-1] == "pycryptodome"


def test_different_octets_fail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = bench.measure

    def wrong(way: str, count: int, show: object = None) -> bench.Result:
        result = real(way, count)
        if way == "pycryptodome":
            result.sha256 = "0" * 64
        return result

    monkeypatch.setattr(bench, "measure", wrong)
    assert bench.run(USER, 5, None) == 1
    assert "DIFFERENT" in capsys.readouterr().out


def test_known_octets_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "COUNT", 5)
    assert bench.run(("cryptography",), 5, None) == 1
    monkeypatch.setattr(bench, "COUNT_SHA256", bench.measure("cryptography", 5).sha256)
    assert bench.run(("cryptography",), 5, None) == 0


def test_pyperf_rows(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = python(
        *("-m", "perf.bench_kernel_vs_user", "--pyperf", "--count=50", "--way=cryptography", "--way=pycryptodome"),
        *("-p2", "-n1", "-w0", "-o", str(out)),
    )
    assert done.returncode == 0, done.stderr
    rows = pyperf.BenchmarkSuite.load(str(out)).get_benchmarks()
    assert [row.get_name() for row in rows] == ["cbc[cryptography,4096]", "cbc[pycryptodome,4096]"]
    assert {row.get_metadata()["encryptions"] for row in rows} == {50}
    assert [row.get_metadata()["way"] for row in rows] == ["cryptography", "pycryptodome"]


@pytest.mark.parametrize("name", cbc.LIBRARIES)
def test_a_library_that_is_wrong_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known answer of another key stands for a library that computes wrong octets."""
    if cbc.why_not(cbc.LIBRARIES[name]) is not None:
        pytest.skip(f"{name} can't be used here")
    monkeypatch.setattr(cbc, "CIPHERTEXT", bytes(16))
    assert cbc.why_not(cbc.LIBRARIES[name]) == "it computes wrong AES-CBC (RFC 3602, section 4, case 1)"


@pytest.mark.parametrize("call", ["socket", "bind", "setsockopt", "accept", "sendmsg_afalg"])
@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EPERM, errno.ENOENT, errno.ENOKEY])
def test_reasons_without_af_alg(call: str, number: int) -> None:
    with model_af_alg() as kernel:
        kernel.failures[call] = OSError(number, "no")
        missing = bench.left_out(bench.KERNEL)
        assert all(errno.errorcode[number] in missing[way] for way in bench.KERNEL)
        assert not kernel.open
