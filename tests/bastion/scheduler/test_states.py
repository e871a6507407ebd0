"""The states that must have the right outcome, as the design names them, and adversarial traces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.job import JobClass, Phase, Stop, StopReason
from bastion.scheduler.forecast.confidence import start_of
from bastion.scheduler.plan import Admit, Keep, Preempt, Wait
from bastion.spec.where import Where
from tests.bastion.scheduler.histories import watched
from tests.bastion.scheduler.laws import LAWS
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world(total: int, shares: dict[str, dict[str, float]], **scheduler: Any) -> World:
    """Return one machine with everything, and every plan checked against the laws."""
    quota = quota_of({"gpu": total}, shares, **scheduler)
    return World(quota, machines_of(1, gpu=total), decide=watched(LAWS))


def test_a_big_gang_never_hides_a_small_one_behind_it() -> None:
    """(a) A's 10 runs immediately although its 100 is ahead of it and B streams single units."""
    w = world(100, HALVES)
    w.ask("A", "big", gpu=100)
    w.ask("A", "small", gpu=10)
    for _ in range(120):
        w.ask("B", gpu=1)
    w.cycle()
    assert w.runs("small")
    assert w.units("B") == 90
    assert not w.preemptions


def test_nothing_is_preempted_for_a_gang_beyond_its_share() -> None:
    """(b) A keeps its 20 of 30, since B asks for 12 with a share of 10; nothing is stopped."""
    w = world(30, {name: {"gpu": 0.333} for name in "ABC"})
    w.ask("A", "a", gpu=20)
    w.cycle()
    w.ask("B", "b", gpu=12)
    w.run(2000, 100)
    assert w.runs("a")
    assert not w.preemptions


def test_an_aged_gang_starts_when_others_durably_leave_room() -> None:
    """(c) With B limited to 40, A's 60 starts within a bound, although B streams single units."""
    w = world(100, HALVES, plan_after_s=1000, min_runtime_s=0, borrow_slice_s=3000)
    _stream(w, limit=60)
    w.ask("A", "a", gpu=60)
    for _ in range(100):
        _stream(w, limit=40)
        w.pass_time(50)
        w.cycle()
        if w.runs("a"):
            break
    assert w.runs("a")


def test_nothing_idles_for_a_gang_that_can_never_start() -> None:
    """(c) With B unlimited the reason is BeyondShare, and B uses every unit."""
    w = world(20, HALVES, plan_after_s=1000, min_runtime_s=0, borrow_slice_s=3000)
    w.ask("A", "a", gpu=12)
    for _ in range(60):
        _stream(w, limit=40)
        w.cycle()
        assert w.units("B") == 20
        w.pass_time(100)
    _stream(w, limit=40)
    w.cycle()
    assert w.why("a") == (
        "waits to borrow 2 gpu: it asks for 12 gpu, A holds nothing of its share of 10 gpu, and B"
        " uses or reserves 10 of 20 gpu; starts when B frees 2 gpu"
    )


def _stream(w: World, *, limit: int) -> None:
    """Keep B supplied with jobs of one unit and 500 s, at most `limit` of them."""
    while sum(job.project == "B" for job in w.jobs.values()) < limit:
        w.ask("B", f"b-{w.seq}-{len(w.jobs)}", gpu=1, runs_s=500, max_runtime_s=600)


def test_a_share_is_had_within_the_bound_whatever_streams() -> None:
    """(d) B streams 500 s jobs over everything; A's 10 starts after min_runtime_s and grace."""
    w = world(20, HALVES, min_runtime_s=100, grace_s=30)
    _stream(w, limit=60)
    w.cycle()
    assert w.units("B") == 20
    w.pass_time(20)
    w.ask("A", "a", gpu=10)
    asked_at = w.now
    while not w.runs("a") and w.now < asked_at + 1000:
        _stream(w, limit=60)
        w.cycle()
        w.pass_time(5)
    assert w.now - asked_at <= 100 + 30 + 5


def test_free_units_are_closed_from_the_cycle_in_which_they_are_promised() -> None:
    """(e) The 6 free units are A's, not those of B's new 6, from the first cycle on."""
    w = world(16, {"A": {"gpu": 0.625}, "B": {"gpu": 0.375}})
    w.ask("B", "b6", gpu=6)
    w.cycle()
    w.ask("B", "b4", gpu=4)
    w.cycle()
    w.ask("A", "a", gpu=10)
    w.ask("B", "more", gpu=6)
    w.cycle()
    assert not w.runs("more")
    (promise,) = w.plan.promises
    assert promise.deadline == w.now + 600 + 30
    w.run(640)
    assert w.running("A") == ["a"]
    assert w.preemptions == [("b4", "a")]


