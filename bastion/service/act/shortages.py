"""
What providers lack or refuse now, in their own words, and when each is asked again.

Every refusal doubles the wait, up to a limit, and a created machine ends it. All of it is in
memory: a restarted bastion asks once more and gets the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.reasons.machines import NoMachines
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.value import value

WAITS_S: Mapping[NoMachines, tuple[float, float]] = {
    "sold out": (60.0, 960.0),
    "limit": (300.0, 3600.0),
    "refused": (60.0, 960.0),
    "fails": (60.0, 7200.0),
    "busy": (5.0, 60.0),
    "no way in": (60.0, 960.0),
}
"""
How long before the same request is repeated: after the first refusal, and at most.

A machine that does not come up costs money until its boot is overdue, ten minutes or more. With two
hours that is a twelfth of its price. If an admin changes the pool, it is tried immediately.
"""
MAX_SAID_CHARACTERS = 500
_OFTEN = 3
"""Consecutive unanswered calls before the bastion reports that a pool creates no machines."""
_DOUBLINGS = 10

_Place = tuple[str, str | None]
"""A pool and one of its zones; None: the whole pool, for example if rights are missing."""


@value
class Shortage:
    """One refusal from a provider."""

    pool: str
    zone: str | None
    """None: it is about the whole pool."""
    why: NoMachines
    said: str
    until: float
    """When the provider is asked again, in the store's seconds."""
    times: int
    """How many times in a row."""
    is_asked: bool = False
    """The provider requested this wait itself."""

    @property
    def is_told(self) -> bool:
        """Whether jobs show it: they do not show a single call that goes unanswered."""
        return self.why != "busy" or self.is_asked or self.times >= _OFTEN

    @property
    def reason(self) -> ProviderStockout:
        """What users see."""
        return ProviderStockout(pool=self.pool, until=self.until, why=self.why, said=self.said)


