"""The same `decide` computes what would happen, without any effect."""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.plan import Preempt
from bastion.scheduler.reasons.reason import text
from bastion.scheduler.whatif import if_launched, if_quota_were
from quota import Quota
from quota.maintenance import Window
from tests.bastion.scheduler.world import World, machines_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world() -> World:
    """Return B running on all of 16, half of it borrowed."""
    w = World(quota_of({"gpu": 16}, HALVES, min_runtime_s=0), machines_of(2, gpu=8))
    for name in ("b1", "b2"):
        w.ask("B", name, gpu=8)
        w.cycle()
        w.pass_time(1)
    return w


def test_a_dry_run_tells_what_would_be_stopped() -> None:
    """A job within its share would wait for its promise, and the borrower would be stopped."""
    w = world()
    asker = World(w.quota)
    asker.now = w.now
    asker.ask("A", "a", gpu=8)
    outlook = if_launched(w.snapshot(), asker.jobs.values(), w.now)
    assert outlook.waits == ("a",)
    assert outlook.stops == (("b2", "a"),)
    ((name, verdict),) = outlook.verdicts
    assert (name, text(verdict.reason, w.now)) == (
        "a",
        "waits for b2 to be preempted; promised to start in 30s at the latest",
    )
    assert not w.preemptions
    assert repr(outlook) == "<a would wait; b2 would be preempted>"


def test_another_quota_tells_what_would_start_and_what_would_be_stopped() -> None:
    """A job that waits for a share would get its place; one under a ceiling would start."""
    ceiling = {"B": "ceiling = { gpu = 0.75 }"}
    quota = quota_of({"gpu": 16}, {"A": {}, "B": {"gpu": 0.75}}, options=ceiling, min_runtime_s=0)
    w = World(quota, machines_of(2, gpu=8))
    for name, units in (("b1", 8), ("b2", 4)):
        w.ask("B", name, gpu=units)
        w.cycle()
        w.pass_time(1)
    w.ask("B", "b3", gpu=4)
    w.cycle()
    assert w.reason("b3") == "OverCeiling"
    raised = quota_of({"gpu": 16}, {"A": {}, "B": {"gpu": 0.75}})
    assert if_quota_were(w.snapshot(), raised, w.now).outlook.starts == ("b3",)
    w.ask("A", "a", gpu=8)
    w.cycle()
    given = if_quota_were(w.snapshot(), quota_of({"gpu": 16}, HALVES, min_runtime_s=0), w.now)
    assert given.outlook.stops == (("b2", "a"),)
    assert [share.project for share in given.change.shares] == ["A", "B"]


def test_another_quota_tells_which_shares_change_and_which_jobs_are_demoted() -> None:
    """Cutting B's share to zero demotes its running job; giving it everything promotes it."""
    w = world()
    cut = if_quota_were(w.snapshot(), quota_of({"gpu": 16}, {"A": {"gpu": 1.0}, "B": {}}), w.now)
    assert cut.outlook.demoted == ("b1",)
    assert cut.change
    raised = if_quota_were(w.snapshot(), quota_of({"gpu": 16}, {"A": {}, "B": {"gpu": 1.0}}), w.now)
    assert raised.outlook.promoted == ("b2",)
    assert not raised.outlook.stops


def test_another_quota_tells_which_waiting_jobs_it_shuts_out() -> None:
    """A queued job whose project is gone waits forever; before, it waited for devices."""
    w = world()
    w.ask("B", "b3", gpu=8)
    w.cycle()
    assert w.reason("b3") not in ("UnknownProject", "NotMember")
    gone = if_quota_were(w.snapshot(), quota_of({"gpu": 16}, {"A": {"gpu": 1.0}}), w.now).outlook
    assert gone.waits == ("b3",)
    told = {name: text(verdict.reason, w.now) for name, verdict in gone.verdicts}
    assert told["b3"] == "the quota file has no project B; an admin adds it there"
    same = if_quota_were(w.snapshot(), w.quota, w.now).outlook
    assert not same.waits


def test_another_quota_tells_which_running_jobs_maintenance_stops() -> None:
    """Each that resumes and runs into the window; one told to stop at once is told as stopped."""
    w = world()
    later = Window(starts_at=w.now + 3600, ends_at=w.now + 7200, machines=("p-000",))
    announced = if_quota_were(w.snapshot(), replace(w.quota, maintenance=(later,)), w.now).outlook
    ((job, stop),) = announced.vacated
    assert job in ("b1", "b2")
    assert (stop.at, stop.window) == (later.starts_at - 30.0, str(later))
    assert not announced.stops
    assert repr(announced) == f"<{job} would be stopped for maintenance>"
    soon = Window(starts_at=w.now + 10, ends_at=w.now + 7200)
    at_once = if_quota_were(w.snapshot(), replace(w.quota, maintenance=(soon,)), w.now).outlook
    assert at_once.stops == (("b1", ""), ("b2", ""))
    assert not at_once.vacated
    assert all(isinstance(verdict, Preempt) for _, verdict in at_once.verdicts)
    w.jobs[job] = replace(w.jobs[job], resume=False)
    left = if_quota_were(w.snapshot(), replace(w.quota, maintenance=(later,)), w.now).outlook
    assert left.vacated == ((job, replace(stop, at=later.starts_at, is_left=True)),)
    assert repr(left) == f"<{job} may still run when maintenance begins>"
    w.quota = replace(w.quota, maintenance=(later,))
    assert not if_quota_were(w.snapshot(), w.quota, w.now).outlook.vacated


def test_another_quota_counts_as_spent_what_the_bastion_would_count() -> None:
    """Hours of a day are not those of a month; a changed amount keeps the hours used."""
    daily = 'budget = { gpu = 10 }\nbudget_period = "day"'

    def with_budget(budget: str) -> Quota:
        return quota_of({"gpu": 16}, HALVES, options={"A": budget}, min_runtime_s=0)

    w = World(with_budget(daily), machines_of(2, gpu=8))
    w.extra["spent"] = {"A": {"gpu": 10.0}}
    w.ask("A", "a", gpu=8)
    w.cycle()
    assert w.reason("a") == "BudgetSpent"
    for budget, starts in (
        (daily, ()),
        ('budget = { gpu = 11 }\nbudget_period = "day"', ("a",)),
        ("budget = { gpu = 10 }", ("a",)),
        ("", ("a",)),
    ):
        found = if_quota_were(w.snapshot(), with_budget(budget), w.now).outlook
        assert found.starts == starts, budget
