"""A keeper that can open nothing: what it cannot see is never considered gone."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.agent.keeper.port import Ended, KeeperGoneError, MachineFaultError, Running
from bastion.agent.keeper.socket.client import KeeperClient
from bastion.agent.machine import stray_processes as strays
from tests.rigs.keepers import EXITS, IGNORES, OBEYS_5, RealWorld, attempt, shell

DAEMON = (
    "setsid sh -c 'trap \"\" TERM; echo $$ >$UP.pid; echo up; exec sleep 1000' & "
    "read _ <$UP; exit 0"
)
"""Leaves a daemon that ignores SIGTERM, and ends when something is written to $UP."""


@pytest.fixture(params=["cgroups", "no-cgroups"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealWorld]:
    """A real keeper, with cgroups if this machine permits them, and without."""
    made = RealWorld(tmp_path / "home", use_cgroups=request.param == "cgroups")
    yield made
    made.close()


def until_reaped(world: RealWorld, key: str) -> Running | Ended:
    """Return the state of `key` once the keeper has waited for its own processes."""

    def state() -> Running | Ended:
        (found,) = [
            each
            for each in world.keeper.attempts()
            if key == (each.key if isinstance(each, Running) else each.record.key)
        ]
        return found

    world.until(
        lambda: isinstance(found := state(), Ended) or not any(found.pids),
        f"the processes of {key} live",
    )
    return state()


def test_a_daemon_that_cannot_be_seen_keeps_its_attempt_open(
    world: RealWorld, tmp_path: Path
) -> None:
    """The end is reported only after the keeper could see that every descendant is dead."""
    up = tmp_path / "up"
    os.mkfifo(up)
    world.keeper.start(attempt("a", shell(DAEMON, UP=str(up))))
    world.wrote("a")
    daemon = int(Path(f"{up}.pid").read_text())
    with world.limited(resource.RLIMIT_NOFILE, 0):
        up.write_text("go\n")
        assert isinstance(until_reaped(world, "a"), Running)
        if not world.use_cgroups:
            assert strays.look(daemon) is not None
    assert world.ended("a").processes[0].code == 0
    assert strays.look(daemon) is None


def test_a_stop_needs_no_descriptor(world: RealWorld) -> None:
    """SIGTERM needs no descriptor: the job receives it and ends in its own way."""
    world.keeper.start(attempt("a", OBEYS_5))
    world.wrote("a")
    with world.limited(resource.RLIMIT_NOFILE, 0):
        world.keeper.stop("a", reason="cancel", by="ann", grace_s=1000.0)
        until_reaped(world, "a")
    record = world.ended("a")
    assert record.processes[0].code == 5
    assert [notice.reason for notice in record.notices] == ["cancel"]


def test_a_kill_needs_no_descriptor(world: RealWorld) -> None:
    """A job that ignores SIGTERM is killed after its grace period even if no file can be opened."""
    world.keeper.start(attempt("a", IGNORES))
    world.wrote("a")
    with world.limited(resource.RLIMIT_NOFILE, 0):
        world.keeper.stop("a", reason="cancel", by="ann", grace_s=0.05)
        until_reaped(world, "a")
    assert world.ended("a").processes[0].signal == signal.SIGKILL


def test_a_connection_without_room_is_accepted_later(world: RealWorld) -> None:
    """A keeper that cannot accept a connection continues, and accepts it once it can."""
    with world.limited(resource.RLIMIT_NOFILE, 0):
        waiting = subprocess.Popen(
            [sys.executable, "-c", _CONNECTS, str(world.home)], stdout=subprocess.PIPE
        )
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"asks\n"
        assert world.keeper.attempts() == ()
    said, _ = waiting.communicate(timeout=60)
    assert said == b"life 1\n"
    world.keeper.start(attempt("a", EXITS))
    world.ended("a")


_CONNECTS = """
import sys
from pathlib import Path
from bastion.agent.keeper.socket.client import KeeperClient
print("asks", flush=True)
print("life", KeeperClient(Path(sys.argv[1])).life, flush=True)
"""

_BLIND = """
import resource, sys
from bastion.agent.machine import stray_processes as strays
from bastion.agent.keeper.attempt.cgroup import Cgroups
from bastion.agent.keeper.journal import Journal
from bastion.agent.keeper.main import end_older_lives
folder = sys.argv[1]
journal = Journal(folder + "/journal")
journal.begin(1)
journal.exec("a", at=1.0, processes=1)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 1024))
acts = {
    "find": lambda: strays.find("x"),
    "kill": lambda: strays.kill_all("x"),
    "look": lambda: strays.look(1),
    "children": lambda: strays.children(1),
    "older": lambda: end_older_lives(
        journal, folder=folder, mark_prefix="x:", cgroups=Cgroups([])
    ),
}
try:
    found = acts[sys.argv[2]]()
    print("found", found)
except OSError as error:
    print(error.strerror, journal.entries["a"].record())
"""


@pytest.mark.parametrize("act", ["find", "kill", "look", "children", "older"])
def test_a_failed_read_of_proc_is_an_error(act: str, tmp_path: Path) -> None:
    """Reads without a descriptor raise; a new life records nothing of what may still live."""
    (tmp_path / "spool").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _BLIND, str(tmp_path), act],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Too many open files {}\n"


def test_a_keeper_that_cannot_be_seen_is_not_gone(world: RealWorld) -> None:
    """A client without descriptors does not report its keeper dead: that would start another."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(MachineFaultError) as raised:
            KeeperClient(world.home)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not isinstance(raised.value, KeeperGoneError)


class Letters:
    """A waker that reads letters from a pipe; only some of them are for its reader."""

    def __init__(self) -> None:
        self._ends, self._other = os.pipe()
        self.heard: list[bytes] = []

    def post(self, letter: bytes) -> None:
        """Send a letter of one byte."""
        os.write(self._other, letter)

    def fileno(self) -> int:
        """See `Waker`."""
        return self._ends

    def hears(self) -> bool:
        """See `Waker`."""
        self.heard.append(os.read(self._ends, 1))
        return self.heard[-1] == b"!"

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._ends)
        os.close(self._other)


def test_a_wait_for_events_ends_with_other_news(world: RealWorld) -> None:
    """An agent waits for its keeper and its instructions; news of others does not count."""
    letters = Letters()
    world.keeper.wakes = letters
    for letter in (b"a", b"b", b"!"):
        letters.post(letter)
    assert world.keeper.poll(60.0) == ()
    assert letters.heard == [b"a", b"b", b"!"]
    world.keeper.start(attempt("a", EXITS))
    assert world.ended("a").processes[0].code == 0
    letters.close()


def test_news_of_others_without_end_holds_no_agent(world: RealWorld) -> None:
    """A wait ends in time even if its waker is always readable and never for it."""

    class Flood(Letters):
        def hears(self) -> bool:
            """See `Waker`; it reads nothing, as if more always arrived."""
            return False

    flood = Flood()
    flood.post(b"a")
    world.keeper.wakes = flood
    assert world.keeper.poll(0.01) == ()
    world.keeper.wakes = None
    flood.close()
