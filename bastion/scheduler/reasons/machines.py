"""
Why a job waits for machines: none passes its filters, or the provider creates none.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bastion.scheduler.reasons.never_fits import NEVER
from bastion.scheduler.reasons.next_wall import NextWall, words_of
from bastion.scheduler.reasons.words import counted, listed, when
from bastion.spec.where import CONTAINERS
from bastion.value import value


@value
class NoMachineMatches:
    """No machine passes its filters."""

    kind: Literal["NoMachineMatches"] = "NoMachineMatches"
    filter: str
    """The first that left none, as users write it: `shard=rl`; `containers` is not a user's own."""
    machines: int
    """Machines left before that filter."""
    hosts: int = 1
    """
    Of one replica. If there are machines and no filter, they have another shape; if there is a
    filter on host names, the named hosts form no whole slice.
    """
    empty: tuple[str, ...] = ()
    """Pools it may use that have no machines, and may create none."""
    then: NextWall | None = None
    """The next wall, without that filter or once there is a machine."""

    @property
    def is_final(self) -> bool:
        """Whether no existing or possible machine that it may use has what it asks for."""
        is_of_names = self.hosts > 1
        return bool(self.machines) and not self.empty and (is_of_names or not self.filter)

    def words(self, _: float) -> str:
        """The sentence."""
        made = (
            f"; {listed(self.empty)} can create none until an admin raises max_machines in"
            " config/bastion.toml"
        )
        return f"{self._unmatched()}{made if self.empty else ''}{words_of(self.then)}"

    def _unmatched(self) -> str:
        machines = counted(self.machines, "machine")
        if not self.machines:
            return "waits for a machine: there is none, and no pool can create one"
        if self.filter and self.hosts > 1:
            return (
                f"{NEVER}: it asks for slices of {self.hosts} hosts, and {self.filter} names no"
                " whole one; name all hosts of a slice, or none: bastion machines shows them"
            )
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


NoMachines = Literal["sold out", "limit", "refused", "fails", "busy", "no way in"]
"""Why a provider creates no machines, as far as it matters to what can be done."""
_NO_MACHINES: Mapping[NoMachines, tuple[str, str]] = {
    "sold out": ("has none", ""),
    "limit": (
        "creates no more machines for this account",
        "; an admin asks the provider for a higher limit",
    ),
    "refused": ("refuses to create machines", "; an admin corrects the rights or the settings"),
    "fails": ("creates machines that do not come up", "; an admin must find the cause"),
    "busy": ("does not answer", ""),
    "no way in": ("cannot connect", "; an admin must restore access to the host"),
}


@value
class ProviderStockout:
    """The pool could create machines, but its provider creates none now."""

    kind: Literal["ProviderStockout"] = "ProviderStockout"
    pool: str
    until: float
    why: NoMachines = "sold out"
    said: str = ""
    """The provider's own words."""
    zones: tuple[str, ...] = ()
    """In a pool of hosts: those that provide no machine, while others may; empty: none does."""
    then: NextWall | None = None
    """The next wall, once the provider creates machines."""

    def words(self, now: float) -> str:
        """The sentence."""
        return f"waits for machines: {self.clause(now)}{words_of(self.then)}"

    def clause(self, now: float) -> str:
        """Return what the provider does, in its own words, and when it is asked again."""
        what, remedy = _NO_MACHINES[self.why]
        place = f" on {listed(self.zones)}" if self.zones else ""
        said = f": {self.said}" if self.said else ""
        again = f"next try {when(self.until, now)}{remedy}"
        return f"the provider of {self.pool} {what}{place}{said}; {again}"
