"""
Which processes belong to an attempt, and signalling all of them; standard library only.

The keeper is a child subreaper: whatever a user's process starts stays below the keeper, and comes
to it as a child when its own parent dies. So when an attempt's own processes are reaped, what is
left of it is among the keeper's children. A child nobody knows is attributed by its mark, else by
its session, else (it has wiped both) to an attempt that ends while no other runs. A cgroup, where
there is one, knows better than all of this.
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
        mark_prefix: What every mark of this home begins with.
        mains: Pid to attempt, of every process that was started and is not reaped; the loop's own.
        running: Key to attempt, of everything not over; the loop's own.
        spared: Pids of children that are the keeper's own and no attempt's; the loop's own.
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
        """The pid is free and may come back as another process."""
        self._owner.pop(pid, None)

    def left_of(self, attempt: Attempt) -> set[int]:
        """
        Children of the keeper that `attempt` left behind (its own processes not counted).

        Raises:
            OSError: They cannot be seen: there may be some.
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
        Send signals to everything that belongs to `attempt`; how many processes got them.

        Where that cannot be seen, they go to the groups of the attempt's own processes: these are
        children that were not waited for, so their numbers are still theirs.
        """
        if signal.SIGKILL in numbers and attempt.cgroup is not None:
            attempt.cgroup.kill()
        reached = 0
        try:
            for process in filter(None, map(strays.look, sorted(self.members(attempt)))):
                if not process.zombie:
                    reached += all(map(strays.send, [process] * len(numbers), numbers))
        except OSError:
            return sum(_reached_blindly(pid, numbers) for pid in attempt.living())
        return reached

    def members(self, attempt: Attempt) -> set[int]:
        """
        Everything that belongs to `attempt`, all that its processes started included.

        Raises:
            OSError: It cannot be seen.
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
        if seen is not None and seen.session in self._mains:
            return self._mains[seen.session].key
        return ""


def _reached_blindly(pid: int, numbers: Sequence[int]) -> bool:
    """Send signals to the group that the child `pid` leads, which takes no descriptor."""
    try:
        for number in numbers:
            os.killpg(pid, number)
    except OSError:
        return False
    return True
