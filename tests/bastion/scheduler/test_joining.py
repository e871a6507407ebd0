"""A job that only makes a line longer takes no cycle, and its plan is the one of a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bastion.job import JobRecord, Phase
from bastion.scheduler.cycle import decide, decide_with
from bastion.scheduler.plan import Plan
from bastion.scheduler.reasons.reason import text
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory import Memory
from bastion.scheduler.state.policy_choice import Parts, chosen
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.world import World, machines_of, quota_of


def joiners(snapshot: Snapshot, now: float, random: Random) -> Iterator[JobRecord]:
    """Jobs like some that wait: most come after them, some before or with a hold of their own."""
    waiting = [job for job in snapshot.jobs.values() if job.phase is Phase.QUEUED]
    for number in range(4):
        if not waiting:
            return
        like = random.choice(waiting)
        name = f"{random.choice('az')}-new{number}-{like.id}"
        own: dict[str, Any] = {"id": name, "name": name, "ulid": name, "attempts": 0, "task": None}
        at = random.choice([now, now, now, like.submitted_at, like.submitted_at - 1.0])
        other: dict[str, Any] = random.choice(
            [{}, {}, {}, {}, {"held": "by ann"}, {"user": "another"}]
        )
        yield replace(like, submitted_at=at, queued_at=at, **own, **other)


class Seen:
    """Compares plans that took in new jobs with plans from nothing, and counts them."""

    def __init__(self, seed: int, *, tells: bool) -> None:
        self.joined = 0
        self._random, self._tells = Random(seed), tells

    def __call__(self, snapshot: Snapshot, now: float) -> Plan:
        """The plan of `snapshot`, for the history to go on with."""
        parts, memory = chosen(snapshot.quota.scheduler), Memory()
        plan = decide_with(parts, snapshot, now, memory, tells=self._tells)
        self._join(parts, snapshot, now, memory)
        return plan if self._tells else decide_with(parts, snapshot, now)

    def _join(self, parts: Parts, snapshot: Snapshot, now: float, memory: Memory) -> None:
        jobs, random = dict(snapshot.jobs), self._random
        for job in joiners(snapshot, now, random):
            jobs[job.id] = job
            now += random.choice((0.0, 1.0, 90.0))
            more = replace(snapshot, jobs=dict(jobs))
            stood = memory.standstill
            plan = decide_with(parts, more, now, memory, tells=self._tells)
            if stood is not None and memory.standstill is stood:
                self.joined += 1
                assert plan == decide_with(parts, more, now, tells=self._tells), job


def joined(make: histories.Make, seeds: range, *, tells: bool) -> int:
    """How many jobs joined a line in random histories, with each plan checked."""
    found = 0
    for seed in seeds:
        seen = Seen(seed, tells=tells)
        histories.run(seed, (), steps=12, inner=seen, make=make)
        found += seen.joined
    return found


@pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])
def test_a_plan_with_a_job_that_joins_a_line_is_the_plan_from_nothing(
    make: histories.Make,
) -> None:
    """Jobs like those that wait come, one after the other, at every cycle of random histories."""
    assert joined(make, range(8, 10), tells=False) + joined(make, range(4, 6), tells=True) > 0


@pytest.mark.parametrize(
    ("seed", "make"), [(1_015, histories.world_of), (1_006, histories.stream_world_of)]
)
def test_a_job_that_joins_before_the_last_of_a_line_is_estimated(
    seed: int, make: histories.Make
) -> None:
    """Histories in which it had none, as the last of its line had none; kept."""
    assert joined(make, range(seed, seed + 1), tells=True)


@pytest.mark.prove
@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])
def test_jobs_that_join_lines_are_taken_in_at_length(make: histories.Make, tells: bool) -> None:
    """The same, for hundreds of histories of every kind, with reasons and without."""
    assert joined(make, range(1_000, 1_300), tells=tells) > 300


def test_a_job_behind_an_equal_one_takes_no_cycle() -> None:
    """It is told what it stands behind, and the next time that matters is when it has aged."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 1.0}}, plan_after_s=1_000)
    memory = Memory()
    w = World(quota, machines_of(1, gpu=8), decide=lambda s, now: decide(s, now, memory))
    w.ask("A", "first", gpu=8)
    w.cycle()
    w.ask("A", "second", gpu=8)
    w.cycle()
    decide(w.snapshot(), w.now, memory)
    stood = memory.standstill
    w.now += 10.0
    w.ask("A", "third", gpu=8)
    plan = decide(w.snapshot(), w.now, memory)
    assert memory.standstill is stood
    assert text(plan.verdicts["third"].reason, w.now).startswith("waits behind 1 job ")
    assert plan == decide(w.snapshot(), w.now)
