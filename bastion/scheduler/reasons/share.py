"""
Why a job waits although devices may be idle: its project or user has its maximum.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.next_wall import NextWall, words_of
from bastion.scheduler.reasons.words import counted, listed, part_of, units, when
from bastion.value import value
from quota.amounts import NOTHING, Amounts
from quota.budget import Period, text_of_unit_hours
from quota.limits import RUNNING


@value
class OverCeiling:
    """Its project may not hold that much."""

    kind: Literal["OverCeiling"] = "OverCeiling"
    project: str
    asked: Amounts
    held: Amounts
    ceiling: Amounts
    then: NextWall | None = None
    """The next wall, once the ceiling is high enough."""

    def words(self, _: float) -> str:
        """The sentence."""
        short = (self.held + self.asked - self.ceiling).positive()
        return (
            f"waits for {self.project} to free {units(short)}: it holds"
            f" {part_of(self.held, self.ceiling)}, its ceiling; starts when jobs of"
            f" {self.project} end, or an admin raises the ceiling{words_of(self.then)}"
        )


@value
class OverUserLimit:
    """Its user may not have that much in its project at the same time."""

    kind: Literal["OverUserLimit"] = "OverUserLimit"
    project: str
    user: str
    limit: str
    """A resource type, or `jobs`."""
    asked: int
    held: int
    """What the user's running jobs hold."""
    ahead: int
    """What earlier waiting gangs of the user ask for."""
    most: int
    then: NextWall | None = None
    """The next wall, once they have ended."""

    def words(self, _: float) -> str:
        """The sentence."""
        is_jobs = self.limit == RUNNING
        unit = "" if is_jobs else f" {self.limit}"
        if self.asked > self.most:
            asked = counted(self.asked, "job") if is_jobs else f"{self.asked}{unit}"
            return (
                f"waits for a higher limit of {self.user} in {self.project}: it asks for {asked} at"
                f" once, and the limit is {self.most}; ask for less, or an admin raises it in the"
                f" quota file{words_of(self.then)}"
            )
        most = counted(self.most, "job") if is_jobs else f"{self.most}{unit}"
        has = f"{self.user} {'runs' if is_jobs else 'holds'} {self.held}{unit}"
        ahead = f" with {self.ahead}{unit} ahead of it" if self.ahead else ""
        return (
            f"waits for jobs of {self.user}, whose limit in {self.project} is {most} at once:"
            f" {has}{ahead}, it asks for {self.asked}{unit}; starts when they end, or an admin"
            f" raises the limit in the quota file{words_of(self.then)}"
        )


@value
class BudgetSpent:
    """Its project, or a group around it, has used its budget for a period of the calendar."""

    kind: Literal["BudgetSpent"] = "BudgetSpent"
    of: str
    """The project or group."""
    hours: Amounts
    """Unit hours per period, of the types asked for of which nothing is left."""
    period: Period
    until: float
    """When the next period begins, in seconds of the store's clock."""
    then: NextWall | None = None
    """The next wall, once the budget is renewed."""

    def words(self, now: float) -> str:
        """The sentence."""
        hours = text_of_unit_hours(dict(self.hours.items()))
        return (
            f"waits for the next {self.period}, which begins {when(self.until, now)}:"
            f" {self.of} has used its budget of {hours}; starts then, or when an admin raises the"
            f" budget in the quota file{words_of(self.then)}"
        )


@value
class BeyondShare:
    """It asks for more than its project's share leaves, and others lend too little."""

    kind: Literal["BeyondShare"] = "BeyondShare"
    project: str
    asked: Amounts
    share: Amounts
    held: Amounts
    others: Amounts
    """Of their own shares: in use, waited for, or not lent."""
    total: Amounts
    lenders: tuple[str, ...] = ()
    """The projects that `others` belongs to."""
    own: Amounts = NOTHING
    """What its own project must free even if others free all that they lend."""
    then: NextWall | None = None
    """The next wall, once that is free."""

    def words(self, _: float) -> str:
        """The sentence."""
        short = (self.held + self.asked + self.others - self.total).positive()
        others = listed(self.lenders) or "other projects"
        s = "s" if len(self.lenders) == 1 else ""
        fits = self.asked <= self.share
        ends = self._ends(others, s, short)
        if fits:
            ends = f"jobs of {self.project} end"
            ends += "" if self.own else f", or {others} leave{s} {units(short)} idle"
        return (
            f"waits {'for' if fits else 'to borrow'} {units(short)}: it asks for"
            f" {units(self.asked)}, {self.project} holds {units(self.held)} of its share of"
            f" {units(self.share)}, and {others} use{s} or reserve{s}"
            f" {part_of(self.others, self.total)}; starts when {ends}{words_of(self.then)}"
        )

    def _ends(self, others: str, s: str, short: Amounts) -> str:
        """Return what must end; its own project's jobs first."""
        rest = (short - self.own).positive()
        theirs = f"{others} free{s} {units(rest)}" if rest else ""
        own = f"jobs of {self.project} free {units(self.own)}" if self.own else ""
        return " and ".join(filter(None, (own, theirs)))


@value
class ShareInUse:
    """It never borrows, and its project's share is in use."""

    kind: Literal["ShareInUse"] = "ShareInUse"
    project: str
    asked: Amounts
    held: Amounts
    share: Amounts
    then: NextWall | None = None
    """The next wall, once that is free."""

    def words(self, _: float) -> str:
        """The sentence."""
        short = (self.held + self.asked - self.share).positive()
        return (
            f"waits for {self.project} to free {units(short)} of its share: it asks for"
            f" {units(self.asked)}, {self.project} holds {units(self.held)} with a share of"
            f" {units(self.share)}, and it may not borrow; starts when jobs of {self.project} end"
            f"{words_of(self.then)}"
        )
