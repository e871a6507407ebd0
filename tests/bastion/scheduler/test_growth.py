"""Elastic jobs: how many replicas they start with, when they grow, and to whom they give back."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bastion.job import End, HostState, Phase
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt, Verdicts
from bastion.scheduler.reasons.reason import Resized, Shrunk
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.holders.user_limits import UserLimits
from bastion.spec.where import Where
from tests.bastion.scheduler import laws
from tests.bastion.scheduler.world import Decide, World, machines_of, pool_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world(machines: int = 2, pools: int = 0, options: dict[str, str] | None = None) -> World:
    """Return two projects with half of 16 devices each; borrowers run for at least ten minutes."""
    quota = quota_of(
        {"gpu": 16}, HALVES, options=options, min_runtime_s=600, grace_s=30, max_grace_s=30
    )
    return World(quota, machines_of(machines, gpu=8), {"p": pool_of(pools, gpu=8)})


def count(w: World, name: str) -> int:
    """Return how many replicas a job has."""
    job = w.jobs[name]
    return job.replicas if job.phase is Phase.RUNNING else 0


def test_it_starts_with_as_many_as_fit_up_to_its_most() -> None:
    """Nothing else waits, so it gets its maximum, within the share or not."""
    w = world()
    w.ask("A", "e", replicas=2, most=12, gpu=1)
    w.cycle()
    assert count(w, "e") == 12


def test_others_come_before_what_is_above_the_fewest() -> None:
    """Later jobs in the order start first; what they leave is for growth."""
    w = world()
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    for n in range(5):
        w.ask("B", f"b{n}", gpu=2)
    w.cycle()
    assert all(w.runs(f"b{n}") for n in range(5))
    assert count(w, "e") == 6


def test_what_it_holds_above_its_fewest_is_told_to_those_that_wait() -> None:
    """The reason counts all devices that it holds, not just the two of its minimum."""
    w = world()
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    w.ask("A", "first", gpu=2)
    w.ask("A", "second", user="v", gpu=2)
    w.cycle()
    assert "A holds 16 gpu" in w.why("second"), w.why("second")


@pytest.mark.parametrize(("min_runtime_s", "most"), [(600, 6), (0, 2)])
def test_what_could_be_taken_back_at_once_is_not_given(min_runtime_s: int, most: int) -> None:
    """A gang waits for more than is free: what starts beside it keeps what it gets for a while."""
    w = world()
    w.quota = replace(
        w.quota, scheduler=replace(w.quota.scheduler, min_runtime_s=float(min_runtime_s))
    )
    w.ask("A", "runs", gpu=8)
    w.cycle()
    w.ask("A", "waits", replicas=2, gpu=8)
    w.ask("B", "e", replicas=2, most=6, gpu=1)
    w.cycle()
    assert count(w, "e") == most


def test_elastic_jobs_grow_by_turns() -> None:
    """Two jobs that could each take everything share it."""
    w = world()
    for name in ("e", "f"):
        w.ask("A", name, replicas=1, most=16, gpu=1)
    w.cycle()
    assert (count(w, "e"), count(w, "f")) == (8, 8)


def test_without_room_for_its_fewest_it_waits() -> None:
    """It never starts with fewer replicas than its minimum."""
    w = world(machines=1)
    w.ask("A", "a", gpu=7)
    w.cycle()
    w.ask("A", "e", replicas=2, most=8, gpu=1)
    w.cycle()
    assert count(w, "e") == 0


def test_it_grows_once_room_stays_and_it_has_run_for_a_while() -> None:
    """It learns the size that fits, stops, and restarts with that size; it is no preemption."""
    w = world()
    w.ask("B", "b", gpu=8, runs_s=100)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8
    w.pass_time(599)
    w.cycle()
    assert count(w, "e") == 8
    assert w.plan.wake_at == w.now + 1
    w.pass_time(1)
    w.cycle()
    verdict = w.verdict("e")
    assert isinstance(verdict, Preempt)
    assert verdict.reason == Resized(replicas=8, fits=16)
    assert w.why("e") == "stopped to grow: 16 replicas fit in place of 8"
    w.pass_time(30)
    w.cycle()
    assert count(w, "e") == 16
    assert w.jobs["e"].preemptions == 0
    w.run(3_600, step_s=600)
    assert len(w.preemptions) == 1


def test_it_does_not_grow_for_little() -> None:
    """A restart costs more than one replica in addition to eight is worth."""
    w = world()
    w.ask("B", "b", gpu=7)
    w.ask("B", "c", gpu=1, runs_s=100)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8
    w.run(2_000, step_s=100)
    assert not w.preemptions


def test_a_job_of_which_replicas_have_ended_is_left_to_end() -> None:
    """Devices that its own finished replicas leave are no room: it would repeat all their work."""
    w = world()
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 16
    job = w.jobs["e"]
    assert job.attempt is not None
    done = replace(HostState(), end=End(kind="exited", codes=(0,)), ended_at=w.now)
    hosts = ((done,),) * 8 + job.attempt.hosts[8:]
    w.jobs["e"] = replace(job, attempt=replace(job.attempt, hosts=hosts))
    w.run(2_000, step_s=100)
    assert not w.preemptions


def test_it_does_not_grow_while_anything_waits_for_what_it_would_take() -> None:
    """A gang too large for the free devices still comes first for those that become free."""
    w = world()
    w.ask("B", "b", gpu=5, runs_s=300)
    w.ask("B", "c", gpu=3)
    w.ask("A", "e", replicas=2, most=8, gpu=1)
    w.cycle()
    w.ask("B", "large", gpu=6)
    w.run(2_000, step_s=100)
    assert not w.runs("large")
    assert count(w, "e") == 8
    assert not w.preemptions


def test_what_is_above_the_share_goes_back_to_its_owner() -> None:
    """It is preempted as a whole, and starts again with what is left."""
    w = world()
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    w.pass_time(600)
    w.ask("B", "b", gpu=8)
    w.cycle()
    assert w.preemptions == [("e", "b")]
    w.pass_time(30)
    w.cycle()
    assert w.runs("b")
    assert count(w, "e") == 8
    w.run(3_600, step_s=100)
    assert len(w.preemptions) == 1


def test_grown_gangs_are_preempted_before_others_of_their_project() -> None:
    """The oldest would lose most, but goes first because it can give back without ending."""
    w = world()
    w.quota = quota_of({"gpu": 16}, {"B": {"gpu": 0.5}, "G": {}}, min_runtime_s=600, grace_s=30)
    w.ask("G", "e", replicas=2, most=8, gpu=1)
    w.cycle()
    w.pass_time(100)
    w.ask("G", "a", gpu=8)
    w.cycle()
    assert (count(w, "e"), w.runs("a")) == (8, True)
    w.pass_time(700)
    w.ask("B", "b", gpu=4)
    w.cycle()
    assert [victim for victim, _ in w.preemptions] == ["e"]


def test_jobs_of_its_own_project_get_back_what_is_above_the_fewest() -> None:
    """It gives back after its minimum run time, to the same priority but not to a lower one."""
    w = world(machines=1)
    w.ask("A", "e", replicas=2, most=8, gpu=1)
    w.cycle()
    w.ask("A", "low", gpu=2, priority=4)
    w.run(1_000, step_s=50)
    assert not w.preemptions
    w.ask("A", "a", gpu=2)
    w.run(100, step_s=10)
    assert w.runs("a")
    assert 2 <= count(w, "e") <= 6
    assert w.preemptions == [("e", "a")]


def test_a_gang_at_its_fewest_gives_nothing_to_its_equals() -> None:
    """Its minimum is its own, as for any other gang."""
    w = world(machines=1)
    w.ask("A", "a", gpu=6, runs_s=10_000)
    w.ask("A", "e", replicas=2, most=8, gpu=1)
    w.cycle()
    assert count(w, "e") == 2
    w.ask("A", "b", gpu=1)
    w.run(2_000, step_s=100)
    assert not w.preemptions


def test_it_grows_within_the_share_alone_where_it_may_not_borrow() -> None:
    """`borrow = false` of its project applies to every replica."""
    w = world(options={"A": "borrow = false"})
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8


def test_a_gang_that_is_kept_together_grows_where_it_is() -> None:
    """Under `consolidated`, no replica goes to another pool, even if that has room."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 1.0}}, placement="consolidated")
    both = machines_of(1, gpu=8) | machines_of(1, pool="q", gpu=8)
    w = World(quota, both, {"p": pool_of(0, gpu=8), "q": pool_of(0, "q", gpu=8)})
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8


