"""The afalg backend over this kernel's own AF_ALG: conformance, digests, and what a model of sockets can't show.

These tests run where AF_ALG is: on this host, or inside the virtual machine of test_virtual_kernel.py.
"""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

import cellcrypt
from cellcrypt import CellCipher, CellFormat
from cellcrypt.backend import afalg
from cellcrypt.testing import Check, conformance
from cellcrypt.xor import PATHS
from perf import bench_kernel_vs_user as bench

from ..support import KEY, REQUIRED
from ..test_kernel_vs_user import openssl_sha256
from ..vectors import MILLION_CELLS

STATE = cellcrypt.backends()["afalg"]
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not STATE.usable and "afalg" not in REQUIRED, reason=f"{STATE.reason}"),
]

#: Cells in a digest; a million where the kernel isn't emulated, or on request.
CELLS = int(os.environ.get("CELLCRYPT_KERNEL_CELLS", "20000"))
#: Encryptions by each way of perf/bench_kernel_vs_user.py.
COUNT = 500


@pytest.mark.parametrize("check", [*conformance("afalg")] if STATE.usable else [], ids=str)
def test_conformance(check: Check) -> None:
    check()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("vector", MILLION_CELLS, ids=lambda v: f"{v['payload_len']}-{4 * len(v['key'])}")
def test_digests(vector: dict[str, object], path: str) -> None:
    """The first tenth one call a cell, the rest in batches; cryptography makes the same in one pass."""
    length, key = int(str(vector["payload_len"])), bytes.fromhex(str(vector["key"]))
    digest, batch = hashlib.sha256(), min(1000, CELLS)
    with CellCipher(key, payload_len=length, path=path, backend="afalg") as cipher:
        done = 0
        while done < CELLS // 10:
            digest.update(cipher.crypt(bytes(length)))
            done += 1
        while done < CELLS:
            buffer = bytearray(min(batch, CELLS - done) * length)
            done += cipher.crypt_cells(buffer, CellFormat(0, length))
            digest.update(buffer)
        assert cipher.position == CELLS * length
    if vector["cells"] == CELLS:
        wanted = vector["sha256_of_concatenated_encrypted_payloads"]
    else:
        with CellCipher(key, backend="cryptography") as other:
            wanted = hashlib.sha256(other.keystream(CELLS * length)).hexdigest()
    assert digest.hexdigest() == wanted


def test_one_digest_for_kernel_and_user_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By send, by splice and by each library, and by the openssl program."""
    assert bench.run(tuple(bench.WAYS), COUNT, str(tmp_path / "out.json")) == 0
    told = capsys.readouterr().out
    print(told)
    assert f"| {bench.KERNEL[0]} " in told
    assert "the same for all" in told
    for way in bench.WAYS:
        if f"left out: {way}" not in told:
            assert bench.measure(way, 3).sha256 == openssl_sha256(3), way


def test_sockets_are_closed() -> None:
    """By close(), after an error, and with garbage; a thousand ciphers one after another leave none behind."""
    folder = Path("/proc/self/fd")
    before = len([*folder.iterdir()])
    for i in range(1000):
        cipher = CellCipher(KEY, backend="afalg")
        cipher.crypt(bytes(509))
        if i % 2:
            cipher.close()
        del cipher
    assert len([*folder.iterdir()]) == before


def test_fork() -> None:
    """A child has an operation socket of its own: a message that it leaves half done does not reach its parent."""
    wanted, made = bytearray(1018), bytearray(1018)
    with CellCipher(KEY, backend="cryptography") as other:
        wanted[:] = other.keystream(len(wanted))
    keystream = afalg.open(KEY, bytes(16))
    view = memoryview(made)
    keystream.xor_into(0, view[:509])
    child = os.fork()
    if not child:
        half = keystream._operation()
        half.sendmsg_afalg([bytes(16)], op=socket.ALG_OP_ENCRYPT, iv=bytes(16), flags=socket.MSG_DONTWAIT)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    keystream.xor_into(509, view[509:])
    keystream.close()
    assert made == wanted


def test_version_names_the_driver() -> None:
    assert f"Linux {os.uname().release} (" in str(STATE.version)
