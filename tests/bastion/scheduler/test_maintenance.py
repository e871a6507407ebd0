"""Maintenance windows: what starts before one, what leaves in time, and what waits for its end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt
from bastion.scheduler.snapshot import Snapshot
from quota.maintenance import Window, closes_at
from tests.bastion.scheduler import histories, laws
from tests.bastion.scheduler.world import Decide, World, machines_of, pool_of, quota_of
from tests.rigs.length import at_length

ONE = {"A": {"gpu": 1.0}}
HOUR = 3600.0


def world(*windows: Window, machines: int = 1, pools: int = 0) -> World:
    """Return machines of eight devices, all of one project, and windows from the first cycle on."""
    quota = quota_of({"gpu": 16}, ONE, min_runtime_s=60, grace_s=30, max_grace_s=30)
    w = World(quota, machines_of(machines, gpu=8), {"p": pool_of(pools, gpu=8)})
    moved = tuple(
        replace(each, starts_at=w.now + each.starts_at, ends_at=w.now + each.ends_at)
        for each in windows
    )
    w.quota = replace(w.quota, maintenance=moved)
    return w


def unresumed(w: World, name: str) -> None:
    """Make a job end permanently when it is stopped."""
    w.jobs[name] = replace(w.jobs[name], resume=False)


@pytest.mark.parametrize(("begins_s", "told_s"), [(HOUR, HOUR - 120), (120.0, None)])
def test_the_max_runtime_that_is_told_will_do(begins_s: float, told_s: float | None) -> None:
    """A job that ends before the window, but with too little margin, is told no other limit."""
    w = world(Window(starts_at=begins_s, ends_at=2 * HOUR))
    w.ask("A", "long", gpu=1, max_runtime_s=begins_s - 31)
    unresumed(w, "long")
    w.cycle()
    told = "" if told_s is None else ", or now with a max_runtime of at most 58m"
    assert w.why("long").endswith(f"; starts in 2h{told}"), w.why("long")
    if told_s is not None:
        w.ask("A", "short", gpu=1, max_runtime_s=told_s)
        unresumed(w, "short")
        w.cycle()
        assert w.runs("short")


def test_what_ends_before_the_window_starts() -> None:
    """The run time, the grace period and the longest wait for victims must fit: 60 + 30 seconds."""
    w = world(Window(starts_at=HOUR, ends_at=2 * HOUR))
    for name, runtime in (("fits", HOUR - 120), ("late", HOUR - 119)):
        w.ask("A", name, gpu=1, max_runtime_s=runtime)
        unresumed(w, name)
    w.cycle()
    assert w.runs("fits")
    assert w.reason("late") == "Maintenance"
    assert "begins in 1h" in w.why("late")


def test_what_cannot_end_starts_where_no_window_is() -> None:
    """Only one of two machines is closed."""
    w = world(Window(starts_at=HOUR, ends_at=2 * HOUR, machines=("p-000",)), machines=2)
    for name in ("a", "b"):
        w.ask("A", name, gpu=8)
        unresumed(w, name)
    w.cycle()
    started = [name for name in ("a", "b") if w.runs(name)]
    assert len(started) == 1
    placement = w.jobs[started[0]].attempt.placement  # type: ignore[union-attr]
    assert placement[0].hosts[0].machine == "p-001"


def test_what_runs_is_told_when_maintenance_stops_it() -> None:
    """A job that has ended by then, or that no window stops, shows no such time."""
    w = world(Window(starts_at=HOUR, ends_at=2 * HOUR, reason="new drivers"))
    w.ask("A", "resumes", gpu=1)
    w.ask("A", "ends", gpu=1, max_runtime_s=HOUR - 120)
    w.cycle()
    w.cycle()
    assert "can preempt it; maintenance stops it in 59m 30s: everything from" in w.why("resumes")
    assert w.why("resumes").endswith(" UTC: new drivers")
    assert w.why("ends").endswith("can preempt it")


def test_what_cannot_resume_shows_that_maintenance_leaves_it() -> None:
    """It started before the window was known, so an admin decides."""
    w = world()
    w.ask("A", "a", gpu=1)
    unresumed(w, "a")
    w.cycle()
    window = Window(starts_at=w.now + HOUR, ends_at=w.now + 2 * HOUR)
    w.quota = replace(w.quota, maintenance=(window,))
    w.cycle()
    assert "; maintenance begins in 1h but does not stop it" in w.why("a")
    assert "because it cannot resume: everything from" in w.why("a")
    w.pass_time(HOUR)
    w.cycle()
    assert w.runs("a")
    assert "; maintenance has begun but does not stop it" in w.why("a")


def test_what_resumes_runs_until_its_notice_and_continues_after_the_window() -> None:
    """It gets its notice 30 seconds before the window, waits, and starts when the window ends."""
    w = world(Window(starts_at=HOUR, ends_at=2 * HOUR, reason="new drivers"))
    w.ask("A", "a", gpu=1)
    w.cycle()
    assert w.runs("a")
    assert w.plan.wake_at == w.now + HOUR - 30
    w.pass_time(HOUR - 31)
    w.cycle()
    assert w.runs("a")
    w.pass_time(1)
    w.cycle()
    verdict = w.plan.verdicts["a"]
    w.pass_time(31)
    w.cycle()
    assert not w.runs("a")
    assert w.preemptions
    assert verdict.reason.kind in ("Vacated", "Ending")
    w.pass_time(60)
    w.cycle()
    assert w.reason("a") == "Maintenance"
    assert "waits for maintenance to end" in w.why("a")
    assert "new drivers" in w.why("a")
    w.pass_time(HOUR)
    w.cycle()
    assert w.runs("a")


def test_what_cannot_resume_and_ran_before_is_left_alone() -> None:
    """The window was added after the job had started; the admin decides."""
    w = world()
    w.ask("A", "a", gpu=1)
    unresumed(w, "a")
    w.cycle()
    window = Window(starts_at=w.now + 100, ends_at=w.now + 200)
    w.quota = replace(w.quota, maintenance=(window,))
    w.run(150)
    assert w.runs("a")


def test_a_pool_that_is_closed_makes_no_machine() -> None:
    """A machine made for the job would be closed too."""
    w = world(Window(starts_at=100, ends_at=HOUR, pools=("p",)), machines=0, pools=2)
    w.ask("A", "a", gpu=1)
    w.cycle()
    assert not w.plan.new_machines
    assert w.reason("a") == "Maintenance"


def test_a_window_is_no_reason_to_refuse() -> None:
    """A job that waits for the end of a window can run."""
    w = world(Window(starts_at=-10, ends_at=HOUR))
    w.ask("A", "a", gpu=8)
    w.cycle()
    assert w.reason("a") == "Maintenance"
    w.pass_time(HOUR)
    w.cycle()
    assert w.runs("a")


def test_a_machine_that_is_made_for_another_is_closed_too() -> None:
    """
    It may be made for a job that ends in time; a higher-priority one that does not has no room
    there.
    """
    w = world(Window(starts_at=HOUR, ends_at=2 * HOUR), machines=0, pools=2)
    w.ask("A", "short", gpu=8, max_runtime_s=60.0)
    w.ask("A", "endless", replicas=2, gpu=1, priority=1)
    unresumed(w, "endless")
    w.cycle()
    assert w.runs("short")
    assert w.reason("endless") == "Maintenance"


def test_the_next_window_is_named_too() -> None:
    """The end of the first window does not help a job that the second one would stop."""
    first, second = Window(starts_at=0, ends_at=HOUR), Window(starts_at=2 * HOUR, ends_at=3 * HOUR)
    for windows, is_next in (((first, second), True), ((first,), False)):
        w = world(*windows)
        w.ask("A", "a", gpu=8)
        unresumed(w, "a")
        w.cycle()
        assert w.reason("a") == "Maintenance"
        assert ("; then it waits for maintenance to end" in w.why("a")) == is_next


def nothing_starts_into_a_window(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Every started job ends before its machines close, or can be stopped in time to resume."""
    options = snapshot.quota.scheduler
    for name, verdict in plan.verdicts.items():
        if not isinstance(verdict, Admit):
            continue
        job = snapshot.jobs[name]
        grace = min(
            options.grace_s if job.request.grace_s is None else job.request.grace_s,
            options.max_grace_s,
        )
        for replica in verdict.placement:
            for host in replica.hosts:
                machine = snapshot.machines.get(host.machine)
                pool = machine.pool if machine else host.machine.split("-")[0]
                closes = closes_at(snapshot.quota.maintenance, now, pool=pool, machine=host.machine)
                runtime = job.request.max_runtime_s
                ends = runtime is not None and now + runtime + grace <= closes
                leaves = job.resume and now + options.min_runtime_s + grace <= closes
                assert ends or leaves, (name, host.machine, closes - now)


