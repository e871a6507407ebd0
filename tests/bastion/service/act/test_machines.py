"""Providers: one call at a time, backoff when sold out, and no turn that waits for a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from bastion.client.look.published import Published
from bastion.errors import (
    NoCapacityError,
    OutdatedError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.job import Attempt, End
from bastion.machine import MachinePhase
from bastion.pool_size import UNWANTED_S
from bastion.provider.port import Listed
from bastion.records.keys import layout
from bastion.records.reports.facts import Ended
from bastion.spec.where import Where
from bastion.store.memory import Fault, FaultyStore
from tests.rigs.leader import CONFIG, PACE, QUOTA, Rig, ScriptedProvider

ON_DEMAND = CONFIG.replace("count = 2", 'max_machines = 2\nidle_timeout = "30s"')


def test_machines_are_made_for_jobs_and_deleted_after() -> None:
    """A pool without a minimum has no machines until a job needs one, and again some time later."""
    rig = Rig(config=ON_DEMAND)
    rig.turn(3)
    assert not rig.root.machines
    job = rig.start()
    provider = rig.providers["gpu"]
    (name,) = provider.states
    rig.agent_of(job).end(job)
    rig.ended(job)
    assert list(provider.states) == [name], "it is kept warm for a while"
    rig.until(lambda: not rig.root.machines)
    assert provider.creates == [name]
    assert not provider.states
    whats = [event.what for event in rig.history() if event.text.startswith(name)]
    assert whats[-2:] == ["machine deleted", "machine ended"]


def test_a_machine_that_is_gone_by_itself_is_told_as_such() -> None:
    """An operator looks into that; the planned deletion of another machine is not news."""
    rig = Rig()
    rig.turn(3)
    (name, *_) = rig.providers["gpu"].states
    rig.providers["gpu"].states.pop(name)
    rig.until(lambda: name not in rig.root.machines, turns=500)
    assert "machine gone" in {e.what for e in rig.history() if e.text.startswith(name)}


@pytest.mark.parametrize("shown", [{}, {"gpu-1-7": "running"}])
def test_a_list_of_another_account_proves_nothing(shown: dict[str, str]) -> None:
    """
    A bastion with other credentials sees none of its pool's machines: they are not gone.

    Otherwise their jobs would start elsewhere while they run, and nothing would delete the
    machines. Nothing is created either, including earlier requests.
    """
    rig = Rig(config=ON_DEMAND.replace("max_machines = 2", "max_machines = 3"), quota=WIDE)
    rig.turn()
    provider = rig.providers["gpu"]
    provider.in_account = "account 1"
    job = rig.start(h100=8)
    rig.turn(2)
    provider.error = ProviderUnavailableError("it does not answer")
    late = rig.submit("late", h100=8)
    rig.turn(2)
    ours = dict(provider.states)
    provider.error, provider.in_account, provider.states = None, "account 2", dict(shown)
    provider.creates.clear()
    rig.leader = rig.take()
    rig.turn(50)
    later = rig.submit("later", h100=8)
    rig.turn(50)
    assert rig.phase(later) == "queued"
    assert ours.keys() <= rig.root.machines.keys()
    assert rig.phase(job) == "running"
    assert not provider.creates
    assert "its machines are in account 1, and the bastion lists" in "".join(rig.journal.problems)
    provider.in_account, provider.states = "account 1", ours
    rig.until(lambda: rig.phase(late) == rig.phase(later) == "running", turns=1000)
    assert rig.phase(job) == "running"
    assert not rig.journal.problems


def test_machines_of_a_pool_that_is_not_in_the_file_are_told() -> None:
    """They are kept and cost money, and have no instructions: no other problem mentions them."""
    rig = Rig()
    rig.turn(3)
    rig.put(layout.CONFIG, CONFIG.replace("pools.gpu", "pools.other"))
    for is_new in (False, True):
        rig.leader = rig.take() if is_new else rig.leader
        rig.turn(3)
        told = [text for text in rig.journal.problems if text.startswith("pool gpu: ")]
        assert told
        assert "its 2 machines are kept, idle or not" in told[0]
        assert [each for each in rig.root.machines if each.startswith("gpu-")]
    rig.put(layout.CONFIG, CONFIG)
    rig.turn(3)
    assert not [text for text in rig.journal.problems if text.startswith("pool gpu: ")]


def test_a_machine_that_greeted_while_no_bastion_led_is_kept() -> None:
    """Its boot seems overdue until its bell is read, and a store may not return that at first."""
    fails = {"left": 0}

    def faults(operation: str, key: str) -> Fault | None:
        is_bell = operation == "read" and key.startswith(layout.BELLS)
        fails["left"] -= is_bell
        return Fault.BEFORE if is_bell and fails["left"] >= 0 else None

    rig = Rig(config=ON_DEMAND, spoil=lambda store: FaultyStore(store, faults))
    rig.are_agents_up = False
    rig.turn()
    job = rig.submit(h100=8)
    rig.turn(5)
    (name,) = rig.providers["gpu"].states
    rig.greet(name, h100=8)
    rig.clock.advance(3000.0)
    rig.leader = rig.take()
    fails["left"] = 3
    rig.turn(10)
    assert fails["left"] < 0
    assert rig.phase(job) == "running"
    assert list(rig.root.machines) == [name]


def test_a_warm_machine_is_used_again() -> None:
    """The next job gets the existing machine."""
    rig = Rig(config=ON_DEMAND)
    for n in range(3):
        job = rig.start(f"job-{n}")
        rig.agent_of(job).end(job)
        rig.ended(job)
    assert len(rig.providers["gpu"].creates) == 1


def test_a_create_is_not_repeated_every_turn() -> None:
    """A create is retried by name now and then while the machine boots for a minute."""
    rig = Rig()
    rig.are_agents_up = False
    rig.turn()
    provider = rig.providers["gpu"]
    rig.turn(5)
    assert len(provider.creates) == 2
    assert len(set(provider.creates)) == 2


def test_a_pool_without_capacity_is_not_tried_for_a_minute() -> None:
    """When sold out, it is not tried again for a minute, and the view of the queue says why."""
    rig = Rig(config=ON_DEMAND)
    rig.turn()
    rig.providers["gpu"].stock = 0
    job = rig.submit()
    rig.turn(30)
    asked = len(rig.providers["gpu"].creates)
    assert asked == 1
    assert rig.leader._machines.stockouts(rig.leader.now)
    rig.turn(40)
    assert len(rig.providers["gpu"].creates) == asked + 1
    rig.providers["gpu"].stock = 10
    rig.until(lambda: rig.phase(job) == "running", turns=150)


ZONES = ON_DEMAND.replace("max_machines = 2", 'max_machines = 4\nzones = ["a", "b"]')
WIDE = QUOTA.replace("h100 = 16", "h100 = 64")


def attempt(rig: Rig, job: str) -> Attempt:
    """Return the attempt of a job."""
    found = rig.root.jobs[job].attempt
    assert found is not None
    return found


def text_of(rig: Rig, job: str) -> str:
    """Return what users are told of the job."""
    view = rig.bucket.read(layout.view("queue"))
    assert view is not None
    return str(next(row["text"] for row in json.loads(view.data)["jobs"] if row["id"] == job))


def zones(rig: Rig) -> list[str]:
    """Return the zones of all machines, the oldest first."""
    return [m.zone for m in sorted(rig.root.machines.values(), key=lambda m: m.created_at)]


def test_new_machines_are_made_in_zones_with_capacity() -> None:
    """Zones are tried in order; a sold-out zone is last for a while, and then first again."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.turn()
    provider = rig.providers["gpu"]
    rig.start("first", h100=8)
    provider.sold_out = {"a"}
    rig.start("second", h100=8)
    assert not rig.leader._machines.stockouts(rig.leader.now), "there are some in b"
    rig.start("third", h100=8)
    assert zones(rig) == ["a", "b", "b"]
    provider.sold_out = {"a", "b"}
    late = rig.submit("late", h100=8)
    rig.turn(3)
    assert rig.leader._machines.stockouts(rig.leader.now)
    provider.sold_out = set()
    rig.until(lambda: rig.phase(late) == "running", turns=150)


