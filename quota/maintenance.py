"""
Maintenance windows: when which machines are closed, and what may still start before that.

A window without pools and machines closes everything. A machine is closed from the first window
that has not ended yet; later windows do not matter until then. Times are epoch seconds of one
clock, the bastion's.

Of machines, this module must know only the names; of jobs, only three numbers.

Source: Slurm, maintenance reservations: a job starts only if its time limit ends before the window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from quota.value import value


@value
class Window:
    """A time in which nothing runs on some machines."""

    starts_at: float
    ends_at: float
    pools: tuple[str, ...] = ()
    """Pools of which every machine is closed."""
    machines: tuple[str, ...] = ()
    """Machines, or their hosts, that are closed too; without pools and machines, all are closed."""
    reason: str = ""
    """For users, as the file has it."""

    def __str__(self) -> str:
        """Format for people: when, what is closed, and why."""
        times = (datetime.fromtimestamp(at, UTC) for at in (self.starts_at, self.ends_at))
        begin, end = (each.strftime("%Y-%m-%d %H:%M") for each in times)
        what = ", ".join((*self.pools, *self.machines)) or "everything"
        return f"{what} from {begin} to {end} UTC{f': {self.reason}' if self.reason else ''}"

    def covers(self, pool: str, machine: str, host: str = "") -> bool:
        """Whether it closes `machine`, which is in `pool` and on `host`."""
        if not self.pools and not self.machines:
            return True
        return pool in self.pools or machine in self.machines or host in self.machines


def next_window(
    windows: Iterable[Window], now: float, *, pool: str, machine: str, host: str = ""
) -> Window | None:
    """Return the window that closes `machine` of `pool` now, or else the next one that will."""
    ahead = (each for each in windows if each.ends_at > now and each.covers(pool, machine, host))
    return min(ahead, key=lambda each: (each.starts_at, each.ends_at), default=None)


def closes_at(
    windows: Iterable[Window], now: float, *, pool: str, machine: str, host: str = ""
) -> float:
    """Return when `machine` of `pool` closes: in the past while closed, infinite if never."""
    window = next_window(windows, now, pool=pool, machine=machine, host=host)
    return math.inf if window is None else window.starts_at


def may_start(
    closes: float,
    now: float,
    *,
    max_runtime_s: float | None,
    grace_s: float,
    resumes: bool,
    min_runtime_s: float,
) -> bool:
    """
    Whether a job may start now on a machine that closes at `closes`.

    It may if it ends before that, including its grace period. A job that resumes may also start if
    `min_runtime_s` and its grace period are left: it is stopped with notice at `closes - grace_s`,
    and continues elsewhere or later from its checkpoint.

    Args:
        closes: From `closes_at`; the earliest one of all machines that the job would use.
        now: Same clock.
        max_runtime_s: After which the job ends by itself; None for endless.
        grace_s: Between its notice and its kill.
        resumes: Whether it starts again after it was stopped.
        min_runtime_s: How long a job must be able to run, so that it is not started in vain.
    """
    left_s = closes - now - grace_s
    if left_s == math.inf or (max_runtime_s is not None and max_runtime_s <= left_s):
        return True
    return resumes and left_s > 0 and min_runtime_s <= left_s
