"""
Why an admitted job is where it is: it holds what it holds, or is preempted.

The other half of `bastion.scheduler.reasons.reason`, which gathers them all; import from there.

It must not know how a cycle came to it.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.words import when
from bastion.spec.quantity import text_of_seconds
from bastion.value import value
from quota.amounts import Amounts


@value
class WithinShare:
    """It stands on its project's own share: no other project can stop it."""

    kind: Literal["WithinShare"] = "WithinShare"
    project: str
    held: Amounts
    """Of the types under quota, as far as it is within the share."""
    nominal: Amounts

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"guaranteed: {self.project} holds {self.held} of its share of {self.nominal}, and no"
            " other project can stop it"
        )


@value
class Borrowing:
    """It runs on what others leave idle, and may be stopped when they ask for it."""

    kind: Literal["Borrowing"] = "Borrowing"
    project: str
    held: Amounts
    nominal: Amounts
    safe_until: float = 0.0
    """Nobody may stop it before."""

    def words(self, now: float) -> str:
        """The sentence."""
        left_s = self.safe_until - now
        safe = f", but not within the next {text_of_seconds(left_s)}" if left_s > 0 else ""
        return (
            f"borrowed: {self.project} holds {self.held} with a share of {self.nominal}; others may"
            f" take back their share{safe}"
        )


@value
class Ending:
    """It was told to stop, and holds its devices until it has."""

    kind: Literal["Ending"] = "Ending"
    cause: str
    deadline: float

    def words(self, now: float) -> str:
        """The sentence."""
        return f"stopping ({self.cause}); killed {when(self.deadline, now)} at the latest"


@value
class Doomed:
    """It runs on, and will be stopped for another gang at a time that is already set."""

    kind: Literal["Doomed"] = "Doomed"
    by: str
    at: float

    def words(self, now: float) -> str:
        """The sentence."""
        return f"will be stopped {when(self.at, now)}: {self.by} gets its devices"


@value
class Reclaimed:
    """Preempted: the owner of the share it borrowed asks for it."""

    kind: Literal["Reclaimed"] = "Reclaimed"
    by: str
    project: str
    """Whose share it is."""
    units: Amounts

    def words(self, _: float) -> str:
        """The sentence."""
        return f"preempted: {self.project} takes back {self.units} of its own share for {self.by}"


@value
class Outranked:
    """Preempted: its own project has something of higher priority."""

    kind: Literal["Outranked"] = "Outranked"
    by: str
    priority: int
    theirs: int

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"preempted: {self.by} of the same project has priority {self.theirs}, this has"
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
            f"preempted: it borrowed for {text_of_seconds(self.borrowed_s)}, more than a slice of"
            f" {text_of_seconds(self.slice_s)}, and {self.by} is planned here"
        )


@value
class Yielded:
    """Preempted: the order in force puts another before it."""

    kind: Literal["Yielded"] = "Yielded"
    by: str
    order: str

    def words(self, _: float) -> str:
        """The sentence."""
        return f"preempted: {self.by} comes first in the order {self.order}"