def test_a_sold_out_zone_costs_one_turn_and_the_job_nothing() -> None:
    """The turn that learns of it places the job in the next zone, with its old place in line."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.turn()
    rig.providers["gpu"].sold_out = {"a"}
    job = rig.submit(h100=8)
    before = rig.root.jobs[job]
    assert zones(rig) == ["a"]
    rig.turn()
    after = rig.root.jobs[job]
    assert zones(rig) == ["b"]
    assert (before.attempts, after.attempts) == (1, 1)
    assert attempt(rig, job).nonce != before.attempt.nonce  # type: ignore[union-attr]
    assert after.queued_at == before.queued_at
    assert (after.past, after.losses_in_row, after.unstarted_in_row) == ((), 0, 0)
    rig.until(lambda: rig.phase(job) == "running")
    told = [event.text for event in rig.history() if event.job == job]
    assert "its machines are not created: no machine in gpu" in told


def test_a_gang_starts_when_its_last_host_is_asked_again() -> None:
    """Nothing else happens in the meantime: the end of the wait for a host starts a cycle."""
    hosts = ZONES.replace('"fake"', '"ssh"').replace("zones", "hosts").replace("30s", "1h")
    rig = Rig(quota=WIDE, config=hosts)
    rig.turn()
    rig.providers["gpu"].sold_out = {"b"}
    gang = rig.submit("gang", h100=8, replicas=2)
    rig.until(lambda: rig.phase(gang) == "queued")
    rig.turn(5)
    (row,) = queue_rows(rig)
    assert row["text"].startswith("waits for machines: the provider of gpu has none on b: no mach")
    assert "then" not in row["text"]
    rig.providers["gpu"].sold_out = set()
    began = rig.leader.now
    rig.until(lambda: rig.phase(gang) == "running", turns=1000)
    assert rig.leader.now - began < 70.0


def test_a_job_is_told_when_no_host_is_reached() -> None:
    """Each host is tried; then the job waits with the hosts' messages, not for other jobs."""
    hosts = ZONES.replace('"fake"', '"ssh"').replace("zones", "hosts")
    rig = Rig(quota=WIDE, config=hosts)
    rig.turn()
    rig.providers["gpu"].sold_out = {"a", "b"}
    job = rig.submit("train", h100=8)
    rig.until(lambda: rig.phase(job) == "queued")
    rig.turn(5)
    (row,) = queue_rows(rig)
    assert row["text"].startswith("waits for machines: the provider of gpu has none: no machine in")
    rig.providers["gpu"].sold_out = set()
    rig.until(lambda: rig.phase(job) == "running", turns=200)


