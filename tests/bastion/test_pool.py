"""The life of machines: how a pool creates, keeps and deletes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.machine import Machine, MachinePhase, Pool
from bastion.pool import (
    PERMIT_SLACK_S,
    SILENT_S,
    Create,
    Delete,
    Seen,
    machine_actions,
    reconcile,
)
from quota import Amounts

POOL = Pool(
    name="gpu",
    provider="fake",
    resources=Amounts({"h100": 8}),
    max_machines=4,
    idle_timeout_s=60.0,
    labels={"cluster": "c"},
)
READY = Machine(name="gpu-1-0", pool="gpu", phase=MachinePhase.READY, created_at=-1000.0)
RUNS = Seen(name="gpu-1-0", pool="gpu", runs=True, gone=False)


def turn(
    *machines: Machine,
    listing: tuple[Seen, ...] | None = None,
    used: Collection[str] = (),
    now: float = 0.0,
    pool: Pool = POOL,
    seq: int = 5,
    listed_since: Mapping[str, float] | None = None,
) -> dict[str, Machine]:
    """Return the machines after one turn."""
    listings = {} if listing is None else {pool.name: listing}
    reconciled = reconcile(
        {m.name: m for m in machines},
        {pool.name: pool},
        listings,
        used,
        now,
        seq=seq,
        listed_since=listed_since,
    )
    assert not reconciled.stale
    return dict(reconciled.machines)


def act(*machines: Machine, listing: tuple[Seen, ...] = (), seq: int = 5) -> list[object]:
    """Return the creates and deletes that are due."""
    listings = {"gpu": listing}
    return list(machine_actions({m.name: m for m in machines}, listings, seq=seq))


def test_a_cordoned_machine_is_replaced_where_there_is_a_minimum() -> None:
    """It does not count, within the maximum of the pool; it is not deleted for that."""
    least = replace(POOL, min_machines=2, max_machines=2, idle_timeout_s=1e9)
    cordoned = replace(READY, cordoned="xid 79")
    assert len(turn(cordoned, pool=replace(least, max_machines=3))) == 3
    assert len(turn(cordoned, pool=least)) == 2
    assert turn(cordoned, replace(READY, name="gpu-1-1"), pool=least).keys() == {
        "gpu-1-0",
        "gpu-1-1",
    }


def test_machines_that_cannot_be_deleted_take_the_place_of_new_ones() -> None:
    """Otherwise a pool with a minimum would create and pay for more after each failure."""
    least = replace(POOL, min_machines=2, max_machines=2)
    going = replace(READY, phase=MachinePhase.DELETING, made_at=-900.0)
    assert turn(going, listing=(RUNS,), pool=least).keys() == {"gpu-1-0", "gpu-5-0"}
    assert len(turn(going, listing=(RUNS,), pool=replace(least, max_machines=3))) == 3
    assert len(turn(replace(going, made_at=None), pool=least)) == 3, "nothing was made of it"
    gone = turn(replace(going, missing=1), listing=(), pool=least)
    assert gone.keys() == {"gpu-5-0", "gpu-5-1"}


def test_a_minimum_of_slices_is_made_whole() -> None:
    """Every slice has all of its hosts, is one batch, and has its own name."""
    made = turn(pool=replace(POOL, hosts=2, min_machines=4, max_machines=5))
    assert sorted(made) == ["gpu-5-0-h0", "gpu-5-0-h1", "gpu-5-1-h0", "gpu-5-1-h1"]
    assert {each.slice for each in made.values()} == {"gpu-5-0", "gpu-5-1"}
    assert all(each.batch == each.slice and each.hosts == 2 for each in made.values())


def test_a_pool_keeps_its_minimum() -> None:
    """`min_machines` of a pool are created, named by the commit that allocates them."""
    made = turn(pool=replace(POOL, min_machines=2))
    assert sorted(made) == ["gpu-5-0", "gpu-5-1"]
    assert made["gpu-5-0"].labels == {"cluster": "c"}
    assert act(*made.values()) == [Create(machine="gpu-5-0"), Create(machine="gpu-5-1")]
    again = turn(*made.values(), pool=replace(POOL, min_machines=3), seq=6)
    assert sorted(again) == ["gpu-5-0", "gpu-5-1", "gpu-6-0"]


def test_a_warm_machine_is_kept_for_a_while() -> None:
    """An idle machine is kept for the pool's idle timeout, then deleted."""
    idle = turn(READY, now=100.0)["gpu-1-0"]
    assert idle.idle_since == 100.0
    assert turn(idle, now=159.0)["gpu-1-0"].phase is MachinePhase.READY
    assert turn(idle, now=160.0)["gpu-1-0"].phase is MachinePhase.DELETING


