"""
Why a waiting job takes no part in a cycle, whatever is free.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.never_fits import NeverFits
from bastion.scheduler.reasons.next_wall import NextWall, words_of
from bastion.scheduler.reasons.words import counted, listed, when
from bastion.spec.after import When
from bastion.value import value

_AFTER = {
    "failed": "after a failure",
    "lost": "after the loss of a machine",
    "preempted": "after a preemption",
}
_ENDS = {"ok": "to succeed", "any": "to end", "failed": "to end without success"}


@value
class Backoff:
    """It waits after a failure or a loss."""

    kind: Literal["Backoff"] = "Backoff"
    until: float
    after: str

    def words(self, now: float) -> str:
        """The sentence."""
        after = _AFTER.get(self.after, f"after {self.after}")
        return f"waits {after}; requeued {when(self.until, now)}"


@value
class Dependency:
    """It starts together with other jobs that are not ready."""

    kind: Literal["Dependency"] = "Dependency"
    on: tuple[str, ...]
    state: str
    then: NextWall | None = None
    """Their next wall, once all are ready."""

    def words(self, _: float) -> str:
        """The sentence."""
        are = "is" if len(self.on) == 1 else "are"
        return (
            f"waits for {listed(self.on)}, which {are} {self.state}; they start together"
            f"{words_of(self.then)}"
        )


@value
class WaitsFor:
    """It must start after other jobs that have not ended."""

    kind: Literal["WaitsFor"] = "WaitsFor"
    on: tuple[tuple[str, When, str], ...]
    """(job or launch, how it must end, its current state)"""
    then: NeverFits | None = None
    """What keeps it from ever running after they have ended."""

    def words(self, now: float) -> str:
        """The sentence."""
        named = tuple(f"{on} {_ENDS[when]} ({state})" for on, when, state in self.on)
        return f"waits for {listed(named)}{_later('then', self.then, now)}"


@value
class Held:
    """A user holds it."""

    kind: Literal["Held"] = "Held"
    by: str
    then: NeverFits | None = None
    """What keeps it from ever running after its release."""

    def words(self, now: float) -> str:
        """The sentence."""
        return f"held by {self.by}{_later('when released', self.then, now)}"


@value
class AtOnce:
    """As many tasks of its array hold devices as may at the same time."""

    kind: Literal["AtOnce"] = "AtOnce"
    limit: int

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"waits for another task to end: its array runs at most {counted(self.limit, 'task')}"
            " at once"
        )


@value
class Cancelled:
    """Its user cancelled it, and the cancellation is in progress."""

    kind: Literal["Cancelled"] = "Cancelled"
    by: str

    def words(self, _: float) -> str:
        """The sentence."""
        return f"cancelled by {self.by}"


def _later(when: str, never: NeverFits | None, now: float) -> str:
    return f"; it joins the queue {when}" if never is None else f", and it {never.words(now)}"


@value
class OverLoad:
    """The admission policy holds it back: the load limit is reached."""

    kind: Literal["OverLoad"] = "OverLoad"
    load: float
    """Fraction of the totals asked for by it, by running jobs and by earlier jobs."""
    limit: float
    alone: float = 0.0
    """Fraction of the totals that it asks for itself."""
    then: NextWall | None = None
    """The next wall, once it is in the queue."""

    def words(self, _: float) -> str:
        """The sentence."""
        if self.alone > self.limit:
            return (
                f"waits for a higher load limit: it asks for {self.alone:.2f} of the totals by"
                f" itself, and the limit is {self.limit:g}; ask for less, or an admin raises"
                f" load_limit in the quota file{words_of(self.then)}"
            )
        return (
            f"waits for jobs to end: with it the load would be {self.load:.2f} of the totals, and"
            f" the limit is {self.limit:g}; it joins the queue when enough has ended, or an admin"
            f" raises load_limit in the quota file{words_of(self.then)}"
        )


@value
class NotYetConsidered:
    """The cycle spent its steps before it reached this job."""

    kind: Literal["NotYetConsidered"] = "NotYetConsidered"

    def words(self, _: float) -> str:
        """The sentence."""
        return "not considered yet: one cycle cannot decide on all waiting jobs; the next continues"
