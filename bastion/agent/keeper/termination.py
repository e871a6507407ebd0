"""
The termination of attempts: kill what is left, undo, and record the end; standard library only.

An attempt is over when its processes are reaped, every descendant is dead, its undo has succeeded,
its pipes are drained and its clean-up has run. Only then is its record written. If SIGTERM ended a
process at its notice, its descendants are killed only when the grace period is over.
"""

from __future__ import annotations

import signal

from bastion.agent.keeper.attempt.process import boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bastion.agent.keeper.attempt.attempt import Attempt
    from bastion.agent.keeper.attempt.idle import Watchdog
    from bastion.agent.keeper.attempt.outputs import Outputs
    from bastion.agent.keeper.attempt.process_tree import Tree
    from bastion.agent.keeper.journal import Journal

_KILL_PAUSES_S = (0.001, 0.1)
"""Between rounds of SIGKILL for what cannot or will not die: doubling from first to second."""


class Termination:
    """
    The attempts that are being terminated.

    Args:
        running: Every attempt without a record, by key; an attempt is deleted when it has one.
        undoing: The attempt of every undo command that runs, by pid.
        wake: Takes the time of the next turn, on the boot clock.
    """

    def __init__(
        self,
        tree: Tree,
        watchdog: Watchdog,
        outputs: Outputs,
        journal: Journal,
        *,
        running: dict[str, Attempt],
        undoing: dict[int, Attempt],
        wake: Callable[[float], None],
    ) -> None:
        self._tree = tree
        self._watchdog = watchdog
        self._outputs = outputs
        self._journal = journal
        self._running = running
        self._undoing = undoing
        self._wake = wake
        self._pending: dict[str, Attempt] = {}
        self._for_clean_up: list[Attempt] = []
        self._records: list[dict[str, object]] = []

    def __contains__(self, key: object) -> bool:
        return key in self._pending

    def begin(self, attempt: Attempt) -> None:
        """Terminate `attempt` from the next turn on."""
        self._pending[attempt.key] = attempt

    def turn(self) -> tuple[list[Attempt], list[dict[str, object]]]:
        """
        Advance every termination.

        Returns:
            The attempts whose clean-up is due, and the records of those that are over.
        """
        for attempt in tuple(self._pending.values()):
            self._advance(attempt)
        done, self._for_clean_up, self._records = (self._for_clean_up, self._records), [], []
        return done

    def _advance(self, attempt: Attempt) -> None:
        if not self._release(attempt):
            self._kill(attempt)
            return
        if not attempt.undo.is_done:
            self._wake(attempt.undo.turn(boot_time()))
            if attempt.undo.pid:
                self._undoing[attempt.undo.pid] = attempt
            return
        self._outputs.stop(attempt)
        self._watchdog.forget(attempt)
        attempt.died(boot_time())
        del self._pending[attempt.key]
        if attempt.start.on_end is not None and attempt.on_end is None:
            self._journal.on_end(attempt.key)
            # The clean-up may create again what was just undone.
            attempt.undo.renew()
            self._for_clean_up.append(attempt)
            return
        record = attempt.close(boot_time())
        self._outputs.forget(attempt)
        self._journal.end(attempt.key, record)
        self._records.append(record)
        del self._running[attempt.key]

    def _release(self, attempt: Attempt) -> bool:
        """Remove the cgroup of `attempt`; return False while a process lives or may live."""
        try:
            left = attempt.living() or self._tree.left_of(attempt)
            return not left and attempt.remove_cgroup()
        except OSError:
            return False

    def _kill(self, attempt: Attempt) -> None:
        """Send SIGKILL to everything of `attempt`, with a backoff between the rounds."""
        if attempt.leaves_work(boot_time()):
            self._wake(attempt.kill_at)
            return
        if boot_time() >= attempt.kill_again_at:
            self._tree.signal(attempt, signal.SIGKILL)
            first_s, longest_s = _KILL_PAUSES_S
            attempt.kill_pause_s = min(longest_s, max(first_s, 2 * attempt.kill_pause_s))
            attempt.kill_again_at = boot_time() + attempt.kill_pause_s
        self._wake(attempt.kill_again_at)