def test_use_ends_idleness() -> None:
    """A machine that an attempt needs is not idle, however long it was."""
    idle = replace(READY, idle_since=0.0)
    used = turn(idle, used=["gpu-1-0"], now=1e6)["gpu-1-0"]
    assert used.idle_since is None
    assert used.phase is MachinePhase.READY


def test_idle_machines_go_longest_idle_first() -> None:
    """Of several idle machines, the longest idle is deleted first; `min_machines` are kept."""
    idle = [replace(READY, name=f"gpu-1-{i}", idle_since=10.0 - i) for i in range(3)]
    after = turn(*idle, now=1000.0)
    assert all(m.phase is MachinePhase.DELETING for m in after.values())
    two = turn(*idle, now=1000.0, pool=replace(POOL, min_machines=2))
    assert [m.name for m in two.values() if m.phase is MachinePhase.DELETING] == ["gpu-1-2"]
    kept = turn(*idle, now=1000.0, pool=replace(POOL, min_machines=3))
    assert all(m.phase is MachinePhase.READY for m in kept.values())


def test_deleting_is_final() -> None:
    """A machine that is deleting stays so, even if an attempt could use it again."""
    doomed = replace(READY, phase=MachinePhase.DELETING)
    after = turn(doomed, listing=(RUNS,), used=["gpu-1-0"])["gpu-1-0"]
    assert after.phase is MachinePhase.DELETING
    assert act(after, listing=(RUNS,)) == [Delete(machine="gpu-1-0", pool="gpu")]
    assert act(after) == [Delete(machine="gpu-1-0", pool="gpu")]
    gone = Seen(name="gpu-1-0", pool="gpu", runs=False, gone=True)
    assert act(after, listing=(gone,)) == []


def test_two_listings_must_agree() -> None:
    """A machine is gone after two consecutive lists without it; one with it resets the count."""
    once = turn(READY, listing=())["gpu-1-0"]
    assert once.missing == 1
    back = turn(once, listing=(RUNS,))["gpu-1-0"]
    assert back.missing == 0
    assert "gpu-1-0" not in turn(once, listing=())
    assert turn(once)["gpu-1-0"].missing == 1, "a turn without a listing says nothing"


def test_a_new_machine_may_be_missing_from_a_list_that_lags() -> None:
    """A machine that greeted before any list showed it is not considered gone for a while."""
    young = replace(READY, created_at=1000.0)
    kept = turn(young, listing=(), now=1300.0)["gpu-1-0"]
    assert kept.missing == 0
    assert turn(kept, listing=(), now=1301.0)["gpu-1-0"].missing == 1
    shown = turn(young, listing=(RUNS,), now=1010.0)["gpu-1-0"]
    assert turn(shown, listing=(), now=1020.0)["gpu-1-0"].missing == 1


def test_a_machine_listed_as_gone_counts_as_missing() -> None:
    """A list that shows a machine as gone counts like one without it."""
    gone = Seen(name="gpu-1-0", pool="gpu", runs=False, gone=True)
    once = turn(READY, listing=(gone,))["gpu-1-0"]
    assert "gpu-1-0" not in turn(once, listing=(gone,))


def test_a_creating_machine_is_not_missing() -> None:
    """A machine that is being created and not listed yet is created again, not removed."""
    coming = replace(READY, phase=MachinePhase.CREATING, created_at=0.0)
    for _ in range(5):
        coming = turn(coming, listing=())["gpu-1-0"]
    assert coming.missing == 0
    assert act(coming) == [Create(machine="gpu-1-0")]


def test_a_name_is_for_one_create() -> None:
    """A machine that was ready and is no longer listed is not created again under its name."""
    assert act(READY) == []


def test_a_machine_without_its_agent_is_started() -> None:
    """Its create is repeated, which starts the agent."""
    stopped = Seen(name="gpu-1-0", pool="gpu", runs=False, gone=False)
    assert act(READY, listing=(stopped,)) == [Create(machine="gpu-1-0")]
    assert act(READY, listing=(RUNS,)) == []


