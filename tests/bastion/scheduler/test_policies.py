"""Each policy of the quota file does what its name says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.spec.where import Where
from quota import Amounts
from tests.bastion.scheduler.byhand import placed
from tests.bastion.scheduler.counterfactual import reasons_are_true
from tests.bastion.scheduler.world import World, machines_of, quota_of

ONE = {"A": {"gpu": 1.0}}


def world(machines: int = 1, **scheduler: Any) -> World:
    """Return machines of four devices, all within one project's share."""
    total = 4 * machines
    return World(quota_of({"gpu": total}, ONE, **scheduler), machines_of(machines, gpu=4))


def test_fair_lets_the_user_with_less_usage_go_first() -> None:
    """Two users have two jobs each and there is room for two: each gets one."""
    w = world()
    for user in "uv":
        for i in range(2):
            w.ask("A", f"{user}{i}", user=user, gpu=2)
    w.cycle()
    assert w.running("A") == ["u0", "v0"]


def test_decayed_usage_counts_before_age() -> None:
    """A user with much recent usage comes after one without, despite an earlier submission."""
    w = world()
    w.ask("A", "u0", user="u", gpu=4)
    w.ask("A", "v0", user="v", gpu=4)
    w.extra["decayed_by_user"] = {("A", "u"): 1e6}
    w.cycle()
    assert w.running("A") == ["v0"]


def test_fifo_lets_the_first_to_ask_go_first() -> None:
    """Both jobs of one user start before the other user's."""
    w = world(order="fifo")
    for user in "uv":
        for i in range(2):
            w.ask("A", f"{user}{i}", user=user, gpu=2)
            w.pass_time(1)
    w.cycle()
    assert w.running("A") == ["u0", "u1"]


@pytest.mark.parametrize(("order", "ahead"), [("fair", "second"), ("fifo", "first")])
def test_jobs_ahead_are_told_in_the_order_of_the_project(order: str, ahead: str) -> None:
    """A user's earlier usage counts where users are compared, and nowhere else."""
    quota = quota_of({"gpu": 4}, {"A": {"gpu": 1.0}}, options={"A": f'order = "{order}"'})
    w = World(quota, machines_of(1, gpu=4))
    w.extra["decayed_by_user"] = {("A", "u"): 1e6}
    w.ask("A", gpu=4)
    w.cycle()
    w.ask("A", "first", user="u", gpu=2)
    w.pass_time(1)
    w.ask("A", "second", user="v", gpu=2)
    w.cycle()
    behind = {"first", "second"} - {ahead}
    assert w.why(ahead) == (
        "waits for 2 gpu; A holds 4 gpu; starts when running jobs free 2 gpu on one machine"
    )
    told = f"waits behind 1 job of its project that asks for 2 gpu ({ahead})"
    assert w.why(*behind).startswith(told)


@pytest.mark.parametrize("order", ["fair", "fifo", "priority"])
def test_priority_goes_before_age(order: str) -> None:
    """Priority 1 starts before an older priority 5."""
    w = world(order=order)
    w.ask("A", "old", gpu=4, priority=5)
    w.pass_time(1)
    w.ask("A", "urgent", gpu=4, priority=1)
    w.cycle()
    assert w.running("A") == ["urgent"]


def test_srtf_starts_the_shortest() -> None:
    """Among three limits the shortest goes first; a job without a limit goes last."""
    w = world(order="srtf")
    for name, limit in (("endless", None), ("long", 500.0), ("short", 50.0)):
        w.ask("A", name, gpu=4, max_runtime_s=limit)
    w.cycle()
    assert w.running("A") == ["short"]


def test_srtf_goes_by_what_a_job_reported() -> None:
    """The remaining time that a job reports takes precedence over its limit."""
    w = world(order="srtf")
    w.ask("A", "short", gpu=4, max_runtime_s=50)
    w.ask("A", "nearly-done", gpu=4)
    w.extra["reports"] = {"nearly-done": {"remaining_s": 20.0}}
    w.cycle()
    assert w.running("A") == ["nearly-done"]


@pytest.mark.parametrize("order", ["las", "tiresias"])
def test_least_attained_service_goes_first(order: str) -> None:
    """A job that has had ten device hours comes after one that has had none."""
    w = world(order=order)
    w.ask("A", "much", gpu=4)
    w.ask("A", "none", gpu=4)
    w.extra["reports"] = {"much": {"attained_s": 9000.0}}
    w.cycle()
    assert w.running("A") == ["none"]


def test_preemption_by_order_lets_the_shorter_take_over() -> None:
    """Under `order`, a running long job yields to a short one of the same project."""
    w = world(order="srtf", preemption="order", min_runtime_s=0)
    w.ask("A", "long", gpu=4, max_runtime_s=5000)
    w.cycle()
    w.ask("A", "short", gpu=4, max_runtime_s=50)
    w.cycle()
    assert w.why("long") == "preempted: short is ahead of it in the order srtf"
    w.run(60)
    assert w.runs("short")


def test_what_yields_to_the_order_has_run_for_a_while() -> None:
    """
    Jobs that alternate under `las` run for `min_runtime_s` each; higher priority stops them
    directly.
    """
    w = world(order="las", preemption="order", min_runtime_s=600)
    for name in ("one", "two"):
        w.ask("A", name, gpu=4)
    began = w.now
    w.run(590)
    assert not w.preemptions
    w.run(30)
    assert w.preemptions == [("one", "two")]
    w.run(3000)
    assert len(w.preemptions) <= (w.now - began) / 600
    w.ask("A", "urgent", gpu=4, priority=1)
    w.run(60)
    assert w.runs("urgent")


