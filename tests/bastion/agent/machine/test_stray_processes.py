"""Finding and killing processes that are provably ours, and no others."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bastion.agent.machine import stray_processes as strays
from tests.rigs.limits import PATIENCE_S, killed


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """Return a mark that nothing else has."""
    return f"{tmp_path}:"


@pytest.fixture
def run() -> Iterator[object]:
    """Start marked shells; kill them in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(line: str, mark: str = "") -> subprocess.Popen[bytes]:
        env = {"PATH": "/usr/bin:/bin", **({strays.MARK: mark} if mark else {})}
        process = subprocess.Popen(
            ["sh", "-c", line], env=env, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # including its children
        killed(process)


def test_marked_processes_and_their_descendants_are_found(run: object, mark: str) -> None:
    """A mark finds its process and all descendants, even those that have wiped the mark."""
    assert callable(run)
    process = run("env -i sh -c 'echo up; sleep 1000; sleep 1000'; :", mark + "a")
    other = run("echo up; sleep 1000; :")
    found = {each.pid for each in strays.find(mark)}
    assert process.pid in found
    assert len(found) >= 2
    assert other.pid not in found
    assert strays.find(mark + "b") == []
    assert strays.kill_all(mark) >= 2
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert other.poll() is None


def test_a_process_that_replaces_its_program_is_found(
    run: object, mark: str, tmp_path: Path
) -> None:
    """For a moment, the system shows neither its arguments nor its variables."""
    assert callable(run)
    line = f"[ $1 ] || echo up; exec sh {tmp_path}/again again"
    (tmp_path / "again").write_text(line)
    process = run(line, mark + "a")
    assert {strays.mark_of(process.pid) for _ in range(200)} == {mark + "a"}
    assert strays.kill_all(mark) >= 1
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


def test_leaders_count_only_with_their_start_time(run: object, mark: str) -> None:
    """A session is ours when its leader is the very one we started, not one with its pid."""
    assert callable(run)
    process = run("echo up; sleep 1000; :")
    seen = strays.look(process.pid)
    assert seen
    assert strays.find(mark, leaders=[(process.pid, seen.start + 1)]) == []
    found = strays.find(mark, leaders=[(process.pid, seen.start)])
    assert {each.session for each in found} == {process.pid}


def test_a_session_is_ours_after_its_leader(run: object, mark: str) -> None:
    """A member without variables is found after its leader has gone: the number is in use."""
    assert callable(run)
    process = run("env -i sh -c 'echo up; exec sleep 1000' & read go")
    seen = strays.look(process.pid)
    assert seen
    process.kill()
    process.wait(PATIENCE_S)
    (left,) = strays.find(mark, leaders=[(process.pid, seen.start)])
    assert left.session == process.pid


def pidfd_refused(pid: int) -> int:
    """Answer as a kernel before 5.3."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.parametrize("system", ["with pidfds", "kernel without", "Python without"])
def test_a_recycled_pid_is_never_signalled(
    system: str, run: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal goes to the process that was seen, or to none, also where there are no pidfds."""
    assert callable(run)
    if system == "kernel without":
        monkeypatch.setattr(os, "pidfd_open", pidfd_refused)
    elif system == "Python without":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")
    process = run("echo up; sleep 1000; :")
    seen = strays.look(process.pid)
    assert seen
    stranger = strays.Seen(seen.pid, seen.parent, seen.session, seen.start + 1, zombie=False)
    assert not strays.send(stranger, signal.SIGKILL)
    assert process.poll() is None
    assert strays.send(seen, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert not strays.send(seen, signal.SIGKILL)


def test_strange_names_are_read_right(tmp_path: Path) -> None:
    """A program named like the fields of /proc/PID/stat causes no confusion."""
    name = tmp_path / ") S 1 2 3 ("
    name.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(name), "1000"], start_new_session=True)
    try:
        seen = strays.look(process.pid)
        assert seen
        assert (seen.parent, seen.session) == (os.getpid(), process.pid)
    finally:
        killed(process)


def test_what_is_gone_is_none() -> None:
    """No process has pid 2**22 + 1, above the kernel's highest."""
    assert strays.look((1 << 22) + 1) is None
    assert strays.mark_of((1 << 22) + 1) == ""
    assert strays.children((1 << 22) + 1) == []


def test_zombies_and_ourselves_are_no_strays(mark: str) -> None:
    """A dead child that was not reaped is not found, nor is the caller."""
    process = subprocess.Popen(["true"], env={strays.MARK: mark + "a"})
    assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert strays.find(mark) == []
    assert strays.kill_all(mark) == 0
    process.wait(PATIENCE_S)
    assert os.getpid() not in {each.pid for each in strays.find("")}
