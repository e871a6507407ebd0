"""Bells that lie: a machine is believed about itself if the bucket confirms it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bastion.job import End
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import (
    Drained,
    Ended,
    Health,
    Hello,
    HostFact,
    Preparing,
    Reported,
    Started,
)
from bastion.records.reports.registers import LifeRegister
from bastion.service.intake.proofs import NEW_LIVES
from bastion.store import ObjectStore
from bastion.store.memory import Fault, FaultyStore
from quota import Amounts
from tests.rigs.leader import PACE, Agent, Rig

SUCCEEDED = End(kind="exited", codes=(0,))


def running() -> tuple[Rig, str, Agent]:
    """Run a job, and return its agent, which does nothing more on its own."""
    rig = Rig()
    rig.turn(2)
    job = rig.start()
    return rig, job, rig.agent_of(job)


def ring_raw(rig: Rig, agent: Agent, kind: str, **fields: str) -> str:
    """Ring a bell of `agent` with one fact, each field as in JSON; return its key."""
    key = layout.bell(agent.name, agent.life, agent._bell)
    agent._bell += 1
    said = ",".join(f'"{name}":{text}' for name, text in {"kind": f'"{kind}"', **fields}.items())
    rig.bucket.create(key, f'{{"schema":1,"facts":[{{{said}}}]}}'.encode())
    return key


def view(rig: Rig, name: str) -> object:
    """Return a published view, read as strictly as by jq and browsers."""

    def refuse(word: str) -> object:
        raise AssertionError(f"{word} is no JSON")

    data = rig.bucket.read(layout.view(name))
    assert data is not None
    return json.loads(data.data, parse_constant=refuse)


def test_a_bell_of_another_machine_ends_nothing() -> None:
    """Only the machine on which a host is placed can report about it."""
    rig, job, agent = running()
    of = agent.of(job)
    other = next(each for each in rig.agents.values() if each is not agent)
    agent.end_as(of, End(kind="exited", codes=(3,)), rings=False)
    other.ring(Reported(of=of, numbers={"x": 1.0}), Ended(of=of, end=SUCCEEDED), Drained(of=of))
    rig.turn(3)
    assert rig.phase(job) == "running"
    assert rig.job(job).report == {}


def test_an_end_that_does_not_stand_ends_nothing() -> None:
    """A bell alone frees no device: the register says how a host ended."""
    rig, job, agent = running()
    of = agent.of(job)
    agent.ring(Ended(of=of, end=SUCCEEDED), Drained(of=of))
    rig.turn(3)
    assert rig.phase(job) == "running"
    agent.end(job, 0)
    assert rig.ended(job).outcome == "succeeded"


def test_the_register_is_believed_and_not_the_bell() -> None:
    """If the two differ, the object in the bucket says how the host ended."""
    rig, job, agent = running()
    of = agent.of(job)
    agent.end_as(of, End(kind="exited", codes=(3,), first_failed=0), rings=False)
    agent.ring(Ended(of=of, end=SUCCEEDED), Drained(of=of))
    result = rig.ended(job)
    assert (result.outcome, result.code) == ("failed", 3)


def test_an_end_is_believed_in_the_turn_that_reads_its_bell() -> None:
    """The register is read with the bell: it adds one read, but no turn."""
    reads: list[str] = []

    def counted(store: ObjectStore) -> ObjectStore:
        def note(operation: str, key: str) -> Fault | None:
            if operation == "read" and key.endswith("/end"):
                reads.append(key)
            return None

        return FaultyStore(store, note)

    rig = Rig(spoil=counted)
    rig.turn(2)
    job = rig.start()
    rig.agent_of(job).end(job, 0)
    rig.leader.turn()
    assert rig.phase(job) not in ("running", "starting")
    assert len(reads) == 1


def test_an_end_out_of_reach_keeps_its_bell_waiting() -> None:
    """A bell whose register cannot be read now is read again, with all that it reports."""
    away = [True]

    def spoil(store: ObjectStore) -> ObjectStore:
        def fault(operation: str, key: str) -> Fault | None:
            is_end = operation == "read" and key.endswith("/end")
            return Fault.BEFORE if is_end and away[0] else None

        return FaultyStore(store, fault)

    rig = Rig(spoil=spoil, pace=replace(PACE, sweep_s=1e9))
    rig.turn(2)
    job = rig.start()
    rig.agent_of(job).end(job, 0)
    rig.turn(5)
    assert rig.phase(job) == "running"
    away[0] = False
    assert rig.ended(job).outcome == "succeeded"


def test_one_machine_cannot_have_many_registers_read() -> None:
    """However many ends it reports, those of other machines' hosts are never looked up."""
    reads: list[str] = []

    def spoil(store: ObjectStore) -> ObjectStore:
        def note(operation: str, key: str) -> Fault | None:
            if operation == "read" and key.endswith("/end"):
                reads.append(key)
            return None

        return FaultyStore(store, note)

    rig = Rig(spoil=spoil)
    rig.turn(2)
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    for number in range(50):
        strangers = (replace(of, nonce=f"x{number}"), replace(of, job=f"j-{number}"))
        agent.ring(*(Ended(of=each, end=SUCCEEDED) for each in (of, of, *strangers)))
    rig.leader.turn()
    assert len(reads) == 1


