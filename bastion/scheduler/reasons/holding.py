"""
Why an admitted job is where it is: it holds its devices, or is preempted.

The other half of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.

This module must not know how a cycle reached the decision.
"""

from __future__ import annotations

from typing import Literal

from bastion.job import StopReason
from bastion.phrases import stop_text
from bastion.scheduler.reasons.words import units, when
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value
from quota.amounts import Amounts


@value
class MaintenanceStop:
    """It is stopped for maintenance, unless it ends before, and resumes later."""

    at: float
    window: str
    """What is closed, when and why, in words."""
    is_left: bool = False
    """It cannot resume, so it is not stopped; `at` is when the window begins."""


def _stopped(stop: MaintenanceStop | None, now: float) -> str:
    if stop is None:
        return ""
    if not stop.is_left:
        return f"; maintenance stops it {when(stop.at, now)}: {stop.window}"
    begins = f"begins {when(stop.at, now)}" if stop.at > now else "has begun"
    return f"; maintenance {begins} but does not stop it, because it cannot resume: {stop.window}"


@value
class WithinShare:
    """It runs within its project's own share: no other project can preempt it."""

    kind: Literal["WithinShare"] = "WithinShare"
    project: str
    held: Amounts
    """Of the types under quota that it asks for, as far as it is within the share."""
    nominal: Amounts
    """The share, of the types that it asks for."""
    maintenance: MaintenanceStop | None = None

    def words(self, now: float) -> str:
        """The sentence."""
        of = f"{units(self.held)} of its share of {units(self.nominal)}"
        held = f"{self.project} holds {of}, and " if self.held else ""
        free = f"guaranteed: {held}no other project can preempt it"
        return free + _stopped(self.maintenance, now)


@value
class Borrowing:
    """It runs on capacity that others leave idle, and may be preempted when they need it."""

    kind: Literal["Borrowing"] = "Borrowing"
    project: str
    held: Amounts
    """Of the types under quota that it asks for; empty if it asks for none."""
    nominal: Amounts
    safe_until: float = 0.0
    """It is not preempted before."""
    maintenance: MaintenanceStop | None = None

    def words(self, now: float) -> str:
        """The sentence."""
        left_s = self.safe_until - now
        safe = f", but not in the next {text_of_seconds(left_s)}" if left_s > 0 else ""
        may_be = f"; may be preempted for a gang within its share{safe}"
        return self._what() + may_be + _stopped(self.maintenance, now)

    def _what(self) -> str:
        if not self.held:
            return "asks for nothing under quota"
        over = (self.held - self.nominal).positive()
        beyond = f"{units(over)} beyond its share" if over else "all within its share"
        return f"borrowed: {self.project} holds {units(self.held)}, {beyond}"


@value
class Ending:
    """It is being stopped, and holds its devices until it has ended."""

    kind: Literal["Ending"] = "Ending"
    cause: str
    deadline: float

    def words(self, now: float) -> str:
        """The sentence."""
        is_known = self.cause in set(StopReason)
        cause = stop_text(StopReason(self.cause)) if is_known else self.cause
        return f"stopping: {cause}; killed {when(self.deadline, now)} at the latest"


@value
class ToBePreempted:
    """It runs, and will be preempted for another gang at a time that is already set."""

    kind: Literal["ToBePreempted"] = "ToBePreempted"
    by: str
    at: float

    def words(self, now: float) -> str:
        """The sentence."""
        return f"will be preempted {when(self.at, now)}: {self.by} gets its devices"


@value
class Reclaimed:
    """Preempted: a project reclaims the share that this job borrowed."""

    kind: Literal["Reclaimed"] = "Reclaimed"
    by: str
    project: str
    """The owner of the share."""
    units: Amounts

    def words(self, _: float) -> str:
        """The sentence."""
        return f"preempted: {self.project} reclaims {units(self.units)} of its share for {self.by}"


@value
class Outranked:
    """Preempted: its own project has a job of higher priority."""

    kind: Literal["Outranked"] = "Outranked"
    by: str
    priority: int
    theirs: int

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"preempted: {self.by} of the same project has priority {self.theirs}, this job has"
            f" {self.priority} (1 is highest)"
        )


@value
class Rotated:
    """Preempted: it borrowed for longer than a slice, and an aged gang is planned here."""

    kind: Literal["Rotated"] = "Rotated"
    by: str
    borrowed_s: float
    slice_s: float

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"preempted: it borrowed for {text_of_seconds(self.borrowed_s)}, longer than a slice of"
            f" {text_of_seconds(self.slice_s)}, and {self.by} is planned on its devices"
        )


@value
class Vacated:
    """Preempted: its machine is about to be closed for maintenance."""

    kind: Literal["Vacated"] = "Vacated"
    window: str
    """What is closed, when and why, in words."""
    at: float

    def words(self, now: float) -> str:
        """The sentence."""
        return f"preempted: maintenance begins {when(self.at, now)}: {self.window}"


@value
class Resized:
    """Stopped to start again with more replicas: no job waits for what is free."""

    kind: Literal["Resized"] = "Resized"
    replicas: int
    """Its current number of replicas."""
    fits: int
    """The number it could have."""

    def words(self, _: float) -> str:
        """The sentence."""
        return f"stopped to grow: {self.fits} replicas fit in place of {self.replicas}"


@value
class Shrunk:
    """Preempted: it has more than its minimum replicas, and another job of its project waits."""

    kind: Literal["Shrunk"] = "Shrunk"
    by: str
    replicas: int
    """Its current number of replicas."""
    least: int
    """The minimum with which it starts again."""
    user: str = ""
    """The user whose limit blocks `by`; empty if devices do."""

    def words(self, _: float) -> str:
        """The sentence."""
        has = f"preempted to shrink: it has {self.replicas} replicas and needs {self.least}"
        why = f"the limit of {self.user} keeps {self.by} out" if self.user else f"{self.by} waits"
        return f"{has}, and {why}"


@value
class Yielded:
    """Preempted: another job precedes it in the order in force."""

    kind: Literal["Yielded"] = "Yielded"
    by: str
    order: str

    def words(self, _: float) -> str:
        """The sentence."""
        return f"preempted: {self.by} is ahead of it in the order {self.order}"