def test_one_above_its_share_never_reclaims() -> None:
    """(f) A and B run 16 each with shares of 8; A's next 8 take nothing from B."""
    w = world(32, {name: {"gpu": 0.25} for name in "ABCD"}, min_runtime_s=0)
    for project in "AB":
        for _ in range(2):
            w.ask(project, gpu=8)
    w.cycle()
    w.ask("A", "more", gpu=8)
    w.run(3000, 100)
    assert w.units("B") == 16
    assert not w.preemptions


def test_a_cut_quota_demotes_the_newest_and_preempts_nothing_by_itself() -> None:
    """(g) A cut makes jobs borrowed, the newest first; they run until the share is reclaimed."""
    w = world(16, HALVES, min_runtime_s=0)
    for i in range(4):
        w.ask("A", f"a{i}", gpu=2)
        w.cycle()
        w.pass_time(1)
    w.quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.25}, "B": {"gpu": 0.75}}, min_runtime_s=0)
    w.cycle()
    verdicts = [w.plan.verdicts[f"a{i}"] for i in range(4)]
    classes = [verdict.job_class for verdict in verdicts if isinstance(verdict, Keep)]
    assert classes == [JobClass.GUARANTEED] * 2 + [JobClass.BORROWED] * 2
    w.ask("B", "b", gpu=12)
    w.run(100)
    assert w.runs("b")
    assert {victim for victim, _ in w.preemptions} == {"a2", "a3"}


def test_a_tier_that_shrinks_moves_no_gang() -> None:
    """(g) Running gangs keep their tier when its total shrinks below what they hold."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    quota = quota_of([{"gpu": 8}, {"gpu": 8}], shares)
    machines = machines_of(1, "good", gpu=8) | {
        name: replace(m, tier=1) for name, m in machines_of(1, "spot", gpu=8).items()
    }
    w = World(quota, machines, decide=watched(LAWS))
    w.ask("A", "a", gpu=8)
    w.cycle()
    before = w.jobs["a"].attempt
    w.quota = quota_of([{"gpu": 4}, {"gpu": 12}], shares)
    w.run(100)
    assert before is not None
    assert w.jobs["a"].attempt == replace(before, job_class=JobClass.GUARANTEED)


def test_a_promise_is_made_anew_when_its_machine_dies() -> None:
    """(g) A machine dies under a promise: it is void, and renewed in the same cycle."""
    quota = quota_of({"gpu": 24}, HALVES)
    w = World(quota, machines_of(3, gpu=8), decide=watched(LAWS))
    for i in range(3):
        w.ask("B", f"b{i}", gpu=8)
        w.cycle()
        w.pass_time(1)
    w.ask("A", "a", gpu=8)
    w.cycle()
    (first,) = w.plan.promises
    machine = first.placements[0][0].hosts[0].machine
    w.machines[machine] = replace(w.machines[machine], cordoned="dead")
    for job in list(w.jobs.values()):
        if job.attempt and job.attempt.placement[0].hosts[0].machine == machine:
            w.requeue(job.id)
    w.pass_time(1)
    w.cycle()
    (second,) = w.plan.promises
    assert second.placements[0][0].hosts[0].machine != machine
    assert second.gang == ("a",)


def test_a_full_pool_gang_starts_against_a_stream_of_single_units() -> None:
    """A stream of single units does not block a gang of the whole pool that no project owns."""
    quota = quota_of({"gpu": 16}, {"A": {}, "B": {}}, plan_after_s=600, borrow_slice_s=2000)
    w = World(quota, machines_of(2, gpu=8), decide=watched(LAWS))
    w.ask("A", "all", replicas=2, gpu=8)
    started = None
    for _ in range(200):
        _stream(w, limit=40)
        w.cycle()
        if w.runs("all"):
            started = w.now
            break
        w.pass_time(50)
    assert started is not None
    assert not w.preemptions


def test_two_projects_around_their_shares_do_not_preempt_in_turns() -> None:
    """Two projects that alternate just above and below their shares cause one preemption each."""
    w = world(16, HALVES, min_runtime_s=0)
    for project in "AB":
        for i in range(4):
            w.ask(project, f"{project}{i}", gpu=2)
    w.ask("A", "extra", gpu=2)
    w.cycle()
    for _ in range(40):
        w.pass_time(10)
        w.cycle()
    assert not w.preemptions
    w.end("B0")
    w.cycle()
    assert w.runs("extra")
    w.ask("B", "again", gpu=2)
    w.run(500)
    assert w.preemptions == [("extra", "again")]


def test_a_preempted_job_that_returns_at_once_preempts_nothing() -> None:
    """The victim waits in the queue and causes no further preemption."""
    w = world(16, HALVES, min_runtime_s=0)
    w.ask("B", "b1", gpu=8)
    w.cycle()
    w.ask("B", "b2", gpu=8)
    w.cycle()
    w.ask("A", "a", gpu=8)
    w.run(1000)
    assert w.preemptions == [("b2", "a")]
    assert isinstance(w.plan.verdicts["b2"], Wait)


def test_higher_priority_preempts_lower_inside_one_project() -> None:
    """In one project priority 1 stops priority 5, and no other project's jobs."""
    w = world(16, HALVES)
    w.ask("A", "low", gpu=8, priority=5)
    w.ask("B", "other", gpu=8, priority=5)
    w.cycle()
    w.ask("A", "high", gpu=8, priority=1)
    w.cycle()
    verdict = w.verdict("low")
    assert isinstance(verdict, Preempt)
    assert w.why("low") == (
        "preempted: high of the same project has priority 1, this job has 5 (1 is highest)"
    )
    w.run(60)
    assert w.runs("high")
    assert w.runs("other")