def test_a_claim_in_anothers_name_is_none() -> None:
    """A machine reports its own claims: what it says of others' claims is not believed."""
    rig = Rig()
    rig.turn(2)
    for agent in rig.agents.values():
        agent.is_deaf = True
    job = rig.submit()
    rig.turn(3)
    (_, _, place, _) = next(iter(rig.job(job).attempt.each_host()))  # type: ignore[union-attr]
    agent = rig.agents[place.machine]
    attempt = rig.job(job).attempt
    assert attempt is not None
    of = HostFact(project="blue", job=job, attempt=1, nonce=attempt.nonce, replica=0, host=0)
    claim = '{"machine":"gpu-99-9","life":1}'
    key = ring_raw(rig, agent, "claimed", of=encode(of).decode(), claim=claim)
    rig.turn(2)
    assert rig.job(job).attempt.hosts[0][0].claim is None  # type: ignore[union-attr]
    assert key not in rig.keys(layout.BELLS)


@pytest.mark.parametrize("life", [2, 10**9])
def test_a_life_that_does_not_stand_is_not_greeted(life: int) -> None:
    """The name of a life alone does not stop a machine's jobs, and does not bar it."""
    rig, job, agent = running()
    agent.life, true_life, bells = life, agent.life, agent._bell
    agent.ring(Hello(resources=Amounts({"h100": 8}), address="a", hostname="h", version="0"))
    agent.life, agent._bell = true_life, bells
    rig.turn(3)
    assert rig.root.machines[agent.name].life == 1
    assert rig.phase(job) == "running"
    agent.end(job, 0)
    assert rig.ended(job).outcome == "succeeded"


def test_a_life_far_ahead_is_not_greeted_though_it_stands() -> None:
    """No machine increments its life by thousands at a time, which would use up the numbers."""
    rig, job, agent = running()
    far = 1 + NEW_LIVES + 1
    rig.bucket.create(layout.life(agent.name, far), encode(LifeRegister(write_id="w", boot_id="b")))
    agent.life, bells = far, agent._bell
    agent.ring(Hello(resources=Amounts({"h100": 8}), address="a", hostname="h", version="0"))
    agent.life, agent._bell = 1, bells
    rig.turn(3)
    assert rig.root.machines[agent.name].life == 1
    assert rig.phase(job) == "running"


@pytest.mark.parametrize("units", [9, 10**14, 10**19, 10**30, -5])
def test_a_machine_has_no_more_than_its_pool_declares(units: int) -> None:
    """Whatever a machine claims to have, others are scheduled, and it gets no more than allowed."""
    rig, job, agent = running()
    other = next(each for each in rig.agents.values() if each is not agent)
    standing = other.life, other._bell, other._batch
    other.live_again()
    rig.bucket.delete(layout.bell(other.name, other.life, 0))
    has = f'{{"h100":{units}}}'
    text = {"address": '"a"', "hostname": '"h"', "version": '"0"'}
    ring_raw(rig, other, "hello", resources=has, **text)
    rig.turn(2)
    assert rig.root.machines[other.name].resources == Amounts({"h100": 8})
    if rig.root.machines[other.name].life == standing[0]:  # nothing of that bell was believed
        other.life, other._bell, other._batch = standing
    assert rig.journal.problems == ()
    for _ in range(2):
        rig.start(h100=4)
    assert rig.phase(job) == "running"


BOUNDS = ["1e300", "1e13", "-1e12", "1e308", "1e999", "NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("number", BOUNDS)
def test_no_time_of_a_bell_is_committed_that_is_none(number: str) -> None:
    """A hold out of bounds is set aside; root stays readable, and views are published."""
    rig, job, agent = running()
    of = encode(agent.of(job)).decode()
    end = '{"kind":"lost"}'
    key = ring_raw(rig, agent, "held", of=of, for_s=number, folder='"/x"', end=end)
    rig.turn(2)
    assert rig.job(job).kept == ()
    assert layout.aside(key) in rig.keys(layout.ASIDE)
    rig.leader = rig.take(pid=2)
    rig.turn(2)
    assert rig.journal.problems == ()
    assert view(rig, "queue")


@pytest.mark.parametrize("number", BOUNDS[4:])
def test_no_number_of_a_report_is_published_that_is_none(number: str) -> None:
    """Only finite numbers reach root and the views that jq and browsers read."""
    rig, job, agent = running()
    of = encode(agent.of(job)).decode()
    ring_raw(rig, agent, "reported", of=of, numbers=f'{{"x":{number}}}')
    rig.turn(2)
    assert rig.job(job).report == {}
    assert view(rig, "queue")
    agent.report(job, y=2.0)
    rig.turn()
    assert rig.job(job).report == {"y": 2.0}


def test_what_a_machine_says_of_devices_that_it_has_not_is_dropped() -> None:
    """Bad devices are among those that it has: no other index reaches the scheduler."""
    rig, _, agent = running()
    agent.ring(Health(bad_devices={"h100": (7, 8, 1000), "tpu": (0,)}, text="XID 79"))
    rig.turn()
    assert rig.root.machines[agent.name].bad_devices == {"h100": (7,)}


def test_a_text_of_a_machine_has_a_length() -> None:
    """A host's report is part of root, so it is at most a few lines."""
    rig, job, agent = running()
    of = agent.of(job)
    agent.ring(Preparing(of=of, text="x" * 1_000_000), Started(of=of))
    rig.turn(2)
    attempt = rig.job(job).attempt
    assert attempt is not None
    assert len(attempt.hosts[0][0].preparing) <= 1_000


def test_a_machine_that_tells_of_another_is_heard_about_itself() -> None:
    """A bell that lies about one thing is still believed about its own machine."""
    rig, job, agent = running()
    other = next(each for each in rig.agents.values() if each is not agent)
    of = agent.of(job)
    other.ring(Started(of=of), Health(bad_devices={"h100": (1,)}, text="bad"))
    rig.turn()
    assert rig.root.machines[other.name].bad_devices == {"h100": (1,)}