def test_an_orphan_of_an_older_commit_is_deleted() -> None:
    """A machine of a superseded commit that is not in root is an orphan, and deleted."""
    orphan = Seen(name="gpu-3-0", pool="gpu", runs=True, gone=False)
    assert act(listing=(orphan,), seq=5) == [Delete(machine="gpu-3-0", pool="gpu")]


def test_what_is_left_of_a_machine_is_deleted_once_root_has_let_go_of_it() -> None:
    """For example, the request for a preempted slice; other gone machines leave nothing."""
    gone = replace(RUNS, runs=False, gone=True)
    rest = replace(gone, leaves_rest=True)
    assert act(listing=(gone,)) == []
    assert act(listing=(rest,)) == [Delete(machine="gpu-1-0", pool="gpu")]
    assert act(READY, listing=(rest,)) == []
    assert act(listing=(rest,), seq=0) == []


def test_a_machine_of_a_newer_commit_shows_a_stale_root() -> None:
    """A machine that only a newer commit can have allocated is left alone: our root is stale."""
    newer = Seen(name="gpu-9-0", pool="gpu", runs=True, gone=False)
    assert act(listing=(newer,), seq=5) == []
    reconciled = reconcile({}, {"gpu": POOL}, {"gpu": (newer,)}, (), 0.0, seq=6)
    assert reconciled.stale == "gpu-9-0"


def test_a_foreign_machine_is_left_alone() -> None:
    """A listed machine whose name no commit allocates is not deleted and shows no stale root."""
    other = Seen(name="gpu-of-ada", pool="gpu", runs=True, gone=False)
    assert act(listing=(other,), seq=5) == []
    assert not reconcile({}, {"gpu": POOL}, {"gpu": (other,)}, (), 0.0, seq=6).stale


def test_a_pool_that_is_not_configured_keeps_its_machines() -> None:
    """A pool that left the configuration loses no machine: it may return at any time."""
    for in_use in (["gpu-1-0"], []):
        kept = reconcile({"gpu-1-0": READY}, {}, {}, in_use, 0.0, seq=5).machines
        later = reconcile(kept, {}, {}, in_use, 1e6, seq=6).machines
        assert later["gpu-1-0"].phase is MachinePhase.READY


def test_a_pool_that_may_have_no_machine_loses_its_machines() -> None:
    """With `max_machines = 0` a machine is deleted as soon as it is idle."""
    none = replace(POOL, max_machines=0)
    used = turn(READY, used=["gpu-1-0"], now=10.0, pool=none)["gpu-1-0"]
    assert used.phase is MachinePhase.READY
    idle = turn(used, now=10.0, pool=none)["gpu-1-0"]
    assert idle.phase is MachinePhase.DELETING


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 200.0),
            st.one_of(st.none(), st.sets(st.integers(0, 5))),
            st.sets(st.integers(0, 5)),
        ),
        max_size=12,
    ),
    st.integers(0, 3),
)
def test_machines_in_use_are_never_deleted(
    turns: list[tuple[float, set[int] | None, set[int]]], least: int
) -> None:
    """A machine that an attempt uses is never deleted, whatever is listed at whatever time."""
    pool = replace(POOL, min_machines=least)
    names = [f"gpu-1-{i}" for i in range(6)]
    machines = {name: replace(READY, name=name) for name in names}
    now, created = 0.0, set(names)
    for seq, (passed, listed, used) in enumerate(turns, start=2):
        now += passed
        wanted = {names[i] for i in used} & machines.keys()
        listings = {}
        if listed is not None:
            listings["gpu"] = tuple(replace(RUNS, name=names[i]) for i in listed)
        before = machines
        machines = dict(reconcile(machines, {"gpu": pool}, listings, wanted, now, seq=seq).machines)
        for name, machine in before.items():
            if machine.phase is MachinePhase.DELETING and name in machines:
                assert machines[name].phase is MachinePhase.DELETING
            elif name in wanted and name in machines:
                assert machines[name].phase is machine.phase
        assert not (machines.keys() - before.keys()) & created, "no name twice"
        created |= machines.keys()


def test_a_machine_that_never_registers_is_deleted() -> None:
    """A machine whose boot takes too long is deleted, even with a waiting attempt."""
    late = replace(READY, phase=MachinePhase.CREATING, life=0, created_at=0.0, idle_since=None)
    pool = replace(POOL, boot_s=300.0)
    for now, phase in ((1500.0, MachinePhase.CREATING), (1501.0, MachinePhase.DELETING)):
        done = reconcile({late.name: late}, {pool.name: pool}, {}, {late.name}, now, seq=9)
        assert done.machines[late.name].phase is phase


