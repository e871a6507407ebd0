"""
What precedes a waiting job, or is reserved for it: other jobs, promises and planned starts.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.next_wall import NextWall, words_of
from bastion.scheduler.reasons.words import counted, is_or_are, listed, units, when
from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class Behind:
    """Other jobs of its project precede it."""

    kind: Literal["Behind"] = "Behind"
    jobs: int
    units: Amounts
    """What they ask for together."""
    first: tuple[str, ...]
    short: Amounts = NOTHING
    """What this one alone lacks now."""
    then: NextWall | None = None
    """The next wall, once that is free."""

    def words(self, _: float) -> str:
        """The sentence."""
        ask = "asks" if self.jobs == 1 else "ask"
        more = f"; then {units(self.short)} more must be free" if self.short else ""
        return (
            f"waits behind {counted(self.jobs, 'job')} of its project that {ask} for"
            f" {units(self.units)} ({listed(self.first, self.jobs)}){more}{words_of(self.then)}"
        )


@value
class Promised:
    """Its devices are promised to it by a deadline."""

    kind: Literal["Promised"] = "Promised"
    deadline: float
    stopping: tuple[str, ...] = ()
    """The jobs it waits for: preempted now or later, or ending in time."""
    victims: tuple[str, ...] = ()
    """Those of them that are preempted for it."""

    def words(self, now: float) -> str:
        """The sentence."""
        at = when(self.deadline, now)
        if not self.stopping:
            return f"promised: it starts {at} at the latest"
        ending = tuple(name for name in self.stopping if name not in self.victims)
        ends = (
            f"{listed(self.victims)} to be preempted" if self.victims else "",
            f"{listed(ending)} to end" if ending else "",
        )
        whole = " and for ".join(filter(None, ends))
        return f"waits for {whole}; promised to start {at} at the latest"


@value
class Planned:
    """It waited long, and has a planned start around which other jobs are backfilled."""

    kind: Literal["Planned"] = "Planned"
    at: float | None
    """None where jobs without a limit must end: their end is unknown."""
    waiting_for: tuple[str, ...] = ()

    def words(self, now: float) -> str:
        """The sentence."""
        ends = f"waits for {listed(self.waiting_for)} to end; " if self.waiting_for else ""
        if self.at is None:
            return (
                f"{ends}no time is known, because jobs without max_runtime must end first; no later"
                " job of its project takes what it needs"
            )
        return f"{ends}planned to start {when(self.at, now)}"


@value
class PlannedForOther:
    """Free capacity is reserved for a gang that starts soon."""

    kind: Literal["PlannedForOther"] = "PlannedForOther"
    other: str
    at: float | None
    """None if that gang waits for jobs without a limit: no later job of its project starts."""
    units: Amounts
    more: tuple[str, ...] = ()
    """Other gangs that have a reservation and start later."""
    then: NextWall | None = None

    def words(self, now: float) -> str:
        """The sentence."""
        kept = f"{units(self.units)} {is_or_are(self.units)} reserved"
        later = f", then for {listed(self.more)}" if self.more else ""
        if self.at is None:
            return (
                f"waits for {self.other}, which goes first in its project and for which"
                f" {kept}{later}; {self.other} starts once enough jobs of the project have ended"
            )
        return (
            f"waits for {self.other}, for which {kept} and which starts"
            f" {when(self.at, now)}{later}; a job whose max_runtime ends before that is"
            f" backfilled{words_of(self.then)}"
        )
