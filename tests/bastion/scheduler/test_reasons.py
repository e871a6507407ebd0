"""Every reason states a fact in plain words, and is given where it is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from bastion.job import Dependency
from bastion.scheduler.reasons import reason as reasons
from bastion.scheduler.reasons.holding import MaintenanceStop
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import Reason, text
from bastion.spec.where import Where
from quota import Amounts
from quota.amounts import NOTHING
from tests.bastion.scheduler.counterfactual import reasons_are_true
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
GPU = Amounts({"gpu": 8})
ONE = Amounts({"gpu": 1})
TWO = Amounts({"gpu": 2})

EXAMPLES: list[tuple[Reason, str]] = [
    (
        reasons.WithinShare(project="A", held=TWO, nominal=GPU),
        "guaranteed: A holds 2 gpu of its share of 8 gpu, and no other project can preempt it",
    ),
    (
        reasons.Borrowing(project="A", held=GPU, nominal=TWO, safe_until=190),
        "borrowed: A holds 8 gpu, 6 gpu beyond its share; may be preempted for a gang within"
        " its share, but not in the next 1m 30s",
    ),
    (
        reasons.Borrowing(
            project="A",
            held=ONE,
            nominal=TWO,
            maintenance=MaintenanceStop(at=130, window="p from 10:00 to 11:00 UTC"),
        ),
        "borrowed: A holds 1 gpu, all within its share; may be preempted for a gang within its"
        " share; maintenance stops it in 30s: p from 10:00 to 11:00 UTC",
    ),
    *(
        (
            reasons.Borrowing(
                project="A",
                held=Amounts({}),
                nominal=TWO,
                maintenance=MaintenanceStop(at=at, window="p until 11:00 UTC", is_left=True),
            ),
            "asks for nothing under quota; may be preempted for a gang within its share;"
            f" maintenance {begins} but does not stop it, because it cannot resume:"
            " p until 11:00 UTC",
        )
        for at, begins in ((130, "begins in 30s"), (90, "has begun"))
    ),
    (
        reasons.Ending(cause="preempt", deadline=130),
        "stopping: preempted; killed in 30s at the latest",
    ),
    (reasons.ToBePreempted(by="x", at=130), "will be preempted in 30s: x gets its devices"),
    (
        reasons.Reclaimed(by="x", project="B", units=TWO),
        "preempted: B reclaims 2 gpu of its share for x",
    ),
    (
        reasons.Outranked(by="x", priority=5, theirs=1),
        "preempted: x of the same project has priority 1, this job has 5 (1 is highest)",
    ),
    (
        reasons.Rotated(by="x", borrowed_s=7200, slice_s=3600),
        "preempted: it borrowed for 2h, longer than a slice of 1h, and x is planned on its devices",
    ),
    (
        reasons.Shrunk(by="x", replicas=8, least=2),
        "preempted to shrink: it has 8 replicas and needs 2, and x waits",
    ),
    (reasons.Yielded(by="x", order="srtf"), "preempted: x is ahead of it in the order srtf"),
    (
        reasons.NeverFits(asked=GPU, most=TWO, of="replica", pools=(("p", 2),)),
        "can never run: one replica asks for 8 gpu, and the largest machine it may use (2"
        " machines of p) has 2 gpu; ask for less, spread it over more replicas, or an admin"
        " gives p larger machines in config/bastion.toml",
    ),
    (
        reasons.NeverFits(asked=GPU, most=NOTHING, of="replica"),
        "can never run: one replica asks for 8 gpu, and no machine it may use has any;"
        " bastion pool shows what there is",
    ),
    (
        reasons.NeverFits(
            asked=GPU,
            most=TWO,
            of="gang",
            replicas=4,
            fitting=1,
            pools=(("p", 2), ("q", 1), ("r", 1), ("s", 1)),
        ),
        "can never run: it asks for 8 gpu in 4 replicas, and all machines it may use (2"
        " machines of p, 1 machine of q, 1 machine of r and 1 pool more) have room for 1 of"
        " them; ask for less, or an admin lets a pool have more machines in config/bastion.toml",
    ),
    (
        reasons.NeverFits(asked=GPU, most=TWO, of="total"),
        "can never run: it asks for 8 gpu, and the total in the quota file is 2 gpu; ask for"
        " less, or an admin raises the total",
    ),
    (
        reasons.NeverFits(asked=GPU, most=Amounts({}), of="layout", pools=(("p", 1),)),
        "can never run: it asks for 8 gpu, and has no placement on the machines it may use (1"
        " machine of p) within the totals of the tiers, even with all of them free; ask for"
        " less or for smaller replicas",
    ),
    (
        reasons.AtOnce(limit=2),
        "waits for another task to end: its array runs at most 2 tasks at once",
    ),
    (
        reasons.NotYetConsidered(),
        "not considered yet: one cycle cannot decide on all waiting jobs; the next continues",
    ),
    (
        reasons.NotMember(user="u", project="A"),
        "u is not a member of A; an admin adds members in the quota file under"
        " [project_membership]",
    ),
    (
        reasons.UnknownProject(project="A"),
        "the quota file has no project A; an admin adds it there",
    ),
    (
        reasons.QuotaFileInvalid(
            problem="line 3: oops", otherwise=reasons.UnknownProject(project="A")
        ),
        "waits for a valid quota file: by the last valid one, the quota file has no project A;"
        " an admin adds it there; the newest is not in force: line 3: oops",
    ),
    (
        reasons.OverCeiling(project="A", asked=TWO, held=GPU, ceiling=GPU),
        "waits for A to free 2 gpu: it holds 8 of 8 gpu, its ceiling; starts when jobs of A"
        " end, or an admin raises the ceiling",
    ),
    (
        reasons.BeyondShare(
            project="A", asked=GPU, share=TWO, held=TWO, others=GPU, total=Amounts({"gpu": 16})
        ),
        "waits to borrow 2 gpu: it asks for 8 gpu, A holds 2 gpu of its share of 2 gpu, and"
        " other projects use or reserve 8 of 16 gpu; starts when other projects free 2 gpu",
    ),
    (
        reasons.BeyondShare(
            project="A", asked=TWO, share=GPU, held=GPU, others=GPU, total=2 * GPU, lenders=("B",)
        ),
        "waits for 2 gpu: it asks for 2 gpu, A holds 8 gpu of its share of 8 gpu, and B uses or"
        " reserves 8 of 16 gpu; starts when jobs of A end, or B leaves 2 gpu idle",
    ),
    (
        reasons.BeyondShare(
            project="A",
            asked=TWO,
            share=GPU,
            held=GPU,
            others=GPU,
            total=2 * GPU,
            lenders=("B",),
            own=TWO,
        ),
        "waits for 2 gpu: it asks for 2 gpu, A holds 8 gpu of its share of 8 gpu, and B uses or"
        " reserves 8 of 16 gpu; starts when jobs of A end",
    ),
    (
        reasons.Behind(jobs=4, units=GPU, first=("x", "y", "z"), short=TWO),
        "waits behind 4 jobs of its project that ask for 8 gpu (x, y, z and 1 more); then 2 gpu"
        " more must be free",
    ),
    (
        reasons.WaitingForCapacity(asked=GPU, short=TWO, holders=(("A", GPU),)),
        "waits for 2 gpu (it asks for 8 gpu); A holds 8 gpu; starts when running jobs free 2 gpu",
    ),
    (
        reasons.WaitingForCapacity(asked=GPU, short=TWO, replica=GPU),
        "waits for 2 gpu (it asks for 8 gpu); starts when running jobs free 2 gpu, with 8"
        " gpu on one machine",
    ),
    (
        reasons.WaitingForCapacity(asked=GPU, short=TWO, replicas=4, replica=TWO),
        "waits for 2 gpu (it asks for 8 gpu); starts when running jobs free 2 gpu, with 2"
        " gpu on one machine for each replica",
    ),
    (
        reasons.Promised(deadline=130, stopping=("x", "y")),
        "waits for x, y to end; promised to start in 30s at the latest",
    ),
    (
        reasons.Planned(at=3700, waiting_for=("x",)),
        "waits for x to end; planned to start in 1h",
    ),
    (
        reasons.PlannedForOther(other="x", at=130, units=GPU),
        "waits for x, for which 8 gpu are reserved and which starts in 30s; a job whose"
        " max_runtime ends before that is backfilled",
    ),
    (
        reasons.Planned(at=None, waiting_for=("x",)),
        "waits for x to end; no time is known, because jobs without max_runtime must end first; no"
        " later job of its project takes what it needs",
    ),
    (
        reasons.PlannedForOther(other="x", at=None, units=GPU),
        "waits for x, which goes first in its project and for which 8 gpu are reserved; x starts"
        " once enough jobs of the project have ended",
    ),
    (
        reasons.Fragmented(asked=GPU, free=GPU, fitting=1, replicas=2, to_end=("x",)),
        "waits for room on single machines: 8 gpu are free, but scattered, and 1 of 2 replicas"
        " fits; starts when x has ended",
    ),
    (
        reasons.CapacityLost(asked=TWO, lost=TWO, of=GPU, machines=("m1", "m2")),
        "waits for 2 of 8 gpu, out of service on m1, m2; can start when they are back",
    ),
    (
        reasons.CapacityLost(asked=NOTHING, lost=NOTHING, of=NOTHING, machines=("m1",)),
        "waits for 1 machine, out of service on m1; can start when it is back",
    ),
    (
        reasons.CapacityLost(
            asked=TWO,
            lost=TWO,
            of=GPU,
            machines=("m1",),
            then=NextWall(kind="WaitingForCapacity", units=TWO, names=("A",)),
        ),
        "waits for 2 of 8 gpu, out of service on m1; they have to be back first; then it waits for"
        " 2"
        " gpu that A holds",
    ),
    (
        reasons.NoMachineMatches(filter="shard=rl", machines=3),
        "waits for a machine with shard=rl, which none of 3 machines has; submit it again with"
        " another filter, or with none",
    ),
    (
        reasons.NoMachineMatches(filter="containers", machines=1),
        "waits for a machine that runs containers, which its image needs and none of 1 machine"
        " does; an admin sets `containers = true` for a pool where docker answers",
    ),
    (
        reasons.NoMachineMatches(filter="", machines=2, hosts=4),
        "can never run: it asks for slices of 4 hosts, and none of 2 machines is part of one;"
        " bastion pool shows what there is",
    ),
    (
        reasons.NoMachineMatches(filter="", machines=8),
        "can never run: it asks for single machines, and each of 8 machines is part of a slice;"
        " ask for slices by an instance type",
    ),
    (
        reasons.NoMachineMatches(filter="", machines=0),
        "waits for a machine: there is none, and no pool can create one",
    ),
    (
        reasons.NoMachineMatches(filter="pool=p", machines=2, empty=("p",)),
        "waits for a machine with pool=p, which none of 2 machines has; submit it again with"
        " another filter, or with none; p can create none until an admin raises max_machines in"
        " config/bastion.toml",
    ),
    (
        reasons.ProviderStockout(pool="p", until=130),
        "waits for machines: the provider of p has none; next try in 30s",
    ),
    (
        reasons.ProviderStockout(pool="p", until=130, said="ZONE_RESOURCE_POOL_EXHAUSTED in a"),
        "waits for machines: the provider of p has none: ZONE_RESOURCE_POOL_EXHAUSTED in a; next"
        " try in 30s",
    ),
    (
        reasons.ProviderStockout(pool="p", until=130, why="limit", said="8 of 8 GPUS in us"),
        "waits for machines: the provider of p creates no more machines for this account: 8 of 8"
        " GPUS in us; next try in 30s; an admin asks the provider for a higher limit",
    ),
    (
        reasons.ProviderStockout(pool="p", until=130, why="refused", said="no image x"),
        "waits for machines: the provider of p refuses to create machines: no image x; next try in"
        " 30s; an admin corrects the rights or the settings",
    ),
    (
        reasons.ProviderStockout(pool="p", until=130, why="busy", said="429"),
        "waits for machines: the provider of p does not answer: 429; next try in 30s",
    ),
    (
        reasons.Backoff(until=130, after="failed"),
        "waits after a failure; requeued in 30s",
    ),
    (
        reasons.Dependency(on=("x",), state="not ready"),
        "waits for x, which is not ready; they start together",
    ),
    (
        reasons.WaitsFor(on=(("a-1", "ok", "running"), ("b-1", "failed", "2 queued"))),
        "waits for a-1 to succeed (running), b-1 to end without success (2 queued); it joins the"
        " queue then",
    ),
    (reasons.Held(by="u"), "held by u; it joins the queue when released"),
    (reasons.Cancelled(by="u"), "cancelled by u"),
    (
        reasons.Resized(replicas=2, fits=5),
        "stopped to grow: 5 replicas fit in place of 2",
    ),
    (
        reasons.Vacated(window="p from x to y: new drivers", at=130),
        "preempted: maintenance begins in 30s: p from x to y: new drivers",
    ),
    (
        reasons.Maintenance(window="p from x to y", at=130, until=190, over_by=120.5),
        "waits for maintenance, which begins in 30s and would stop it: p from x to y; starts in"
        " 1m 30s, or now with a max_runtime of at most 20s",
    ),
    (
        reasons.Maintenance(window="p from x to y", at=130, until=190, over_by=90),
        "waits for maintenance, which begins in 30s and would stop it: p from x to y; starts in"
        " 1m 30s",
    ),
    (
        reasons.Maintenance(window="p from x to y", at=90, until=190),
        "waits for maintenance to end in 1m 30s: p from x to y",
    ),
    (
        reasons.ShareInUse(project="A", asked=TWO, held=GPU, share=GPU),
        "waits for A to free 2 gpu of its share: it asks for 2 gpu, A holds 8 gpu with a share of"
        " 8 gpu, and it may not borrow; starts when jobs of A end",
    ),
    (
        reasons.OverUserLimit(project="A", user="u", limit="gpu", asked=8, held=4, ahead=0, most=8),
        "waits for jobs of u, whose limit in A is 8 gpu at once: u holds 4 gpu, it asks for 8 gpu;"
        " starts when they end, or an admin raises the limit in the quota file",
    ),
    (
        reasons.OverUserLimit(
            project="A", user="u", limit="jobs", asked=1, held=2, ahead=1, most=3
        ),
        "waits for jobs of u, whose limit in A is 3 jobs at once: u runs 2 with 1 ahead of it, it"
        " asks for 1; starts when they end, or an admin raises the limit in the quota file",
    ),
    (
        reasons.OverUserLimit(
            project="A", user="u", limit="jobs", asked=1, held=1, ahead=0, most=1
        ),
        "waits for jobs of u, whose limit in A is 1 job at once: u runs 1, it asks for 1; starts"
        " when they end, or an admin raises the limit in the quota file",
    ),
    (
        reasons.BudgetSpent(of="A", hours=GPU, period="month", until=130),
        "waits for the next month, which begins in 30s: A has used its budget of 8 gpu hours;"
        " starts then, or when an admin raises the budget in the quota file",
    ),
    (
        reasons.PlannedForOther(other="x", at=130, units=ONE),
        "waits for x, for which 1 gpu is reserved and which starts in 30s; a job whose"
        " max_runtime ends before that is backfilled",
    ),
    (
        reasons.OverLoad(load=1.5, limit=1.2, alone=0.5),
        "waits for jobs to end: with it the load would be 1.50 of the totals, and the limit is"
        " 1.2; it joins the queue when enough has ended, or an admin raises load_limit in the"
        " quota file",
    ),
]


@pytest.mark.parametrize(("reason", "words"), EXAMPLES, ids=lambda each: getattr(each, "kind", ""))
def test_a_reason_says_what_is_so(reason: Reason, words: str) -> None:
    """The exact words are one line without a full stop, and are the same after being stored."""
    assert text(reason, 100.0) == words
    adapter: TypeAdapter[Reason] = TypeAdapter(Reason)
    assert adapter.validate_json(adapter.dump_json(reason)) == reason


def test_every_reason_has_an_example() -> None:
    """Every reason has an example with words that a test checks."""
    named = {kind.__name__ for union in get_args(Reason) for kind in (union,)}
    assert named == {reason.kind for reason, _ in EXAMPLES}


def world(machines: int = 2, **scheduler: Any) -> World:
    """Return machines of eight devices, halved between A and B."""
    quota = quota_of({"gpu": 8 * machines}, HALVES, **scheduler)
    return World(quota, machines_of(machines, gpu=8))


def test_what_keeps_a_job_out_of_the_queue_is_said() -> None:
    """Hold, backoff, unknown project, no membership, a cancel, an invalid quota file."""
    w = world()
    for name in ("held", "late", "ended"):
        w.ask("A", name, gpu=1)
    w.ask("X", "strange", gpu=1)
    w.ask("A", "foreign", user="mallory", gpu=1)
    w.jobs["held"] = replace(w.jobs["held"], held="u")
    w.jobs["late"] = replace(w.jobs["late"], not_before=w.now + 5)
    w.jobs["ended"] = replace(w.jobs["ended"], cancelled_by="u")
    w.cycle()
    kinds = ["Held", "Backoff", "Cancelled", "UnknownProject", "NotMember"]
    assert [w.reason(n) for n in ("held", "late", "ended", "strange", "foreign")] == kinds
    w.extra["quota_problem"] = "line 1: oops"
    w.cycle()
    assert w.reason("strange") == w.reason("foreign") == "QuotaFileInvalid"
    assert w.plan.wake_at == w.now + 5
    reasons_are_true(w)


def test_a_job_let_into_the_queue_starts() -> None:
    """What its reason names is done: a release, time, an edit, a smaller request."""
    w = world()
    for name, units in (("held", 1), ("late", 1), ("huge", 9)):
        w.ask("A", name, gpu=units)
    w.ask("X", "strange", gpu=1)
    w.ask("A", "foreign", user="mallory", gpu=1)
    w.ask("A", "nowhere", where=Where(pool="q"), gpu=1)
    w.jobs["held"] = replace(w.jobs["held"], held="u")
    w.jobs["late"] = replace(w.jobs["late"], not_before=w.now + 5)
    w.jobs["huge"] = replace(w.jobs["huge"], queued_at=w.now - 1000)
    w.cycle()
    names = ("held", "late", "huge", "strange", "foreign", "nowhere")
    kinds = ["Held", "Backoff", "NeverFits", "UnknownProject", "NotMember", "NoMachineMatches"]
    assert [w.reason(name) for name in names] == kinds
    w.jobs["held"] = replace(w.jobs["held"], held="")
    w.now += 5
    less = replace(w.jobs["huge"].request, per_replica=Amounts({"gpu": 1}))
    w.jobs["huge"] = replace(w.jobs["huge"], request=less)
    project = w.quota.projects["A"]
    people = replace(project.members, written=("u", "mallory"))
    known = {"A": replace(project, members=people), "X": replace(project, name="X")}
    w.quota = replace(w.quota, projects={**w.quota.projects, **known})
    anywhere = replace(w.jobs["nowhere"].request, where=Where())
    w.jobs["nowhere"] = replace(w.jobs["nowhere"], request=anywhere)
    w.cycle()
    assert all(map(w.runs, names))


def test_a_removed_member_keeps_what_runs_and_gets_nothing_new() -> None:
    """Membership is checked at every cycle, and only for waiting jobs."""
    w = world()
    w.ask("A", "runs", user="u", gpu=1)
    w.cycle()
    w.ask("A", "waits", user="u", gpu=1)
    people = replace(w.quota.projects["A"].members, written=("v",))
    project = replace(w.quota.projects["A"], members=people)
    w.quota = replace(w.quota, projects={**w.quota.projects, "A": project})
    w.cycle()
    assert w.runs("runs")
    assert w.reason("waits") == "NotMember"


def test_fail_when_busy_is_started_in_this_cycle_or_refused() -> None:
    """Waiting for a promise counts as busy."""
    w = world(1)
    w.ask("B", "b", gpu=8)
    w.cycle()
    w.ask("A", "a", gpu=4, fail_when_busy=True)
    w.cycle()
    assert "a" not in w.jobs
    assert not w.plan.promises


def test_what_was_not_looked_at_is_not_refused_as_busy() -> None:
    """Searches for others took the steps of the first cycle; in the next cycle it starts."""
    shares = {"A": {"gpu": 0.75}, "B": {"gpu": 0.25}, "C": {}}
    quota = quota_of({"gpu": 24}, shares, min_runtime_s=600)
    w = World(quota, machines_of(3, gpu=8))
    for name in ("b", "c"):
        w.ask("B", name, gpu=8)
    w.cycle()
    w.extra["steps"] = 1
    for at in range(2):
        w.ask("A", f"a{at}", gpu=5 + at, where=Where(hostnames=(f"p-00{at}",)))
    w.ask("C", "now", gpu=1, fail_when_busy=True)
    w.cycle()
    assert any(plan.verdicts["now"].reason == reasons.NotYetConsidered() for plan in w.turns)
    assert w.runs("now")


def test_the_filter_that_leaves_no_machine_is_named() -> None:
    """`shard=rl` matches neither of the two machines."""
    w = world()
    w.ask("A", "a", gpu=1, where=Where(shard="rl"))
    w.cycle()
    assert w.why("a").startswith("waits for a machine with shard=rl, which none of 2 machines has")


def test_a_stockout_is_said_and_made_good() -> None:
    """The pool could create a machine but its provider is sold out, and the reason says so."""
    w = World(quota_of({"gpu": 8}, HALVES), {}, {"p": pool_of(1, gpu=8)})
    w.ask("A", "a", gpu=4)
    w.extra["stockouts"] = {"p": reasons.ProviderStockout(pool="p", until=w.now + 60)}
    w.cycle()
    assert w.reason("a") == "ProviderStockout"
    assert w.plan.wake_at == w.now + 60
    w.pass_time(60)
    w.cycle()
    assert w.runs("a")


def test_hosts_that_give_no_machine_are_left_out_and_named() -> None:
    """Machines are created on the other hosts; the reason of one job too many names the hosts."""
    hosts = replace(pool_of(3, gpu=8), zones=("a", "b", "c"), machines_per_zone=1)
    w = World(quota_of({"gpu": 24}, {"A": {"gpu": 1.0}}), {}, {"p": hosts})
    out = reasons.ProviderStockout(pool="p", until=w.now + 60, said="no route", zones=("a",))
    w.extra["stockouts"] = {"p": out}
    for name in ("first", "second", "third"):
        w.ask("A", name, gpu=8)
    w.cycle()
    assert w.runs("first") and w.runs("second")
    assert sorted(machine.zone for machine in w.machines.values()) == ["b", "c"]
    assert w.why("third") == (
        "waits for machines: the provider of p has none on a: no route; next try in 1m"
    )
    assert w.plan.wake_at == w.now + 60
    w.pass_time(60)
    w.cycle()
    assert w.runs("third")
    assert sorted(machine.zone for machine in w.machines.values()) == ["a", "b", "c"]


def test_a_ceiling_names_what_would_change_it() -> None:
    """A at its ceiling waits; with a higher ceiling it starts."""
    quota = quota_of({"gpu": 16}, HALVES, options={"A": "ceiling = { gpu = 0.5 }"})
    w = World(quota, machines_of(2, gpu=8))
    w.ask("A", "one", gpu=8)
    w.ask("A", "two", gpu=8)
    w.cycle()
    assert w.why("two") == (
        "waits for A to free 8 gpu: it holds 8 of 8 gpu, its ceiling; starts when jobs of A end, or"
        " an admin raises the ceiling"
    )
    w.quota = quota_of({"gpu": 16}, HALVES)
    w.cycle()
    assert w.runs("two")


def test_either_its_own_project_or_another_may_end_what_it_waits_for() -> None:
    """A uses its share and B its own; a small job of A starts when a job of either ends."""
    for ends, words in (("a", "jobs of A end"), ("b", "or B leaves 2 gpu idle")):
        w = World(
            quota_of({"gpu": 8}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}), machines_of(1, gpu=8)
        )
        w.ask("A", "a", gpu=4)
        w.ask("B", "b", gpu=4)
        w.cycle()
        w.ask("A", "small", gpu=2)
        w.cycle()
        assert words in w.why("small")
        w.end(ends)
        w.cycle()
        assert w.runs("small")


def test_those_ahead_are_named_and_when_they_go_it_starts() -> None:
    """It starts once the jobs that hold the devices, and those ahead of it, are gone."""
    w = world(1)
    w.ask("A", "runs", gpu=8)
    w.cycle()
    for name in ("first", "second"):
        w.ask("A", name, gpu=6)
        w.pass_time(1)
    w.cycle()
    assert w.why("first") == (
        "waits for 6 gpu; A holds 8 gpu; starts when running jobs free 6 gpu on one machine"
    )
    assert w.why("second") == (
        "waits behind 1 job of its project that asks for 6 gpu (first); then 6 gpu more"
        " must be free"
    )
    w.end("runs")
    w.end("first")
    w.cycle()
    assert w.runs("second")


def test_scattered_devices_name_the_jobs_that_would_have_to_end() -> None:
    """Five free devices on each of two machines hold no replica of six: one job has to end."""
    w = world(2, placement="spread")
    for name in ("x", "y"):
        w.ask("A", name, gpu=3)
        w.cycle()
        w.pass_time(1)
    w.ask("A", "six", gpu=6)
    w.cycle()
    assert w.why("six") == (
        "waits for room on single machines: 10 gpu are free, but scattered, and 0 of 1 replica fit;"
        " starts when y has ended"
    )
    w.end("y")
    w.cycle()
    assert w.runs("six")


def test_holders_of_devices_are_named_with_their_host() -> None:
    """A holder that an agent reports on your own host is named as reported, and cut if too long."""
    w = world(2)
    holder = "process 7 (python3) of user eve, which is not of this bastion, holds gpu 0, gpu 5"
    own = {"permit_s": 600.0, "zone": "gpu1", "bad_devices": {"gpu": (0, 5)}}
    w.machines["p-001"] = replace(w.machines["p-001"], **own, bad_text=holder)  # type: ignore[arg-type]
    w.ask("A", "a", gpu=8)
    w.ask("B", "b", gpu=8)
    w.cycle()
    assert w.why("b") == (
        f"waits for 2 of 16 gpu, out of service on p-001 on gpu1 (2 gpu: {holder}); can start when"
        " they"
        " are back"
    )
    w.machines["p-001"] = replace(w.machines["p-001"], bad_text=holder * 9)
    w.cycle()
    assert len(w.why("b")) < 350
    assert " ...); can start" in w.why("b")


def test_lost_machines_are_named() -> None:
    """Devices are missing because a machine has broken ones; the job starts when they are back."""
    w = world(2)
    w.machines["p-001"] = replace(w.machines["p-001"], bad_devices={"gpu": (0, 5)})
    w.ask("A", "a", gpu=8)
    w.ask("B", "b", gpu=8)
    w.cycle()
    assert w.why("b") == (
        "waits for 2 of 16 gpu, out of service on p-001 (2 gpu out of order); can start when they"
        " are"
        " back"
    )
    w.machines["p-001"] = replace(w.machines["p-001"], bad_devices={})
    w.cycle()
    assert w.runs("b")


def test_a_job_that_waits_for_others_names_them_and_delays_no_other() -> None:
    """A dependent with the highest priority holds nothing back; it starts once its targets end."""
    w = world(1)
    w.ask("A", "first", gpu=4)
    waits = (Dependency(on="first"), Dependency(on="gone", when="any"))
    w.ask("A", "late", gpu=8, priority=1, after=waits)
    w.ask("A", "small", gpu=4)
    w.turn()
    assert w.runs("small")
    assert w.why("late") == (
        "waits for first to succeed (queued), gone to end (ended); it joins the queue then"
    )
    w.cycle()
    assert "first to succeed (running)" in w.why("late")
    assert not w.plan.promises
    reasons_are_true(w)


def test_a_reason_names_three_and_counts_the_rest() -> None:
    """Of many targets the first are named; the jobs of a launch are counted by state."""
    w = world(1)
    for n in range(2):
        name = w.ask("A", f"part-{n}", gpu=1)
        w.jobs[name] = replace(w.jobs[name], launch="parts")
    w.cycle()
    targets = ("parts", "x", "y", "z", "q")
    w.ask("A", "late", gpu=1, after=tuple(Dependency(on=each) for each in targets))
    w.cycle()
    assert w.why("late").startswith("waits for parts to succeed (2 running), x to succeed (ended)")
    assert w.why("late").endswith("y to succeed (ended) and 2 more; it joins the queue then")


def test_what_is_free_on_a_closed_machine_is_lost_though_jobs_run_there() -> None:
    """A job on a cordoned machine keeps 2 of its devices; the other 2 are out of use."""
    w = World(quota_of({"gpu": 4}, {"A": {"gpu": 1.0}}), machines_of(1, gpu=4))
    w.ask("A", "a", gpu=2)
    w.cycle()
    w.machines["p-000"] = replace(w.machines["p-000"], cordoned="repair")
    w.ask("A", "b", gpu=2)
    w.cycle()
    assert w.why("b") == (
        "waits for 2 of 4 gpu, out of service on p-000 (cordoned: repair); can start when they are"
        " back"
    )
    reasons_are_true(w)


def test_a_job_that_lacks_only_what_is_promised_is_told_so() -> None:
    """The machine is being freed for `high`, and no job holds quota that is to be given back."""
    w = World(
        quota_of({"gpu": 4}, {"A": {"gpu": 1.0}, "C": {}}, min_runtime_s=0, grace_s=10),
        machines_of(2, gpu=4, cpu=16),
    )
    w.ask("C", "guest", where=Where(hostnames=("p-000",)))
    w.ask("C", "low", priority=5, where=Where(hostnames=("p-001",)), cpu=16)
    w.cycle()
    w.ask("C", "high", priority=1, where=Where(exclusive=True), gpu=2)
    w.ask("C", "next", where=Where(exclusive=True), gpu=1)
    w.cycle()
    assert w.reason("high") == "Promised"
    assert w.reason("next") == "PlannedForOther"
    reasons_are_true(w)


def test_a_lost_job_that_starts_again_is_told_that_its_gang_will_be_stopped() -> None:
    """In that cycle, another project is promised what the rest of its gang holds."""
    quota = quota_of({"gpu": 12}, {"A": {"gpu": 0.34}, "B": {}}, min_runtime_s=600)
    world = World(quota, machines_of(2, gpu=4))
    for name, machine in (("b0", "p-000"), ("b1", "p-001")):
        world.ask("B", name, gang=("b0", "b1"), gpu=4, where=Where(hostnames=(machine,)))
    world.cycle()
    world.pass_time(10)
    world.requeue("b1")
    world.ask("A", "a", gpu=4, where=Where(hostnames=("p-000",)))
    world.cycle()
    assert world.runs("b1")
    assert world.why("b0") == world.why("b1") == "will be preempted in 9m 50s: a gets its devices"
    world.run(700)
    assert world.runs("a")


def test_of_many_planned_starts_the_one_in_the_way_is_told() -> None:
    """Each pair of machines is kept for a gang; a job that fits on one is told which gang."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}, "C": {}}
    w = World(quota_of({"gpu": 40}, shares, plan_after_s=60), machines_of(4, gpu=8))
    pairs = {"A": ("p-000", "p-001"), "B": ("p-002", "p-003")}
    for project, (machine, _) in pairs.items():
        here = Where(hostnames=(machine,))
        w.ask(project, f"{project}-runs", gpu=4, max_runtime_s=9_000, where=here)
    w.cycle()
    for project, pair in pairs.items():
        w.ask(project, f"{project}-gang", replicas=2, gpu=6, where=Where(hostnames=pair))
    w.cycle()
    w.pass_time(100)
    w.cycle()
    assert [w.reason(f"{project}-gang") for project in pairs] == ["Planned", "Planned"]
    w.ask("C", "late", gpu=4, where=Where(hostnames=("p-003",)))
    w.cycle()
    assert w.why("late").startswith("waits for B-gang, for which 12 gpu are reserved")
    reasons_are_true(w)


def test_what_goes_first_follows_the_order_in_force() -> None:
    """Under `srtf`, the gang for which a drain runs is shorter than the job that came before it."""
    w = World(
        quota_of({"gpu": 24}, {"A": {"gpu": 1.0}}, order="srtf", plan_after_s=60),
        machines_of(3, gpu=8),
    )
    w.ask("A", "endless", gpu=4)
    w.cycle()
    w.ask("A", "long", gpu=8, replicas=3, max_runtime_s=9000)
    w.pass_time(1)
    w.ask("A", "short", gpu=8, replicas=3, max_runtime_s=1000)
    w.cycle()
    w.pass_time(100)
    w.cycle()
    assert w.why("short").startswith("waits for endless to end")
    assert w.why("long").startswith("waits for short, which goes first in its project")
