"""
What the history keeps of an end: the values that are part of the end's event.

The commit that ends an attempt also holds its row, so no crash separates the two. Events are
numbered without a gap, are sealed under `state/log/` and are never deleted there. So a row is
neither lost nor duplicated: the number of its event is its identity.

A field can be added, with a default. None can be removed or change its meaning: old segments must
stay readable permanently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from bastion.spec.request import Request
from bastion.utilisation import Utilisation
from bastion.value import value


@value
class EndedAttempt:
    """
    An attempt that ended, or a job that ended in the queue (`attempt` is then 0).

    The event names the job and its project, and has the time. Times are the store's seconds.
    """

    kind: Literal["attempt"] = "attempt"
    user: str
    launch: str
    name: str = ""
    task: int | None = None
    tasks: int | None = None
    """
    Of an array: how many tasks it has. Tasks that started have their own rows; the array's row
    represents the others.
    """
    gang: int = 1
    """How many jobs are admitted together with it, including itself."""
    attempt: int = 0
    nonce: str = ""
    request: Request
    submitted_at: float
    queued_at: float
    admitted_at: float | None = None
    started_at: float | None = None
    freed_at: float | None = None
    """When its last devices became free; its logs may have been complete later."""
    outcome: str
    """How the attempt ended, or how the job ended if it had no attempt."""
    job_outcome: str = ""
    """How the job ended; empty if it continued."""
    text: str = ""
    exit_code: int | None = None
    job_class: str = ""
    """Its class at its end: `guaranteed` or `borrowed`."""
    guaranteed_s: float = 0.0
    borrowed_s: float = 0.0
    """Seconds in each class, from its admission until its last devices became free."""
    device_type: str = ""
    """The type of accelerator that it held; empty if none."""
    devices: int = 0
    """Its units as the quota counts them, all replicas together."""
    cpu: int = 0
    memory_bytes: int = 0
    guaranteed_device_s: float = 0.0
    borrowed_device_s: float = 0.0
    """Unit-seconds of `device_type` in each class, replica by replica as they ended."""
    machines: tuple[str, ...] = ()
    pool: str = ""
    zone: str = ""
    tier: int = 0
    instance_type: str = ""
    terms: str = ""
    machine_s: float | None = None
    """Machine-seconds: a replica on half of a machine counts half. None: the shape is unknown."""
    price_per_hour: float | None = None
    """
    Price of one machine in `config/bastion.toml` at the end; None: it had none. For machines of
    several pools it is the mean, with list prices for those without one; None: one has no price at
    all.
    """
    stop_reason: str = ""
    stopped_by: str = ""
    """The user, job or replica that caused the stop."""
    stopped_for: str = ""
    """The project of the job that preempted it."""
    lost_s: float | None = None
    """
    For an attempt that was preempted, stopped or lost, or failed: seconds that it held devices
    after its last checkpoint; else None.
    """
    lost_device_s: float | None = None
    """The same in unit-seconds of `device_type`."""
    utilisation: Utilisation | None = None
    """The combined use of all its hosts; None: nothing was sampled."""
    replica_s: tuple[float, ...] = ()
    """Seconds until the devices of each replica became free, in order; empty: all together."""
    replicas: int | None = None
    """How many replicas this attempt of an elastic job had; None: as many as in `request`."""


@value
class Shares:
    """What each project owns of each type, from here on, by the quota file in force."""

    kind: Literal["shares"] = "shares"
    nominal: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Project -> type -> units, all tiers together."""
    file: str = ""
    """The quota file itself; empty in records of an earlier version."""


HistoryRecord: TypeAlias = EndedAttempt | Shares
"""What an event can hold in full."""