def test_a_limit_of_its_user_holds_for_every_replica() -> None:
    """Everything else that the user holds counts."""
    w = world(options={"A": "max_units_per_user = { gpu = 6 }"})
    w.ask("A", "a", gpu=1)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 5


def test_it_has_more_machines_made_only_as_it_needs_new_ones_anyway() -> None:
    """If its minimum fits on existing machines, it does not wait for a machine to boot."""
    w = world(machines=1, pools=1)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8
    w = world(machines=0, pools=2)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 16


def test_a_pool_that_is_short_gives_it_the_fewest() -> None:
    """A gang that has waited for long asks for no more machines than its minimum needs."""
    w = world(machines=0, pools=2)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.now += 301
    w.cycle()
    assert count(w, "e") == 8


def test_a_cycle_places_only_so_many_replicas() -> None:
    """Jobs that ask for almost nothing could fill every machine; they get the rest later."""
    w = World(quota_of({"gpu": 8}, {"A": {"gpu": 1.0}}), machines_of(4, gpu=2, memory=10**9))
    w.extra["steps"] = 600
    for n in range(10):
        w.ask("A", f"e{n}", replicas=1, most=200, memory=1)
    w.turn()
    assert sum(job.replicas for job in w.jobs.values()) == 10 + 300


LAWS = (
    laws.every_job_has_a_verdict,
    laws.no_device_is_shared,
    laws.no_machine_holds_too_much,
    laws.within_capacity,
    laws.gangs_are_whole,
    laws.no_guaranteed_victim,
    laws.what_is_promised_is_closed,
)


