"""
Why a job is where it is: one small value for every reason a cycle can give.

A reason holds numbers and names, never sentences; `words` makes the sentence when a user asks,
relative to the time of asking. Reasons are stored in the bucket's views, so each carries its
`kind`, which is the name of its class.

It must not know how a cycle came to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bastion.scheduler.reasons.held_back import (
    AtOnce as AtOnce,
)
from bastion.scheduler.reasons.held_back import (
    Backoff as Backoff,
)
from bastion.scheduler.reasons.held_back import (
    Cancelled as Cancelled,
)
from bastion.scheduler.reasons.held_back import (
    Dependency as Dependency,
)
from bastion.scheduler.reasons.held_back import (
    Held as Held,
)
from bastion.scheduler.reasons.held_back import (
    NotYetConsidered as NotYetConsidered,
)
from bastion.scheduler.reasons.held_back import (
    OverLoad as OverLoad,
)
from bastion.scheduler.reasons.held_back import (
    WaitsFor as WaitsFor,
)
from bastion.scheduler.reasons.holding import (
    Borrowing as Borrowing,
)
from bastion.scheduler.reasons.holding import (
    Doomed as Doomed,
)
from bastion.scheduler.reasons.holding import (
    Ending as Ending,
)
from bastion.scheduler.reasons.holding import (
    Outranked as Outranked,
)
from bastion.scheduler.reasons.holding import (
    Reclaimed as Reclaimed,
)
from bastion.scheduler.reasons.holding import (
    Resized as Resized,
)
from bastion.scheduler.reasons.holding import (
    Rotated as Rotated,
)
from bastion.scheduler.reasons.holding import (
    Vacated as Vacated,
)
from bastion.scheduler.reasons.holding import (
    WithinShare as WithinShare,
)
from bastion.scheduler.reasons.holding import (
    Yielded as Yielded,
)
from bastion.scheduler.reasons.never_fits import (
    NEVER as NEVER,
)
from bastion.scheduler.reasons.never_fits import (
    NeverFits as NeverFits,
)
from bastion.scheduler.reasons.next_wall import NextWall as NextWall
from bastion.scheduler.reasons.next_wall import words_of
from bastion.scheduler.reasons.outage import Outage
from bastion.scheduler.reasons.share import (
    BeyondShare as BeyondShare,
)
from bastion.scheduler.reasons.share import (
    OverCeiling as OverCeiling,
)
from bastion.scheduler.reasons.share import (
    OverUserLimit as OverUserLimit,
)
from bastion.scheduler.reasons.share import (
    ShareInUse as ShareInUse,
)
from bastion.scheduler.reasons.words import NAMED as NAMED
from bastion.scheduler.reasons.words import counted, listed, part_of, units, when
from bastion.spec.where import CONTAINERS
from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class NotMember:
    """Its user is not a member of its project."""

    kind: Literal["NotMember"] = "NotMember"
    user: str
    project: str

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"{self.user} is not a member of {self.project}; an admin adds members in the quota"
            " file under [project_membership]"
        )


@value
class UnknownProject:
    """Its project is not in the quota file."""

    kind: Literal["UnknownProject"] = "UnknownProject"
    project: str

    def words(self, _: float) -> str:
        """The sentence."""
        return f"the quota file has no project {self.project}; an admin adds it there"


@value
class QuotaFileInvalid:
    """The newest quota file is not in force, and by the last valid one it may not run."""

    kind: Literal["QuotaFileInvalid"] = "QuotaFileInvalid"
    problem: str
    otherwise: NotMember | UnknownProject

    def words(self, now: float) -> str:
        """The sentence."""
        return (
            f"waits for a valid quota file: by the last valid one, {self.otherwise.words(now)};"
            f" the newest is not in force: {self.problem}"
        )


@value
class Behind:
    """Other jobs of its project are ahead of it."""

    kind: Literal["Behind"] = "Behind"
    jobs: int
    units: Amounts
    """They ask for together."""
    first: tuple[str, ...]
    short: Amounts = NOTHING
    """What is missing for this one alone, now."""

    def words(self, _: float) -> str:
        """The sentence."""
        ask = "asks" if self.jobs == 1 else "ask"
        more = f"; then {units(self.short)} more must be free" if self.short else ""
        return (
            f"waits behind {counted(self.jobs, 'job')} of its project that {ask} for"
            f" {units(self.units)} ({_names(self)}){more}"
        )


@value
class WaitingForCapacity:
    """Everything it could use is in use."""

    kind: Literal["WaitingForCapacity"] = "WaitingForCapacity"
    asked: Amounts
    short: Amounts
    holders: tuple[tuple[str, Amounts], ...] = ()
    """Project and what it holds of the types asked for, most first."""
    then: NextWall | None = None
    """What it meets once these have freed it."""

    def words(self, _: float) -> str:
        """The sentence."""
        whole = "" if self.short <= self.asked else ", and takes whole machines"
        asked = "" if self.short == self.asked else f" (it asks for {units(self.asked)}{whole})"
        held = ", ".join(f"{project} holds {units(each)}" for project, each in self.holders)
        return (
            f"waits for {units(self.short)}{asked}"
            + (f"; {held}" if held else "")
            + f"; starts when running jobs free {units(self.short)}{words_of(self.then)}"
        )


@value
class Promised:
    """Its devices are promised to it by a deadline."""

    kind: Literal["Promised"] = "Promised"
    deadline: float
    stopping: tuple[str, ...] = ()
    """Jobs that it waits for: they are or will be preempted, or end in time."""
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
    """None where jobs without a limit must end: nobody knows when they do."""
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
    """What is free is reserved for a gang that starts soon."""

    kind: Literal["PlannedForOther"] = "PlannedForOther"
    other: str
    at: float | None
    """None where it waits for jobs without a limit: nothing later of its project starts."""
    units: Amounts
    more: tuple[str, ...] = ()
    """Others for which something is reserved, and that start later."""
    then: NextWall | None = None

    def words(self, now: float) -> str:
        """The sentence."""
        later = f", then for {listed(self.more)}" if self.more else ""
        if self.at is None:
            return (
                f"waits for {self.other}, which goes first in its project and for which"
                f" {units(self.units)} are reserved{later}; {self.other} starts once enough jobs of"
                " the project have ended"
            )
        return (
            f"waits for {self.other}, for which {units(self.units)} are reserved and which starts"
            f" {when(self.at, now)}{later}; a job whose max_runtime ends before that is"
            f" backfilled{words_of(self.then)}"
        )


@value
class Maintenance:
    """What it could use is closed for maintenance before it could end."""

    kind: Literal["Maintenance"] = "Maintenance"
    window: str
    """What is closed and when, and why, for people."""
    at: float
    until: float
    then: NextWall | None = None

    def words(self, now: float) -> str:
        """The sentence."""
        if self.at <= now:
            end = when(self.until, now)
            return f"waits for maintenance to end {end}: {self.window}{words_of(self.then)}"
        return (
            f"waits for maintenance, which begins {when(self.at, now)} and would stop it:"
            f" {self.window}; starts {when(self.until, now)}, or now with a max_runtime that ends"
            f" before{words_of(self.then)}"
        )


@value
class Fragmented:
    """Enough is free in total, but not on the machines where it would have to be together."""

    kind: Literal["Fragmented"] = "Fragmented"
    asked: Amounts
    free: Amounts
    fitting: int
    """Replicas that could be placed now."""
    replicas: int
    to_end: tuple[str, ...] = ()
    """Jobs whose end would make room, or empty where none were found."""
    guests: int = 0
    """Of a gang that asks for nothing: how many such replicas a machine takes."""

    def words(self, _: float) -> str:
        """The sentence."""
        end = f"; starts when {listed(self.to_end)} {_has(self.to_end)}" if self.to_end else ""
        if not self.asked:
            most = f"{self.guests} of them" if self.guests else "only so many"
            end = end or "; starts when one of them has ended"
            return f"waits for other jobs that ask for nothing: a machine takes {most}{end}"
        fit = "fits" if self.fitting == 1 else "fit"
        return (
            f"waits for room on single machines: {units(self.free)} are free, but scattered, and"
            f" {self.fitting} of {counted(self.replicas, 'replica')} {fit}{end}"
        )


@value
class CapacityLost:
    """Machines that should be there are not usable."""

    kind: Literal["CapacityLost"] = "CapacityLost"
    asked: Amounts
    lost: Amounts
    of: Amounts
    machines: tuple[str, ...]
    outages: tuple[Outage, ...] = ()
    """What is wrong with the first of them."""
    then: NextWall | None = None
    """What it meets once they are back."""

    def words(self, now: float) -> str:
        """The sentence."""
        told = {each.machine: each.words(now) for each in self.outages}
        machines = tuple(told.get(name, name) for name in self.machines)
        what = part_of(self.lost, self.of) if self.lost else counted(len(machines), "machine")
        back = "can start when they are back" if self.then is None else "and these have to be back"
        out = f"waits for {what}, out of use on {listed(machines)}"
        return f"{out}; {back}{words_of(self.then)}"


@value
class NoMachineMatches:
    """No machine passes its filters."""

    kind: Literal["NoMachineMatches"] = "NoMachineMatches"
    filter: str
    """The first that left none, as it is written: `shard=rl`; `containers` is no user's own."""
    machines: int
    """That were there before it."""
    hosts: int = 1
    """Of one replica; where there are machines and no filter, they are of another shape."""
    empty: tuple[str, ...] = ()
    """Pools it might use that have no machines, and may make none."""

    @property
    def is_final(self) -> bool:
        """Whether all machines there are or could be have another shape than it asks for."""
        return bool(self.machines) and not self.filter and not self.empty

    def words(self, _: float) -> str:
        """The sentence."""
        if not self.empty:
            return self._unmatched()
        return (
            f"{self._unmatched()}; {listed(self.empty)} may make none until an admin raises"
            " max_machines in config/bastion.toml"
        )

    def _unmatched(self) -> str:
        machines = counted(self.machines, "machine")
        if not self.machines:
            return "waits for a machine: there is none, and no pool that could make one"
        if not self.filter and self.hosts > 1:
            return (
                f"{NEVER}: it asks for slices of {self.hosts} hosts, and none of {machines} is part"
                " of one; bastion pool shows what there is"
            )
        if not self.filter:
            return (
                f"{NEVER}: it asks for single machines, and each of {machines} is part of a slice;"
                " ask for slices by an instance type"
            )
        if self.filter == CONTAINERS:
            return (
                f"waits for a machine that runs containers, which its image needs and none of"
                f" {machines} does; an admin sets `containers = true` for a pool where docker"
                " answers"
            )
        return (
            f"waits for a machine with {self.filter}, which none of {machines} has; submit it again"
            " with another filter, or with none"
        )


