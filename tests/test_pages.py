"""Nothing beyond a buffer is read or written: forbidden pages on both sides of it, for every call and size."""

from __future__ import annotations

import pytest

from cellcrypt.testing import Subject

from .support import each_subject, python, run_code


@each_subject
def test_forbidden_pages_on_both_sides(subject: Subject) -> None:
    """Every size for each kernel, and for each path; what only combines them, or another's loads, gets some sizes."""
    ours = subject.backend == "native" and (subject.path == "fused" or subject.kernel == "portable")
    step = "1" if ours else "7"
    done = python("-X", "faulthandler", "-m", "tests.pages", subject.backend, subject.path, subject.kernel or "-", step)
    assert done.stdout.endswith("ok\n"), f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("index", [-1, 4096])
def test_the_fence_is_a_fence(index: int) -> None:
    """A read one octet outside kills the process."""
    code = (
        "import ctypes, os, sys\n"
        "from tests.pages import Fence\n"
        "fence = Fence(1)\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(fence.at_start(b'x')))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    ctypes.string_at(address + {index}, 1)\n"
        "    os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert int(run_code(code)) < 0
