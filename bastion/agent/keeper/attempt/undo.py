"""
The undo of an attempt: the command that removes what it has outside its processes, such as a
container; standard library only.

It runs when the attempt's processes and their descendants are dead. It is retried with a backoff
until it exits 0; only then is the attempt over and its end recorded. The command must be idempotent
and safe to run concurrently with itself, since a keeper may die at any point of it. `kill_left`
kills and undoes what a dead keeper has left, for every program that ends a home's attempts.
"""

from __future__ import annotations

import os
import time

from bastion.agent.machine import stray_processes as strays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bastion.agent.keeper.journal import Journal

_PAUSES_S = (0.1, 10.0)
"""Backoff between two tries: doubling from the first to the second."""


class Undo:
    """
    The undo of one attempt; done from the start if there is no command.

    Args:
        argv: The command, its program a path; empty for none.
        mark: Mark of the attempt's processes.
    """

    __slots__ = ("_again_at", "_argv", "_mark", "_pause_s", "is_done", "pid")

    def __init__(self, argv: list[str], mark: str) -> None:
        self._argv = argv
        self._mark = mark
        self._again_at = 0.0
        self._pause_s = 0.0
        self.is_done = not argv
        self.pid = 0
        """Pid of the command while it runs, a child of the caller; else 0."""

    def turn(self, now: float) -> float:
        """Run the command if it is due; return when to call again, infinite while it runs."""
        if self.pid or self.is_done:
            return float("inf")
        if now < self._again_at:
            return self._again_at
        try:
            self.pid = self._spawn()
        except OSError:
            return self._back_off(now)
        return float("inf")

    def record_exit(self, status: int, now: float) -> None:
        """Record the end of the command, whose wait status is `status`."""
        self.pid = 0
        self.is_done = os.waitstatus_to_exitcode(status) == 0
        if not self.is_done:
            self._back_off(now)

    def renew(self) -> None:
        """Require another run: there may be something to undo again."""
        self.is_done = not self._argv
        self._again_at = self._pause_s = 0.0

    def attempt(self) -> None:
        """Run the command once, if it is due, and block until it exits."""
        self.turn(time.monotonic())
        if self.pid:
            self.record_exit(os.waitpid(self.pid, 0)[1], time.monotonic())

    def finish(self) -> None:
        """Block until it is done."""
        while not self.is_done:
            self.attempt()
            if not self.is_done:
                time.sleep(max(0.0, self._again_at - time.monotonic()))

    def _back_off(self, now: float) -> float:
        first_s, longest_s = _PAUSES_S
        self._pause_s = min(longest_s, max(first_s, 2 * self._pause_s))
        self._again_at = now + self._pause_s
        return self._again_at

    def _spawn(self) -> int:
        """Start it in a session of its own; its errors go to the keeper's own log."""
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            return os.posix_spawn(
                self._argv[0],
                self._argv,
                {strays.MARK: self._mark},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, null, 0),
                    (os.POSIX_SPAWN_DUP2, null, 1),
                ],
                setsid=True,
            )
        finally:
            os.close(null)


def kill_left(journal: Journal, mark_prefix: str) -> list[Undo]:
    """
    Kill every process of the attempts that have no end; return what must be undone now.

    A program may have overwritten its environment. So the sessions that the journal names are
    killed too. It blocks while a process cannot die. The caller holds the keeper's lock.

    Raises:
        OSError: What is left cannot be seen.
    """
    open_entries = {key: entry for key, entry in journal.entries.items() if not entry.end}
    boot = strays.boot_id()
    leaders = [pair for entry in open_entries.values() for pair in entry.sessions(boot)]
    strays.kill_all(mark_prefix, leaders=leaders)
    return [Undo(entry.undo(), mark_prefix + key) for key, entry in open_entries.items()]
