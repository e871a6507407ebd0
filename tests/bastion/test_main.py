"""`python -m bastion`: a wrong call prints the correct usage."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bastion.__main__ import default_machines_dir, main
from bastion.records.keys import layout
from bastion.records.root import decode_root
from tests.rigs.limits import killed


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Restore the signal handlers after each test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["serve"], ["serve", "a", "b"]])
def test_wrong_arguments_print_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown arguments end with exit code 2 and the usage."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m bastion ")


def test_an_unknown_scheme_of_a_root_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A root with an unknown scheme gives one line on stderr, no traceback, and exit code 1."""
    assert main(["serve", "ftp://nowhere"]) == 1
    err = capsys.readouterr().err
    assert "ftp" in err
    assert "Traceback" not in err


def test_machines_live_apart_from_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each root has its own folder for local machines, in the user's state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    one, two = default_machines_dir("file:///a"), default_machines_dir("file:///b")
    assert one != two
    assert one == default_machines_dir("file:///a")
    assert one.is_relative_to(Path("/state/bastion"))


Serving = Callable[[Path], tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Start real bastions on folders, each with arguments after its root; none outlives it."""
    started: list[subprocess.Popen[str]] = []

    def start(root: Path) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "bastion", "serve", root.as_uri()]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stderr is not None
        assert process.stderr.readline().endswith(f"serves {root.as_uri()}\n")
        return process, process.stderr.readline()

    yield start
    for process in started:
        killed(process)


def test_a_killed_bastion_is_replaced_and_a_stopped_one_gives_up(
    tmp_path: Path, serving: Serving
) -> None:
    """After kill -9, the next one on the host leads immediately; SIGTERM ends with a commit."""
    first, line = serving(tmp_path)
    assert "leads epoch 1, the first of this bucket, with 0 active jobs" in line
    killed(first)
    second, line = serving(tmp_path)
    assert "leads epoch 2 " in line
    second.send_signal(signal.SIGTERM)
    _, said = second.communicate(timeout=30)
    assert second.returncode == 0
    assert "gave up the lead" in said
    assert decode_root((tmp_path / layout.ROOT).read_bytes()).leader is None