OWN = replace(
    POOL,
    max_machines=2,
    min_machines=2,
    zones=("one", "two"),
    machines_per_zone=1,
    permit_s=600.0,
)
"""A pool of two own hosts: no provider can say that one is gone."""


def test_each_host_gets_one_machine() -> None:
    """Machines are spread over the hosts of a pool, one per host."""
    made = turn(pool=OWN)
    assert sorted(machine.zone for machine in made.values()) == ["one", "two"]
    assert all(machine.permit_s == 600.0 for machine in made.values())
    first, second = made.values()
    leaving = replace(first, phase=MachinePhase.DELETING)
    assert len(turn(leaving, second, pool=OWN, seq=6)) == 2
    assert {m.zone for m in turn(second, pool=OWN, seq=6).values()} == {"one", "two"}


def test_a_host_that_no_listing_shows_is_not_gone() -> None:
    """A machine that only a permit proves off stays, however many lists omit it."""
    machine = replace(READY, permit_s=600.0, zone="one", heard_at=0.0)
    for _ in range(5):
        left = turn(machine, listing=(), used=[machine.name], now=60.0, pool=OWN)
        assert left[machine.name] == machine
    gone = replace(RUNS, runs=False, gone=True)
    once = turn(machine, listing=(gone,), used=[machine.name], pool=OWN)[machine.name]
    assert machine.name not in turn(once, listing=(gone,), used=[machine.name], pool=OWN)


def test_a_silent_host_gets_nothing_and_is_given_up_after_its_permit() -> None:
    """After four missed heartbeats it gets no more jobs; once its permit expires, it is off."""
    machine = replace(READY, permit_s=600.0, zone="one", heard_at=1000.0)
    for late_s, phase in (
        (SILENT_S, MachinePhase.READY),
        (SILENT_S + 1, MachinePhase.SILENT),
        (600.0 + PERMIT_SLACK_S, MachinePhase.SILENT),
    ):
        moved = turn(machine, used=[machine.name], now=1000.0 + late_s, pool=OWN)[machine.name]
        assert moved.phase is phase
    now = 1000.0 + 600.0 + PERMIT_SLACK_S + 1
    assert machine.name not in turn(machine, used=[machine.name], now=now, pool=OWN)
    vouched = replace(machine, permit_s=0.0)
    assert turn(vouched, used=[machine.name], now=1e9)[machine.name].phase is MachinePhase.READY


def test_what_its_provider_queues_is_not_silent() -> None:
    """A permit counts from the creation of the machine, however long it had been queued."""
    queue = replace(POOL, permit_s=600.0, boot_s=1e6)
    queued = replace(COMING, permit_s=600.0, created_at=0.0, waits="Slurm: Resources")
    shown = replace(seen_of(queued), waits=queued.waits)
    for listing in ((shown,), None):
        assert turn(queued, listing=listing, used=[queued.name], now=9000.0, pool=queue) == {
            queued.name: queued
        }
    leaving = replace(queued, phase=MachinePhase.DELETING)
    assert queued.name not in turn(leaving, listing=(), now=9000.0, pool=queue)
    begun = turn(queued, listing=(seen_of(queued),), used=[queued.name], now=9000.0, pool=queue)
    assert begun[queued.name].made_at == 9000.0
    come = replace(begun[queued.name], phase=MachinePhase.READY, life=1)
    for now, is_kept in ((9600.0, True), (9601.0 + PERMIT_SLACK_S, False)):
        left = turn(come, used=[queued.name], now=now, pool=queue)
        assert (queued.name in left) is is_kept


def test_a_long_boot_is_waited_for_though_its_permit_would_be_over() -> None:
    """An agent that has not come has no permit; it is given up, with the reason, by its boot."""
    slow = replace(POOL, permit_s=600.0, boot_s=300.0)
    made = replace(COMING, permit_s=600.0, made_at=0.0, stuck="no bucket")
    for now, given_up in (
        (1500.0, {}),
        (
            1501.0,
            {made.name: f"the agent of {made.name} has not reported within 25m 1s: no bucket"},
        ),
    ):
        done = reconcile({made.name: made}, {"gpu": slow}, {}, {made.name}, now, seq=5)
        assert done.given_up == given_up
        assert done.lifeless == given_up.keys()
        assert bool(given_up) or done.machines[made.name] == made