def closing_world_of(random: Random, decide: Decide) -> World:
    """Return a small world with windows on some of its machines, soon or now."""
    w = histories.world_of(random, decide)
    names = sorted(w.machines)
    windows = []
    for _ in range(random.choice((1, 2))):
        starts = w.now + random.choice((-50, 100, 300, 1000))
        chosen = random.choice(((), (names[0],), tuple(names[:2])))
        window = Window(starts_at=starts, ends_at=starts + 400, machines=chosen)
        windows.append(window)
    ordered = tuple(sorted(windows, key=lambda each: each.starts_at))
    w.quota = replace(w.quota, maintenance=ordered)
    return w


LAWS = (
    nothing_starts_into_a_window,
    laws.every_job_has_a_verdict,
    laws.no_device_is_shared,
    laws.gangs_are_whole,
)
SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None, database=None, derandomize=True)
def test_nothing_starts_into_a_window_in_random_histories(seed: int) -> None:
    """This includes promises and planned starts."""
    histories.run(seed, LAWS, steps=15, make=closing_world_of)


@pytest.mark.prove
@given(seed=SEEDS)
@settings(max_examples=at_length(700), deadline=None, database=None)
def test_nothing_starts_into_a_window_in_many_histories(seed: int) -> None:
    """The same holds for a thousand histories."""
    histories.run(seed, LAWS, steps=25, make=closing_world_of)