NoMachines = Literal["sold out", "limit", "refused", "busy"]
"""Why a provider makes no machines, as far as it makes a difference to what can be done."""
_NO_MACHINES: Mapping[NoMachines, tuple[str, str]] = {
    "sold out": ("has none", ""),
    "limit": (
        "makes no more machines for this account",
        "; an admin asks the provider for a higher limit",
    ),
    "refused": ("refuses to make machines", "; an admin corrects the rights or the settings"),
    "busy": ("does not answer", ""),
}


@value
class ProviderStockout:
    """The pool could make machines, but its provider makes none now."""

    kind: Literal["ProviderStockout"] = "ProviderStockout"
    pool: str
    until: float
    why: NoMachines = "sold out"
    said: str = ""
    """The provider's own words."""
    zones: tuple[str, ...] = ()
    """Of a pool of hosts, those that give no machine, where others may; empty: none does."""
    then: NextWall | None = None
    """What it meets once the provider makes machines."""

    def words(self, now: float) -> str:
        """The sentence."""
        return f"waits for machines: {self.clause(now)}{words_of(self.then)}"

    def clause(self, now: float) -> str:
        """What the provider does, in its own words, and when it is asked again."""
        what, remedy = _NO_MACHINES[self.why]
        place = f" on {listed(self.zones)}" if self.zones else ""
        said = f": {self.said}" if self.said else ""
        again = f"asked again {when(self.until, now)}{remedy}"
        return f"the provider of {self.pool} {what}{place}{said}; {again}"


HoldingReason = WithinShare | Borrowing | Ending | Doomed
PreemptReason = Reclaimed | Outranked | Resized | Rotated | Vacated | Yielded
WaitingReason = (
    NeverFits
    | NotYetConsidered
    | NotMember
    | UnknownProject
    | QuotaFileInvalid
    | OverCeiling
    | OverUserLimit
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
    """Whether no waiting helps: it asks for more, or for another shape, than there could be."""
    return isinstance(reason, NeverFits) or (
        isinstance(reason, NoMachineMatches) and reason.is_final
    )


def code(reason: Reason) -> str:
    """The name of the reason, as programs know it."""
    return reason.kind


def text(reason: Reason, now: float) -> str:
    """
    The reason in plain words: one line, no full stop.

    Args:
        reason: Any reason of a verdict.
        now: When it is asked for, in store's seconds; times are told relative to it.
    """
    return reason.words(now)


def _names(behind: Behind) -> str:
    rest = behind.jobs - len(behind.first)
    return ", ".join(behind.first) + (f" and {rest} more" if rest > 0 else "")


def _has(names: tuple[str, ...]) -> str:
    return "has ended" if len(names) == 1 else "have ended"
