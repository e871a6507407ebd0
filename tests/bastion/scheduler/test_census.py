"""For a job that must not wait, the report says for each machine why it does not start there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bastion.machine import MachinePhase
from bastion.scheduler.explain.census import MAX_MACHINES
from bastion.scheduler.machine_report import MachineReport
from bastion.scheduler.plan import Refuse
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.spec.where import Where
from quota import Amounts
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world(count: int, **scheduler: Any) -> World:
    """Return `count` machines of eight devices, in halves."""
    quota = quota_of({"gpu": 8 * max(count, 1)}, HALVES, min_runtime_s=0, **scheduler)
    return World(quota, machines_of(count, gpu=8))


def met(w: World, name: str) -> dict[str, MachineReport]:
    """Return what a refused job met, by machine."""
    verdict = w.verdict(name)
    assert isinstance(verdict, Refuse)
    return {each.machine: each for each in verdict.machines}


def whys(w: World, name: str) -> dict[str, str]:
    """Return the reasons, by machine."""
    return {machine: each.why_not for machine, each in met(w, name).items()}


def refused(w: World, name: str = "now", **asked: Any) -> str:
    """Submit a job that must not wait, and decide."""
    w.ask("A", name, fail_when_busy=True, **asked)
    w.cycle()
    return name


def test_what_is_free_is_told_beside_what_was_asked() -> None:
    """The best candidate is listed first; a machine with room says how many replicas fit."""
    w = world(2)
    w.ask("A", "six", gpu=6)
    w.cycle()
    w.ask("A", "eight", gpu=8, replicas=1)
    name = refused(w, gpu=4, replicas=3)
    verdict = w.verdict(name)
    assert isinstance(verdict, Refuse)
    asked = Amounts({"gpu": 4})
    assert [(each.job, each.asked) for each in verdict.machines] == [("now", asked)] * 2
    assert {each.machine: (each.free["gpu"], each.fits) for each in verdict.machines} in (
        {"p-000": (2, 0), "p-001": (0, 0)},
        {"p-000": (0, 0), "p-001": (2, 0)},
        {"p-000": (2, 0), "p-001": (8, 2)},
    )
    assert any("short by 2 gpu" in why for why in whys(w, name).values())


def test_a_gang_that_almost_fits_is_told_how_many_do() -> None:
    """Room for two of three replicas is not listed as a reason of that machine."""
    w = world(1)
    found = met(w, refused(w, gpu=4, replicas=3))
    assert (found["p-000"].fits, found["p-000"].why_not) == (2, "")


def test_machines_out_of_use_say_why() -> None:
    """Machines are listed as cordoned, draining, being deleted, or with unhealthy devices."""
    w = world(6)
    changes: list[dict[str, object]] = [
        {"cordoned": "xid 79"},
        {"draining": True},
        {"phase": MachinePhase.DELETING},
        {"bad_devices": {"gpu": (0, 1)}},
        {"resources": Amounts({"gpu": 4})},
        {"draining": True, "drained_at": 1.0, "cordoned": "disk"},
    ]
    for name, change in zip(list(w.machines), changes):
        w.machines[name] = replace(w.machines[name], **change)  # type: ignore[arg-type]
    assert whys(w, refused(w, gpu=8)) == {
        "p-000": "cordoned: xid 79",
        "p-001": "draining",
        "p-002": "is deleting",
        "p-003": "short by 2 gpu; 2 gpu out of order",
        "p-004": "too small: has 4 gpu at all",
        "p-005": "drained: disk",
    }


def test_the_filter_that_leaves_a_machine_out_is_named() -> None:
    """The first of several filters is named."""
    w = world(2)
    w.machines["p-001"] = replace(w.machines["p-001"], labels={"shard": "rl"})
    name = refused(w, gpu=16, where=Where(shard="rl", hostnames=("x",)))
    assert whys(w, name) == {"p-000": "has not shard=rl", "p-001": "has not hostnames=x"}


def test_what_is_kept_for_others_is_said() -> None:
    """Devices under a promise are not free, and the gang for which they are kept is named."""
    w = world(1, grace_s=30)
    w.ask("A", "lent", gpu=4)
    w.ask("A", "more", gpu=4)
    w.cycle()
    w.ask("B", "owner", gpu=4)
    w.cycle()
    found = whys(w, refused(w, gpu=4))
    assert found["p-000"] == "short by 4 gpu; some of it is kept for owner"


def test_whole_machines_must_be_empty() -> None:
    """An exclusive job sees that a machine is in use; a later job sees that one job has all."""
    w = world(1)
    w.ask("A", "one", gpu=1)
    w.cycle()
    found = whys(w, refused(w, gpu=1, where=Where(exclusive=True)))
    assert found == {"p-000": "in use, and a replica takes whole machines"}
    w.end("one")
    w.ask("A", "all", gpu=1, where=Where(exclusive=True))
    w.cycle()
    assert whys(w, refused(w, "late", gpu=1)) == {"p-000": "a job has all of it"}


def test_slices_are_given_as_a_whole() -> None:
    """A single machine is no slice, and all machines of a slice in use say so."""
    w = world(1)
    w.pools["s"] = pool_of(2, "s", hosts=2, gpu=4)
    for n in range(2):
        (made,) = machines_of(1, "s", gpu=4).values()
        w.machines[f"s-h{n}"] = replace(made, name=f"s-h{n}", slice="s-0")
    w.quota = quota_of({"gpu": 16}, HALVES)
    w.ask("A", "taken", gpu=8, hosts=2)
    w.cycle()
    assert w.runs("taken")
    found = whys(w, refused(w, gpu=8, hosts=2))
    assert found == {
        "p-000": "stands alone; a replica takes a slice of 2 machines",
        "s-h0": "its slice is not whole and free",
        "s-h1": "its slice is not whole and free",
    }
    w.end("taken")
    assert whys(w, refused(w, "big", gpu=9))["s-h0"] == (
        "belongs to a slice, which is given as a whole"
    )


def test_what_a_pool_could_make_is_a_line() -> None:
    """The line says what the new machine would hold, or why it cannot be created now."""
    quota = quota_of({"gpu": 16}, HALVES)
    w = World(quota, {}, {"p": pool_of(2, gpu=8)})
    w.extra["stockouts"] = {"p": ProviderStockout(pool="p", until=w.now + 60)}
    found = whys(w, refused(w, gpu=8))
    assert found == {"2 that p could create": "the provider has none; next try in 1m"}
    found = whys(w, refused(w, "wide", gpu=9))
    assert found == {"2 that p could create": "too small: has 8 gpu at all"}
    found = whys(w, refused(w, "else", gpu=1, where=Where(shard="x")))
    assert found == {"2 that p could create": "its machines do not match every filter"}
    del w.extra["stockouts"]
    held = met(w, refused(w, "many", gpu=8, replicas=3))["2 that p could create"]
    assert (held.fits, held.free, held.why_not) == (2, Amounts({"gpu": 16}), "")


def test_a_large_pool_is_told_in_part() -> None:
    """The report lists the best candidates, and counts the others in one line."""
    w = world(MAX_MACHINES + 5)
    for name in list(w.machines)[3:]:
        w.machines[name] = replace(w.machines[name], cordoned="broken")
    name = refused(w, gpu=8, replicas=4)
    verdict = w.verdict(name)
    assert isinstance(verdict, Refuse)
    assert [each.fits for each in verdict.machines[:3]] == [1, 1, 1]
    assert len(verdict.machines) == MAX_MACHINES + 1
    assert verdict.machines[-1].machine == "5 more"


def test_jobs_of_a_gang_that_ask_the_same_are_told_once() -> None:
    """Each different job of the gang has its own lines, so the report stays within bounds."""
    w = world(1)
    gang = ("a", "b", "c")
    for name, gpu in zip(gang, (4, 4, 2)):
        w.ask("A", name, gang=gang, fail_when_busy=True, gpu=gpu)
    w.cycle()
    assert [len(met(w, name)) for name in gang] == [1, 0, 1]


def test_a_job_that_may_wait_is_refused_without_a_report_of_machines() -> None:
    """Only a job that has to start immediately gets the report of machines."""
    w = world(1)
    w.ask("A", "never", gpu=80)
    w.cycle()
    verdict = w.plan.verdicts["never"]
    assert isinstance(verdict, Refuse)
    assert not verdict.machines