def test_a_host_that_was_not_reached_is_passed_over() -> None:
    """Jobs go to the other hosts, one per host, and the next job is told why it waits."""
    hosts = ZONES.replace('"fake"', '"ssh"').replace('"b"]', '"b", "c"]').replace("zones", "hosts")
    rig = Rig(quota=WIDE, config=hosts)
    rig.turn()
    rig.providers["gpu"].sold_out = {"a"}
    first, second, third = [rig.submit(f"job-{n}", h100=8) for n in range(3)]
    rig.until(lambda: rig.phase(second) == rig.phase(first) == "running")
    assert zones(rig) == ["b", "c"]
    rig.turn(3)
    told = {row["id"]: row["text"] for row in queue_rows(rig)}
    assert "the provider of gpu has none on a: no machine in" in told[third]
    rig.providers["gpu"].sold_out = set()
    rig.until(lambda: rig.phase(third) == "running", turns=200)


def queue_rows(rig: Rig) -> list[dict[str, Any]]:
    """Return what is published of the queue."""
    view = rig.bucket.read(layout.view("queue"))
    assert view is not None
    rows: list[dict[str, Any]] = json.loads(view.data)["jobs"]
    return rows


def test_a_half_made_gang_is_given_up_whole() -> None:
    """A gang whose zone sells out half-way moves to the next zone, and its half is deleted."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.are_agents_up = False
    rig.turn()
    provider = rig.providers["gpu"]
    provider.left = {"a": 1}
    gang = rig.submit("gang", h100=8, replicas=2)
    made = set(provider.states)
    assert len(made) == 1
    assert len({machine.batch for machine in rig.root.machines.values()}) == 1
    rig.until(lambda: zones(rig) == ["b", "b"])
    rig.until(lambda: provider.states.keys() == rig.root.machines.keys())
    assert not made & provider.states.keys()
    assert rig.root.jobs[gang].losses_in_row == 0


def test_a_gang_that_is_partly_up_is_stopped_before_it_moves() -> None:
    """If one host was instructed, the barrier is revoked and the job still loses nothing."""
    rig = Rig(quota=WIDE, config=ZONES)
    first = rig.start("first", h100=8)
    rig.agent_of(first).end(first)
    rig.ended(first)
    provider = rig.providers["gpu"]
    rig.are_agents_up = False
    provider.sold_out, provider.error = {"a"}, ProviderUnavailableError("no answer")
    gang = rig.submit("gang", h100=8, replicas=2)
    rig.turn(3)
    (warm,) = (
        name for name in rig.root.machines if name.endswith("-0") and name in provider.states
    )
    assert any(state.instructed for _, _, _, state in attempt(rig, gang).each_host())
    provider.error = None
    rig.are_agents_up = True
    rig.until(lambda: rig.phase(gang) == "running", turns=60)
    job = rig.root.jobs[gang]
    assert (job.losses_in_row, job.unstarted_in_row) == (0, 0)
    assert warm in {place.machine for _, _, place, _ in attempt(rig, gang).each_host()}
    assert job.past[0].kind.value == "stopped"


def test_what_a_provider_says_is_told_to_jobs_that_wait() -> None:
    """A limit of the account and missing permissions are different from a sold-out zone."""
    for error, code, words in (
        (NoCapacityError("QUOTA_EXCEEDED: 8 GPUS", is_limit=True), 300.0, "asks the provider for"),
        (NoCapacityError("ZONE_RESOURCE_POOL_EXHAUSTED"), 60.0, "has none: ZONE_RES"),
        (ProviderRefusedError("no image x"), 60.0, "corrects the rights or the settings"),
        (ProviderUnavailableError("429", retry_after_s=600.0), 600.0, "does not answer: 429"),
    ):
        rig = Rig(config=ON_DEMAND)
        rig.turn()
        rig.providers["gpu"].refusal = error
        rig.submit("first", h100=8)
        rig.turn(2)
        late = rig.submit("late", h100=8)
        rig.turn()
        (reason,) = rig.leader._machines.stockouts(rig.leader.now).values()
        assert words in reason.words(rig.leader.now)
        assert code - 10.0 < reason.until - rig.leader.now <= code
        assert reason.said in text_of(rig, late)


def test_a_limit_is_asked_again_once_a_machine_has_left() -> None:
    """Its part of the limit is free: waiting jobs do not wait for the hour to end."""
    other = ON_DEMAND.replace("pools.gpu", "pools.other").replace("30s", "60s")
    rig = Rig(config=ON_DEMAND + other)
    rig.turn()
    job = rig.start("first", h100=8, where=Where(pool="other"))
    rig.providers["gpu"].refusal = NoCapacityError("QUOTA_EXCEEDED: 8 GPUS", is_limit=True)
    late = rig.submit("late", h100=8, where=Where(pool="gpu"))
    rig.turn(3)
    assert [each.why for each in rig.leader._machines.shortages(rig.leader.now)] == ["limit"]
    rig.agent_of(job).end(job)
    rig.turn(50)
    assert len(rig.providers["gpu"].creates) == 1
    rig.providers["gpu"].refusal = None
    rig.until(lambda: rig.phase(late) == "running", turns=40)


@pytest.mark.parametrize(
    "refusal",
    [
        ProviderUnavailableError("host a: Permission denied"),
        NoCapacityError("host a: Permission denied", is_away=True),
    ],
    ids=["in doubt", "for certain"],
)
def test_a_host_that_gives_no_way_in_is_not_sold_out(refusal: Exception) -> None:
    """More zones would not help: an admin is told to check the host."""
    hosts = ZONES.replace('"fake"', '"ssh"').replace("zones", "hosts")
    rig = Rig(quota=WIDE, config=hosts)
    rig.turn()
    rig.providers["gpu"].refusal = refusal
    job = rig.submit("train", h100=8)
    rig.turn(5)
    assert {each.why for each in rig.leader._machines.shortages(rig.leader.now)} == {"no way in"}
    told = text_of(rig, job)
    assert "the provider of gpu cannot connect: host a: Permission denied; next try in" in told
    assert "an admin must restore access to the host" in told


def test_the_view_of_pools_tells_what_each_zone_lacks() -> None:
    """It shows by pool and zone why, the provider's words, and when it is tried again."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.turn()
    rig.providers["gpu"].sold_out = {"a"}
    rig.start(h100=8)
    (lacks,) = Published(rig.bucket, rig.clock.wall).pools().shortages
    assert (lacks.pool, lacks.zone, lacks.why) == ("gpu", "a", "sold out")
    assert lacks.said == "no machine in gpu"
    assert lacks.until > rig.leader.now