def test_gangs_of_several_jobs_start_together_or_not_at_all() -> None:
    """Of two jobs of one launch, the half that would fit waits for the other."""
    w = world(8, HALVES)
    w.ask("B", "b", gpu=4)
    w.cycle()
    gang = ("x", "y")
    for name in gang:
        w.ask("A", name, gang=gang, gpu=3)
    w.cycle()
    assert not w.runs("x")
    assert not w.runs("y")
    w.end("b")
    w.cycle()
    assert w.runs("x")
    assert w.runs("y")


def test_a_slice_is_taken_whole_and_made_when_it_is_missing() -> None:
    """A replica of four hosts gets all machines of one slice; a second slice is created for it."""
    quota = quota_of({"v4": 64}, {"A": {"v4": 1.0}})
    w = World(quota, {}, {"t": pool_of(8, "t", hosts=4, v4=8)})
    w.ask("A", "a", replicas=2, hosts=4, v4=32)
    w.cycle()
    assert w.runs("a")
    attempt = w.jobs["a"].attempt
    assert attempt is not None
    slices = [{w.machines[h.machine].slice for h in r.hosts} for r in attempt.placement]
    assert slices == [{"t-0-0"}, {"t-0-1"}]
    assert sorted(w.machines)[:4] == [f"t-0-0-h{host}" for host in range(4)]
    assert all(len(h.devices["v4"]) == 8 for r in attempt.placement for h in r.hosts)


def test_an_exclusive_job_is_charged_for_the_whole_machine() -> None:
    """Two devices taken exclusively cost the eight that they block."""
    w = World(quota_of({"gpu": 16}, HALVES), machines_of(2, gpu=8))
    w.ask("A", "a", gpu=2, where=Where(exclusive=True))
    w.ask("A", "b", gpu=2)
    w.cycle()
    first, second = w.jobs["a"].attempt, w.jobs["b"].attempt
    assert first is not None
    assert second is not None
    assert first.placement[0].hosts[0].machine != second.placement[0].hosts[0].machine
    assert first.job_class is JobClass.GUARANTEED
    assert second.job_class is JobClass.BORROWED


def test_jobs_that_ask_for_nothing_share_one_machine_up_to_32() -> None:
    """Of thirty-three on one machine, the last waits, and nothing counts as used."""
    w = World(quota_of({"gpu": 8}, HALVES), machines_of(1, gpu=8))
    for i in range(33):
        w.ask("A", f"n{i:02}")
    w.ask("A", "whole", gpu=4)
    w.cycle()
    assert sum(w.runs(f"n{i:02}") for i in range(33)) == 32
    assert w.runs("whole")


