"""The real keeper with real, ill-behaved processes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.keeper.attempt.attempt import Attempt
from bastion.agent.keeper.main import OPEN_FILES
from bastion.agent.keeper.port import (
    KEEPER_STOPPED,
    Ended,
    KeeperError,
    KeeperGoneError,
    ProcessStart,
    Running,
)
from bastion.agent.keeper.socket.client import KeeperClient, spawn_keeper
from bastion.agent.keeper.socket.request import Start
from bastion.agent.machine import stray_processes as strays
from bastion.errors import ConflictError
from tests.rigs.keepers import (
    EXITS,
    HELLO,
    IGNORES,
    OBEYS_5,
    SLEEPS,
    RealWorld,
    attempt,
    python,
    shell,
)
from tests.rigs.limits import joined, on_thread

DAEMON = """
import os, signal, sys, time
keeps_mark = sys.argv[1] == "marked"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
if not keeps_mark:
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2): os.dup2(null, stream)
env = dict(os.environ) if keeps_mark else {}
os.execve("/bin/sleep", ["sleep", sys.argv[2]], env)
"""
"""A standard daemon: its own session, two forks, SIGTERM ignored."""

LARGE_DAEMON = """
import os, sys
gate, seconds = sys.argv[1:]
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    mark = os.environ.pop("BASTION_MARK")
    os.open(gate, os.O_WRONLY)
    os.execve("/bin/sleep", ["sleep", seconds], {**os.environ, "BASTION_MARK": mark})
