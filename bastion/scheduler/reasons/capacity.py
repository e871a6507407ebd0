"""
Why a job waits for capacity: it is in use, scattered, out of use, or closed for maintenance.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.next_wall import NextWall, words_of
from bastion.scheduler.reasons.outage import Outage
from bastion.scheduler.reasons.words import (
    counted,
    is_or_are,
    listed,
    part_of,
    place_of,
    units,
    when,
)
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class WaitingForCapacity:
    """Everything that it could use is in use."""

    kind: Literal["WaitingForCapacity"] = "WaitingForCapacity"
    asked: Amounts
    short: Amounts
    holders: tuple[tuple[str, Amounts], ...] = ()
    """Project and what it holds of the types asked for, most first."""
    replicas: int = 1
    replica: Amounts = NOTHING
    """What each of these needs on one machine, where it could become free scattered."""
    then: NextWall | None = None
    """The next wall, once these have freed it."""

    def words(self, _: float) -> str:
        """The sentence."""
        whole = "" if self.short <= self.asked else ", and takes whole machines"
        asked = "" if self.short == self.asked else f" (it asks for {units(self.asked)}{whole})"
        held = ", ".join(f"{project} holds {units(each)}" for project, each in self.holders)
        return (
            f"waits for {units(self.short)}{asked}"
            + (f"; {held}" if held else "")
            + f"; starts when running jobs free {units(self.short)}{self._together()}"
            + words_of(self.then)
        )

    def _together(self) -> str:
        if not self.replica:
            return ""
        if self.replicas == 1 and self.short == self.replica:
            return " on one machine"
        each = "" if self.replicas == 1 else " for each replica"
        return f", with {units(self.replica)} on one machine{each}"


@value
class Fragmented:
    """Enough is free in total, but not where it must be together."""

    kind: Literal["Fragmented"] = "Fragmented"
    asked: Amounts
    free: Amounts
    fitting: int
    """Replicas that could be placed now."""
    replicas: int
    to_end: tuple[str, ...] = ()
    """Jobs whose end would make room, or empty if none were found."""
    per_machine: int = 0
    """For a gang that asks for nothing: how many such replicas a machine takes."""
    over: str = "machines"
    """What it is scattered over: `machines`, `tiers`, or the label (or `pool`) of blocks."""
    then: NextWall | None = None
    """The next wall, once those jobs have ended; all running jobs, if none were found."""

    def words(self, _: float) -> str:
        """The sentence."""
        has = "has" if len(self.to_end) == 1 else "have"
        end = f"; starts when {listed(self.to_end)} {has} ended" if self.to_end else ""
        then = words_of(self.then)
        if not self.asked:
            most = f"{self.per_machine} of them" if self.per_machine else "only a limited number"
            end = (end or "; starts when one of them has ended") + then
            return f"waits for other jobs that ask for nothing: a machine takes {most}{end}"
        fit = "fits" if self.fitting == 1 else "fit"
        free = f"{units(self.free)} {is_or_are(self.free)} free"
        over = {"machines": "", "tiers": " over tiers"}.get(self.over, " over several")
        return (
            f"waits for room {place_of(self.over)}: {free}, but scattered{over}, and"
            f" {self.fitting} of {counted(self.replicas, 'replica')} {fit}{end}{then}"
        )


@value
class CapacityLost:
    """Machines that should be in service are not usable."""

    kind: Literal["CapacityLost"] = "CapacityLost"
    asked: Amounts
    lost: Amounts
    of: Amounts
    machines: tuple[str, ...]
    outages: tuple[Outage, ...] = ()
    """What is wrong with the first of them."""
    then: NextWall | None = None
    """The next wall, once they are back."""

    def words(self, now: float) -> str:
        """The sentence."""
        told = {each.machine: each.words(now) for each in self.outages}
        machines = tuple(told.get(name, name) for name in self.machines)
        what = part_of(self.lost, self.of) if self.lost else counted(len(machines), "machine")
        is_one = not self.lost and len(machines) == 1
        it = ("it is", "it has") if is_one else ("they are", "they have")
        back = f"can start when {it[0]} back" if self.then is None else f"{it[1]} to be back first"
        out = f"waits for {what}, out of service on {listed(machines)}"
        return f"{out}; {back}{words_of(self.then)}"


@value
class Maintenance:
    """What it could use is closed for maintenance before it could end."""

    kind: Literal["Maintenance"] = "Maintenance"
    window: str
    """What is closed, when and why, in words."""
    at: float
    until: float
    over_by: float = 0.0
    """The time by which the `max_runtime` of a job that starts before must be over."""
    then: NextWall | None = None

    def words(self, now: float) -> str:
        """The sentence."""
        if self.at <= now:
            end = when(self.until, now)
            return f"waits for maintenance to end {end}: {self.window}{words_of(self.then)}"
        left_s = int(self.over_by - now)
        short = f", or now with a max_runtime of at most {text_of_seconds(left_s)}"
        return (
            f"waits for maintenance, which begins {when(self.at, now)} and would stop it:"
            f" {self.window}; starts {when(self.until, now)}{short if left_s > 0 else ''}"
            f"{words_of(self.then)}"
        )
