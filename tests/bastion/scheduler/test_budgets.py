"""Nothing starts in a project that has used up its budget, and nothing is stopped for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.job import Phase, Stop, StopReason
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt
from bastion.scheduler.reasons.reason import BudgetSpent, Promised
from bastion.scheduler.snapshot import Snapshot
from quota import Amounts, Budget, Quota
from tests.bastion.scheduler import histories, laws
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
DAY_S = 86_400.0
BUDGET = 'budget = { gpu = 10 }\nbudget_period = "day"'


def world(options: str = BUDGET, groups: Mapping[str, str] | None = None) -> World:
    """Return two machines of eight devices, half for A, with these options, and half for B."""
    quota = quota_of(
        {"gpu": 16}, HALVES, options={"A": options}, groups=groups, min_runtime_s=0, grace_s=10
    )
    return World(quota, machines_of(2, gpu=8, cpu=8))


def spend(world: World, hours: float, of: str = "A") -> None:
    """Count this many device hours against a budget."""
    world.extra["spent"] = {of: {"gpu": hours}}


def test_nothing_starts_once_the_budget_is_spent_and_what_runs_goes_on() -> None:
    """The project's own half is free, and stays free for others to borrow."""
    w = world()
    w.ask("A", "runs", gpu=4)
    w.cycle()
    spend(w, 9.99)
    w.ask("A", "last", gpu=1)
    w.cycle()
    assert w.runs("last")
    spend(w, 10.0)
    w.ask("A", "waits", gpu=1)
    w.ask("B", "borrows", replicas=10, gpu=1)
    plan = w.cycle()
    assert w.runs("runs")
    assert w.runs("last")
    assert w.runs("borrows")
    midnight = (w.now // DAY_S + 1) * DAY_S
    assert w.plan.verdicts["waits"].reason == BudgetSpent(
        of="A", hours=Amounts({"gpu": 10}), period="day", until=midnight
    )
    assert plan.wake_at == midnight


def test_the_next_period_begins_with_nothing_spent() -> None:
    """The plan says when to run the next cycle, and then the job starts."""
    w = world()
    spend(w, 10.0)
    w.ask("A", "a", gpu=1)
    w.cycle()
    w.pass_time(DAY_S - w.now % DAY_S)
    w.extra["spent"] = {"A": {}}
    w.cycle()
    assert w.runs("a")


def test_a_job_that_is_not_charged_the_type_starts() -> None:
    """A budget of devices keeps CPUs from no job."""
    w = world()
    spend(w, 10.0)
    w.ask("A", "a", cpu=1)
    w.cycle()
    assert w.runs("a")


def test_the_budget_of_a_group_holds_for_all_in_it() -> None:
    """The group's budget applies even if the project's own budget is not used up."""
    w = world(BUDGET, {"lab": 'members = ["A"]\nbudget = { gpu = 50 }'})
    spend(w, 50.0, of="lab")
    w.ask("A", "a", gpu=1)
    w.ask("B", "b", gpu=1)
    w.cycle()
    assert w.runs("b")
    assert w.why("a").startswith("waits for the next month, which begins in 19d 10h:")
    assert ": lab has used its budget of 50 gpu hours; starts then, or when an admin" in w.why("a")


def test_of_two_budgets_the_one_that_is_renewed_last_is_named_first() -> None:
    """The other budget is the next wall."""
    w = world(BUDGET, {"lab": 'members = ["A"]\nbudget = { gpu = 50 }'})
    w.extra["spent"] = {"A": {"gpu": 10.0}, "lab": {"gpu": 51.0}}
    w.ask("A", "a", gpu=1)
    w.cycle()
    assert ": lab has used its budget" in w.why("a")
    assert w.why("a").endswith("; then the budget of A is in the way")


def test_what_comes_after_the_budget_is_told_with_it() -> None:
    """The next wall is named too: the user is at the limit of concurrent usage."""
    w = world(f"{BUDGET}\nmax_units_per_user = {{ gpu = 2 }}")
    w.ask("A", "runs", gpu=2)
    w.cycle()
    spend(w, 10.0)
    w.ask("A", "a", gpu=1)
    w.cycle()
    assert w.why("a").endswith("; then a limit of u in its project is in the way")


def test_a_gang_that_waits_for_another_of_its_jobs_is_told_of_the_budget_too() -> None:
    """One job of the gang is held; once it is released, the budget is in the way."""
    w = world()
    spend(w, 10.0)
    for name in ("a", "b"):
        w.ask("A", name, gang=("a", "b"), gpu=1)
    w.jobs["b"] = replace(w.jobs["b"], held="ann")
    w.cycle()
    assert w.why("a").endswith("; then the budget of A is in the way")


def test_nothing_is_preempted_for_a_project_without_budget() -> None:
    """A gang that must not start needs no victims and keeps nothing."""
    w = world()
    w.ask("B", "b", replicas=2, gpu=8)
    w.cycle()
    spend(w, 10.0)
    w.pass_time(1000)
    w.ask("A", "a", gpu=8)
    w.cycle()
    assert not any(isinstance(verdict, Preempt) for verdict in w.plan.verdicts.values())
    assert w.reason("a") == "BudgetSpent"
    assert not w.plan.promises


def test_what_is_planned_for_a_gang_is_free_for_others_when_the_budget_is_spent() -> None:
    """Running jobs use up the rest of the budget while nothing else happens."""
    lab = 'members = ["A"]\nbudget = { gpu = 20 }'
    quota = quota_of({"gpu": 16}, {"A": {}, "B": {}}, groups={"lab": lab}, plan_after_s=60)
    w = World(quota, machines_of(2, gpu=8))
    w.ask("A", "runs", gpu=4, max_runtime_s=20_000)
    w.cycle()
    spend(w, 19.0, of="lab")
    w.ask("A", "waits", replicas=2, gpu=8)
    w.run(1000, step_s=500)
    w.ask("B", "b", gpu=8)
    w.run(100, step_s=50)
    assert w.reason("b") == "PlannedForOther"
    assert w.plan.wake_at == pytest.approx(w.now + 900, abs=2)
    w.pass_time(901)
    spend(w, 20.0, of="lab")
    w.cycle()
    assert w.runs("b")


def test_a_gang_that_was_promised_devices_starts_although_the_budget_is_spent_meanwhile() -> None:
    """Otherwise its victims would have been stopped in vain."""
    w = world()
    w.ask("B", "b", replicas=2, gpu=8)
    w.cycle()
    w.pass_time(1000)
    w.ask("A", "a", gpu=8)
    w.cycle()
    assert isinstance(w.plan.verdicts["a"].reason, Promised)
    spend(w, 10.0)
    w.run(60, step_s=5)
    assert w.runs("a")


def test_a_job_that_was_lost_joins_its_gang_again() -> None:
    """Otherwise the rest of the gang would run in vain."""
    w = world()
    for name in ("a0", "a1"):
        w.ask("A", name, gang=("a0", "a1"), gpu=2)
    w.cycle()
    spend(w, 10.0)
    w.requeue("a0")
    w.cycle()
    assert w.runs("a0")
    w.requeue("a0")
    w.requeue("a1")
    w.cycle()
    assert [w.reason(name) for name in ("a0", "a1")] == ["BudgetSpent", "BudgetSpent"]


def test_a_lost_job_whose_gang_runs_on_is_not_told_of_the_budget() -> None:
    """It waits for another job to end; then both join the third."""
    w = world()
    names = ("a0", "a1", "a2")
    for name in names:
        w.ask("A", name, gang=names, gpu=2)
    w.cycle()
    spend(w, 10.0)
    w.requeue("a0")
    ends = w.jobs["a1"]
    assert ends.attempt is not None
    stop = Stop(reason=StopReason.PREEMPT, at=w.now, deadline=w.now + 50)
    w.jobs["a1"] = replace(ends, phase=Phase.STOPPING, attempt=replace(ends.attempt, stop=stop))
    w.cycle()
    assert w.why("a0") == "waits for a1, which is still ending; they start together"
    w.pass_time(50)
    w.cycle()
    assert [w.runs(name) for name in names] == [True, True, True]


def test_an_elastic_job_does_not_grow_once_the_budget_is_spent() -> None:
    """The job keeps the replicas that it has."""
    w = world()
    w.ask("B", "b", gpu=8)
    w.ask("A", "a", replicas=1, most=8, gpu=1)
    w.ask("A", "beside", gpu=6)
    spend(w, 9.0)
    w.cycle()
    spend(w, 10.0)
    w.end("beside")
    before = len(w.jobs["a"].alive)
    w.run(5000, step_s=500)
    assert len(w.jobs["a"].alive) == before
    spend(w, 9.0)
    w.run(5000, step_s=500)
    assert len(w.jobs["a"].alive) > before


@pytest.mark.parametrize(
    ("limit", "priority"), [("", 3), ("max_units_per_user = { gpu = 9, cpu = 8 }", 4)]
)
def test_a_grown_job_gives_nothing_back_if_it_could_not_start_again(
    limit: str, priority: int
) -> None:
    """Another job of its project asks for a type that the budget does not limit."""
    for hours, is_stopped in ((9.0, True), (10.0, False)):
        quota = quota_of(
            {"gpu": 16, "cpu": 8},
            {"A": {"gpu": 1.0, "cpu": 1.0}},
            options={"A": f"{BUDGET}\n{limit}"},
            min_runtime_s=60,
        )
        w = World(quota, machines_of(1, gpu=8, cpu=8))
        w.ask("A", "grown", replicas=1, most=8, priority=priority, gpu=1, cpu=1)
        w.cycle()
        assert len(w.jobs["grown"].alive) == 8
        spend(w, hours)
        w.ask("A", "other", cpu=4)
        w.run(120, step_s=60)
        assert ("grown" in [victim for victim, _ in w.preemptions]) == is_stopped, hours
        assert w.runs("grown")


def budgets_are_kept(snapshot: Snapshot, _: float, plan: Plan) -> None:
    """No job starts on a type of which its project, or a group around it, has no hours left."""
    promised = {job for promise in snapshot.promises for job in promise.gang}
    for name, verdict in plan.verdicts.items():
        if not isinstance(verdict, Admit) or name in promised:
            continue
        job = snapshot.jobs[name]
        peers = (snapshot.jobs[each] for each in job.gang if each in snapshot.jobs)
        if any(peer.is_admitted for peer in peers):
            continue
        for node in snapshot.quota.chain(job.project):
            for kind, most in node.budget.hours.items():
                left = most - snapshot.spent.get(node.name, {}).get(kind, 0.0)
                assert left > 0 or not job.request.units[kind], f"{name} starts over {node.name}"


def _budgeted(quota: Quota) -> Quota:
    """Return budgets of one hour for every project."""
    budget = Budget(hours={"gpu": 1}, period="day")
    return replace(
        quota,
        projects={name: replace(each, budget=budget) for name, each in quota.projects.items()},
        groups={name: replace(each, budget=budget) for name, each in quota.groups.items()},
    )


def budgeted_world_of(random: Random, decide: Decide) -> World:
    """Return a small world of groups in which budgets are spent and renewed every few minutes."""
    seed = random.random()

    def spending(snapshot: Snapshot, now: float) -> Plan:
        names = sorted((*snapshot.quota.projects, *snapshot.quota.groups))
        turn = int(now // 300)
        spent = {
            name: {"gpu": Random(f"{seed}{name}{turn}").choice((0.5, 0.9, 1.0))} for name in names
        }
        return decide(replace(snapshot, spent=spent), now)

    w = histories.grouped_world_of(random, spending)
    w.written = _budgeted
    w.quota = _budgeted(w.quota)
    return w


LAWS = (
    budgets_are_kept,
    laws.every_job_has_a_verdict,
    laws.no_device_is_shared,
    laws.gangs_are_whole,
    laws.no_guaranteed_victim,
    laws.the_guarantee,
)
SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None, database=None, derandomize=True)
def test_no_start_breaks_a_budget(seed: int) -> None:
    """It holds at every cycle of a random history, with a memory."""
    inner = histories.remembering()
    histories.run(seed, LAWS, steps=15, inner=inner, make=budgeted_world_of)


@pytest.mark.prove
@given(seed=SEEDS)
@settings(max_examples=at_length(700), deadline=None, database=None)
def test_no_start_breaks_a_budget_in_long(seed: int) -> None:
    """The same holds for hundreds of histories."""
    inner = histories.remembering()
    histories.run(seed, LAWS, steps=25, inner=inner, make=budgeted_world_of)


def test_the_law_notices_a_scheduler_that_forgets_budgets() -> None:
    """A scheduler that sees no spent budget breaks the law in some history."""

    def forgetful(snapshot: Snapshot, now: float) -> Plan:
        return decide(replace(snapshot, spent={}), now)

    with pytest.raises(AssertionError, match="starts over"):
        for seed in range(20):
            histories.run(seed, (budgets_are_kept,), inner=forgetful, make=budgeted_world_of)