@pytest.mark.parametrize("seed", range(4))
def test_random_elastic_worlds_keep_the_laws(seed: int) -> None:
    """No device is used twice, no total is exceeded, and no job is below its minimum."""
    grown, _ = _live(seed, decide)
    assert grown


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(6, 300))
def test_many_random_elastic_worlds_keep_the_laws(seed: int) -> None:
    """The same holds in long runs."""
    _live(seed, decide)


def test_a_replica_on_devices_of_another_is_noticed() -> None:
    """A scheduler that gives one device twice breaks a law."""

    def careless(snapshot: Snapshot, now: float) -> Plan:
        plan = decide(snapshot, now)
        decided = dict(plan.verdicts.items())
        for name, verdict in decided.items():
            if isinstance(verdict, Admit) and len(verdict.placement) > 1:
                twice = (*verdict.placement[:-1], verdict.placement[0])
                decided[name] = verdict._replace(placement=twice)
        return replace(plan, verdicts=Verdicts(decided))

    with pytest.raises(AssertionError):
        _live(0, careless)


def _live(seed: int, decide_: Decide) -> tuple[int, World]:
    """Return how often a gang exceeded its minimum in a life of 40 steps."""
    random = Random(seed)
    w = world(machines=3)
    w._decide = decide_
    grown = 0
    for n in range(40):
        for _ in range(random.randrange(3)):
            least = random.randint(1, 3)
            w.ask(
                random.choice("AB"),
                f"j{n}-{len(w.jobs)}",
                replicas=least,
                most=least + random.randint(0, 8),
                gpu=random.choice((1, 1, 2, 4)),
                priority=random.choice((3, 3, 3, 2, 4)),
                runs_s=random.choice((60.0, 400.0, 3_000.0)),
            )
        for _ in range(4):
            snapshot = replace(w.snapshot(), jobs=dict(w.jobs), machines=dict(w.machines))
            plan = w.turn()
            for law in LAWS:
                law(snapshot, w.now, plan)
        grown += sum(job.replicas > job.request.replicas for job in w.jobs.values())
        w.pass_time(random.choice((5.0, 30.0, 300.0, 700.0)))
    return grown, w


def limited(most: int, machines: int = 2) -> World:
    """Return `world` in which no user of A may hold more than `most` devices at the same time."""
    own = {"A": f"max_units_per_user = {{ gpu = {most} }}"}
    return world(machines, options=own)