def test_tiers_fill_from_the_best_for_shares_and_from_the_worst_for_borrowers() -> None:
    """A gang within its share is placed in tier 0, a borrower in tier 1."""
    quota = quota_of([{"gpu": 8}, {"gpu": 8}], {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}})
    machines = machines_of(1, "good", gpu=8) | {
        name: replace(m, tier=1) for name, m in machines_of(1, "spot", gpu=8).items()
    }
    w = World(quota, machines, decide=watched(LAWS))
    w.ask("A", "own", gpu=4)
    w.cycle()
    w.ask("A", "lent", gpu=8)
    w.cycle()
    tiers = {n: j.attempt.placement[0].tier for n, j in w.jobs.items() if j.attempt}
    assert tiers == {"own": 0, "lent": 1}


def test_a_short_borrower_may_use_what_is_promised_for_later() -> None:
    """A job that ends before the deadline may start on promised units; a longer one must not."""
    w = world(16, {"A": {"gpu": 0.625}, "B": {"gpu": 0.375}})
    w.ask("B", "b6", gpu=6)
    w.cycle()
    w.ask("B", "b4", gpu=4)
    w.cycle()
    w.ask("A", "a", gpu=10)
    w.ask("B", "short", gpu=6, max_runtime_s=300, runs_s=300)
    w.ask("B", "long", gpu=6, max_runtime_s=3000)
    w.cycle()
    assert w.runs("short")
    assert not w.runs("long")
    w.run(640)
    assert w.running("A") == ["a"]


def test_an_estimated_start_says_how_sure_it_is() -> None:
    """It comes from the limits of running jobs, a plan or a promise; none if no end is known."""
    quota = quota_of({"gpu": 16}, {"A": {}, "B": {"gpu": 1}}, plan_after_s=10, borrow_slice_s=90000)
    w = World(quota, machines_of(2, gpu=8), decide=watched(LAWS))
    w.ask("A", "endless", gpu=8)
    w.ask("A", "limited", gpu=8, max_runtime_s=1000)
    w.cycle()
    over = w.now + 1000 + 30
    w.ask("A", "a", gpu=8)
    w.ask("A", "large", replicas=2, gpu=8)
    w.cycle()
    assert _estimate(w, "a") == (over, "limits")
    assert _estimate(w, "large") == (None, "")
    w.pass_time(11)
    w.cycle()
    assert _estimate(w, "a") == (over, "planned")
    w.ask("B", "b", gpu=8)
    w.cycle()
    (promise,) = w.plan.promises
    assert _estimate(w, "b") == (promise.deadline, "promised")


def _estimate(w: World, name: str) -> tuple[float | None, str]:
    wait = w.plan.verdicts[name]
    assert isinstance(wait, Wait)
    return wait.estimated_at, start_of(wait).sure


@pytest.mark.parametrize("limit", [None, 100.0])
def test_backfill_goes_on_around_a_planned_start(limit: float | None) -> None:
    """Beside a plan, only jobs that end before it start."""
    quota = quota_of({"gpu": 16}, {"A": {}, "B": {}}, plan_after_s=10, borrow_slice_s=90000)
    w = World(quota, machines_of(2, gpu=8), decide=watched(LAWS))
    w.ask("B", "b", gpu=8, max_runtime_s=1000, runs_s=1000)
    w.cycle()
    w.ask("A", "all", replicas=2, gpu=8)
    w.pass_time(20)
    w.cycle()
    (planned,) = w.plan.planned
    assert planned.at == w.now - 20 + 1000 + 30
    w.ask("B", "fill", gpu=8, max_runtime_s=limit)
    w.cycle()
    assert w.runs("fill") == (limit is not None)
    assert w.why("all") == "waits for b to end; planned to start in 16m 50s" or limit is not None


def test_a_whole_machine_is_taken_back_whatever_its_holder_asked_for() -> None:
    """An exclusive borrower that asked for CPUs alone is stopped for one that asks for GPUs."""
    quota = quota_of({"gpu": 8}, HALVES, min_runtime_s=0)
    w = World(quota, machines_of(2, gpu=4, cpu=16), decide=watched(LAWS))
    for i in range(2):
        w.ask("B", f"b{i}", cpu=4, where=Where(exclusive=True))
    w.cycle()
    w.ask("A", "a", gpu=4)
    w.cycle()
    (promise,) = w.plan.promises
    assert promise.gang == ("a",)
    w.run(60)
    assert w.runs("a")
    assert len(w.preemptions) == 1


