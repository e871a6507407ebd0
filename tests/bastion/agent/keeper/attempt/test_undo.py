"""An attempt that created more than processes is over only when that is undone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.decommission import end_home
from bastion.agent.keeper.port import AttemptStart, KeeperError, Running
from tests.rigs.keepers import EXITS, IGNORES, SLEEPS, RealWorld, attempt, shell

KEY = "p/j/a1-x/r0/h0"

UNDO = """
import os, sys
folder = sys.argv[1]
with open(folder + "/tried", "a") as file:
    file.write("x")
if not os.path.exists(folder + "/may"):
    sys.exit(1)
if os.path.exists(folder + "/made"):
    os.rename(folder + "/made", folder + "/undone")
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RealWorld]:
    """A home with a real keeper."""
    made = RealWorld(tmp_path / "home")
    yield made
    made.close()


def undoable(folder: Path, line: str) -> AttemptStart:
    """Return an attempt that has created something, which can be undone once `may` exists."""
    (folder / "made").touch()
    undo = (sys.executable, "-I", "-S", "-c", UNDO, str(folder))
    return replace(attempt(KEY, line), undo=undo)


def tries(folder: Path) -> int:
    """Return how often the command was run."""
    tried = folder / "tried"
    return tried.stat().st_size if tried.exists() else 0


def test_an_end_waits_for_the_undo(world: RealWorld, tmp_path: Path) -> None:
    """While the command fails it is retried, and the dead attempt is not over."""
    world.keeper.start(undoable(tmp_path, EXITS))
    world.until(lambda: tries(tmp_path) > 2, "it is not tried again")
    (state,) = world.keeper.attempts()
    assert isinstance(state, Running)
    assert state.pids == (None,)
    (tmp_path / "may").touch()
    assert world.ended(KEY).processes[0].code == 0
    assert (tmp_path / "undone").exists()


def test_nothing_is_undone_while_a_process_lives(world: RealWorld, tmp_path: Path) -> None:
    """The command runs after the last process is dead, even one that ignores SIGTERM."""
    (tmp_path / "may").touch()
    world.keeper.start(undoable(tmp_path, IGNORES))
    world.wrote(KEY, 3)
    assert (tmp_path / "made").exists()
    world.keeper.stop(KEY, reason="cancel", by="ada", grace_s=0.1)
    assert world.ended(KEY).processes[0].signal == 9
    assert (tmp_path / "undone").exists()


def test_a_later_life_runs_the_undo_of_an_older(world: RealWorld, tmp_path: Path) -> None:
    """A killed keeper leaves the undo to the next life, which is not ready before."""
    world.keeper.start(undoable(tmp_path, SLEEPS))
    world.wrote(KEY, 3)
    (tmp_path / "may").touch()
    world.crash()
    assert (tmp_path / "made").exists()
    world.next_life()
    assert (tmp_path / "undone").exists()
    assert world.record(KEY).lost


def test_an_undo_survives_its_keeper(world: RealWorld, tmp_path: Path) -> None:
    """The next life runs an interrupted undo again."""
    world.keeper.start(undoable(tmp_path, EXITS))
    world.until(lambda: tries(tmp_path) > 1, "it is not tried again")
    world.crash()
    (tmp_path / "may").touch()
    world.next_life()
    assert (tmp_path / "undone").exists()
    assert world.record(KEY).lost


def test_ending_a_home_runs_its_undos(world: RealWorld, tmp_path: Path) -> None:
    """The end of a home runs the undo that its killed keeper could not."""
    world.keeper.start(undoable(tmp_path, SLEEPS))
    world.wrote(KEY, 3)
    (tmp_path / "may").touch()
    world.crash()
    end_home(world.home, patience_s=1.0)
    assert (tmp_path / "undone").exists()


def test_a_program_to_undo_is_a_path(world: RealWorld) -> None:
    """A command without a path is refused before anything is started."""
    with pytest.raises(KeeperError, match="undo must begin with the path of a program: 'docker'"):
        world.keeper.start(replace(attempt(KEY, EXITS), undo=("docker", "rm")))
    assert world.keeper.attempts() == ()


def test_what_a_clean_up_makes_is_undone_too(world: RealWorld, tmp_path: Path) -> None:
    """The command runs after the processes, and again after the clean-up."""
    (tmp_path / "may").touch()
    start = replace(undoable(tmp_path, EXITS), on_end=shell(f"touch {tmp_path}/made"), on_end_s=9.0)
    world.keeper.start(start)
    world.ended(KEY)
    assert tries(tmp_path) == 2
    assert not (tmp_path / "made").exists()


def test_a_stop_while_it_is_undone_bounds_its_clean_up(world: RealWorld, tmp_path: Path) -> None:
    """Another job waits for its devices: its grace period counts from the stop."""
    start = replace(undoable(tmp_path, EXITS), on_end=shell(SLEEPS), on_end_s=600.0)
    world.keeper.start(start)
    world.until(lambda: tries(tmp_path) > 0, "it is not undone")
    world.keeper.stop(KEY, reason="preempt", by="ada", grace_s=0.1)
    (tmp_path / "may").touch()
    (tmp_path / "made").touch()
    world.until(lambda: not (tmp_path / "made").exists(), "it is not undone")
    (tmp_path / "made").touch()
    record = world.ended(KEY)
    assert record.notices == ()
    assert record.on_end