def test_a_zone_is_asked_less_and_less_often() -> None:
    """Each consecutive stockout doubles the wait, and a created machine ends it."""
    rig = Rig(config=ON_DEMAND)
    rig.turn()
    provider = rig.providers["gpu"]
    provider.stock = 0
    job = rig.submit(h100=8)
    rig.turn(500)
    assert len(provider.creates) == 4, "after 60 s, 120 s and 240 s"
    provider.stock = 1
    rig.until(lambda: rig.phase(job) == "running", turns=500)
    assert not rig.leader._machines.shortages(rig.leader.now)


def test_a_provider_that_asks_to_be_left_alone_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a 429 with a time, the provider is not called before that time."""
    rig = Rig(pace=replace(PACE, listing_s=1.0))
    rig.turn(20)
    provider = rig.providers["gpu"]
    calls: list[str] = []
    real = provider.list

    def counted() -> tuple[Listed, ...]:
        calls.append("list")
        return real()

    monkeypatch.setattr(provider, "list", counted)
    provider.error = ProviderUnavailableError("429: slow down", retry_after_s=60.0)
    rig.turn(50)
    assert len(calls) == 1
    provider.error = None
    rig.turn(60)
    assert len(calls) > 10


def test_a_job_is_told_why_its_machine_is_not_made() -> None:
    """A job that is admitted already also has the provider's words, once they persist."""
    rig = Rig(config=ON_DEMAND)
    rig.turn()
    rig.providers["gpu"].error = ProviderUnavailableError("no route to host")
    job = rig.submit(h100=8)
    rig.turn(3)
    assert text_of(rig, job).endswith("which is not up yet"), "one call is none of its concern"
    rig.turn(60)
    assert "which is not created yet: the provider of gpu does not answer: no route" in text_of(
        rig, job
    )
    rig.providers["gpu"].error = None
    rig.until(lambda: rig.phase(job) == "running", turns=90)


