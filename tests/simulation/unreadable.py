"""
Objects that a store lists but does not return, or that are larger than listed.

Some bells of honest agents become unreadable, and so do requests beside those of honest users. A
bell must be set aside after three turns, a request after three minutes, and every honest request
must be answered in time.
"""

from __future__ import annotations

from collections import Counter

from bastion.client.change.request_id import Ulids
from bastion.errors import NotFoundError, OversizeError, StoreRefusedError
from bastion.records.keys import layout
from bastion.service.intake.failing import REFUSED_S, REFUSED_TURNS
from bastion.store.port import READ_LIMIT_BYTES, Object, ObjectStore, Version, Written
from tests.rigs.wrapped import Wrapped
from tests.simulation.asking import USERS
from tests.simulation.baton import Baton, SimClock
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.invariants import SET_ASIDE
from tests.simulation.processes import SOUND, Parts
from tests.simulation.small import small
from tests.simulation.world import World

SHARE = 0.15
"""Fraction of bells that cannot be read."""
PLACED = (1, 6)
"""Requests that cannot be read."""
LAST_S = 120.0
ANSWER_S = 60.0
"""The time in which every request is answered without other faults: some turns, a commit."""
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VERBS = ("launch", "cancel", "hold", "release", "update", "follow")


class Unreadable(Wrapped):
    """
    Wraps a store that does not return some of its objects.

    Args:
        share: Fraction of bells that become unreadable when they are created.
    """

    def __init__(self, store: ObjectStore, baton: Baton, *, share: float) -> None:
        super().__init__(store)
        self._chance = baton.chance
        self._clock = SimClock(baton)
        self._share = share
        self.refused: set[str] = set()
        self.grown: set[str] = set()
        """Keys of objects that are larger than listed."""
        self.reads: Counter[str] = Counter()
        """How often each such object was read."""
        self.first_at: dict[str, float] = {}
        self.last_at: dict[str, float] = {}

    def spoil(self, key: str) -> None:
        """Make the object at `key` unreadable from now on."""
        (self.refused if self._chance.random() < 0.7 else self.grown).add(key)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if key in self.refused or key in self.grown:
            self.reads[key] += 1
            self.last_at[key] = self._clock.monotonic()
            self.first_at.setdefault(key, self.last_at[key])
        if key in self.refused:
            raise StoreRefusedError(f"{key!r}: the store does not give it")
        if key in self.grown:
            raise OversizeError(key, limit_bytes=limit_bytes)
        return super().read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        written = super().create(key, data)
        if key.startswith(layout.BELLS) and self._chance.random() < self._share:
            self.spoil(key)
        return written


def unreadable(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario among such objects; half of the seeds in a storm."""
    baton = Baton(seed)
    if baton.chance.random() < 0.5:
        return _unreadable(baton, parts, None)
    return _unreadable(baton, parts, Storm(baton.chance, Rates().times(0.5), spared=USERS))


def unreadable_calm(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario among such objects, without other faults."""
    return _unreadable(Baton(seed), parts, None)


def _unreadable(baton: Baton, parts: Parts, fates: Fates | None) -> World:
    stores: list[Unreadable] = []

    def through(store: ObjectStore) -> ObjectStore:
        stores.append(Unreadable(store, baton, share=SHARE))
        return stores[0]

    world = small(baton, parts, fates=fates, through=through)
    odd = stores[0]
    baton.later(baton.chance.uniform(12.0, 40.0), lambda: _place(world, odd, is_plain=True))
    for _ in range(baton.chance.randint(*PLACED)):
        baton.later(baton.chance.uniform(12.0, LAST_S), lambda: _place(world, odd))
    if fates is None:
        world.checks.append(lambda: _check_turns(world, odd))
        world.checks.append(lambda: _check_answers(world, odd))
    return world


def _place(world: World, odd: Unreadable, *, is_plain: bool = False) -> None:
    """Put a request of another time, refused unread, or an ordinary one, which must be read."""
    chance = world.baton.chance
    ulid = "01" + "".join(chance.choice(_ALPHABET) for _ in range(24))
    if is_plain or chance.random() < 0.5:
        ulid = Ulids(SimClock(world.baton).wall, chance.getrandbits).new()
    user, project = chance.choice((("ben", "blue"), ("cat", "red"), ("ann", "blue")))
    key = layout.request(project, user, ulid, chance.choice(_VERBS))
    world.bucket.create(key, b"{}" * chance.randint(1, 100))
    if is_plain:
        odd.refused.add(key)
    else:
        odd.spoil(key)
    world.baton.note("is unreadable", key)


def _check_turns(world: World, odd: Unreadable) -> None:
    for key, times in odd.reads.items():
        if not key.startswith(layout.BELLS):
            for_s = odd.last_at[key] - odd.first_at[key]
            if for_s > REFUSED_S + ANSWER_S:
                world.baton.fail(SET_ASIDE, f"{key} was read for {for_s:.0f} s")
        elif times > REFUSED_TURNS + 1:  # one that can be identified is read once more, to be kept
            world.baton.fail(SET_ASIDE, f"{key} was read {times} times")


def _check_answers(world: World, odd: Unreadable) -> None:
    """
    Each user sends one request after the other, and each is answered in time.

    One that sets something waits for an earlier one of its user that cannot be read.
    """
    since: dict[str, float] = {}
    unread = {key.split("/")[2] for key in odd.refused if not key.startswith(layout.BELLS)}
    for wish in world.wishes:
        if wish.asked is None:
            continue
        asked_at = max(wish.at_s, since.get(wish.user, 0.0))
        try:
            found = world.bucket.read(wish.asked.answer_key)
        except NotFoundError:
            found = None
        if found is None:
            world.baton.fail(SET_ASIDE, f"{wish.name} has no answer")
            continue
        since[wish.user] = found.modified_at - SimClock.EPOCH
        limit_s = ANSWER_S + (REFUSED_S if wish.user in unread else 0.0)
        if since[wish.user] > asked_at + limit_s:
            late_s = since[wish.user] - asked_at
            world.baton.fail(SET_ASIDE, f"{wish.name} was answered after {late_s:.0f} s")
