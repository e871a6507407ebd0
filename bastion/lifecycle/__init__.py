"""
The life of a job as pure functions: its phases, its events, and how its attempts end.

The input is a `JobRecord`, one event and the time; the output is the record after the event.
Nothing here reads a clock or the bucket. Read `events` first (what can happen), then `step` (the
table of phases and events), `outcome` (how an attempt ended), `dependencies` (what a job waits
for), `remark` (what users see about an active job) and `suspect` (which machine is to blame).
"""

from bastion.lifecycle.events import (
    Admitted,
    CancelWanted,
    DependenciesEnded,
    DependencyEnded,
    DrainEnded,
    Event,
    GoGiven,
    GoRevoked,
    GoWanted,
    HeldBack,
    HostCheckpointed,
    HostClaimed,
    HostDrained,
    HostEnded,
    HostHeld,
    HostIdle,
    HostPrepares,
    HostReported,
    HostStarted,
    HostUnkept,
    Instructed,
    LimitInstructed,
    Reclassed,
    Released,
    StopInstructed,
    StopWanted,
    Updated,
    Withdrawn,
)
from bastion.lifecycle.outcome import first_failed, first_succeeded, kept_outcome
from bastion.lifecycle.remark import remark, trouble
from bastion.lifecycle.step import LifecycleError, step
from bastion.lifecycle.suspect import suspect_of

__all__ = [
    "Admitted",
    "CancelWanted",
    "DependenciesEnded",
    "DependencyEnded",
    "DrainEnded",
    "Event",
    "GoGiven",
    "GoRevoked",
    "GoWanted",
    "HeldBack",
    "HostCheckpointed",
    "HostClaimed",
    "HostDrained",
    "HostEnded",
    "HostHeld",
    "HostIdle",
    "HostPrepares",
    "HostReported",
    "HostStarted",
    "HostUnkept",
    "Instructed",
    "LifecycleError",
    "LimitInstructed",
    "Reclassed",
    "Released",
    "StopInstructed",
    "StopWanted",
    "Updated",
    "Withdrawn",
    "first_failed",
    "first_succeeded",
    "kept_outcome",
    "remark",
    "step",
    "suspect_of",
    "trouble",
]