@pytest.mark.parametrize("order", ["srtf", "las"])
def test_a_high_priority_does_not_yield_to_the_order(order: str) -> None:
    """Priority comes before the order; otherwise each of two jobs would stop the other forever."""
    w = world(order=order, preemption="order", min_runtime_s=0)
    w.ask("A", "short", gpu=4, priority=4, max_runtime_s=50)
    w.cycle()
    w.ask("A", "urgent", gpu=4, priority=1, max_runtime_s=5000)
    w.run(4000)
    assert [victim for victim, _ in w.preemptions] == ["short"]
    assert w.runs("urgent")


def test_preemption_none_preempts_nothing() -> None:
    """Under `none`, even a job within its share waits until a borrower ends on its own."""
    halves = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    quota = quota_of({"gpu": 4}, halves, preemption="none", min_runtime_s=0)
    w = World(quota, machines_of(1, gpu=4))
    w.ask("B", "b", gpu=4)
    w.cycle()
    w.ask("A", "a", gpu=2)
    w.run(100)
    assert w.runs("b")
    assert not w.preemptions


def test_load_limit_holds_back_what_exceeds_it() -> None:
    """With a load limit of 1 the third half is held back, says so, and starts once one ends."""
    w = world(admission="load-limit", load_limit=1.0)
    for i in range(3):
        w.ask("A", f"a{i}", gpu=2)
    w.cycle()
    assert w.why("a2") == (
        "waits for jobs to end: with it the load would be 1.50 of the totals, and the limit is 1;"
        " it joins the queue when enough has ended, or an admin raises load_limit in the quota file"
    )
    reasons_are_true(w)


def test_what_an_elastic_job_gives_back_is_no_load() -> None:
    """What it holds above its minimum, on idle capacity, keeps no job from the queue."""
    w = world(admission="load-limit", load_limit=1.0)
    w.ask("A", "elastic", replicas=1, most=4, gpu=1)
    w.cycle()
    assert w.jobs["elastic"].replicas == 4
    w.ask("A", "a", gpu=3)
    w.ask("A", "more", gpu=1)
    w.cycle()
    assert w.reason("a") in ("Promised", "WaitingForCapacity")
    assert w.reason("more") == "OverLoad"


def test_what_can_never_run_is_no_load() -> None:
    """An old job that fits on no machine says so, and holds back no later job."""
    w = world(2, admission="load-limit", load_limit=1.0)
    w.ask("A", "vain", gpu=8)
    w.pass_time(3600)
    w.ask("A", "a", gpu=4)
    w.cycle()
    assert w.reason("vain") == "NeverFits"
    assert w.runs("a")


def test_one_that_is_above_the_load_limit_by_itself_is_told_so() -> None:
    """No end of other jobs lets it in, so the reason does not name them."""
    w = world(admission="load-limit", load_limit=0.5)
    w.ask("A", "a", gpu=4)
    w.cycle()
    assert w.why("a") == (
        "waits for a higher load limit: it asks for 1.00 of the totals by itself, and the limit is"
        " 0.5; ask for less, or an admin raises load_limit in the quota file"
    )
    reasons_are_true(w)


@pytest.mark.parametrize(
    ("placement", "machines"),
    [("best-fit", 1), ("spread", 2), ("first-fit", 1), ("consolidated", 1)],
)
def test_placement_chooses_machines(placement: str, machines: int) -> None:
    """Two single devices are placed together, or apart under `spread`."""
    w = world(2, placement=placement)
    w.ask("A", "a", replicas=2, gpu=1)
    w.cycle()
    attempt = w.jobs["a"].attempt
    assert attempt is not None
    assert len({r.hosts[0].machine for r in attempt.placement}) == machines


def test_best_fit_takes_the_fullest_machine_that_fits() -> None:
    """A job of one device goes where one is left, and leaves the empty machine whole."""
    w = world(2)
    w.ask("A", "three", gpu=3)
    w.cycle()
    w.ask("A", "one", gpu=1)
    w.cycle()
    w.ask("A", "whole", gpu=4)
    w.cycle()
    assert w.running("A") == ["one", "three", "whole"]


def test_consolidated_waits_rather_than_span_pools() -> None:
    """A gang is not placed half in one pool and half in another."""
    quota = quota_of({"gpu": 8}, ONE, placement="consolidated")
    w = World(quota, machines_of(1, "p", gpu=4) | machines_of(1, "q", gpu=4))
    w.ask("A", "a", replicas=2, gpu=3)
    w.cycle()
    assert not w.runs("a")


@pytest.mark.parametrize("placement", ["best-fit", "first-fit", "spread", "consolidated"])
def test_nothing_starts_on_a_machine_that_has_less_than_what_runs_there(placement: str) -> None:
    """Its agent restarted and declared less memory; a job on it holds as much as before."""
    machines = machines_of(2, cpu=8, memory=16)
    world = World(quota_of({"cpu": 16}, {"A": {"cpu": 1.0}}, placement=placement), machines)
    first = "p-000"
    world.ask("A", "large", where=Where(hostnames=[first]), cpu=4, memory=16)
    world.cycle()
    world.machines[first] = replace(machines[first], resources=Amounts({"cpu": 8, "memory": 8}))
    for name in "abc":
        world.ask("A", name, cpu=2, memory=8)
    world.cycle()
    assert world.running("A") == ["a", "b", "large"]
    for name in "ab":
        assert placed(world.jobs[name])[0].hosts[0].machine == "p-001"
    assert world.why("c").startswith("waits for 8 B memory"), world.why("c")