def test_exclusive_replicas_take_the_machines_that_cost_least_together() -> None:
    """Both go on the one machine that holds two, not one on a damaged machine beyond the total."""
    w = World(quota_of({"gpu": 6}, HALVES), machines_of(2, gpu=4), decide=watched(LAWS))
    w.machines["p-000"] = replace(w.machines["p-000"], bad_devices={"gpu": (1,)})
    w.ask("A", "a", replicas=2, gpu=2, where=Where(exclusive=True))
    w.cycle()
    assert w.runs("a")


def test_an_exclusive_job_is_within_its_share_by_the_machine_it_takes() -> None:
    """A job that asks for CPUs alone is guaranteed if its share holds the whole machine."""
    w = World(quota_of({"gpu": 8}, HALVES), machines_of(2, gpu=4, cpu=16), decide=watched(LAWS))
    w.ask("A", "a", cpu=4, where=Where(exclusive=True))
    w.cycle()
    verdict = w.verdict("a")
    assert isinstance(verdict, Admit)
    assert verdict.job_class is JobClass.GUARANTEED


def test_a_planned_start_rotates_the_holder_of_its_processors() -> None:
    """A borrower that is in the way only by its CPUs is named, and stopped after its slice."""
    quota = quota_of(
        {"gpu": 8}, {"A": {}, "B": {}}, plan_after_s=60, borrow_slice_s=100, min_runtime_s=0
    )
    w = World(quota, machines_of(2, gpu=4, cpu=16), decide=watched(LAWS))
    w.ask("B", "b", cpu=10)
    w.cycle()
    w.ask("A", "a", replicas=2, gpu=3, cpu=12)
    w.run(70)
    assert w.why("a") == "waits for b to end; planned to start in 1m"
    w.run(100)
    assert w.runs("a")
    assert ("b", "a") in w.preemptions


def test_a_gang_that_outranks_waits_for_room_in_the_quota_that_comes_anyway() -> None:
    """No job is stopped for room that an already stopping job leaves."""
    w = World(quota_of({"gpu": 8}, HALVES), machines_of(2, gpu=8), decide=watched(LAWS))
    w.ask("A", "own", gpu=2, priority=5)
    w.ask("B", "b", gpu=6)
    w.cycle()
    stop = Stop(reason=StopReason.PREEMPT, at=w.now, deadline=w.now + 10)
    attempt = w.jobs["b"].attempt
    assert attempt is not None
    w.jobs["b"] = replace(w.jobs["b"], phase=Phase.STOPPING, attempt=replace(attempt, stop=stop))
    w.ask("A", "high", gpu=6, priority=1)
    w.cycle()
    assert not w.preemptions
    w.pass_time(11)
    w.end("b")
    w.cycle()
    assert w.runs("high")
    assert w.runs("own")


def test_a_slice_made_for_a_promise_keeps_its_name_whatever_the_number_of_the_cycle() -> None:
    """The promised machine is the one that is created, even where numbers look alike."""
    quota = quota_of({"v4": 64}, {"A": {"v4": 0.5}, "B": {"v4": 0.5}}, min_runtime_s=100)
    w = World(quota, {}, {"t": pool_of(8, "t", hosts=2, v4=8)}, decide=watched(LAWS))
    w.ask("B", "b", replicas=4, hosts=2, v4=16)
    w.cycle()
    w.pools["t"] = pool_of(10, "t", hosts=2, v4=8)
    w.ask("A", "a", replicas=2, hosts=2, v4=16)
    w.seq = 0
    w.cycle()
    (promise,) = w.plan.promises
    named = {h.machine for r in promise.placements[0] for h in r.hosts}
    assert named <= w.machines.keys()


def test_an_outranked_job_does_not_take_back_what_it_gave() -> None:
    """A higher priority that costs no share stops a lower one once, even within the share."""
    w = World(quota_of({"gpu": 8}, HALVES), machines_of(1, gpu=4, cpu=16), decide=watched(LAWS))
    w.ask("A", "low", gpu=4, cpu=8)
    w.cycle()
    w.ask("A", "high", cpu=16, priority=1)
    w.run(600)
    assert w.runs("high")
    assert w.preemptions == [("low", "high")]