def test_it_gives_back_to_a_job_that_the_limit_of_its_user_keeps_out() -> None:
    """It has grown to the limit; after its minimum run time it restarts beside the other job."""
    w = limited(8)
    w.ask("A", "e", replicas=2, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8
    w.ask("A", "a", gpu=3)
    w.cycle()
    assert "u holds 8 gpu" in w.why("a")
    assert w.plan.wake_at == w.now + 600
    w.pass_time(600)
    w.cycle()
    verdict = w.verdict("e")
    assert isinstance(verdict, Preempt)
    assert verdict.reason == Shrunk(by="a", replicas=8, least=2, user="u")
    assert w.why("e") == (
        "preempted to shrink: it has 8 replicas and needs 2, and the limit of u keeps a out"
    )
    w.pass_time(30)
    w.cycle()
    assert w.runs("a")
    assert count(w, "e") == 5
    w.run(3_600, step_s=600)
    assert len(w.preemptions) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("too large for the limit beside its fewest", {"gpu": 6}),
        ("too large for what is free then", {"gpu": 5}),
        ("of lower priority", {"gpu": 3, "priority": 4}),
        ("on a machine that is not there", {"gpu": 3, "where": Where(hostnames=("m7",))}),
    ],
)
def test_it_gives_nothing_back_in_vain(name: str, options: dict[str, Any]) -> None:
    """A restart is only worth it if another job can then start."""
    w = limited(9)
    w.ask("B", "b", gpu=8)
    w.ask("A", "e", replicas=4, most=16, gpu=1)
    w.cycle()
    assert count(w, "e") == 8
    w.ask("A", "a", **options)
    w.run(2_000, step_s=100)
    assert not w.preemptions
    assert not w.runs("a")


@pytest.mark.parametrize(
    ("most", "asks", "stopped"),
    [((4, 4), 2, 1), ((4, 4), 5, 2), ((2, 6), 4, 1)],
    ids=["either", "both", "the larger"],
)
def test_as_few_give_back_as_are_needed(most: tuple[int, int], asks: int, stopped: int) -> None:
    """If one of two grown jobs is enough, only that one gives back, even if it is second."""
    w = limited(8, machines=4)
    for name, at_most in zip("ef", most):
        w.ask("A", name, replicas=1, most=at_most, gpu=1)
    w.cycle()
    assert (count(w, "e"), count(w, "f")) == most
    w.ask("A", "a", gpu=asks)
    w.pass_time(600)
    w.cycle()
    assert len(w.preemptions) == stopped
    w.pass_time(30)
    w.cycle()
    assert w.runs("a")


def test_another_does_not_grow_into_what_it_makes_room_beside() -> None:
    """The other job of the user will start on the free machine once the limit allows it."""
    w = limited(11)
    w.ask("B", "b", gpu=7, runs_s=605)
    w.ask("B", "c", gpu=8, runs_s=10)
    w.cycle()
    w.pass_time(10)
    w.ask("A", "e", replicas=4, most=8, gpu=1)
    w.cycle()
    w.pass_time(10)
    w.ask("B", "f", replicas=1, most=8, gpu=1, user="v")
    w.ask("A", "a", gpu=7)
    w.cycle()
    assert (count(w, "e"), count(w, "f")) == (8, 1)
    w.run(615, step_s=5)
    assert w.preemptions == [("e", "a")]
    w.run(10, step_s=5)
    assert w.runs("a")


def test_what_gives_back_is_looked_for_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a hundred grown jobs, none of which could help a waiting job, costs no more."""
    looks, let_in = [0], UserLimits.let_in

    def counting(self: UserLimits, *args: Any) -> Any:
        looks[0] += 1
        return let_in(self, *args)

    monkeypatch.setattr(UserLimits, "let_in", counting)
    own = {"A": "max_units_per_user = { gpu = 200 }"}
    quota = quota_of({"gpu": 256}, {"A": {"gpu": 1.0}}, options=own, min_runtime_s=600)
    w = World(quota, machines_of(32, gpu=8))
    for number in range(100):
        w.ask("A", f"e{number:03}", replicas=1, most=2, gpu=1)
    w.cycle()
    assert count(w, "e099") == 2
    w.ask("A", "large", replicas=20, gpu=8)
    w.extra["steps"] = 40
    w.pass_time(600)
    w.cycle()
    assert 0 < looks[0] <= 20 * len(w.turns)
