"""
`python -m bastion agent end`: remove everything of ours from a machine that is returned.

The agent ends first, so nothing new starts. Then the keeper ends, which stops all attempts with
grace. Then the remaining processes are killed by mark and session, and the undo steps of the
journal are run. `<home>/ended` records the end once no process of this home is alive.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from bastion.agent.keeper.attempt.undo import kill_left
from bastion.agent.keeper.journal import Journal
from bastion.agent.keeper.port import KeeperGoneError
from bastion.agent.keeper.socket.client import KeeperClient
from bastion.agent.machine import stray_processes as strays

LOCK = "agent.lock"
"""A file in the home, locked by the agent that serves it; it has the agent's "<pid> <start>"."""

ENDING = "ending"
"""A file in the home: while it exists, no agent may start to serve it."""

_EXIT_S = 5.0
"""How long a program with nothing else to do may take to exit."""

_PAUSE_S = 0.02

_LAST_LIFE = 10**9
"""
Above every number that an agent wins: a keeper whose agent was killed while starting it then ends
itself.
"""


def end_home(home: Path, *, patience_s: float) -> None:
    """
    End the agent, the keeper and every process of `home`, and mark it as ended.

    It blocks while a process cannot be killed. It can be killed and run again at any point.

    Args:
        home: The agent's home.
        patience_s: How long the keeper may take to stop its attempts before it is killed too.

    Raises:
        OSError: Processes cannot be listed, or the disk cannot be written: run it again.
    """
    (home / ENDING).touch()
    with (home / LOCK).open("a") as lock:
        while not _is_ours(lock):
            _end_agent(home)
        _end_keepers(home, patience_s)
        for undo in kill_left(Journal(f"{home}/keeper/journal"), f"{os.path.realpath(home)}:"):
            undo.finish()
        (home / "ended").touch()


def _is_ours(lock: IO[str]) -> bool:
    """
    Take the lock that an agent holds while it serves.

    An agent that is still starting has not locked it yet and will find `ENDING` afterwards.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_PAUSE_S)
        return False
    return True


def _end_agent(home: Path) -> None:
    said = _words(home / LOCK)
    agent = strays.look(int(said[0])) if len(said) == 2 else None
    if agent is None or agent.start != int(said[1]):
        return
    strays.send(agent, signal.SIGTERM)
    if not _is_over(agent, _EXIT_S):
        strays.send(agent, signal.SIGKILL)


def _end_keepers(home: Path, patience_s: float) -> None:
    """End the keeper, and prevent every later one from serving."""
    folder = home / "keeper"
    folder.mkdir(mode=0o700, exist_ok=True)
    deadline = time.monotonic() + patience_s
    with (folder / "lock").open("a") as lock:
        while not _is_ours(lock):
            _end_keeper(home, deadline)
        last = _keeper_process(home)
        if last is not None:
            _is_over(last, _EXIT_S)  # its lock is released when it exits
        with suppress(ValueError):  # it is already ending
            Journal(f"{folder}/journal").begin(_LAST_LIFE)


def _end_keeper(home: Path, deadline: float) -> None:
    process = _keeper_process(home)
    try:
        keeper = KeeperClient(home)
        keeper.terminate()
        while time.monotonic() < deadline:
            keeper.poll(0.1)
    except KeeperGoneError:
        if time.monotonic() < deadline:
            return  # it has ended, or does not answer right now
    if process is not None:
        strays.send(process, signal.SIGKILL)


def _keeper_process(home: Path) -> strays.Seen | None:
    """Return the last process that held the keeper's lock: "pid <pid> life <life>"."""
    said = _words(home / "keeper" / "lock")
    return strays.look(int(said[1])) if len(said) > 1 else None


def _is_over(process: strays.Seen, timeout_s: float) -> bool:
    """Wait at most `timeout_s` for the end of `process`; return whether it has ended."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = strays.look(process.pid)
        if now is None or now.start != process.start or now.zombie:
            return True
        time.sleep(_PAUSE_S)
    return False


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except FileNotFoundError:
        return []
