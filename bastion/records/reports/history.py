"""
What the history keeps of an end: the values that ride in the event of the end.

The commit that ends an attempt also holds its row, so no crash separates the two. Events are
numbered without a gap, are sealed under `state/log/` and are never deleted there, so a row is
neither lost nor doubled: the number of its event is its identity.

A field may be added, with a default. None may be removed or change its meaning: old segments are
read for ever.
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
    An attempt that ended, or a job that ended in the queue (`attempt` is 0 then).

    The event says the job, its project and when. Times are the store's seconds.
    """

    kind: Literal["attempt"] = "attempt"
    user: str
    launch: str
    name: str = ""
    task: int | None = None
    tasks: int | None = None
    """
    Of an array: how many tasks it has. Those that started have rows of their own; its row stands
    for the others.
    """
    gang: int = 1
    """How many jobs are admitted together with it, itself included."""
    attempt: int = 0
    nonce: str = ""
    request: Request
    submitted_at: float
    queued_at: float
    admitted_at: float | None = None
    started_at: float | None = None
    freed_at: float | None = None
    """When its last devices were free; its logs may have been complete later."""
    outcome: str
    """How the attempt ended, or the job where there was none."""
    job_outcome: str = ""
    """How the job ended; empty if it went on."""
    text: str = ""
    exit_code: int | None = None
    job_class: str = ""
    """Its class at its end: `guaranteed` or `borrowed`."""
    guaranteed_s: float = 0.0
    borrowed_s: float = 0.0
    """Seconds of each class, from its admission until its last devices were free."""
    device_type: str = ""
    """The accelerator it held; empty if none."""
    devices: int = 0
    """Units of it as the quota counts them, all replicas together."""
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
    Of one machine, as `config/bastion.toml` said at the end; None: it said none. Of machines of
    several pools the mean, with list prices where it said none; None: one of them has no price.
    """
    stop_reason: str = ""
    stopped_by: str = ""
    """The user, job or replica that caused the stop."""
    stopped_for: str = ""
    """The project of the job that preempted it."""
    lost_s: float | None = None
    """
    Of an attempt that was preempted, stopped or lost, or failed: seconds that it held devices
    after its last checkpoint; else None.
    """
    lost_device_s: float | None = None
    """The same in unit-seconds of `device_type`."""
    utilisation: Utilisation | None = None
    """What all its hosts used together; None: nothing was sampled."""
    replica_s: tuple[float, ...] = ()
    """Seconds until the devices of each replica were free, in order; empty: all were at once."""
    replicas: int | None = None
    """How many replicas this attempt of an elastic job had; None: as many as `request` says."""


@value
class Shares:
    """What each project owns of each type, from here on, by the quota file in force."""

    kind: Literal["shares"] = "shares"
    nominal: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Project -> type -> units, all tiers together."""
    file: str = ""
    """The quota file itself; empty in records of an earlier version."""


HistoryRecord: TypeAlias = EndedAttempt | Shares
"""What an event may hold in full."""