HOSTS = tuple(
    replace(READY, name=f"tpu-1-0-h{i}", pool="tpu", slice="tpu-1-0", hosts=2, idle_since=0.0)
    for i in range(2)
)
TPU = replace(POOL, name="tpu", hosts=2, idle_timeout_s=60.0)


def seen_of(machine: Machine, **more: Any) -> Seen:
    """Return a list with the running `machine`."""
    return Seen(name=machine.name, pool=machine.pool, runs=True, gone=False, **more)


def test_a_slice_is_idle_only_as_a_whole() -> None:
    """A slice is deleted as a whole when all of its hosts are idle for long enough."""
    one_used = turn(*HOSTS, used=[HOSTS[0].name], now=100.0, pool=TPU)
    assert all(m.phase is MachinePhase.READY for m in one_used.values())
    idle = turn(*HOSTS, now=100.0, pool=TPU)
    assert [m.phase for m in idle.values()] == [MachinePhase.DELETING] * 2


def test_a_slice_that_lost_a_host_goes_once_nothing_uses_it() -> None:
    """A lost host ends its slice: the others are deleted after their jobs have ended."""
    once = turn(*HOSTS, listing=(seen_of(HOSTS[1]),), used=[h.name for h in HOSTS], pool=TPU)
    left = turn(*once.values(), listing=(seen_of(HOSTS[1]),), used=[HOSTS[1].name], pool=TPU)
    assert [(m.name, m.phase) for m in left.values()] == [(HOSTS[1].name, MachinePhase.READY)]
    free = turn(*left.values(), pool=TPU)
    assert free[HOSTS[1].name].phase is MachinePhase.DELETING


def test_no_host_of_a_slice_is_deleted_before_all_may_be() -> None:
    """A provider deletes a slice whole, so the delete waits for the last host in use."""
    doomed = replace(HOSTS[0], phase=MachinePhase.DELETING)
    half = {m.name: m for m in (doomed, HOSTS[1])}
    assert machine_actions(half, {}, seq=5) == ()
    whole = {m.name: replace(m, phase=MachinePhase.DELETING) for m in HOSTS}
    assert len(machine_actions(whole, {}, seq=5)) == 2


def test_a_lost_host_of_a_slice_in_use_is_no_orphan() -> None:
    """A given-up host that is listed again waits for the end of its slice."""
    listed = tuple(seen_of(host) for host in HOSTS)
    assert machine_actions({HOSTS[1].name: HOSTS[1]}, {"tpu": listed}, seq=5) == ()
    assert len(machine_actions({}, {"tpu": listed}, seq=5)) == 2


COMING = replace(READY, phase=MachinePhase.CREATING, created_at=0.0)


def test_a_machine_that_is_not_made_leaves_at_once() -> None:
    """A machine that its provider refused is dropped; one that was listed is deleted."""
    unmade = {COMING.name: "zone a is sold out"}
    machines = {COMING.name: COMING}
    dropped = reconcile(machines, {"gpu": POOL}, {}, (), 0.0, seq=5, unmade=unmade)
    assert (dict(dropped.machines), dropped.given_up) == ({}, unmade)
    listings = {"gpu": (RUNS,)}
    there = reconcile(machines, {"gpu": POOL}, listings, (), 0.0, seq=5, unmade=unmade)
    assert there.machines[COMING.name].phase is MachinePhase.DELETING
    assert there.given_up == unmade


def test_a_machine_that_may_be_made_is_looked_for() -> None:
    """If an earlier create may have been carried out, lists of five minutes must lack it first."""
    unmade = {COMING.name: "zone a is sold out"}
    machines = {COMING.name: COMING}
    given = reconcile(
        machines,
        {"gpu": POOL},
        {"gpu": ()},
        (),
        500.0,
        seq=5,
        unmade=unmade,
        in_doubt=unmade.keys(),
    )
    assert given.given_up == unmade
    (kept,) = given.machines.values()
    assert kept.phase is MachinePhase.DELETING
    assert act(kept) == [Delete(machine=COMING.name, pool="gpu")]
    kept = turn(kept, listing=(), now=799.0)[COMING.name]
    once = turn(kept, listing=(), now=800.0)[COMING.name]
    assert turn(once, listing=(), now=802.0) == {}
    assert turn(once, listing=(RUNS,), now=802.0)[COMING.name].missing == 0


