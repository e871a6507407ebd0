"""The next waiting gang is chosen by score, then by submission, never by name alone."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from bastion.job import JobRecord
from bastion.scheduler.cycle import decide
from bastion.scheduler.queue.order import Entry, Line, LineKey, Queue, place_of
from bastion.scheduler.queue.shape import Shapes
from bastion.spec.request import Request
from quota import Amounts
from tests.bastion.scheduler import mutants
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of

PROJECTS = "abcde"
Asked = Mapping[str, tuple[float, int]]
"""Job -> when it was submitted and the devices that it asks for; it is named after its project."""


def tied(random: Random, share: int, inner: Decide) -> tuple[World, Asked]:
    """Return equal projects with only waiting jobs, some of which fit on six devices."""
    totals = {"gpu": 16}
    shares = {name: {"gpu": share / 16} for name in PROJECTS}
    quota = quota_of(totals, shares, min_runtime_s=0, plan_after_s=1e9)
    world = World(quota, machines_of(1, gpu=6), decide=inner)
    asked: dict[str, tuple[float, int]] = {}
    most = dict.fromkeys(PROJECTS, share)
    for number in range(8):
        project = random.choice(PROJECTS)
        units = 1 if share else random.choice((1, 1, 2, 3, 5))
        if share and not most[project]:
            continue  # beyond its share it would be considered after all others
        most[project] -= units
        name = world.ask(project, f"{project}-{number}", gpu=units)
        asked[name] = world.now, units
        world.pass_time(random.choice((0.0, 1.0, 5.0)))
    return world, asked


def expected(asked: Asked, free: int = 6) -> list[str]:
    """Return which jobs start: from the project that holds least, then the oldest, then by name."""
    waiting = {p: [n for n in asked if n[0] == p] for p in PROJECTS}
    for names in waiting.values():
        names.sort(key=lambda name: (asked[name][0], name))
    held = dict.fromkeys(PROJECTS, 0)
    started = []
    while any(waiting.values()):
        heads = [(held[p], asked[names[0]][0], p) for p, names in waiting.items() if names]
        project = min(heads)[2]
        name = waiting[project].pop(0)
        if asked[name][1] <= free:
            free -= asked[name][1]
            held[project] += asked[name][1]
            started.append(name)
    return sorted(started)


def differing(share: int, inner: Decide) -> int:
    """Return random states of equal projects in which other jobs start than by the rule."""
    found = 0
    for seed in range(40):
        world, asked = tied(Random(seed), share, inner)
        world.cycle()
        started = sorted(name for name in asked if world.runs(name))
        found += started != expected(asked)
    return found


@pytest.mark.parametrize("share", [0, 3])
def test_projects_of_equal_score_go_by_time_of_submission(share: int) -> None:
    """Beyond every share and within equal ones, the project whose next gang is oldest is first."""
    assert not differing(share, decide)


@pytest.mark.parametrize("share", [0, 3])
def test_a_scheduler_that_goes_by_names_is_noticed(share: int) -> None:
    """A scheduler to which all gangs have the same age starts other jobs."""
    assert differing(share, mutants.seeing(mutants.of_one_age))


def test_the_first_to_ask_is_first_whatever_its_project_is_called() -> None:
    """Three projects that hold nothing wait for one device: that of the oldest job gets it."""
    world = World(quota_of({"gpu": 1}, {p: {} for p in "abc"}), machines_of(1, gpu=1))
    for project in "cba":
        world.ask(project, project, gpu=1)
        world.pass_time(1)
    world.cycle()
    assert world.runs("c")


def stopped_for_one(random: Random, inner: Decide) -> tuple[list[str], list[str]]:
    """Return what stops for a new job, and what should: the last in order, until the job fits."""
    sizes = [random.choice((1, 1, 2)) for _ in range(4)]
    attained = random.sample(range(1_000, 9_000, 1_000), k=len(sizes))
    quota = quota_of(
        {"gpu": sum(sizes)}, {"A": {"gpu": 1.0}}, order="las", preemption="order", min_runtime_s=0
    )
    world = World(quota, machines_of(1, gpu=sum(sizes)), decide=inner)
    reports = {f"r{n}": {"attained_s": float(each)} for n, each in enumerate(attained)}
    world.extra["reports"] = reports
    for number, units in enumerate(sizes):
        world.ask("A", f"r{number}", gpu=units)
        world.cycle()
        world.pass_time(random.choice((1, 10)))
    wanted = random.choice((1, 2))
    world.ask("A", "new", gpu=wanted)
    last_first = sorted(
        range(len(sizes)), key=lambda n: -sizes[n] * (attained[n] + world.now - 1_000_000)
    )
    expected: list[int] = []
    for number in last_first:
        if sum(sizes[n] for n in expected) < wanted:
            expected.append(number)
    for number in expected[-2::-1]:  # one that is not needed continues
        if sum(sizes[n] for n in expected) - sizes[number] >= wanted:
            expected.remove(number)
    world.run(200, step_s=5)
    assert world.runs("new")
    return sorted({n for n, _ in world.preemptions}), sorted(f"r{n}" for n in expected)


def test_an_arrival_stops_what_is_last_in_the_order_and_no_more() -> None:
    """Under `order`, victims come from the tail, and nothing is stopped for a victim in turn."""
    for seed in range(25):
        stopped, expected = stopped_for_one(Random(seed), decide)
        assert stopped == expected, seed


def test_a_scheduler_that_does_not_stop_the_last_is_noticed() -> None:
    """A scheduler that does not know what jobs attained earlier stops others."""
    inner = mutants.seeing(mutants.without_reports)
    found = (stopped_for_one(Random(seed), inner) for seed in range(25))
    assert any(stopped != expected for stopped, expected in found)


def test_only_the_last_in_the_order_is_preempted() -> None:
    """Of four jobs that attained 1000 to 4000 s, the last stops for a new one, and no other."""
    world = World(
        quota_of({"gpu": 4}, {"A": {"gpu": 1.0}}, order="las", preemption="order", min_runtime_s=0),
        machines_of(1, gpu=4),
    )
    attained = {name: 1000.0 * number for number, name in enumerate("abcd", start=1)}
    world.extra["reports"] = {name: {"attained_s": each} for name, each in attained.items()}
    for name in attained:
        world.ask("A", name, gpu=1)
    world.cycle()
    world.ask("A", "n", gpu=1)
    world.run(120)
    assert world.preemptions == [("d", "n")]


def lines_of(random: Random, w: World) -> list[Line]:
    """Return the lines of three users, each with gangs of a few priorities, in order."""
    shape = Shapes(w.quota).of((record("any", 0.0),))
    lines = []
    for number in range(random.randint(1, 9)):
        line = Line(LineKey("A", f"user{random.randrange(3)}", id(shape), False), shape)
        gangs: list[Entry] = []
        for at in range(random.randint(1, 4)):
            job = record(f"{number}-{at}", random.choice((1.0, 2.0, 3.0)))
            rank = random.choice((1, 2)), 0.0
            gangs.append(Entry(rank, job.submitted_at, job.id, (job,), job.submitted_at))
        line.gangs = sorted(gangs, key=place_of)
        lines.append(line)
    return lines


def record(name: str, at: float) -> JobRecord:
    """Return a job that waits."""
    request = Request(replicas=1, per_replica=Amounts({"gpu": 1}))
    return JobRecord(
        id=name,
        project="A",
        user="u",
        launch=name,
        ulid=name,
        submitted_at=at,
        queued_at=at,
        request=request,
    )


@pytest.mark.parametrize("between_users", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_a_queue_is_in_order_whatever_is_served(seed: int, *, between_users: bool) -> None:
    """The first is the lowest by rank, usage of its user, submission and name."""
    random, w = Random(seed), World(quota_of({"gpu": 1}, {"A": {"gpu": 1.0}}))
    lines = lines_of(random, w)
    usage = {f"user{n}": random.choice((0.0, 1.0, 2.5)) for n in range(3)}
    queue = Queue(lines, usage, between_users=between_users)
    left = {id(line): line for line in lines}
    served = 0
    while left:
        heads = [
            (rank, usage[line.user] if between_users else 0.0, at, name, line)
            for line in left.values()
            for rank, at, name, _, _ in line.gangs[line.at : line.at + 1]
        ]
        *_, at, _, first = min(heads, key=lambda head: head[:4])
        assert queue.first is first
        assert queue.next_submitted_at == at
        if random.random() < 0.7:
            before = usage[first.user]
            queue.serve(1.5)
            served += 1
            assert usage[first.user] == before + 1.5 * between_users
            if first.is_over:
                del left[id(first)]
        else:
            queue.pass_over()
            del left[id(first)]
    assert queue.first is None
