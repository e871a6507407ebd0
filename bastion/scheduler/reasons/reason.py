"""
Why a job is where it is: one small value for every reason that a cycle can give.

A reason holds numbers and names, never sentences. `words` makes the sentence when a user asks,
relative to that time. Reasons are stored in the bucket's views, so each carries its `kind`, the
name of its class.

This module must not know how a cycle reached the decision.
"""

from __future__ import annotations

from bastion.scheduler.reasons.ahead import Behind, Planned, PlannedForOther, Promised
from bastion.scheduler.reasons.capacity import (
    CapacityLost,
    Fragmented,
    Maintenance,
    WaitingForCapacity,
)
from bastion.scheduler.reasons.held_back import (
    AtOnce,
    Backoff,
    Cancelled,
    Dependency,
    Held,
    NotYetConsidered,
    OverLoad,
    WaitsFor,
)
from bastion.scheduler.reasons.holding import (
    Borrowing,
    Ending,
    Outranked,
    Reclaimed,
    Resized,
    Rotated,
    Shrunk,
    ToBePreempted,
    Vacated,
    WithinShare,
    Yielded,
)
from bastion.scheduler.reasons.machines import NoMachineMatches, ProviderStockout
from bastion.scheduler.reasons.never_fits import NeverFits
from bastion.scheduler.reasons.quota_file import NotMember, QuotaFileInvalid, UnknownProject
from bastion.scheduler.reasons.share import (
    BeyondShare,
    BudgetSpent,
    OverCeiling,
    OverUserLimit,
    ShareInUse,
)

HoldingReason = WithinShare | Borrowing | Ending | ToBePreempted
PreemptReason = Reclaimed | Outranked | Resized | Rotated | Shrunk | Vacated | Yielded
WaitingReason = (
    NeverFits
    | NotYetConsidered
    | NotMember
    | UnknownProject
    | QuotaFileInvalid
    | OverCeiling
    | OverUserLimit
    | BudgetSpent
    | BeyondShare
    | ShareInUse
    | Behind
    | WaitingForCapacity
    | Promised
    | Planned
    | PlannedForOther
    | Fragmented
    | Maintenance
    | CapacityLost
    | NoMachineMatches
    | ProviderStockout
    | Backoff
    | Dependency
    | WaitsFor
    | Held
    | AtOnce
    | Cancelled
    | OverLoad
)
Reason = HoldingReason | PreemptReason | WaitingReason


def can_never_run(reason: Reason) -> bool:
    """Whether waiting cannot help: it asks for more, or another shape, than could ever exist."""
    return isinstance(reason, NeverFits) or (
        isinstance(reason, NoMachineMatches) and reason.is_final
    )


def text(reason: Reason, now: float) -> str:
    """
    Return the reason in plain words: one line, no full stop.

    Args:
        reason: Any reason of a verdict.
        now: The time of the question, in seconds of the store's clock; times in the text are
            relative to it.
    """
    return reason.words(now)