def test_a_zone_whose_machines_end_before_they_are_up_is_left_alone() -> None:
    """The job moves to the next zone and loses nothing; then it waits with the provider's words."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.turn()
    provider = rig.providers["gpu"]
    provider.ends = {"a": "Client.InternalError: Client error on launch"}
    first = rig.start("first", h100=8)
    ran = rig.root.jobs[first]
    assert rig.root.machines[provider.creates[1]].zone == "b"
    assert (ran.attempts, ran.losses_in_row, ran.unstarted_in_row) == (1, 0, 0)
    provider.ends["b"] = "Client.VolumeLimitExceeded: Volume limit exceeded"
    asked, second = len(provider.creates), rig.submit("second", h100=8)
    rig.turn(1000)
    words = "creates machines that do not come up: gpu-"
    assert words in text_of(rig, second)
    assert "ended before its agent reported: Client.VolumeLimitExceeded" in text_of(rig, second)
    assert 6 <= len(provider.creates) - asked <= 10, "after 1, 2, 4, 8 minutes in each zone"
    provider.ends = {}
    rig.until(lambda: rig.phase(second) == "running", turns=1000)
    assert rig.root.jobs[second].losses_in_row == 0
    provider.ends = {"a": "Client.InternalError: Client error on launch"}
    rig.start("third", h100=8)
    shortages = rig.leader._machines.shortages(rig.leader.now)
    assert [each.times for each in shortages if each.zone == "a"] == [1], "its last one came up"
    told = [event.text for event in rig.history() if event.what == "machine failed"]
    assert any("Client error on launch" in text for text in told)


@pytest.mark.parametrize("how", ["ends", "queues"])
def test_a_least_machine_is_not_replaced_in_the_zone_that_was_just_given_up(how: str) -> None:
    """The next zone has it; a machine that was never requested is not named as missing."""
    config = CONFIG.replace("count = 2", 'count = 2\npatience = "60s"\nzones = ["a", "b"]')
    rig = Rig(config=config)
    rig.turn()
    provider = rig.providers["gpu"]
    for name in provider.states:
        rig.agents[name].is_deaf = True
    provider.states.clear()
    setattr(provider, how, {"a": "Client.InternalError: Client error on launch"})
    rig.until(lambda: zones(rig) == ["b", "b"], turns=600)
    assert not [event.text for event in rig.history() if event.what == "machine not made"]


def test_machines_whose_agents_never_come_are_made_less_and_less_often() -> None:
    """Each is deleted when its boot is overdue, and its zone has a pause that doubles."""
    rig = Rig(quota=WIDE, config=ZONES.replace('zones = ["a", "b"]', 'zones = ["a"]'))
    rig.are_agents_up = False
    rig.turn()
    job = rig.submit(h100=8)
    rig.turn(650)
    assert "the agent of gpu-" in text_of(rig, job)
    assert "has not reported within 10m 1s" in text_of(rig, job)
    rig.turn(3000)
    provider = rig.providers["gpu"]
    assert len(provider.creates) - len(provider.deletes) <= 1
    assert len({*provider.creates}) <= 5
    rig.are_agents_up = True
    rig.until(lambda: rig.phase(job) == "running", turns=1700)
    assert rig.root.jobs[job].losses_in_row == 0


def test_a_queued_request_waits_and_then_moves() -> None:
    """While a provider queues a request, no boot timeout runs; later the next zone is tried."""
    rig = Rig(quota=WIDE, config=ZONES.replace("zones", 'patience = "20m"\nzones'))
    rig.are_agents_up = False
    rig.turn()
    provider = rig.providers["gpu"]
    provider.queues = {"a": "WAITING_FOR_RESOURCES: 2 ahead"}
    job = rig.submit(h100=8)
    rig.turn(3)
    assert "is pending at its provider: WAITING_FOR_RESOURCES: 2 ahead" in text_of(rig, job)
    rig.turn(1100)
    assert zones(rig) == ["a"], "five boot times are long over"
    rig.turn(150)
    assert zones(rig) == ["b"]
    assert rig.root.jobs[job].unstarted_in_row == 0
    assert list(provider.states) == list(rig.root.machines)


def test_a_queued_request_that_nothing_needs_is_taken_back() -> None:
    """Its job was cancelled: it is not kept like an idle machine, because it may be granted."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.are_agents_up = False
    rig.turn()
    provider = rig.providers["gpu"]
    provider.queues = {"a": "WAITING_FOR_RESOURCES: 2 ahead"}
    job = rig.submit(h100=8)
    rig.turn(3)
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"
    rig.turn(int(UNWANTED_S) + 10)
    assert provider.states == {}
    assert [each.phase for each in rig.root.machines.values()] == [MachinePhase.DELETING]