open(gate).read()
"""
"""A daemon whose mark is the last of its variables; its starter ends once it has started."""


@pytest.fixture(params=[True, False], ids=["cgroups", "no-cgroups"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealWorld]:
    """A real keeper; everything here must hold without cgroups too."""
    made = RealWorld(tmp_path, use_cgroups=request.param)
    yield made
    made.close()


def living(world: RealWorld) -> list[int]:
    return [process.pid for process in strays.find(world.mark)]


def below(pid: int) -> set[int]:
    """Return every descendant of a process."""
    found = set(strays.children(pid))
    return found.union(*map(below, found))


def sleeping(seconds: str) -> list[int]:
    """Return the pids of all processes that sleep for exactly `seconds`, anywhere in the tree."""
    wanted = f"sleep\0{seconds}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == wanted:
                found.append(int(path.parent.name))
    return found


def stop(world: RealWorld, key: str, *, grace_s: float = 10.0) -> None:
    world.keeper.stop(key, reason="cancel", by="alice", grace_s=grace_s)


@pytest.mark.parametrize("kind", ["marked", "wiped"])
def test_daemons_are_killed_before_the_end_is_reported(world: RealWorld, kind: str) -> None:
    """A double fork into another session does not outlive the attempt, even with a wiped mark."""
    unique = f"1000.{os.getpid()}"
    world.keeper.start(attempt("a", python(DAEMON, kind, unique)))
    record = world.ended("a")
    assert record.processes[0].code == 0
    assert sleeping(unique) == []
    assert below(world.pid) == set()


def test_a_child_without_mark_is_killed_beside_other_attempts(world: RealWorld) -> None:
    """A background process with a wiped environment is found by its session, of a dead leader."""
    world.keeper.start(attempt("other", SLEEPS))
    world.wrote("other")
    unique = f"3000.{os.getpid()}"
    line = f"env -i sleep {unique} & until grep -aq ^sleep /proc/$!/cmdline; do :; done"
    world.keeper.start(attempt("a", line))
    assert world.ended("a").processes[0].code == 0
    assert sleeping(unique) == []
    assert len(below(world.pid)) == 1


def test_a_daemon_with_a_large_environment_is_killed_beside_others(
    world: RealWorld, tmp_path: Path
) -> None:
    """Its mark is found even if its secrets exceed what is read of an environment."""
    world.keeper.start(attempt("other", SLEEPS))
    world.wrote("other")
    gate, unique = tmp_path / "gate", f"4000.{os.getpid()}"
    os.mkfifo(gate)
    daemon = python(LARGE_DAEMON, str(gate), unique)
    large = {f"SECRET_{n}": "x" * (64 << 10) for n in range(20)}
    world.keeper.start(attempt("a", replace(daemon, env={**daemon.env, **large})))
    assert world.ended("a").processes[0].code == 0
    assert sleeping(unique) == []


def test_daemons_of_others_are_left_alone(world: RealWorld) -> None:
    """The end of one attempt kills nothing of another, daemons included."""
    world.keeper.start(attempt("a", shell(f"echo up; {EXITS}")))
    unique = f"2000.{os.getpid()}"
    world.keeper.start(attempt("b", python(DAEMON, "marked", unique), SLEEPS))
    world.wrote("b", process=1)
    world.until(lambda: len(sleeping(unique)) == 1, "the daemon is there")
    world.ended("a")
    world.keeper.start(attempt("c", EXITS))
    world.ended("c")
    assert len(sleeping(unique)) == 1
    stop(world, "b", grace_s=0.1)
    world.ended("b")
    assert sleeping(unique) == []
    assert below(world.pid) == set()


def test_a_whole_tree_that_ignores_term_is_killed(world: RealWorld) -> None:
    """Children and grandchildren that ignore SIGTERM are all dead when the end is reported."""
    tree = "trap '' TERM; (trap '' TERM; sleep 1000; sleep 1000) & echo up; sleep 1000; sleep 1000"
    world.keeper.start(attempt("a", tree, tree))
    world.wrote("a", process=0)
    world.wrote("a", process=1)
    stop(world, "a", grace_s=0.1)
    record = world.ended("a")
    assert [process.signal for process in record.processes] == [signal.SIGKILL] * 2
    assert below(world.pid) == set()


def test_term_reaches_the_whole_tree(world: RealWorld) -> None:
    """SIGTERM is sent to every process of the tree, not to its root only."""
    inner = "trap 'echo inner; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done"
    world.keeper.start(attempt("a", shell(f'trap : TERM; sh -c "{inner}"; exit 4')))
    world.wrote("a")
    stop(world, "a")
    record = world.ended("a")
    assert record.processes[0].code == 4
    assert world.log("a") == b"up\ninner\n"


SAVES = """
import os, signal, sys
def save(*_):
    open(sys.argv[1]).read(1)
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execv("/bin/sleep", ["sleep", "1000"])
    os.write(1, b"saved\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, save)
os.write(1, b"up\\n")
while True: signal.pause()
"""
"""Saves its state at SIGTERM, while nothing arrives through a pipe, and leaves a process."""


def shell_ended_by_term(world: RealWorld, gate: Path) -> int:
    """Give notice to a shell that runs a program, and return when the shell alone is dead."""
    os.mkfifo(gate)
    program = python(SAVES, str(gate))
    world.keeper.start(
        attempt("a", replace(program, argv=("sh", "-c", '"$@"; exit 4', "sh", *program.argv)))
    )
    world.wrote("a")
    stop(world, "a", grace_s=1000.0)

    def is_alone() -> bool:
        (state,) = world.keeper.attempts()
        return not isinstance(state, Running) or state.pids == (None,)

    world.until(is_alone, "the shell did not end")
    return os.open(gate, os.O_RDWR)


def test_what_a_shell_runs_has_the_grace(world: RealWorld, tmp_path: Path) -> None:
    """
    SIGTERM ends a shell immediately; the program in it still saves its state.

    A program that starts in the meantime does not know of the notice, and does not delay the end.
    """
    gate = shell_ended_by_term(world, tmp_path / "gate")
    os.write(gate, b"x")
    record = world.ended("a")
    os.close(gate)
    assert record.processes[0].signal == signal.SIGTERM
    assert world.log("a") == b"up\nsaved\n"
    assert below(world.pid) == set()


def test_a_further_stop_bounds_what_a_shell_runs(world: RealWorld, tmp_path: Path) -> None:
    """A stop with less grace also applies to what a shell left behind."""
    gate = shell_ended_by_term(world, tmp_path / "gate")
    world.keeper.stop("a", reason="host lost", by="bob", grace_s=0.0)
    record = world.ended("a")
    os.close(gate)
    assert [notice.reason for notice in record.notices] == ["cancel"]
    assert world.log("a") == b"up\n"
    assert below(world.pid) == set()


def test_what_ends_by_itself_at_its_notice_leaves_nothing(world: RealWorld) -> None:
    """A process that handles SIGTERM and ends does not wait for what ignores it."""
    line = "(trap '' TERM; exec sleep 1000) & trap 'exit 5' TERM; echo up; wait"
    world.keeper.start(attempt("a", line))
    world.wrote("a")
    stop(world, "a", grace_s=1000.0)
    assert world.ended("a").processes[0].code == 5
    assert below(world.pid) == set()


def test_a_failure_before_a_late_notice_is_its_own(world: RealWorld, tmp_path: Path) -> None:
    """A stop that arrives after the process has failed does not change that failure."""
    go = tmp_path / "go"
    world.keeper.start(attempt("a", f"echo up; while [ ! -e {go} ]; do sleep 0.02; done; exit 3"))
    world.wrote("a")
    (state,) = world.keeper.attempts()
    assert isinstance(state, Running)
    assert state.pids[0]
    handle = os.pidfd_open(state.pids[0])
    os.kill(world.pid, signal.SIGSTOP)
    go.touch()
    over = select.poll()
    over.register(handle, select.POLLIN)
    assert over.poll(10_000)
    os.close(handle)
    late = on_thread(stop, world, "a")
    os.kill(world.pid, signal.SIGCONT)
    joined(late)
    record = world.ended("a")
    assert record.notices == ()
    assert record.failed_by_itself


def test_a_stopped_process_gets_the_notice(world: RealWorld) -> None:
    """A process under SIGSTOP is continued by a stop, so that it can end in its own way."""
    world.keeper.start(attempt("a", OBEYS_5))
    world.wrote("a")
    (state,) = world.keeper.attempts()
    assert isinstance(state, Running)
    assert state.pids[0]
    seen = strays.look(state.pids[0])
    assert seen
    assert strays.send(seen, signal.SIGSTOP)
    stop(world, "a")
    assert world.ended("a").processes[0].code == 5


def test_a_stopped_process_is_killed(world: RealWorld) -> None:
    """A process that stops itself and ignores SIGTERM is killed after the grace."""
    world.keeper.start(attempt("a", "trap '' TERM; echo up; kill -STOP $$; kill -STOP $$"))
    world.wrote("a")
    stop(world, "a", grace_s=0.1)
    assert world.ended("a").processes[0].signal == signal.SIGKILL


def test_a_process_without_its_main_thread_is_killed(world: RealWorld) -> None:
    """A process whose main thread has exited looks dead, and is killed nevertheless."""
    program = (
        "import ctypes, signal, threading, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "def run():\n    while True: print('x', flush=True); time.sleep(0.05)\n"
        "threading.Thread(target=run).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    world.keeper.start(attempt("a", python(program)))
    world.wrote("a", 6)
    stop(world, "a", grace_s=0.1)
    assert world.ended("a").processes[0].signal == signal.SIGKILL


def test_a_fork_race_ends(world: RealWorld) -> None:
    """A process that forks and dies as fast as it can is killed nevertheless."""
    racer = "import os\nos.write(1, b'x')\nwhile True:\n    if os.fork(): os._exit(0)\n"
    world.keeper.start(attempt("a", python(racer), SLEEPS))
    world.wrote("a")
    stop(world, "a", grace_s=0.1)
    world.ended("a")
    assert below(world.pid) == set()


def test_the_notice_file_says_why(world: RealWorld, tmp_path: Path) -> None:
    """The notice file exists before SIGTERM: reason, requester, grace and deadline."""
    path = tmp_path / "notice.json"
    line = f"trap 'cat {path}; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done"
    world.keeper.start(attempt("a", line, notice_path=str(path)))
    world.wrote("a")
    stop(world, "a", grace_s=60.0)
    world.ended("a")
    said = json.loads(world.log("a").removeprefix(b"up\n"))
    assert (said["reason"], said["by"], said["grace_s"]) == ("cancel", "alice", 60.0)
    assert said["deadline"] > 1_700_000_000


def test_a_notice_file_that_is_a_pipe_blocks_nothing(world: RealWorld, tmp_path: Path) -> None:
    """Pipes in place of the notice file delay neither this job's end nor another's start."""
    notice = tmp_path / "notice"
    line = f"mkfifo {notice} {notice}.new; echo up; exec sleep 1000"
    world.keeper.start(attempt("a", line, notice_path=str(notice)))
    world.wrote("a")
    stop(world, "a")
    assert world.ended("a").processes[0].signal == signal.SIGTERM
    assert json.loads(notice.read_text())["reason"] == "cancel"
    world.keeper.start(attempt("b", EXITS))
    world.ended("b")


def test_a_notice_is_not_written_through_a_link(world: RealWorld, tmp_path: Path) -> None:
    """If the notice's path is a link, its target is not changed."""
    notice, other = tmp_path / "notice", tmp_path / "other"
    other.write_text("as it was")
    line = f"ln -s {other} {notice}.new; echo up; exec sleep 1000"
    world.keeper.start(attempt("a", line, notice_path=str(notice)))
    world.wrote("a")
    stop(world, "a")
    world.ended("a")
    assert other.read_text() == "as it was"
    assert json.loads(notice.read_text())["reason"] == "cancel"


def test_a_notice_that_cannot_be_written_stops_all_the_same(world: RealWorld) -> None:
    """A notice path that does not exist does not keep a process from being stopped."""
    world.keeper.start(attempt("a", SLEEPS, notice_path="/no/such/folder/notice"))
    world.wrote("a")
    stop(world, "a")
    assert world.ended("a").processes[0].signal == signal.SIGTERM


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (ProcessStart(argv=("/no/such",), env={}, cwd="/"), "No such file"),
        (ProcessStart(argv=("/etc/passwd",), env={}, cwd="/"), "Permission denied"),
        (ProcessStart(argv=("ls",), env={"PATH": "/none"}, cwd="/"), "no such program in PATH"),
        (ProcessStart(argv=("/bin/ls",), env={}, cwd="/no/dir"), "no such directory: /no/dir"),
    ],
)
def test_a_failed_start_has_a_reason(world: RealWorld, process: ProcessStart, why: str) -> None:
    """The message names a missing program, permission or directory, and the keeper continues."""
    world.keeper.start(attempt("a", process))
    assert why in world.ended("a").processes[0].setup_failure
    world.keeper.start(attempt("b", EXITS))
    world.ended("b")


