"""Each example, and each block of the README, runs as it stands. Real relays: tests/live."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import fetch_through_tor, loopback_relays
from examples.tor_link import TorError

from .support import ROOT, python, tool

README = ROOT / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)

#: The examples that are programs; the others are their parts.
PROGRAMS = [path.stem for path in sorted((ROOT / "examples").glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_readme(block: str) -> None:
    exec(compile(block, README, "exec"), {})


def test_readme_has_examples() -> None:
    assert len(BLOCKS) >= 2


def test_two_nodes() -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.two_nodes"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hop 0 says: HELLO, HOP\n", b"")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", ["module", "file"])
def test_help_and_wrong_usage(name: str, way: str, tmp_path: Path) -> None:
    """As a module and as a file, the latter from anywhere."""
    start, folder = (
        (("-m", f"examples.{name}"), ROOT) if way == "module" else ((f"{ROOT}/examples/{name}.py",), tmp_path)
    )
    told = python(*start, "--help", cwd=folder)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("usage: ")
    refused = python(*start, "--nonsense", cwd=folder)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Traceback" not in refused.stderr


def test_there_are_programs() -> None:
    assert {"fetch_through_tor", "loopback_relays", "two_nodes"} <= set(PROGRAMS)


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    [
        (loopback_relays, ["0"], "argument count: must be a whole number of at least 1 relay, got '0'"),
        (loopback_relays, ["many"], "of at least 1 relay, got 'many'"),
        (fetch_through_tor, ["https://a/", "b:1"], "argument url: must be http://HOST:PORT/PATH, got 'https://a/'"),
        (fetch_through_tor, ["http://a:b/", "b:1"], "got 'http://a:b/'"),
        (fetch_through_tor, ["http:///x", "b:1"], "got 'http:///x'"),
        (fetch_through_tor, ["http://a/", "b"], "must be HOST:PORT with a port of 1 to 65535, got 'b'"),
        (fetch_through_tor, ["http://a/", "b:1", "b:65536"], "got 'b:65536'"),
        (fetch_through_tor, ["http://a/", ":1"], "got ':1'"),
    ],
)
def test_wrong_arguments_are_named(
    program: Any,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["example", *arguments])
    with pytest.raises(SystemExit) as caught:
        program.main()
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_without_tor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["example"])
    with pytest.raises(SystemExit, match="there is no `tor` on this machine: install it"):
        loopback_relays.main()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_relay_outlives_the_program(number: signal.Signals) -> None:
    tool("tor")
    command = [sys.executable, "-m", "examples.loopback_relays", "2"]
    program = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert program.stdout is not None
    assert program.stdout.readline().count("127.0.0.1:") == 2
    started = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    assert len(started) == 2
    program.send_signal(number)
    program.wait(60)
    left = [int(process) for process in started if Path("/proc", process).exists()]
    for process in left:
        os.kill(process, signal.SIGKILL)
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert not left


@pytest.mark.parametrize("error", [TorError("no cell came"), ConnectionRefusedError("refused")], ids=repr)
def test_relays_that_do_not_answer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> Any:
        raise error

    monkeypatch.setattr(sys, "argv", ["example", "http://127.0.0.1/", "127.0.0.1:9"])
    monkeypatch.setattr(fetch_through_tor, "learn", fails)
    with pytest.raises(SystemExit, match=f"relay 127.0.0.1:9 does not tell its descriptor: {error}"):
        fetch_through_tor.main()
    monkeypatch.setattr(fetch_through_tor, "learn", lambda host, port: None)
    monkeypatch.setattr(fetch_through_tor, "fetch", fails)
    with pytest.raises(SystemExit, match=f"http://127.0.0.1/ can't be fetched: {error}"):
        fetch_through_tor.main()