def test_a_queued_request_is_taken_over_by_the_next_job() -> None:
    """A job that arrives soon gets the request, with its place in the provider's queue."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.are_agents_up = False
    rig.turn()
    provider = rig.providers["gpu"]
    provider.queues = {"a": "WAITING_FOR_RESOURCES: 2 ahead"}
    job = rig.submit(h100=8)
    rig.turn(3)
    (asked,) = rig.root.machines
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"
    after = rig.submit("next", h100=8)
    rig.turn(3 * int(UNWANTED_S))
    assert attempt(rig, after).placement[0].hosts[0].machine == asked
    assert (list(rig.root.machines), provider.deletes) == ([asked], [])


def test_what_is_odd_about_a_machine_is_a_problem_until_it_is_mended() -> None:
    """A manual copy, for example, costs money: the status names it while lists show it."""
    rig = Rig()
    rig.turn(3)
    provider = rig.providers["gpu"]
    name = next(iter(provider.states))
    provider.odd[name] = "2 instances carry its tags: i-1, i-2; terminate the copies"
    rig.turn(90)
    assert list(rig.journal.problems) == [f"pool gpu: machine {name}: {provider.odd[name]}"]
    provider.odd.clear()
    rig.turn(3)
    assert list(rig.journal.problems) == []


def test_a_provider_out_of_reach_delays_no_job() -> None:
    """While a provider does not answer, jobs on its machines continue; status has the problem."""
    rig = Rig()
    first = rig.start()
    rig.providers["gpu"].error = ProviderUnavailableError("no route to the API")
    rig.turn(30)
    assert rig.phase(first) == "running"
    assert any("no route to the API" in problem for problem in rig.journal.problems)
    second = rig.start("second")
    rig.agent_of(second).end(second)
    assert rig.ended(second).outcome == "succeeded"


def test_no_attempt_begins_on_a_machine_that_ended_with_the_bastion() -> None:
    """`bastion down` ends machines of a local pool: the first turn of a lead detects that."""
    rig = Rig(config=CONFIG.replace('"fake"', '"local"'))
    rig.turn(5)
    provider = rig.providers["gpu"]
    ended = set(provider.states)
    provider.states |= dict.fromkeys(ended, "gone")
    rig.launch("waits")
    rig.leader = rig.take("next")
    rig.until(lambda: "running" in {job.phase.value for job in rig.root.jobs.values()})
    (job,) = rig.root.jobs.values()
    assert job.attempts == 1
    assert rig.agent_of(job.id).name not in ended


def test_a_local_pool_that_cannot_be_listed_gets_its_machines() -> None:
    """A first list that fails is a problem, and the rest of the turn continues."""
    config = CONFIG.replace('"fake"', '"local"')
    rig = Rig(config=config)
    rig.turn(5)
    rig.leader = rig.take("next")

    def fail() -> NoReturn:
        raise ProviderUnavailableError("machines_dir is not readable")

    rig.providers["gpu"].list = fail  # type: ignore[method-assign]
    rig.put(layout.CONFIG, config.replace("count = 2", "count = 3"))
    rig.until(lambda: len(rig.root.machines) == 3)
    assert any("machines_dir is not readable" in problem for problem in rig.journal.problems)


def test_an_orphan_is_deleted() -> None:
    """A machine of ours without a record is deleted if its name is from an older commit."""
    rig = Rig()
    rig.turn(3)
    rig.providers["gpu"].states["gpu-1-9"] = "running"
    rig.turn(4)
    assert "gpu-1-9" not in rig.providers["gpu"].states


def test_a_machine_of_a_newer_commit_stops_the_leader() -> None:
    """A machine that only a newer commit can have allocated is not touched; root is too old."""
    rig = Rig()
    rig.turn(3)
    rig.providers["gpu"].states["gpu-999-0"] = "running"
    with pytest.raises(OutdatedError, match="is older than machine gpu-999-0"):
        rig.turn(4)
    assert "gpu-999-0" in rig.providers["gpu"].states
    assert rig.root == rig.leader.held.root


def test_a_dead_agent_is_started_again() -> None:
    """The create of a machine whose agent is not running is repeated, which starts the agent."""
    rig = Rig()
    rig.turn(20)
    provider = rig.providers["gpu"]
    name = next(iter(provider.states))
    provider.states[name] = "stopped"
    rig.turn(5)
    assert provider.creates.count(name) == 2
    assert provider.states[name] == "running"


@pytest.mark.parametrize("passes", [False, True])
def test_a_machine_that_was_stopped_and_cannot_be_started_is_given_up(passes: bool) -> None:
    """Its job continues elsewhere immediately; an outage alone gives up nothing."""
    rig = Rig(quota=WIDE, config=ZONES)
    rig.turn()
    job, provider = rig.start(h100=8), rig.providers["gpu"]
    (name,) = provider.states
    rig.agents[name].is_deaf = True
    provider.states[name] = "stopped"
    outage = ProviderUnavailableError("503")
    provider.start_refusal = outage if passes else NoCapacityError("no capacity to start it")
    if passes:
        rig.turn(60)
        assert rig.root.machines[name].phase is MachinePhase.READY
        return
    rig.until(lambda: name in provider.deletes, turns=60)
    rig.until(lambda: rig.root.jobs[job].attempts == 2 and rig.phase(job) == "running", turns=60)
    assert name not in provider.states
    (told,) = [event.text for event in rig.history() if event.what == "machine failed"]
    assert told == f"{name} was stopped, and is not started again: no capacity to start it"


def test_a_refused_start_is_forgotten_once_the_machine_runs() -> None:
    """A start refused for one machine of a gang does not later give up another one."""
    rig = Rig(quota=WIDE, config=ZONES.replace("30s", "1h"))
    rig.turn()
    rig.start(h100=8, replicas=2)
    provider = rig.providers["gpu"]
    lost, kept = provider.states
    assert rig.root.machines[lost].batch == rig.root.machines[kept].batch != ""
    rig.agents[lost].is_deaf = True
    provider.states[lost] = "stopped"
    provider.start_refusal = NoCapacityError("no capacity to start it")
    rig.until(lambda: lost in provider.deletes)
    provider.start_refusal = None
    rig.turn(20)
    asked = provider.creates.count(kept)
    provider.states[kept] = "stopped"
    rig.turn(20)
    assert kept not in provider.deletes
    assert provider.creates.count(kept) == asked + 1
    assert provider.states[kept] == "running"


def test_a_machine_of_ones_own_that_cannot_be_started_is_kept() -> None:
    """If no cloud says that it is off, its processes may still run without an agent."""
    rig = Rig(quota=WIDE)
    rig.turn(20)
    rig.start(h100=8)
    provider = rig.providers["gpu"]
    name = next(iter(provider.states))
    provider.states[name] = "stopped"
    provider.start_refusal = NoCapacityError("no room")
    rig.turn(60)
    assert not provider.deletes


def test_an_attempts_machine_is_kept_until_its_logs_are_shipped() -> None:
    """A machine is not deleted while a job that ended on it still ships its logs."""
    rig = Rig(config=ON_DEMAND.replace("30s", "1s"))
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    end = agent.end_as(of, End(kind="exited", codes=(0,)), rings=False)
    agent.ring(Ended(of=of, end=end))
    rig.turn(60)
    assert rig.phase(job) == "draining"
    assert rig.root.machines[agent.name].phase is MachinePhase.READY
    rig.until(lambda: not rig.root.machines, turns=120)


def test_a_pool_is_changed_while_jobs_run() -> None:
    """A new configuration applies on the next turn; running jobs continue."""
    rig = Rig()
    job = rig.start()
    rig.put(layout.CONFIG, CONFIG.replace("count = 2", "count = 3"))
    rig.until(lambda: len(rig.root.machines) == 3)
    assert rig.phase(job) == "running"


def test_the_pace_of_listings_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider is listed no more often than the pace allows."""
    rig = Rig(pace=replace(PACE, listing_s=10.0))
    calls: list[float] = []
    rig.turn()
    provider = rig.providers["gpu"]
    real = provider.list

    def counted() -> tuple[Listed, ...]:
        calls.append(rig.clock.monotonic())
        return real()

    monkeypatch.setattr(provider, "list", counted)
    rig.turn(60)
    assert 5 <= len(calls) <= 7