@pytest.mark.parametrize(
    ("first_line", "mode", "name", "why"),
    [
        ("#!/bin/sh\r", 0o755, "./run", "does not; Windows line endings (CR LF) also cause"),
        ("#!/no/such/python", 0o755, "./run", "cannot start './run': the file exists, but"),
        ("echo", 0o755, "./run", "neither a program for this machine nor a script whose first"),
        (
            "#!/bin/sh",
            0o644,
            "./run",
            "Permission denied: the file is not executable; run chmod +x",
        ),
        (
            "#!/bin/sh",
            0o755,
            "run",
            "no such program in PATH; to run the file in the current folder, write ./",
        ),
    ],
)
def test_a_script_that_cannot_start_says_what_to_do(
    world: RealWorld, tmp_path: Path, first_line: str, mode: int, name: str, why: str
) -> None:
    """The kernel's message is "No such file", about a file that obviously exists."""
    script = tmp_path / "run"
    script.write_text(f"{first_line}\necho hello\n")
    script.chmod(mode)
    process = ProcessStart(argv=(name,), env={"PATH": "/bin"}, cwd=str(tmp_path))
    world.keeper.start(attempt("a", process))
    assert why in world.ended("a").processes[0].setup_failure


def test_a_process_may_open_many_files_and_lock_its_memory(tmp_path: Path) -> None:
    """The service has 1,024 files and 8 MiB: data loaders and network drivers need more."""
    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)
    before = [resource.getrlimit(kind) for kind in kinds]
    for kind, few, (_, most) in zip(kinds, (1024, 1 << 20), before):
        resource.setrlimit(kind, (few, most))
    try:
        world = RealWorld(tmp_path)
    finally:
        for kind, limits in zip(kinds, before):
            resource.setrlimit(kind, limits)
    try:
        program = (
            "import json, resource as r;"
            "print(json.dumps([r.getrlimit(k) for k in (r.RLIMIT_NOFILE, r.RLIMIT_MEMLOCK)]))"
        )
        world.keeper.start(attempt("a", python(program)))
        assert world.ended("a").processes[0].code == 0
        files, locked = json.loads(world.log("a"))
    finally:
        world.close()
    most_files = before[0][1]
    assert files[0] == (OPEN_FILES if most_files < 0 else min(OPEN_FILES, most_files))
    assert files[1] == most_files
    assert locked in ([-1, -1], [before[1][1]] * 2)  # who may raise the most has no limit


