"""
Why a job is where it is: one small value for every reason a cycle can give.

A reason holds numbers and names, never sentences; `words` makes the sentence when somebody asks,
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
    Rotated as Rotated,
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
from bastion.scheduler.reasons.outage import Outage
from bastion.scheduler.reasons.words import NAMED as NAMED
from bastion.scheduler.reasons.words import counted, listed, when
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
    """The newest quota file is not in force, and by the last good one it may not run."""

    kind: Literal["QuotaFileInvalid"] = "QuotaFileInvalid"
    problem: str
    otherwise: NotMember | UnknownProject

    def words(self, now: float) -> str:
        """The sentence."""
        return (
            f"by the last good quota file, {self.otherwise.words(now)}; the newest is not in force:"
            f" {self.problem}"
        )


@value
class OverCeiling:
    """Its project may not hold that much."""

    kind: Literal["OverCeiling"] = "OverCeiling"
    project: str
    asked: Amounts
    held: Amounts
    ceiling: Amounts

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"{self.project} may hold {self.ceiling} at most and holds {self.held}; this asks for"
            f" {self.asked} more, so something of {self.project} must end or the ceiling be raised"
        )


@value
class BeyondShare:
    """It needs what others keep or use of their own shares."""

    kind: Literal["BeyondShare"] = "BeyondShare"
    project: str
    asked: Amounts
    share: Amounts
    held: Amounts
    others: Amounts
    """Of their own shares: in use, waited for, or not lent."""
    total: Amounts

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"asks for {self.asked}; the share of {self.project} is {self.share} and it holds"
            f" {self.held}; others use, wait for or keep {self.others} of theirs, out of"
            f" {self.total}; it starts when they leave enough idle"
        )


@value
class Behind:
    """Others of its project come first."""

    kind: Literal["Behind"] = "Behind"
    jobs: int
    units: Amounts
    """They ask for together."""
    first: tuple[str, ...]
    short: Amounts = NOTHING
    """What is missing for this one alone, now."""

    def words(self, _: float) -> str:
        """The sentence."""
        more = f"; then {self.short} more must come free" if self.short else ""
        return f"behind {counted(self.jobs, 'job')} asking for {self.units}: {_names(self)}{more}"


@value
class WaitingForCapacity:
    """Everything it could use is in use."""

    kind: Literal["WaitingForCapacity"] = "WaitingForCapacity"
    asked: Amounts
    short: Amounts
    holders: tuple[tuple[str, Amounts], ...] = ()
    """Project and what it holds of the types asked for, most first."""

    def words(self, _: float) -> str:
        """The sentence."""
        held = ", ".join(f"{project} holds {units}" for project, units in self.holders)
        return f"asks for {self.asked}, short by {self.short}" + (f"; {held}" if held else "")


@value
class Promised:
    """Its devices are promised to it by a deadline."""

    kind: Literal["Promised"] = "Promised"
    deadline: float
    stopping: tuple[str, ...] = ()
    """Jobs that are being stopped, or will be, for it."""

    def words(self, now: float) -> str:
        """The sentence."""
        whom = f", once {listed(self.stopping)} {_has(self.stopping)}" if self.stopping else ""
        return f"promised: it starts {when(self.deadline, now)} at the latest{whom}"


@value
class Planned:
    """It waited long, and has a start in the future around which others are backfilled."""

    kind: Literal["Planned"] = "Planned"
    at: float
    waiting_for: tuple[str, ...] = ()

    def words(self, now: float) -> str:
        """The sentence."""
        names = self.waiting_for
        whom = f", once {listed(names)} {_has(names)}" if names else ""
        return f"planned to start {when(self.at, now)}{whom}"


@value
class PlannedForOther:
    """What is free is kept for a gang that starts soon."""

    kind: Literal["PlannedForOther"] = "PlannedForOther"
    other: str
    at: float
    units: Amounts

    def words(self, now: float) -> str:
        """The sentence."""
        return (
            f"{self.units} are kept for {self.other}, which starts {when(self.at, now)}; a job"
            " whose max_runtime ends before that may use them until then"
        )


@value
class Fragmented:
    """Enough is free in total, but not where it would have to be together."""

    kind: Literal["Fragmented"] = "Fragmented"
    asked: Amounts
    free: Amounts
    fitting: int
    """Replicas that could be placed now."""
    replicas: int
    to_end: tuple[str, ...] = ()
    """Jobs whose end would make room, or empty where none were found."""

    def words(self, _: float) -> str:
        """The sentence."""
        names = self.to_end
        end = f"; it starts once {listed(names)} {_has(names)}" if names else ""
        return (
            f"{self.free} are free but scattered: {self.fitting} of"
            f" {counted(self.replicas, 'replica')} fit on single machines{end}"
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

    def words(self, now: float) -> str:
        """The sentence."""
        told = {each.machine: each.words(now) for each in self.outages}
        machines = tuple(told.get(name, name) for name in self.machines)
        return (
            f"asks for {self.asked}; {self.lost} of {self.of} are out of use on"
            f" {listed(machines)}; it can start when they are back"
        )


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

    def words(self, _: float) -> str:
        """The sentence."""
        if not self.empty:
            return self._unmatched()
        return (
            f"{self._unmatched()}; {listed(self.empty)} may have none, until an admin raises"
            " max_machines in config/bastion.toml"
        )

    def _unmatched(self) -> str:
        machines = counted(self.machines, "machine")
        if not self.machines:
            return "there are no machines, and no pool that could make one"
        if not self.filter and self.hosts > 1:
            return f"none of {machines} is part of a slice of {self.hosts} hosts, as it asks for"
        if not self.filter:
            return f"each of {machines} is part of a slice; ask for slices by an instance type"
        if self.filter == CONTAINERS:
            return (
                f"none of {machines} runs containers, which an image needs; an admin sets"
                " `containers = true` for a pool where docker answers"
            )
        return f"none of {machines} has {self.filter}; change `where`"


NoMachines = Literal["sold out", "limit", "refused", "busy"]
"""Why a provider makes no machines, as far as it makes a difference to what can be done."""
_NO_MACHINES: Mapping[NoMachines, tuple[str, str]] = {
    "sold out": ("has no machines", ""),
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

    def words(self, now: float) -> str:
        """The sentence."""
        what, remedy = _NO_MACHINES[self.why]
        said = f": {self.said}" if self.said else ""
        again = f"; asked again {when(self.until, now)}{remedy}"
        return f"the provider of {self.pool} {what}{said}{again}"


@value
class OverLoad:
    """The admission policy lets no more in."""

    kind: Literal["OverLoad"] = "OverLoad"
    load: float
    """Share of the totals that would be asked for with it: by what runs and who asked before."""
    limit: float
    alone: float = 0.0
    """Share of the totals that it asks for itself."""

    def words(self, _: float) -> str:
        """The sentence."""
        if self.alone > self.limit:
            return (
                f"asks for {self.alone:.2f} of the totals by itself, and the load limit is"
                f" {self.limit:g}; ask for less, or an admin raises load_limit in the quota file"
            )
        return (
            f"with it, what runs and what was asked for before would be {self.load:.2f} of the"
            f" totals, and the load limit is {self.limit:g}; it joins the queue once enough of that"
            " has ended, or an admin raises load_limit in the quota file"
        )


HoldingReason = WithinShare | Borrowing | Ending | Doomed
PreemptReason = Reclaimed | Outranked | Rotated | Yielded
WaitingReason = (
    NeverFits
    | NotMember
    | UnknownProject
    | QuotaFileInvalid
    | OverCeiling
    | BeyondShare
    | Behind
    | WaitingForCapacity
    | Promised
    | Planned
    | PlannedForOther
    | Fragmented
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