def test_an_unlisted_machine_is_looked_for_from_its_end() -> None:
    """Its last create may be as young as its end: a boot that is overdue proves nothing."""
    given = turn(COMING, listing=(), now=601.0)[COMING.name]
    assert given.phase is MachinePhase.DELETING
    for now in (602.0, 750.0, 900.0):
        given = turn(given, listing=(), now=now)[COMING.name]
    once = turn(given, listing=(), now=901.0)[COMING.name]
    assert turn(once, listing=(), now=902.0) == {}


def test_a_machine_that_greeted_is_not_given_up() -> None:
    """A refusal after the greeting, such as of a repeated call, has no effect."""
    greeted = replace(READY, life=1)
    unmade = {greeted.name: "zone a is sold out"}
    kept = reconcile({greeted.name: greeted}, {"gpu": POOL}, {}, (), 0.0, seq=5, unmade=unmade)
    assert kept.machines[greeted.name].phase is MachinePhase.READY
    assert kept.given_up == {}


def test_patience_for_a_boot_begins_when_there_is_a_machine() -> None:
    """While the provider keeps the request, and before it shows a machine, nothing boots."""
    waits = turn(COMING, listing=(seen_of(COMING, waits="2 ahead"),), used=[COMING.name])
    assert waits[COMING.name].waits == "2 ahead"
    late = turn(*waits.values(), used=[COMING.name], now=5000.0)
    assert late[COMING.name].phase is MachinePhase.CREATING
    made = turn(*late.values(), listing=(seen_of(COMING),), used=[COMING.name], now=5000.0)
    assert (made[COMING.name].waits, made[COMING.name].made_at) == ("", 5000.0)
    assert (
        turn(*made.values(), used=[COMING.name], now=5600.0)[COMING.name].phase.value == "creating"
    )
    overdue = turn(*made.values(), used=[COMING.name], now=5601.0)
    assert overdue[COMING.name].phase is MachinePhase.DELETING


def test_a_machine_whose_agent_does_not_begin_is_overdue_as_any_other() -> None:
    """The reason is kept while it lasts; after the timeout, the machine is created again."""
    why, used = "its agent does not start: no bucket", [COMING.name]
    shown = turn(COMING, listing=(seen_of(COMING, stuck=why),), used=used)
    assert (shown[COMING.name].stuck, shown[COMING.name].waits) == (why, "")
    late = turn(*shown.values(), listing=(seen_of(COMING, stuck=why),), used=used, now=5000.0)
    assert late[COMING.name].phase is MachinePhase.DELETING
    begun = turn(*shown.values(), listing=(seen_of(COMING),), used=used)
    assert begun[COMING.name].stuck == ""


def test_a_machine_that_ends_while_it_boots_is_given_up() -> None:
    """The provider's message is the reason; after a greeting, or without one, it is just gone."""
    over = replace(seen_of(COMING), runs=False, gone=True)
    why = "Client.VolumeLimitExceeded: Volume limit exceeded"
    for machine, ended, is_given_up in (
        (COMING, why, True),
        (replace(COMING, made_at=0.0), why, True),
        (COMING, "", False),
        (replace(COMING, phase=MachinePhase.READY, life=1), why, False),
        (replace(COMING, phase=MachinePhase.DELETING), why, False),
    ):
        listings = {"gpu": (replace(over, ended=ended),)}
        done = reconcile({COMING.name: machine}, {"gpu": POOL}, listings, (), 0.0, seq=5)
        said = {COMING.name: f"{COMING.name} ended before its agent reported: {why}"}
        assert done.given_up == (said if is_given_up else {})
        assert done.lifeless == done.given_up.keys()


def test_a_machine_whose_agent_does_not_come_in_time_is_given_up() -> None:
    """On your own hosts it is not: the same host would be tried again."""
    late = replace(COMING, zone="a", made_at=0.0, stuck="no bucket")
    why = f"the agent of {late.name} has not reported within 10m 1s: no bucket"
    hosts = replace(POOL, machines_per_zone=1)
    heard = replace(late, permit_s=600.0, heard_at=600.0)
    told = replace(late, stuck="", unwell="no bucket")
    for machine, pool, given_up in (
        (late, POOL, {late.name: why}),
        (told, POOL, {late.name: why}),
        (replace(late, zone=""), POOL, {}),
        (replace(heard, zone=""), POOL, {late.name: why}),
        (heard, hosts, {}),
        (replace(late, made_at=None), POOL, {}),
    ):
        done = reconcile({late.name: machine}, {"gpu": pool}, {}, (late.name,), 601.0, seq=5)
        assert done.given_up == given_up
        assert done.lifeless == given_up.keys()