def test_a_promised_machine_is_not_idle() -> None:
    """A machine kept for a promised gang stays, even if it runs nothing for long."""
    quota = QUOTA.replace("min_runtime_s = 0", "min_runtime_s = 300")
    quota = quota.replace("blue]\nh100 = 0.5", "blue]\nh100 = 1.0")
    quota = quota.replace("red]\nh100 = 0.5", "red]\nh100 = 0.0")
    rig = Rig(config=ON_DEMAND, quota=quota)
    both = [rig.start(name, user="cat", project="red", h100=8) for name in ("one", "two")]
    rig.agent_of(both[0]).end(both[0])
    rig.ended(both[0], "red")
    made = list(rig.providers["gpu"].creates)
    gang = rig.submit("gang", h100=8, replicas=2)
    (promise,) = rig.root.promises
    rig.turn(100)
    assert rig.root.promises == (promise,)
    assert all(m.phase is MachinePhase.READY for m in rig.root.machines.values())
    rig.until(lambda: rig.phase(gang) == "running", turns=300)
    assert rig.leader.now <= promise.deadline + 10
    assert rig.providers["gpu"].creates == made


def test_a_provider_looks_where_machines_were_made_before_the_pool_was_moved() -> None:
    """It is opened with their zones too, even after a takeover; new machines go elsewhere."""
    zoned = ON_DEMAND + 'zones = ["a-1", "a-2"]\n'
    rig = Rig(config=zoned)
    job = rig.start()
    (old,) = rig.root.machines.values()
    assert old.zone == "a-1"
    rig.put(layout.CONFIG, zoned.replace('"a-1", "a-2"', '"b-1"'))
    rig.turn(5, seconds=20.0)
    assert rig.opened[-1].zones == ("b-1", "a-1")
    rig.leader = rig.take("other", pid=2)
    rig.turn(2)
    assert rig.opened[-1].zones == ("b-1", "a-1")
    other = rig.start("more", h100=8)
    (new,) = rig.root.machines.keys() - {old.name}
    assert rig.root.machines[new].zone == "b-1"
    for each in (job, other):
        rig.agent_of(each).end(each)
    rig.until(lambda: not rig.root.machines)
    opened = len(rig.opened)
    rig.turn(3, seconds=20.0)
    assert len(rig.opened) == opened, "a zone that is empty closes nothing"


