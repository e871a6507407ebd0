"""
Compaction in the world: two programs compact one bucket, and are killed at any of their writes.

They have the permissions of bastions, like the process that a leader starts. Their day takes a
minute, so a short run closes days.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from bastion.errors import StoreError
from bastion.history import Record, recorded_events
from bastion.history.compaction import Compactor, Spacing
from bastion.history.coverage import StoredFile, covered, stored_files
from bastion.history.tables import TABLES
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from tests.simulation.asking import USERS, launch, one
from tests.simulation.baton import Baton, Crash
from tests.simulation.fates import Fate, Rates, Storm
from tests.simulation.small import small
from tests.simulation.world import World

PROGRAMS = ("south", "east")
"""Names of bastions that do not run here, so these programs have their permissions."""
SPACING = Spacing(recent_s=10.0, most_events=10, day_s=60.0, keep_s=40.0)
EVERY_S = (10.0, 40.0)
KILLED = 0.25
"""Fraction of the writes to the record at which the program dies."""
WHOLE = "the record: every row once, whatever compactions were killed"


class Killing:
    """A storm for all, and death of compactions at their writes and deletions."""

    def __init__(self, baton: Baton) -> None:
        self._chance = baton.chance
        self._storm = Storm(baton.chance, Rates(), spared=(*USERS, *PROGRAMS))
        self._is_over = False

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """See `Fates`."""
        if actor not in PROGRAMS:
            return self._storm.draw(actor, operation, key)
        if self._is_over or not key.startswith(layout.HISTORY) or operation in ("read", "list"):
            return Fate.FINE
        if self._chance.random() >= KILLED:
            return Fate.FINE
        return self._chance.choice((Fate.CRASH_BEFORE, Fate.CRASH_AFTER, Fate.REFUSED, Fate.LATE))

    def end(self) -> None:
        """See `Fates`."""
        self._is_over = True
        self._storm.end()


class TrustsItsFurthestTable(Compactor):
    """A mutant: killed between two tables, it continues after one of them; the other has a gap."""

    def _reach(self, files: list[StoredFile], *, days: bool = False) -> int:  # type: ignore[override]
        return max(covered(files, table.name, days=days) for table in TABLES)


def compacting(seed: int, compactor: type[Compactor] = Compactor) -> World:
    """Return a few jobs of two projects, and more of them later, under two compacting programs."""
    baton = Baton(seed)
    later = [
        launch(90.0 + 45.0 * n, "ann", f"later-{n}", one(h100=1, runs_s=12.0)) for n in range(8)
    ]
    world = small(baton, fates=Killing(baton), more=later)
    for name in PROGRAMS:
        baton.spawn(name, partial(_run, world, compactor), after_s=baton.chance.uniform(*EVERY_S))
    world.checks.append(lambda: check(world))
    return world


def _run(world: World, compactor: type[Compactor]) -> None:
    """Compact repeatedly, dying now and then; the record is checked each time."""
    while True:
        try:
            with tempfile.TemporaryDirectory() as folder:
                compactor(world.store, Path(folder), spacing=SPACING, readers=1).compact()
        except Crash:
            world.baton.note("compaction dies", world.baton.actor)
        except StoreError:
            world.baton.note("compaction fails", world.baton.actor)
        check(world)
        world.baton.sleep(world.baton.chance.uniform(*EVERY_S))


def check(world: World) -> None:
    """Compare what a reader of the record finds with the events of the log and of root."""
    events = list(recorded_events(world.bucket))
    expected = Counter(event.n for event in events if isinstance(event.record, EndedAttempt))
    record = Record(world.bucket)
    found = Counter(row.event for row in record.attempts())
    if found != expected or record.spoilt:
        world.baton.fail(WHOLE, f"{found - expected} too many, {expected - found} lost")
    with record.opened() as connection:
        rows = connection.execute("SELECT event FROM events").fetchall()
    told = Counter(event for (event,) in rows)
    if told != Counter(event.n for event in events):
        world.baton.fail(WHOLE, "a line of the history is lost or doubled")


def days_closed(world: World) -> int:
    """Return how many files of whole days exist."""
    return sum(bool(each.name.date) for each in stored_files(world.bucket))
