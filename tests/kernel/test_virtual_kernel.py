"""Where this kernel has no AF_ALG, the group of test_afalg.py runs in a virtual machine that has it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cellcrypt
from cellcrypt.testing import conformance

from ..support import REQUIRED, ROOT, absent
from .machine import CannotBoot, run

GROUP = "tests/kernel/test_afalg.py"
#: Conformance, 12 digests and 4 tests more: fewer that ran are a failure.
AT_LEAST = len(conformance("cryptography")) + 16

SCRIPT = """
exec > {folder}/inside.txt 2>&1
modprobe algif_skcipher
modprobe aesni_intel || true  # udev would load it
cd {root}
export CELLCRYPT_REQUIRE=afalg PYTHONDONTWRITEBYTECODE=1 HOME={folder} HYPOTHESIS_STORAGE_DIRECTORY={folder}/hypothesis
{python} -m cellcrypt info > {folder}/info.txt
{python} -m pytest -p no:cacheprovider -q --junitxml={folder}/junit.xml --basetemp={folder}/tmp {group}
echo "exit status $?"
"""


@pytest.mark.kernel
@pytest.mark.slow
def test_group_in_a_virtual_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if cellcrypt.backends()["afalg"].usable:
        if "kernel" not in REQUIRED:
            pytest.skip("this kernel has AF_ALG: the group runs without a machine in between")
        return
    script = SCRIPT.format(
        folder=shlex.quote(str(tmp_path)), root=shlex.quote(str(ROOT)), python=sys.executable, group=GROUP
    )
    try:
        ended = run(script, tmp_path)
    except CannotBoot as error:
        absent("kernel", str(error))
    inside = tmp_path / "inside.txt"
    told = inside.read_text(errors="replace") if inside.exists() else "nothing ran inside; the console said:"
    if not (tmp_path / "junit.xml").exists():
        pytest.fail(f"{told}\n{ended.console[-4000:]}")
    cases = [*ElementTree.parse(tmp_path / "junit.xml").iter("testcase")]
    wrong = [
        f"{case.get('classname')}.{case.get('name')}" for case in cases if len(case) and case[0].tag != "system-out"
    ]
    assert not wrong, told
    assert "exit status 0" in told, told
    assert len(cases) >= AT_LEAST, f"only {len(cases)} tests ran, not {AT_LEAST}"
    info = (tmp_path / "info.txt").read_text()
    version = next(line for line in info.splitlines() if line.lstrip().startswith("afalg"))
    with capsys.disabled():
        print(f"\n  in a virtual kernel: {len(cases)} tests passed in {ended.seconds:.0f} s; {version.strip()}")