def test_the_law_notices_a_scheduler_without_windows() -> None:
    """The same scheduler sees a quota file without maintenance."""

    def careless(snapshot: Snapshot, now: float) -> Plan:
        quota = replace(snapshot.quota, maintenance=())
        return decide(replace(snapshot, quota=quota), now)

    with pytest.raises(AssertionError):
        for seed in range(20):
            histories.run(
                seed, (nothing_starts_into_a_window,), inner=careless, make=closing_world_of
            )


def test_a_stop_for_maintenance_is_told_as_such() -> None:
    """The reason of the verdict names the window."""
    w = world(Window(starts_at=HOUR, ends_at=2 * HOUR, reason="new drivers"))
    w.ask("A", "a", gpu=1)
    w.cycle()
    plan = decide(replace(w.snapshot(), quota=w.quota), w.now + HOUR - 30)
    verdict = plan.verdicts["a"]
    assert isinstance(verdict, Preempt)
    assert verdict.deadline == w.now + HOUR
    assert "new drivers" in verdict.reason.words(w.now)


def test_a_victim_that_is_to_stop_later_leaves_in_time_too() -> None:
    """Its promise waits for another victim with a long grace period; the window comes first."""
    quota = quota_of(
        {"gpu": 32}, {"A": {"gpu": 0.75}, "B": {"gpu": 0.25}}, grace_s=30, max_grace_s=3000
    )
    w = World(quota, machines_of(4, gpu=8))
    w.ask("B", "own", gpu=8)
    w.ask("B", "slow", gpu=8, grace_s=3000)
    w.ask("B", "wide", gpu=8, replicas=2)
    w.cycle()
    attempt = w.jobs["wide"].attempt
    assert attempt is not None
    window = Window(
        starts_at=w.now + 1000,
        ends_at=w.now + 5000,
        machines=(attempt.placement[0].hosts[0].machine,),
    )
    w.quota = replace(w.quota, maintenance=(window,))
    w.ask("A", "a", gpu=8, replicas=2)
    w.ask("A", "b", gpu=8)
    w.cycle()
    w.pass_time(970)
    w.cycle()
    assert isinstance(w.verdict("wide"), Preempt), w.verdict("wide")