class Shortages:
    """Every refusal that is in force, by pool and zone."""

    def __init__(self) -> None:
        self._of: dict[_Place, Shortage] = {}
        self._made: frozenset[str] = frozenset()
        """The machines that existed at the last call of `came`."""

    def refused(self, pool: Pool, zone: str | None, error: Exception, now: float) -> None:
        """Record that a call failed; `zone` is that of the machines it was to create, if any."""
        match error:
            case NoCapacityError(is_limit=True):
                self._note(pool.name, zone, "limit", str(error), now)
            case NoCapacityError(is_away=True):
                self._note(pool.name, zone, "no way in", str(error), now)
            case NoCapacityError():
                self._note(pool.name, zone, "sold out", str(error), now)
            case ProviderRefusedError():
                self._note(pool.name, None, "refused", str(error), now)
            case ProviderUnavailableError() if pool.machines_per_zone:
                if zone is not None:  # a host that does not answer; others may
                    self._note(pool.name, zone, "no way in", str(error), now)
            case ProviderUnavailableError(retry_after_s=after_s):
                self._note(pool.name, None, "busy", str(error), now, after_s=after_s)

    def waited_in_vain(self, pool: str, zone: str, said: str, now: float) -> None:
        """Record that a zone kept a request for too long."""
        self._note(pool, zone, "sold out", said, now)

    def never_came(self, pool: str, zone: str, said: str, now: float) -> None:
        """Record that a machine was created in a zone but its agent never arrived."""
        self._note(pool, zone, "fails", said, now)

    def came(self, machines: Collection[Machine]) -> None:
        """
        Forget that agents do not arrive once one has, from a machine requested after the wait.

        If a machine has left, also forget the limits of accounts: there is room in them again.
        """
        made = frozenset(each.name for each in machines if each.made_at is not None or each.life)
        if self._made - made:
            self._of = {place: each for place, each in self._of.items() if each.why != "limit"}
        self._made = made
        failing = {place: each for place, each in self._of.items() if each.why == "fails"}
        for machine in machines if failing else ():
            place = machine.pool, machine.zone
            if machine.life and place in failing and machine.created_at >= failing[place].until:
                self._of.pop(place, None)

    def made(self, pool: str, zone: str | None, now: float) -> None:
        """Record that a call succeeded: in `zone`, or a call that is about no zone."""
        whole = self._of.get((pool, None))
        is_over = whole is not None and (not whole.is_asked or whole.until <= now)
        if whole is not None and is_over and (whole.why == "busy" or zone is not None):
            del self._of[pool, None]
        own = self._of.get((pool, zone))
        if zone is not None and own is not None and own.why != "fails":
            del self._of[pool, zone]

    def forget(self, pool: str) -> None:
        """Forget all refusals of `pool`, because an admin has changed it."""
        self._of = {place: each for place, each in self._of.items() if place[0] != pool}

    def is_dry(self, pool: str, zone: str, now: float) -> bool:
        """Whether no machine should be requested in this zone now."""
        return any(
            each is not None and each.until > now
            for each in (self._of.get((pool, None)), self._of.get((pool, zone)))
        )

    def is_paused(self, pool: str, now: float) -> bool:
        """Whether nothing at all should be requested from the provider of `pool` now."""
        whole = self._of.get((pool, None))
        return whole is not None and whole.why == "busy" and whole.until > now

    def of_zones(self, now: float) -> tuple[Shortage, ...]:
        """Return every shortage that is in force, by pool and zone."""
        standing = [each for each in self._of.values() if each.until > now]
        return tuple(sorted(standing, key=lambda each: (each.pool, each.zone or "")))

    def reason(self, pool: Pool, now: float) -> ProviderStockout | None:
        """
        Return why `pool` can create no machine in any zone now; None if it can.

        For a pool of hosts, it also says why it can create none on some of them.
        """
        whole = self._of.get((pool.name, None))
        if whole is not None and whole.until > now and whole.is_told:
            return whole.reason
        zones = [self._of.get((pool.name, zone)) for zone in pool.zones]
        dry = [each for each in zones if each is not None and each.until > now]
        is_whole = len(dry) == len(pool.zones)
        if not dry or not (is_whole or pool.machines_per_zone):
            return None
        said = dict.fromkeys(each.said for each in dry)
        return ProviderStockout(
            pool=pool.name,
            until=min(each.until for each in dry),
            why=dry[0].why if len({each.why for each in dry}) == 1 else "sold out",
            said="; ".join(said)[:MAX_SAID_CHARACTERS],
            zones=() if is_whole else tuple(each.zone for each in dry if each.zone is not None),
        )

    def _note(
        self,
        pool: str,
        zone: str | None,
        why: NoMachines,
        said: str,
        now: float,
        *,
        after_s: float = 0.0,
    ) -> None:
        before = self._of.get((pool, zone))
        times = before.times + 1 if before is not None and before.why == why else 1
        if before is not None and before.until > now and before.why == why:
            times = before.times  # the response to a call that was already under way
        first_s, most_s = WAITS_S[why]
        wait_s = min(most_s, first_s * 2 ** min(times - 1, _DOUBLINGS))
        self._of[pool, zone] = Shortage(
            pool=pool,
            zone=zone,
            why=why,
            said=said[:MAX_SAID_CHARACTERS],
            until=now + max(wait_s, after_s),
            times=times,
            is_asked=after_s > 0.0,
        )


def unmade_machines(
    machines: Iterable[Machine], shortages: Iterable[Shortage], now: float
) -> Mapping[str, str]:
    """Return the machines that no listing has shown, and that cannot be created now -> why."""
    told = {(each.pool, each.zone): each.reason for each in shortages if each.is_told}
    if not told:
        return {}
    found = {}
    for machine in machines:
        is_unmade = machine.phase is MachinePhase.CREATING and machine.made_at is None
        why = told.get((machine.pool, None)) or told.get((machine.pool, machine.zone))
        if is_unmade and not machine.life and why is not None:
            found[machine.name] = why.clause(now)
    return found
