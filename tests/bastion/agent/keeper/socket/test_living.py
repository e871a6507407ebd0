"""A keeper that does not answer is not dead, and no newer life takes its number."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from bastion.agent.keeper.port import KeeperError, KeeperGoneError
from bastion.agent.keeper.socket.living import living_keeper
from bastion.agent.keeper_life import begin_life
from bastion.records.keys import layout
from bastion.store.memory import MemoryStore
from tests.rigs.agent import MACHINE


def begin(store: MemoryStore, home: Path) -> None:
    """Begin a life whose keeper is not spawned."""

    def spawn(life: int) -> None:
        raise KeeperError(f"life {life} is not spawned here")

    begin_life(
        store,
        MACHINE,
        boot_id="b",
        nonce=lambda: "n",
        connect=lambda: living_keeper(home, has_permit=False),
        spawn=spawn,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("has_permit", [True, False])
def test_a_home_without_a_keeper_has_none(tmp_path: Path, has_permit: bool) -> None:
    """Neither a new home, nor one whose keeper has died, which leaves its lock free."""
    with pytest.raises(KeeperGoneError):
        living_keeper(tmp_path, has_permit=has_permit)
    (tmp_path / "keeper").mkdir()
    (tmp_path / "keeper" / "lock").touch()
    with pytest.raises(KeeperGoneError):
        living_keeper(tmp_path, has_permit=has_permit)


def test_a_keeper_that_does_not_answer_keeps_its_life(tmp_path: Path) -> None:
    """While it holds its lock no number is won: it would stop its jobs once it sees that."""
    store = MemoryStore(lambda: 0.0)
    (tmp_path / "keeper").mkdir()
    with (tmp_path / "keeper" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KeeperError, match="lives and does not answer"):
            begin(store, tmp_path)
        assert store.list(layout.lives(MACHINE)) == ()
    with pytest.raises(KeeperError, match="life 1 is not spawned here"):
        begin(store, tmp_path)
