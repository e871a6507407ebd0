"""
Undoing: the command that takes away what an attempt has outside of its processes, such as a
container; standard library only.

It is run when the attempt's processes and all that descends from them are dead, and again, ever
more slowly, until it exits 0: not before is the attempt over, or its end written. It must be
harmless to run twice, and beside itself, for a keeper may die at any point of it.
"""

from __future__ import annotations

import os
import time

from bastion.agent.machine import stray_processes as strays

_PAUSES_S = (0.1, 10.0)
"""Between two tries: doubling from the first to the second."""


class Undo:
    """
    The undoing of one attempt; done from the beginning where there is nothing to undo.

    Args:
        argv: The command, its program a path; empty for none.
        mark: What the processes of the attempt carry.
    """

    __slots__ = ("_again_at", "_argv", "_mark", "_pause_s", "is_done", "pid")

    def __init__(self, argv: list[str], mark: str) -> None:
        self._argv = argv
        self._mark = mark
        self._again_at = 0.0
        self._pause_s = 0.0
        self.is_done = not argv
        self.pid = 0
        """Of the command while it runs, a child of the caller; else 0."""

    def turn(self, now: float) -> float:
        """Run the command if it is time; when to call again, infinite where its end says so."""
        if self.pid or self.is_done:
            return float("inf")
        if now < self._again_at:
            return self._again_at
        try:
            self.pid = self._spawn()
        except OSError:
            return self._failed(now)
        return float("inf")

    def exited(self, status: int, now: float) -> None:
        """The command has ended, as `waitpid` says it."""
        self.pid = 0
        self.is_done = os.waitstatus_to_exitcode(status) == 0
        if not self.is_done:
            self._failed(now)

    def renew(self) -> None:
        """There may be something to undo again."""
        self.is_done = not self._argv
        self._again_at = self._pause_s = 0.0

    def finish(self) -> None:
        """Block until it is done: for whoever cannot go on before."""
        while not self.is_done:
            again_at = self.turn(time.monotonic())
            if self.pid:
                self.exited(os.waitpid(self.pid, 0)[1], time.monotonic())
            else:
                time.sleep(max(0.0, again_at - time.monotonic()))

    def _failed(self, now: float) -> float:
        first_s, longest_s = _PAUSES_S
        self._pause_s = min(longest_s, max(first_s, 2 * self._pause_s))
        self._again_at = now + self._pause_s
        return self._again_at

    def _spawn(self) -> int:
        """Start it in a session of its own; what it has to say stands in the keeper's own log."""
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
