"""
Need: how far a gang is from fitting, kept up to date while running gangs are removed on trial.

This module must not know which of them are legal victims: that is an argument.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.scheduler.placement.blocks import same_of
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import Room
from bastion.scheduler.placement.scope import can_make
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from quota.amounts import Amounts


class Need:
    """How far a shape is from fitting; cheap to update while gangs are removed."""

    def __init__(self, draft: Draft, shape: Shape, *, guaranteed: bool) -> None:
        self.draft = draft
        self.capacity = draft.capacity
        self.shape = shape
        self.guaranteed = guaranteed
        plain = [part for part in shape.parts if not part.takes_whole]
        self.parts = [_PartNeed(draft.capacity, part) for part in plain]
        self.is_exact = len(self.parts) == len(shape.parts) == 1
        self.is_told_by_slots = self.is_exact and not same_of(shape, draft.parts.placement)
        """Whether it fits once there are enough slots, so that nothing has to be placed."""
        self.bounds: MachineBounds | None = None

    def is_helped_by(self, running: Running) -> bool:
        """Whether `running` holds anything that could matter."""
        if self.bounds is not None:
            return self.bounds.grows_with(running)
        if self.shape.takes_whole or running.shape.takes_whole:
            return True  # on its machine it is an obstacle for any request
        return not self.shape.types or bool(self.shape.types & running.shape.types)

    @property
    def is_for_devices(self) -> bool:
        """Whether it is one plain part with devices, and victims leave no room in groups."""
        is_one = self.is_exact and not self.draft.shares.is_nested
        return is_one and self.shape.parts[0].is_plain

    def release(self, running: Running) -> Release:
        """Remove `running`."""
        return self.count(Release(self.capacity, running))

    def count(self, release: Release) -> Release:
        """Count the machines of `release`, which has changed."""
        self.draft.search.effort.spend()
        self.refresh(release)
        return release

    def withdraw(self, release: Release) -> None:
        """Put it back."""
        release.withdraw()
        self.count(release)

    def again(self, release: Release) -> None:
        """Remove it again."""
        release.repeat()
        self.count(release)

    def refresh(self, release: Release) -> None:
        """Count the machines of `release` again; the step is already counted."""
        for part in self.parts:
            for room in release.rooms:
                part.refresh(room)

    def may_fit(self) -> bool:
        """A necessary condition, sufficient as well for one plain part."""
        is_met = all(part.is_met for part in self.parts)
        if self.bounds is not None and not is_met and self.parts[0].has_slots:
            self.bounds.is_in_doubt = True
        return is_met

    def fits(self, allows: Callable[[Amounts], bool]) -> bool:
        """Whether all of it can be placed now, given that it may; `allows` as in `place`."""
        if self.is_told_by_slots:
            return True
        return self.draft.would_place(self.shape, allows, guaranteed=self.guaranteed) is not None


class _PartNeed:
    """Replicas of one part that fit, tier by tier."""

    def __init__(self, capacity: Capacity, part: Part) -> None:
        self.capacity = capacity
        self.part = part
        self.scope = capacity.scope_of(part)
        self.known: dict[int, int] = {}
        self.by_tier = [0] * capacity.tier_count
        resource, units = part.leading
        for tier, shelves in enumerate(self.scope.tiers):
            for shelf in shelves:
                if shelf.hosts > 1:
                    continue
                for _, ordinal in self.scope.ascending(shelf, resource, units):
                    self.refresh(capacity.rooms[ordinal])
                if shelf.left and shelf.pool and can_make(part.where, shelf):
                    self.by_tier[tier] += shelf.left * part.most_on(shelf.pool.resources)

    def refresh(self, room: Room) -> None:
        """Count the slots of `room` again."""
        if room.shelf.hosts > 1 or not self.scope.has(room):
            return
        slots = room.slots(self.part)
        tier = room.shelf.tier
        self.by_tier[tier] += slots - self.known.get(room.ordinal, 0)
        self.known[room.ordinal] = slots

    @property
    def has_slots(self) -> bool:
        """Whether all replicas fit, ignoring the tiers' totals."""
        return sum(self.by_tier) >= self.part.replicas

    @property
    def is_met(self) -> bool:
        """Whether all replicas fit, within the tiers' totals."""
        met = 0
        for slots, free in zip(self.by_tier, self.capacity.tier_free):
            allowed = (max(0, free[t]) // n for t, n in self.part.capped)
            met += min(slots, min(allowed, default=slots))
        return met >= self.part.replicas


class MachineBounds:
    """
    How many replicas of one part each machine could hold with all possible victims gone.

    It is an upper bound that ignores amounts without devices.
    """

    def __init__(self, draft: Draft, need: _PartNeed, may_stop: Callable[[Running], bool]) -> None:
        self.draft, self.need, self.may_stop = draft, need, may_stop
        self.is_in_doubt = False
        """Whether machines had room and a total had not: removing any gang helps there."""
        self._most: dict[str, tuple[int, int]] = {}
        """Machine -> its ordinal, and how many it could hold."""
        self._new: dict[str, list[Running]] = {}
        """Machine -> what starts there now."""
        for running in draft.starting.values():
            for machine in running.footprint.masks:
                self._new.setdefault(machine, []).append(running)

    def grows_with(self, running: Running) -> bool:
        """Whether any machine of `running` could hold more than it can now."""
        known, most = self.need.known, self._most
        for machine in running.footprint.masks:
            found = most.get(machine)
            if found is None:
                found = most[machine] = self._bound(machine)
            if known.get(found[0], 0) < found[1]:
                return True
        return False

    def _bound(self, machine: str) -> tuple[int, int]:
        room = self.draft.capacity.by_name.get(machine)
        if room is None or room.shelf.hosts > 1 or not self.need.scope.has(room):
            return -1, 0
        resource, units = self.need.part.leading
        free, victims, may_stop = room.masks.get(resource, 0), self.draft.victims, self.may_stop
        for running in (*self.draft.on(machine), *self._new.get(machine, ())):
            # Inlined `Draft.is_departing`, which would be called thousands of times.
            if running.is_leaving or running.name in victims or may_stop(running):
                wanted = running.footprint
                free |= -1 if machine in wanted.whole else wanted.masks[machine].get(resource, 0)
        return room.ordinal, room.freed(resource, free).bit_count() // units
