"""What a cycle remembers of the previous one changes nothing but the time it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Plan
from bastion.scheduler.queue.lines import Lines
from bastion.scheduler.queue.order import Standing
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.known_walls import KnownWalls, Walls
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.occupancy import Occupancy
from bastion.scheduler.state.memory.policy_choice import Parts
from quota import Amounts
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.features import featured
from tests.bastion.scheduler.world import World, machines_of, quota_of
from tests.rigs.length import at_length

KINDS = pytest.mark.parametrize("make", [*histories.WORLDS, *map(featured, histories.WORLDS)])


class Blurred(Memory):
    """Treats every waiting job like the first one it saw."""

    def keep_ready(self, new: list[Standing]) -> list[Standing]:
        """Put all gangs in one line."""
        first = next((each for each in (*self.ready.values(), *new)), None)
        alike = [first._replace(entry=each.entry) for each in new] if first else []
        return super().keep_ready(alike)


def play(seed: int, make: histories.Make, memory: Memory, steps: int) -> None:
    """Play one history: every plan equals the one made without `memory`."""

    def both(snapshot: Snapshot, now: float) -> Plan:
        plan = decide(snapshot, now, memory)
        assert plan == decide(snapshot, now)
        return plan

    histories.run(seed, (), steps=steps, inner=both, make=make)


@KINDS
@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None, database=None, derandomize=True)
def test_a_plan_is_the_same_with_and_without_a_memory(seed: int, make: histories.Make) -> None:
    """At every cycle of a random history, leftovers of earlier cycles change nothing."""
    play(seed, make, Memory(), steps=15)


@pytest.mark.prove
@KINDS
@given(seed=st.integers(0, 2**32))
@settings(max_examples=at_length(350), deadline=None, database=None)
def test_a_memory_changes_nothing_at_length(seed: int, make: histories.Make) -> None:
    """The same holds for thousands of histories."""
    play(seed, make, Memory(), steps=25)


@pytest.mark.parametrize(
    "seeds", [(*range(4), 78), pytest.param(range(4, 100), marks=pytest.mark.prove)]
)
@pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])
def test_a_plan_for_a_state_that_stands_still_is_the_plan_from_nothing(
    make: histories.Make, seeds: Sequence[int]
) -> None:
    """It holds later too, until a time that matters is reached, and after that time."""
    held = 0

    def again(snapshot: Snapshot, now: float) -> Plan:
        nonlocal held
        memory = Memory()
        plan = decide(snapshot, now, memory)
        for later in (0.0, 1.0, 40.0, 700.0, 90_000.0):
            stood = memory.standstill
            then = decide(snapshot, now + later, memory)
            held += stood is not None and then is stood.plan
            assert then == decide(snapshot, now + later), later
        return plan

    for seed in seeds:
        histories.run(seed, (), steps=12, inner=again, make=make)
    assert held > 8 * len(seeds)


def test_a_state_that_changes_does_not_stand_still() -> None:
    """The next cycle sees a job that arrives and a job that ends."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 1.0}})
    memory = Memory()
    w = World(quota, machines_of(1, gpu=8), decide=lambda s, now: decide(s, now, memory))
    w.ask("A", "first", gpu=8)
    w.cycle()
    w.ask("A", "second", gpu=8)
    w.cycle()
    assert decide(w.snapshot(), w.now, memory) is decide(w.snapshot(), w.now, memory)
    w.end("first")
    w.cycle()
    assert w.runs("second")


class Forgetful(Memory):
    """Overlooks one in three jobs that end."""

    def take_in(self, snapshot: Snapshot) -> set[str]:
        """Forget some records of jobs that are gone before they are looked up."""
        for number, key in enumerate(sorted(self._jobs)):
            if number % 3 == 0 and key not in snapshot.jobs:
                del self._jobs[key]
        return super().take_in(snapshot)


def test_a_check_finds_what_was_not_kept_up_to_date() -> None:
    """A memory that overlooks an ended job is detected, and the plan is made from scratch."""
    memory = Forgetful(check_every=1)
    for seed in range(5):
        play(seed, histories.world_of, memory, steps=15)
    assert any("what runs" in each or "free" in each for each in memory.problems)


class Unmoved(KnownWalls):
    """Treats every project as unchanged."""

    def of(self, project: str, _: object) -> Walls:
        """Return what is known, whatever the project holds."""
        return super().of(project, None)

    def begin(self, _: object) -> None:
        """Begin, whatever projects claim."""
        super().begin(None)


class Stubborn(Memory):
    """Believes forever what the quota once had against a gang."""

    def _forget(self, snapshot: Snapshot) -> None:
        super()._forget(snapshot)
        self.quota_walls = Unmoved()


class Sluggish(Memory):
    """Ignores that other gangs wait in a project for which nothing is done."""

    def line_up(self, others: Sequence[Standing]) -> Lines:
        """Treat every line as that of the last cycle."""
        found = super().line_up(others)
        for project, lines in found.by_project().items():
            if project in self.forms:
                self.forms[project].lines = lines
        return found


@pytest.mark.parametrize("wrong", [Blurred, Stubborn, Sluggish])
def test_a_memory_of_the_wrong_thing_is_noticed(wrong: Callable[[], Memory]) -> None:
    """A value that is mixed up, or believed for too long, leads to another plan."""
    with pytest.raises(AssertionError):
        for seed in range(50):
            play(seed, histories.world_of, wrong(), steps=15)


def test_a_check_finds_what_the_quota_no_longer_has_against_a_gang() -> None:
    """The comparison detects a reason that is believed for too long."""
    memory = Stubborn(check_every=1)
    for seed in range(20):
        histories.run(seed, (), steps=15, inner=partial(_decide_with, memory))
    assert any("what the quota has against" in each for each in memory.problems)


def _decide_with(memory: Memory, snapshot: Snapshot, now: float) -> Plan:
    return decide(snapshot, now, memory)


@pytest.mark.parametrize(
    "change",
    [
        {"heard_at": 5.0},
        {"cordoned": "by ann"},
        {"bad_devices": {"gpu": (7,)}},
        {"labels": {"a": "b"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_machine_whose_record_changes_is_seen_as_it_is(change: Mapping[str, Any]) -> None:
    """It is seen whether the change affects free capacity, or only shows that it reported."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 1.0}})
    w = World(quota, machines_of(2, gpu=8), decide=histories.remembering())
    w.ask("A", gpu=3)
    w.cycle()
    w.machines = {name: replace(each, **change) for name, each in w.machines.items()}
    w.ask("A", "later", gpu=8)
    w.cycle()
    assert w.runs("later") == ("heard_at" in change or "labels" in change)


class Misplaced(Memory):
    """Mixes up the costs of promises."""

    def begin(self, snapshot: Snapshot, parts: Parts, now: float) -> Occupancy:
        """Begin with everything known of the last cycle at a higher cost."""
        found = super().begin(snapshot, parts, now)
        for name, known in found.located.items():
            charge = tuple(each + Amounts({"gpu": 1}) for each in known.placed.charge)
            found.located[name] = known._replace(placed=known.placed._replace(charge=charge))
        return found


def test_a_check_finds_where_a_promise_does_not_lie() -> None:
    """What is kept of a promise from cycle to cycle is compared, too."""
    memory = Misplaced(check_every=1)
    for seed in range(20):
        histories.run(seed, (), steps=15, inner=partial(_decide_with, memory))
    assert any("lies was another" in each for each in memory.problems)
