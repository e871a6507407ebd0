"""
The processes of an attempt, found and signaled; standard library only.

The keeper is a child subreaper: descendants of a user's process stay below the keeper, and become
its children when their own parent dies. So once an attempt's own processes are reaped, what is left
of it is among the keeper's children. An unknown child is attributed by its mark, else by its
session, even if the leader of that is dead. One that has wiped both is attributed to an attempt
that ends while no other runs. If there is a cgroup, its members are exact.
"""

from __future__ import annotations

import os
import signal

from bastion.agent.machine import stray_processes as strays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from bastion.agent.keeper.attempt.attempt import Attempt


class Tree:
    """
    The processes below the keeper.

    Args:
        mark_prefix: The prefix of every mark of this home.
        mains: The attempt of every process that was started and is not reaped, by pid; the loop's
            own mapping.
        running: Every attempt that is not over, by key; the loop's own mapping.
        spared: Pids of children that belong to the keeper and to no attempt.
    """

    def __init__(
        self,
        mark_prefix: str,
        mains: Mapping[int, Attempt],
        running: Mapping[str, Attempt],
        *,
        spared: Sequence[Container[int]],
    ) -> None:
        self._mark_prefix = mark_prefix
        self._mains = mains
        self._running = running
        self._spared = spared
        self._owner: dict[int, str] = {}

    def reaped(self, pid: int) -> None:
        """Forget a pid, which the kernel may use for another process."""
        self._owner.pop(pid, None)

    def left_of(self, attempt: Attempt) -> set[int]:
        """
        Return the keeper's children that `attempt` left behind, without its own processes.

        Raises:
            OSError: They cannot be seen, so there may be some.
        """
        return {
            pid
            for pid in strays.children(os.getpid())
            if pid not in self._mains
            and not any(pid in each for each in self._spared)
            and self._belongs(pid, attempt)
        }

    def signal(self, attempt: Attempt, *numbers: int) -> int:
        """
        Send signals to every process of `attempt`; return how many received them.

        If those cannot be seen, signal the process groups of the attempt's own processes. They are
        children that were not waited for, so no other process has their pids.
        """
        if signal.SIGKILL in numbers and attempt.cgroup is not None:
            attempt.cgroup.kill()
        reached = 0
        try:
            for process in filter(None, map(strays.look, sorted(self.members(attempt)))):
                if process.zombie or not all(strays.send(process, each) for each in numbers):
                    continue
                reached += 1
                if signal.SIGTERM in numbers:
                    attempt.told.append(process)
        except OSError:
            return sum(_signal_group(pid, numbers) for pid in attempt.living())
        return reached

    def members(self, attempt: Attempt) -> set[int]:
        """
        Return the pids of `attempt`, descendants of its processes included.

        Raises:
            OSError: They cannot be seen.
        """
        pids = attempt.living() | self.left_of(attempt)
        pending = list(pids)
        while pending:
            below = set(strays.children(pending.pop())) - pids
            pids |= below
            pending.extend(below)
        if attempt.cgroup is not None:
            pids |= attempt.cgroup.pids()
        return pids

    def _belongs(self, pid: int, attempt: Attempt) -> bool:
        owner = self._owner.get(pid) or self._attribute(pid)
        if owner:
            self._owner[pid] = owner
            return owner == attempt.key or owner not in self._running
        return self._running.keys() <= {attempt.key}

    def _attribute(self, pid: int) -> str:
        mark = strays.mark_of(pid)
        if mark.startswith(self._mark_prefix):
            return mark[len(self._mark_prefix) :]
        seen = strays.look(pid)
        if seen is None:
            return ""
        leader = self._mains.get(seen.session)
        return self._of_dead_leader(seen.session) if leader is None else leader.key

    def _of_dead_leader(self, session: int) -> str:
        """
        Return the attempt of this session, even though its leader is reaped.

        The kernel gives the number of a session to no process while the session has members. So a
        process with that number is of another session.
        """
        if strays.look(session) is not None:
            return ""
        keys = (key for key, each in self._running.items() if session in each.leaders)
        return next(keys, "")


def _signal_group(pid: int, numbers: Sequence[int]) -> bool:
    """Send signals to the process group of the child `pid`, which needs no descriptor."""
    try:
        for number in numbers:
            os.killpg(pid, number)
    except OSError:
        return False
    return True
