"""A keeper that does not answer is not dead, and no newer life takes its number."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from bastion.agent.decommission import LOCK, end_home
from bastion.agent.keeper.living import living_keeper
from bastion.agent.keeper.port import (
    AttemptStart,
    KeeperError,
    KeeperGoneError,
    ProcessStart,
    Running,
)
from bastion.agent.keeper.socket.client import spawn_keeper
from bastion.agent.keeper_life import begin_life
from bastion.records.keys import layout
from bastion.store.memory import MemoryStore
from tests.rigs.agent import MACHINE
from tests.rigs.limits import PATIENCE_S


def begin(store: MemoryStore, home: Path) -> None:
    """Start a life whose keeper is not spawned."""

    def spawn(life: int) -> NoReturn:
        raise KeeperError(f"life {life} is not spawned here")

    begin_life(
        store,
        MACHINE,
        boot_id="b",
        nonce=lambda: "n",
        connect=lambda: living_keeper(home, has_permit=False),
        spawn=spawn,
    )


def run_out(home: Path) -> None:
    """Make the store unavailable for longer than the permit."""
    with pytest.raises(KeeperGoneError):
        living_keeper(home, has_permit=True)


@pytest.mark.parametrize("has_permit", [True, False])
def test_a_home_without_a_keeper_has_none(tmp_path: Path, has_permit: bool) -> None:
    """A new home has none, nor has one whose keeper has died, which releases its lock."""
    with pytest.raises(KeeperGoneError):
        living_keeper(tmp_path, has_permit=has_permit)
    (tmp_path / "keeper").mkdir()
    (tmp_path / "keeper" / "lock").touch()
    with pytest.raises(KeeperGoneError):
        living_keeper(tmp_path, has_permit=has_permit)


def test_looking_again_and_again_leaves_nothing_open(tmp_path: Path) -> None:
    """The store may be away for days, with a check every few seconds."""
    (tmp_path / "keeper").mkdir()
    (tmp_path / "keeper" / "lock").touch()
    run_out(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    run_out(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_keeper_that_does_not_answer_keeps_its_life(tmp_path: Path) -> None:
    """While it holds its lock, no new number is won: it would stop its jobs on seeing that."""
    store = MemoryStore(lambda: 0.0)
    (tmp_path / "keeper").mkdir()
    with (tmp_path / "keeper" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KeeperError, match="lives and does not answer"):
            begin(store, tmp_path)
        assert store.list(layout.lives(MACHINE)) == ()
    with pytest.raises(KeeperError, match="life 1 is not spawned here"):
        begin(store, tmp_path)


@pytest.mark.parametrize("end", [run_out, lambda home: end_home(home, patience_s=PATIENCE_S)])
def test_what_a_killed_keeper_left_is_ended_whole(
    tmp_path: Path, end: Callable[[Path], None]
) -> None:
    """A program without variables is found by its session, and outside effects are undone."""
    (tmp_path / LOCK).touch()
    keeper = spawn_keeper(tmp_path, life=1, permit_s=60.0, use_cgroups=False)
    pid = int((tmp_path / "keeper" / "lock").read_text().split()[1])
    argv = ("sh", "-c", f"touch {tmp_path}/began; exec env -i sleep 1000")
    process = ProcessStart(argv=argv, env={"PATH": os.environ["PATH"]}, cwd=str(tmp_path))
    undo = ("/usr/bin/touch", str(tmp_path / "undone"))
    keeper.start(AttemptStart(key="a", processes=(process,), grace_s=1.0, undo=undo))
    (state,) = keeper.attempts()
    assert isinstance(state, Running)
    (main,) = state.pids
    assert main is not None
    handles = [os.pidfd_open(each) for each in (pid, main)]
    while Path(f"/proc/{main}/cmdline").read_bytes() != b"sleep\0001000\0":
        pass
    os.kill(pid, signal.SIGKILL)
    try:
        select.select(handles[:1], [], [], PATIENCE_S)
        end(tmp_path)
        assert select.select(handles[1:], [], [], PATIENCE_S)[0]
        assert (tmp_path / "undone").exists()
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handles[1], signal.SIGKILL)
        for handle in handles:
            os.close(handle)