def test_an_outage_of_its_provider_is_no_failed_boot() -> None:
    """An unlisted machine's timeout starts over once its provider is listed again."""
    new, used = replace(COMING, created_at=0.0), [COMING.name]
    assert turn(new, used=used, now=5000.0)[new.name].phase is MachinePhase.DELETING
    for now, since in ((5000.0, {}), (5600.0, {"gpu": 5000.0})):
        assert turn(new, used=used, now=now, listed_since=since)[new.name] == new
    over = turn(new, used=used, now=5601.0, listed_since={"gpu": 5000.0})
    assert over[new.name].phase is MachinePhase.DELETING


def test_a_request_that_waits_is_kept_where_a_pool_has_a_least_number() -> None:
    """No job needs the machines of `min_machines`; beyond these, no request waits for long."""
    waits = replace(COMING, waits="2 ahead", idle_since=0.0)
    kept = turn(waits, now=50.0, pool=replace(POOL, min_machines=1))
    assert kept[waits.name].phase is MachinePhase.CREATING
    assert turn(waits, now=50.0)[waits.name].phase is MachinePhase.DELETING
    assert turn(waits, now=5.0)[waits.name].phase is MachinePhase.CREATING


def test_a_request_that_waits_too_long_moves_to_another_zone() -> None:
    """It is given up after the pool's timeout, and only if there is another zone to try."""
    waits = replace(COMING, waits="2 ahead", zone="a")
    two = replace(POOL, zones=("a", "b"), patience_s=900.0)
    for pool, now, given_up in ((two, 900.0, False), (two, 901.0, True), (POOL, 901.0, False)):
        pool = replace(pool, zones=("a", *pool.zones[1:]))
        done = reconcile({waits.name: waits}, {"gpu": pool}, {}, {waits.name}, now, seq=5)
        assert bool(done.given_up) is given_up
        assert (done.machines[waits.name].phase is MachinePhase.DELETING) is given_up


def test_a_boot_begins_when_what_is_prepared_is_ready() -> None:
    """A pull of an image may take longer than a boot, and moves to no other zone for that."""
    pool = replace(POOL, zones=("a", "b"), patience_s=900.0)
    new = replace(COMING, zone="a", permit_s=600.0)
    pulls = seen_of(new, prepares="Pulling image")
    made = turn(new, listing=(seen_of(new),), used=[new.name], pool=pool)
    pulled = turn(*made.values(), listing=(pulls,), used=[new.name], now=5.0, pool=pool)
    assert (pulled[new.name].waits, pulled[new.name].made_at) == ("Pulling image", 0.0)
    late = turn(*pulled.values(), listing=(pulls,), used=[new.name], now=7000.0, pool=pool)
    assert late == pulled
    booting = turn(*late.values(), listing=(seen_of(new),), used=[new.name], now=7000.0, pool=pool)
    assert (booting[new.name].waits, booting[new.name].made_at) == ("", 7000.0)
    for now, phase in ((7600.0, MachinePhase.CREATING), (7601.0, MachinePhase.DELETING)):
        left = turn(*booting.values(), used=[new.name], now=now, pool=pool)
        assert left[new.name].phase is phase
    kept = replace(late[new.name], idle_since=7000.0)
    assert turn(kept, now=7059.0)[new.name].phase is MachinePhase.CREATING, "as any that boots"


def test_a_machine_that_vanishes_while_it_boots_is_gone() -> None:
    """A machine that was listed while it booted and then disappeared is never created again."""
    made = replace(COMING, made_at=0.0)
    once = turn(made, listing=(), used=[made.name])
    assert act(*once.values()) == []
    assert turn(*once.values(), listing=(), used=[made.name]) == {}


def test_a_pool_without_a_zone_makes_no_machine() -> None:
    """While every zone is sold out, the pool's minimum is not tried repeatedly."""
    assert turn(pool=replace(POOL, min_machines=2, zones=())) == {}