def test_a_process_that_crashes_leaves_no_core(tmp_path: Path) -> None:
    """The service has no limit, and a job's memory could fill a disk; jobs can enable cores."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        world = RealWorld(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    try:
        program = "import json, resource as r; print(json.dumps(r.getrlimit(r.RLIMIT_CORE)))"
        world.keeper.start(attempt("a", python(program)))
        world.ended("a")
        assert json.loads(world.log("a")) == [0, before[1]]
    finally:
        world.close()


def test_open_files_run_out_for_users_first(world: RealWorld) -> None:
    """If open files are few, an attempt fails with a reason, and the keeper still serves."""
    with world.limited(resource.RLIMIT_NOFILE, 128):
        world.keeper.start(attempt("a", *[SLEEPS] * 60))
        record = world.ended("a")
        assert record.first_failed is not None
        failure = record.processes[record.first_failed].setup_failure
        assert failure == "cannot start 'sh': Too many open files"
        world.keeper.start(attempt("b", EXITS))
        world.ended("b")


def test_processes_are_born_clean(world: RealWorld) -> None:
    """A process has its own session, default signals, three descriptors and only its own env."""
    program = (
        "import os, signal, json\n"
        "ignored = [int(n) for n in signal.valid_signals() if n not in (9, 19)\n"
        "           and signal.getsignal(n) == signal.SIG_IGN and n not in (13, 25)]\n"
        "status = open('/proc/self/status').read().split()\n"
        "words = {w: status[status.index(w) + 1] for w in ('SigBlk:', 'Umask:')}\n"
        "fds = [f for f in os.listdir('/proc/self/fd')]\n"
        "print(json.dumps([os.getsid(0) == os.getpid(), ignored, len(fds), words,\n"
        "      sorted(os.environ), os.getcwd(), os.readlink('/proc/self/fd/0')]))"
    )
    world.keeper.start(replace(attempt("a", python(program)), umask=0o027))
    record = world.ended("a")
    assert record.processes[0].code == 0, world.log("a")
    is_leader, ignored, fds, words, env, cwd, stdin = json.loads(world.log("a"))
    assert is_leader
    assert ignored == []
    assert fds == 4  # the fourth is the listing's own
    assert words == {"SigBlk:": "0" * 16, "Umask:": "0027"}
    assert [name for name in env if name != "LC_CTYPE"] == ["BASTION_MARK", "PATH"]
    assert (cwd, stdin) == ("/tmp", "/dev/null")


def test_broken_pipes_kill_as_everywhere(world: RealWorld) -> None:
    """SIGPIPE has its default again: a shell pipeline ends as in a terminal."""
    world.keeper.start(attempt("a", "yes | head -n 1; echo done"))
    world.ended("a")
    assert world.log("a") == b"y\ndone\n"


def test_an_agent_that_reconnects_misses_nothing(world: RealWorld) -> None:
    """A new connection lists what ended without a connection, and receives later events."""
    assert isinstance(world.keeper, KeeperClient)
    world.keeper.start(attempt("a", "echo one; sleep 0.1; exit 6"))
    world.keeper.start(attempt("b", SLEEPS))
    world.keeper.close()
    world.keeper = KeeperClient(world.home)
    world.until(lambda: len(world.keeper.attempts()) == 2, "both are known")
    states = {type(state).__name__ for state in world.keeper.attempts()}
    assert "Running" in states
    if "Ended" not in states:
        world.ended("a")
    assert world.record("a").processes[0].code == 6
    stop(world, "b")
    world.ended("b")


def test_a_killed_keeper_leaves_nothing_to_the_next(world: RealWorld) -> None:
    """After kill -9 of the keeper, its processes live on until a new life kills all of them."""
    tree = "trap '' TERM HUP; (sleep 1000; sleep 1000) & echo up; sleep 1000; sleep 1000"
    world.keeper.start(attempt("a", tree, python(DAEMON, "marked", "1000"), IGNORES))
    world.wrote("a", process=0)
    world.wrote("a", process=2)
    world.crash()
    assert len(living(world)) >= 3
    world.next_life()
    assert living(world) == []
    assert world.record("a").lost


def test_a_session_without_mark_is_found_by_its_leader(world: RealWorld) -> None:
    """A process that has wiped its mark is known to the next life by the session we gave it."""
    wiped = "exec env -i sh -c 'echo up; sleep 1000; sleep 1000'"
    world.keeper.start(attempt("a", wiped))
    world.wrote("a")
    (state,) = world.keeper.attempts()
    assert isinstance(state, Running)
    assert state.pids[0]
    handle = os.pidfd_open(state.pids[0])
    world.crash()
    world.next_life()
    is_over, _, _ = select.select([handle], [], [], 0)
    os.close(handle)
    assert is_over


def test_two_keepers_cannot_have_one_home(world: RealWorld) -> None:
    """A second keeper of a home does not start, and its error names the first."""
    with pytest.raises(KeeperError, match=r"another keeper holds .* life 1"):
        spawn_keeper(world.home, life=2, permit_s=0)
    world.keeper.start(attempt("a", EXITS))
    world.ended("a")


def test_an_older_life_cannot_come_back(world: RealWorld) -> None:
    """The journal refuses a keeper whose life is over."""
    world.crash()
    with pytest.raises(KeeperError, match="life 1 is over"):
        spawn_keeper(world.home, life=1, permit_s=0)
    world.life = 5
    world.next_life()
    assert world.keeper.life == 6


def test_a_home_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    """A keeper that starts late exits, and does not create its removed home again."""
    home = tmp_path / "removed"
    words = [sys.executable, "-m", "bastion.agent.keeper", "--home", str(home), "--life", "1"]
    ran = subprocess.run([*words, "--permit_s", "0"], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert f"there is no {home}/keeper" in ran.stderr
    assert not home.exists()


def test_term_ends_the_keeper_in_order(world: RealWorld) -> None:
    """SIGTERM to the keeper stops everything with notice, records it, and only then ends it."""
    assert isinstance(world.keeper, KeeperClient)
    world.keeper.start(attempt("a", OBEYS_5))
    world.wrote("a")
    world.keeper.terminate()
    world.gone()
    assert living(world) == []
    with pytest.raises(KeeperGoneError):
        KeeperClient(world.home)
    world.next_life()
    record = world.record("a")
    assert not record.lost
    assert record.processes[0].code == 5
    assert [notice.reason for notice in record.notices] == [KEEPER_STOPPED]


def test_hangups_and_interrupts_are_ignored(world: RealWorld) -> None:
    """SIGHUP and SIGINT have no effect on the keeper."""
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(world.pid, number)
    world.keeper.start(attempt("a", HELLO))
    world.ended("a")


def test_the_keeper_outlives_its_starter(world: RealWorld) -> None:
    """A keeper is not a child of its starter, and has its own session."""
    seen = strays.look(world.pid)
    assert seen
    assert seen.parent != os.getpid()
    assert seen.session not in (os.getsid(0), 0)


def test_a_keeper_inside_a_job_has_the_mark_of_that_job(tmp_path: Path) -> None:
    """The keeper of the outer job finds it by that mark, and can kill it with the job."""
    keeper = spawn_keeper(tmp_path, life=1, permit_s=0, mark="/outer:key")
    pid = int((tmp_path / "keeper" / "lock").read_text().split()[1])
    assert strays.mark_of(pid) == "/outer:key"
    keeper.terminate()
    with pytest.raises(KeeperGoneError):
        keeper.poll(60.0)


def test_deep_homes_have_sockets_too(tmp_path: Path) -> None:
    """A home whose path is longer than a socket path can be is served."""
    home = tmp_path / ("deep" * 30) / ("deeper" * 20)
    world = RealWorld(home)
    world.keeper.start(attempt("a", EXITS))
    world.ended("a")
    world.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_key_runs_twice_however_the_keeper_dies(
    world: RealWorld, tmp_path: Path, seed: int
) -> None:
    """Killed at any moment of a storm of starts, keepers never run a key twice or forget one."""
    ran = tmp_path / "ran"
    ran.touch()
    dice = random.Random(seed)
    keys = [f"k{number}" for number in range(60)]
    for until in sorted(dice.sample(range(len(keys)), 3)):
        killer = threading.Timer(dice.random() * 0.05, os.kill, (world.pid, signal.SIGKILL))
        killer.start()
        with contextlib.suppress(KeeperGoneError):
            for key in keys[until:] + keys[:until]:
                with contextlib.suppress(ConflictError):
                    world.keeper.start(attempt(key, f"echo {key} >> {ran}"))
        joined(killer)
        world.gone()
        world.next_life()
    known = {state.record.key for state in world.keeper.attempts() if isinstance(state, Ended)}
    executed = ran.read_text().split()
    assert len(executed) == len(set(executed))
    assert set(executed) <= known
    assert living(world) == []


def test_keys_are_not_paths(world: RealWorld) -> None:
    """No key reaches outside the spool, and similar keys are kept apart."""
    keys = ["..", ".", "a/../../b", "a%2Fb", "a/b", "ä ö"]
    for key in keys:
        world.keeper.start(attempt(key, f"echo '{key}'"))
    for key in keys:
        world.ended(key)
        assert world.log(key).decode() == key + "\n"
    assert len(list((world.home / "keeper" / "spool").iterdir())) == len(keys)


def test_the_keeper_stays_small(world: RealWorld) -> None:
    """It needs less than 14 MB resident after work: a machine's memory is for jobs."""
    for number in range(50):
        world.keeper.start(attempt(f"a{number}", HELLO))
    for number in range(50):
        world.ended(f"a{number}")
    status = Path(f"/proc/{world.pid}/status").read_text().split()
    assert int(status[status.index("VmRSS:") + 1]) < 14_000


def test_a_disk_without_room_for_a_log_is_a_fault_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the missing room for its folder, not a missing program."""
    real = os.mkdir

    def full(path: str, mode: int = 0o777) -> None:
        if path.endswith("/spool/a"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", full)
    process = {"argv": ["true"], "env": {"PATH": os.environ["PATH"]}, "cwd": str(tmp_path)}
    fields = {"key": "a", "processes": [process], "grace_s": 1, "notice_path": ""}
    start = Start({**fields, "spool_limit_bytes": 1 << 20, "umask": 0o22})
    made = Attempt(start, life=1, now=0.0, mark=f"{tmp_path}:a")
    made.fork(f"{tmp_path}/spool/a", f"{tmp_path}:a", None, set())
    assert made.machine_fault == os.strerror(errno.ENOSPC)
    assert made.first_failed == 0