@pytest.mark.parametrize("successor", [False, True])
def test_a_machine_that_may_be_made_is_looked_for_where_it_may_be(successor: bool) -> None:
    """It is looked for there even if its zone then has none, and its pool has moved away."""
    zoned = ON_DEMAND + 'zones = ["a-1"]\n'
    rig = Rig(config=zoned)
    rig.turn()
    provider = rig.providers["gpu"]
    provider.refusal = ProviderUnavailableError("no answer")
    rig.submit(h100=8)
    (name,) = rig.root.machines
    provider.sold_out, provider.refusal = {"a-1"}, None
    if successor:
        rig.leader = rig.take("other", pid=2)
        provider = rig.providers["gpu"]
        provider.sold_out = {"a-1"}
    rig.until(lambda: rig.root.machines[name].phase.value == "deleting")
    rig.put(layout.CONFIG, zoned.replace('"a-1"', '"b-1"'))
    rig.until(lambda: rig.opened[-1].zones == ("b-1", "a-1"))
    rig.providers["gpu"].states[name] = "running"
    rig.until(lambda: name not in rig.root.machines, turns=1000)
    assert name in rig.providers["gpu"].deletes


def test_a_machine_that_is_certainly_not_made_is_not_looked_for() -> None:
    """Its only call was refused, so it leaves in the same turn."""
    rig = Rig(config=ON_DEMAND)
    rig.turn()
    provider = rig.providers["gpu"]
    provider.stock = 0
    rig.submit(h100=8)
    rig.until(lambda: bool(provider.creates))
    rig.turn(2)
    assert not rig.root.machines


def test_a_host_that_does_not_answer_is_a_problem_until_it_does() -> None:
    """It is named although the others are listed; if there are many, the rest are counted."""
    hosts = {f"h{n}": f"host h{n}: Permission denied (publickey)" for n in range(8)}
    unreached: dict[str, str] = {}

    class Provider(ScriptedProvider):
        def unreached(self) -> Mapping[str, str]:
            """See the port."""
            return dict(unreached)

    rig = Rig()
    rig.turn()
    opened = rig.leader._machines._pools
    opened["gpu"] = replace(opened["gpu"], provider=Provider("gpu", lambda _: None))

    def problems() -> list[str]:
        rig.turn(40)
        return [each for each in rig.leader._journal.problems if each.startswith("pool gpu: host")]

    assert problems() == []
    unreached.update(hosts)
    told = problems()
    assert told[0] == "pool gpu: host h0: Permission denied (publickey)"
    assert told[5:] == ["pool gpu: hosts: 3 more do not answer; bastion doctor names each"]
    for host in list(hosts)[1:]:
        del unreached[host]
    assert problems() == told[:1]
    unreached.clear()
    assert problems() == []
