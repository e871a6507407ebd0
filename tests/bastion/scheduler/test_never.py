"""A new job that can never run is refused; a limit that shrank later is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.job import Dependency, Phase
from bastion.machine import MachinePhase
from bastion.scheduler.plan import Refuse, Wait
from bastion.spec.where import Where
from tests.bastion.scheduler.histories import slices_of
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world_of() -> World:
    """Return two machines of eight devices, half for A and half for B, from one pool."""
    pools = {"p": pool_of(2, gpu=8)}
    return World(quota_of({"gpu": 16}, HALVES), machines_of(2, gpu=8), pools)


def test_a_job_larger_than_everything_is_refused_when_it_is_new() -> None:
    """
    A new job that can never run is refused at submission; one that has waited is kept, with a
    reason.
    """
    w = world_of()
    w.ask("A", "replica", gpu=9)
    w.ask("A", "gang", replicas=3, gpu=8)
    old = w.ask("A", "old", gpu=9)
    w.jobs[old] = replace(w.jobs[old], queued_at=w.now - 1000)
    w.cycle()
    assert isinstance(w.plan.verdicts["replica"], Refuse)
    assert isinstance(w.plan.verdicts["gang"], Refuse)
    assert w.reason("old") == "NeverFits"
    assert w.jobs["old"].phase is Phase.QUEUED


def waits_late(w: World, name: str, **asked: Any) -> None:
    """It waits behind everything for longer than the period in which such a job is refused."""
    w.ask("B", "ahead", replicas=2, gpu=8)
    w.cycle()
    w.ask("A", name, **asked)
    w.cycle()
    w.pass_time(1000)
    w.cycle()
    assert name in w.jobs
    assert w.reason(name) != "NeverFits"


@pytest.mark.parametrize(
    ("placement", "replicas", "told"),
    [
        (
            "best-fit",
            65,
            "its 65 replicas ask for nothing, of which a machine takes 32, and the machines it may"
            " use (2 machines of p) are too few; ask for fewer, or an admin lets p have more"
            " machines in config/bastion.toml",
        ),
        (
            "consolidated",
            80,
            "its 80 replicas ask for nothing, of which a machine takes 32, and no pool it may use"
            " (2 machines of p, 1 machine of q) takes all of them; ask for fewer, or an admin"
            ' chooses another placement than "consolidated" in the quota file',
        ),
    ],
)
def test_too_many_that_ask_for_nothing_are_refused(
    placement: str, replicas: int, told: str
) -> None:
    """A machine takes 32 of them: waiting makes no room for more than all machines take."""
    w = world_of()
    w.quota = quota_of({"gpu": 16}, HALVES, placement=placement)
    if replicas > 65:
        w.machines |= machines_of(1, "q", gpu=8)
        w.pools["q"] = pool_of(1, "q", gpu=8)
    w.ask("A", "many", replicas=replicas)
    w.cycle()
    assert isinstance(w.plan.verdicts["many"], Refuse)
    assert w.why("many") == f"can never run: {told}"
    w.ask("A", "as many as fit", replicas=64)
    w.cycle()
    assert w.runs("as many as fit")


def test_hosts_that_are_no_whole_slice_are_refused() -> None:
    """A slice is given as a whole: a filter that leaves some of its hosts leaves nothing."""
    slices = slices_of(2, hosts=2, v4=4)
    pools = {"t": pool_of(8, "t", hosts=2, v4=4)}
    w = World(quota_of({"v4": 16}, {"A": {"v4": 1.0}}), slices, pools)
    parts, whole = Where(hostnames=("t0-000", "t1-001")), Where(hostnames=("t0-000", "t0-001"))
    w.ask("A", "parts", hosts=2, v4=8, where=parts)
    w.ask("A", "more", replicas=2, hosts=2, v4=8, where=whole)
    w.ask("A", "nowhere", hosts=2, v4=8, where=Where(hostnames=("later",)))
    w.cycle()
    assert isinstance(w.plan.verdicts["parts"], Refuse)
    assert w.why("parts") == (
        "can never run: it asks for slices of 2 hosts, and hostnames=t0-000,t1-001 names no whole"
        " one; name all hosts of a slice, or none: bastion machines shows them"
    )
    assert isinstance(w.plan.verdicts["more"], Refuse)
    assert "(2 machines of t) have room for 1 of them" in w.why("more")
    assert isinstance(w.plan.verdicts["nowhere"], Wait)  # a machine of that name may come
    w.ask("A", "whole", hosts=2, v4=8, where=whole)
    w.cycle()
    assert w.runs("whole")


def test_totals_that_were_cut_are_named() -> None:
    """It waited while the totals were lowered; it runs in its turn once they are raised."""
    w = world_of()
    waits_late(w, "a", replicas=2, gpu=8)
    before = w.quota
    w.quota = quota_of({"gpu": 8}, HALVES)
    w.cycle()
    assert w.why("a") == (
        "can never run: it asks for 16 gpu, and the total in the quota file is 8 gpu; ask for"
        " less, or an admin raises the total"
    )
    w.quota = before
    w.end("ahead")
    w.cycle()
    assert w.runs("a")


def test_a_pool_that_was_made_smaller_is_named() -> None:
    """Fewer, smaller or no machines: the reason names the pool, and undoing the change helps."""
    w = World(
        quota_of({"gpu": 16}, HALVES), {}, {"p": pool_of(2, gpu=8), "q": pool_of(1, "q", gpu=1)}
    )
    waits_late(w, "a", replicas=4, where=Where(pool="p"), gpu=4)
    w.end("ahead")
    w.machines.clear()
    before = dict(w.pools)
    never = "can never run: "
    admin = "an admin lets p have more machines in config/bastion.toml"
    larger = "an admin gives p larger machines in config/bastion.toml"
    told = (
        (
            pool_of(1, gpu=8),
            f"{never}it asks for 16 gpu in 4 replicas, and all machines it may use (1 machine of"
            f" p) have room for 2 of them; ask for less, or {admin}",
        ),
        (
            pool_of(8, gpu=2),
            f"{never}one replica asks for 4 gpu, and the largest machine it may use (8 machines of"
            f" p) has 2 gpu; ask for less, spread it over more replicas, or {larger}",
        ),
        (
            pool_of(0, gpu=8),
            "waits for a machine with pool=p, which none of 1 machine has; submit it again with"
            " another filter, or with none; p can create none until an admin raises max_machines in"
            " config/bastion.toml",
        ),
    )
    for pool, words in told:
        w.pools["p"] = pool
        w.cycle()
        assert w.why("a") == words
    w.pools = before
    w.cycle()
    assert w.runs("a")


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ({"cordoned": "xid 79"}, "cordoned: xid 79"),
        ({"draining": True}, "draining"),
        ({"draining": True, "drained_at": 1_000_900.0, "cordoned": "disk"}, "drained: disk"),
        ({"phase": MachinePhase.SILENT, "heard_at": 1_000_700.0}, "silent for 5m"),
        ({"phase": MachinePhase.SILENT}, "silent"),
    ],
)
def test_a_machine_of_a_fixed_pool_that_is_lost_is_named(lost: dict[str, Any], why: str) -> None:
    """It can run once the machine is back: the reason says what is wrong with the machine."""
    w = world_of()
    waits_late(w, "a", replicas=2, gpu=8)
    w.end("ahead")
    whole = w.machines["p-001"]
    w.machines["p-001"] = replace(whole, **lost)
    w.cycle()
    assert w.why("a") == (
        f"waits for 8 of 16 gpu, out of service on p-001 ({why}); can start when they are back"
    )
    w.machines["p-001"] = whole
    w.cycle()
    assert w.runs("a")


@pytest.mark.parametrize(
    ("borrows", "told"),
    [
        (
            True,
            "A does not borrow; charge it to another project, or an admin changes"
            " project_options.A.borrow, line 13",
        ),
        (False, "it may not borrow; submit it without --no_borrow"),
    ],
)
def test_what_no_share_holds_and_never_borrows_is_told_so(borrows: bool, told: str) -> None:
    """A later quota file limits CPUs alone; with a file that lets the job borrow, it starts."""
    options = {"A": "borrow = false"} if borrows else {}
    machines = machines_of(1, gpu=8, cpu=8)
    w = World(quota_of({"gpu": 8}, HALVES, options=options), machines)
    name = w.ask("A", cpu=4)
    request = replace(w.jobs[name].request, borrow=borrows)
    w.jobs[name] = replace(w.jobs[name], queued_at=w.now - 1000, request=request)
    w.cycle()
    verdict = w.plan.verdicts[name]
    assert isinstance(verdict, Wait)
    assert verdict.reason.words(w.now) == (
        f"can never run: it asks for nothing under quota, so it can only borrow, and {told}"
    )
    w.quota = quota_of({"gpu": 8}, HALVES)
    w.jobs[name] = replace(w.jobs[name], request=replace(request, borrow=True))
    w.cycle()
    assert w.runs(name)


@pytest.mark.parametrize(
    ("borrows", "told"),
    [
        (
            True,
            "more than 2 gpu + 4 cpu: with borrow = false it has only its share of 4 cpu;"
            " with borrow = false it has only its share of 2 gpu; ask for less, or an admin"
            " changes"
            " project_options.A.borrow, line 14",
        ),
        (
            False,
            "more than 2 gpu + 4 cpu: it does not borrow, and the share of A is 4 cpu; it does not"
            " borrow, and the share of A is 2 gpu; ask for less, or an admin changes"
            " project_resources.A.cpu, line 11 and project_resources.A.gpu, line 10",
        ),
    ],
)
def test_what_never_borrows_is_told_what_alone_would_let_it_start(borrows: bool, told: str) -> None:
    """It makes no difference that its project does not borrow, and no line is named twice."""
    shares = {"A": {"gpu": 0.25, "cpu": 0.25}, "B": {}}
    quota = quota_of({"gpu": 8, "cpu": 16}, shares, options={"A": "borrow = false"})
    w = World(quota, machines_of(1, gpu=8, cpu=16))
    name = w.ask("A", gpu=4, cpu=8)
    request = replace(w.jobs[name].request, borrow=borrows)
    w.jobs[name] = replace(w.jobs[name], queued_at=w.now - 1000, request=request)
    w.cycle()
    assert w.why(name).endswith(told)


def test_a_machine_that_is_deleted_is_not_waited_for() -> None:
    """Its replacement by the pool counts; if the pool may create none, the job can never run."""
    w = world_of()
    waits_late(w, "a", replicas=2, gpu=8)
    w.end("ahead")
    w.machines["p-001"] = replace(w.machines["p-001"], phase=MachinePhase.DELETING)
    w.cycle()
    assert "out of service on p-001 (being deleted)" in w.why("a")
    w.pools["p"] = pool_of(1, gpu=8)
    w.cycle()
    assert "(1 machine of p) have room for 1 of them" in w.why("a")
    w.pools["p"] = pool_of(2, gpu=8)
    del w.machines["p-001"]
    w.cycle()
    assert w.runs("a")


def test_a_job_held_or_waiting_for_others_is_told_that_it_can_never_run() -> None:
    """It is refused when new, as if it were queued; later the reason is added to the others."""
    w = world_of()
    waits = (Dependency(on="first"),)
    w.ask("A", "first", gpu=1)
    for name, after in (("held", ()), ("late", waits), ("new", waits)):
        w.ask("A", name, gpu=9, after=after)
    w.jobs["held"] = replace(w.jobs["held"], held="u", queued_at=w.now - 1000)
    w.jobs["late"] = replace(w.jobs["late"], queued_at=w.now - 1000)
    w.turn()
    never = (
        "it can never run: one replica asks for 9 gpu, and the largest machine it may use (2"
        " machines of p) has 8 gpu; ask for less, spread it over more replicas, or an admin gives p"
        " larger machines in config/bastion.toml"
    )
    assert w.why("held") == f"held by u, and {never}"
    assert w.why("late") == f"waits for first to succeed (queued), and {never}"
    refused = w.plan.verdicts["new"]
    assert isinstance(refused, Refuse)
    assert refused.reason.kind == "NeverFits"


def test_a_slice_where_machines_stand_alone_is_refused_when_it_is_new() -> None:
    """A shape that no pool has is as permanent an obstacle as a size that no pool has."""
    w = world_of()
    w.ask("A", "slices", gpu=2, hosts=4)
    old = w.ask("A", "old", gpu=2, hosts=4)
    w.jobs[old] = replace(w.jobs[old], queued_at=w.now - 1000)
    w.cycle()
    assert isinstance(w.plan.verdicts["slices"], Refuse)
    assert w.why("old").startswith("can never run: it asks for slices of 4 hosts, and none of 2")
