"""
Agents of a newer version under a bastion of an older one, which is upgraded after a while.

The newer version's claims have schema 2, and it reports them in a bell that the older one cannot
read. Until its upgrade, the bastion sees that the claim is taken, but not by which agent.
"""

from __future__ import annotations

import json

from bastion.records.keys import layout
from bastion.store.port import READ_LIMIT_BYTES, Object, ObjectStore, Version, Written
from tests.rigs.wrapped import Wrapped
from tests.simulation.asking import launch, one, verb
from tests.simulation.fates import Fates
from tests.simulation.processes import Parts
from tests.simulation.storm import plain
from tests.simulation.world import World

UPGRADED_S = 150.0
"""When the bastion is upgraded: long after the first jobs have started, and been cancelled."""


class NewerAgent(Wrapped):
    """Writes and reads claims of schema 2; reports them in bells of schema 2."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        return understood(super().read(key, unless=unless, limit_bytes=limit_bytes))

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        is_word_of_it = key.startswith(layout.BELLS) and b'"claimed"' in data
        is_newer = key.endswith("/claim") or is_word_of_it
        return super().create(key, _of_schema(data, 2) if is_newer else data)


class Upgraded(Wrapped):
    """Understands claims of schema 2 from the upgrade on; until then, does not decode them."""

    is_upgraded = False

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        found = super().read(key, unless=unless, limit_bytes=limit_bytes)
        return understood(found) if self.is_upgraded else found


class Careless(Upgraded):
    """Until the upgrade, treats what a newer version wrote as spoilt, and so as no claim."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        found = super().read(key, unless=unless, limit_bytes=limit_bytes)
        if found is not None and key.endswith("/claim") and _schema(found) == 2:
            return Object(data=b"", version=found.version, modified_at=found.modified_at)
        return found


def understood(found: Object | None) -> Object | None:
    """Return `found` as the newer version reads it."""
    if found is None or _schema(found) != 2:
        return found
    data = _of_schema(found.data, 1)
    return Object(data=data, version=found.version, modified_at=found.modified_at)


def mixed(seed: int, kind: type[Upgraded] = Upgraded, *, fates: Fates | None = None) -> World:
    """Return the world of one bastion; `kind` determines how it reads until its upgrade."""
    made: list[Upgraded] = []

    def of_bastion(store: ObjectStore) -> Upgraded:
        if not made:
            made.append(kind(store))
        return made[0]

    asked = [
        launch(0.0, "ann", "first", one(h100=8, runs_s=100)),
        launch(1.0, "ann", "unwanted", one(h100=4, runs_s=1e9)),
        launch(2.0, "ben", "next", one(h100=8, runs_s=20)),
        verb(60.0, "ann", "cancel", "unwanted"),
    ]
    world = plain(seed, asked, Parts(agent_store=NewerAgent, bastion_store=of_bastion), fates=fates)

    def upgrade() -> None:
        world.baton.note("is upgraded", "")
        of_bastion(world.store).is_upgraded = True

    world.baton.later(UPGRADED_S, upgrade)
    return world


def _schema(found: Object) -> int:
    try:
        return int(json.loads(found.data)["schema"])
    except (ValueError, KeyError, TypeError):
        return 0


def _of_schema(data: bytes, schema: int) -> bytes:
    return json.dumps({**json.loads(data), "schema": schema}).encode()
