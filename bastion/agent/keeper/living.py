"""
The running keeper of a home, or the proof that there is none.

Its lock is the proof; a missing answer is not. A keeper whose disk is blocked answers nothing for a
while, and its processes keep running.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bastion.agent.keeper.attempt.undo import kill_left
from bastion.agent.keeper.journal import Journal
from bastion.agent.keeper.port import KeeperError, KeeperGoneError
from bastion.agent.keeper.socket.client import KeeperClient


def living_keeper(home: Path, *, has_permit: bool) -> KeeperClient:
    """
    Connect to the keeper; if it has died, kill what it left behind.

    The next keeper would do so, but while the store is unreachable there is none, and a permit must
    still end.

    Args:
        home: The agent's home.
        has_permit: Whether processes may run only while the store is reachable.

    Raises:
        KeeperGoneError: There is no keeper.
        KeeperError: One is running and does not answer. The number of a newer life would make it
            stop everything as soon as it answers again.
    """
    try:
        return KeeperClient(home)
    except KeeperGoneError as error:
        if not _is_over(home, has_permit=has_permit):
            raise KeeperError(f"the keeper lives and does not answer: {error.message}") from error
        raise


def _is_over(home: Path, *, has_permit: bool) -> bool:
    """Whether no keeper holds its lock; with a permit, it kills what a dead one has left."""
    try:
        with (home / "keeper" / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if has_permit:
                journal = Journal(str(home / "keeper" / "journal"))
                try:
                    for undo in kill_left(journal, f"{os.path.realpath(home)}:"):
                        undo.attempt()  # once: the next life repeats it until it is done
                finally:
                    journal.close()
    except BlockingIOError:
        return False
    except OSError:
        pass  # there was no keeper yet, or its leftovers cannot be seen: the next life kills them
    return True
