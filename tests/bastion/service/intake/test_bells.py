"""Bells applied to a draft: each fact once, and none of a life or an attempt that is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.errors import RecordError
from bastion.job import Claim, End
from bastion.machine import Batch, Machine, MachinePhase, Pool
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import (
    Bell,
    Claimed,
    Drained,
    Ended,
    Fact,
    Health,
    Heartbeat,
    Hello,
    HostFact,
    Started,
)
from bastion.records.requests.inbox import Ringing
from bastion.records.root import Root
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.bells import MOST_APART, apply_bell, decoded, record_alive
from bastion.service.intake.proofs import Proof
from bastion.store import Entry, Version
from quota import Amounts
from tests.rigs import job_records

MACHINE = "m0-0"
OF = HostFact(project="blue", job="train-1", attempt=1, nonce="n", replica=0, host=0)
HELLO = Hello(
    resources=Amounts({"h100": 8}), address="a", hostname="h", version="1", labels={"x": "y"}
)
NEWER = b'{"kind":"newer","by":2}'
POOLS = {
    "p": Pool(name="p", provider="local", resources=Amounts({"h100": 8}), max_machines=1),
}
READY = Machine(
    name=MACHINE,
    pool="p",
    phase=MachinePhase.READY,
    life=2,
    last_bell=4,
    labels={"cluster": "c"},
    resources=Amounts({"h100": 8}),
)


def draft(machine: Machine = READY) -> Draft:
    """Return a draft of a root with one machine and one starting job."""
    job = job_records.starting()
    root = Root(
        epoch=1, seq=1, now=1.0, write_id="w", jobs={job.id: job}, machines={MACHINE: machine}
    )
    return Draft(root, 50.0)


def ring(made: Draft, *facts: Fact, life: int = 2, number: int = 5, machine: str = MACHINE) -> None:
    """Ring with true `facts`: their ends and lives exist in the bucket."""
    apply_bell(made, rung(machine, life, number), Bell(facts=facts), proof=true(facts), pools=POOLS)


def rung(machine: str, life: int, number: int) -> Ringing:
    """Return which bell it is."""
    key = layout.bell(machine, life, number)
    entry = Entry(key=key, version=Version("v"), size=1, modified_at=0.0)
    return Ringing(entry=entry, machine=machine, life=life, number=number)


def true(facts: tuple[Fact, ...]) -> Proof:
    """Return the bucket's contents if everything that `facts` say is true."""
    ends: dict[HostFact, End] = {}
    for fact in facts:
        if isinstance(fact, Ended):
            ends.setdefault(fact.of, fact.end)
    return Proof(ends=ends, is_life=True)


def test_a_bell_is_applied_once() -> None:
    """A bell with an applied number, or an earlier one, has no effect."""
    made = draft()
    ring(made, Started(of=OF), number=4)
    assert made.jobs["train-1"].phase.value == "starting"
    ring(made, Started(of=OF), number=5)
    assert made.jobs["train-1"].phase.value == "running"
    assert made.machines[MACHINE].last_bell == 5
    assert made.machines[MACHINE].heard_at == 50.0


def test_an_old_life_is_not_heard() -> None:
    """A bell of a keeper life before the machine's has no effect."""
    made = draft()
    ring(made, Started(of=OF), life=1, number=99)
    assert made.jobs["train-1"].phase.value == "starting"
    assert not made.is_changed


def test_an_unknown_machine_is_not_heard() -> None:
    """A bell of a machine that is not in root has no effect."""
    made = draft()
    ring(made, HELLO, Started(of=OF), machine="stranger")
    assert not made.is_changed


def test_an_attempt_that_is_over_is_not_touched() -> None:
    """A fact with another nonce, project, job or host than the current attempt's is ignored."""
    made = draft()
    for of in (
        replace(OF, nonce="old"),
        replace(OF, project="red"),
        replace(OF, job="other"),
        replace(OF, replica=7),
        replace(OF, host=7),
    ):
        ring(
            made,
            Started(of=of),
            Ended(of=of, end=End(kind="lost")),
            number=made.machines[MACHINE].last_bell + 1,
        )
    assert made.jobs["train-1"] == job_records.starting()


def test_negative_places_are_no_places() -> None:
    """A replica or host below zero means none, not the last one."""
    made = draft()
    for number, of in enumerate((replace(OF, replica=-1), replace(OF, host=-1)), start=5):
        ring(made, Ended(of=of, end=End(kind="lost")), number=number)
    assert made.jobs["train-1"] == job_records.starting()


def test_facts_of_one_bell_come_in_order() -> None:
    """Claimed, started, ended and drained in one bell are a whole life."""
    made = draft()
    claim = Claim(machine=MACHINE, life=2)
    end = End(kind="exited", codes=(0,))
    ring(made, Claimed(of=OF, claim=claim), Started(of=OF), Ended(of=OF, end=end), Drained(of=OF))
    job = made.jobs["train-1"]
    assert job.phase.value == "draining"
    assert job.attempt is not None
    host = job.attempt.hosts[0][0]
    assert (host.claim, host.end, host.drained) == (claim, end, True)


def test_a_fact_that_cannot_happen_any_more_is_ignored() -> None:
    """A late fact about a job in a phase that does not allow it changes nothing."""
    made = draft()
    end = End(kind="exited", codes=(0,))
    ring(made, Ended(of=OF, end=end), Started(of=OF), Ended(of=OF, end=End(kind="lost")))
    job = made.jobs["train-1"]
    assert job.attempt is not None
    assert job.attempt.hosts[0][0].end == end


@pytest.mark.parametrize("phase", [MachinePhase.CREATING, MachinePhase.SILENT])
def test_a_hello_makes_a_machine_ready(phase: MachinePhase) -> None:
    """A machine that greets is ready, with what its agent reports; labels are added."""
    made = draft(replace(READY, phase=phase, life=0, last_bell=-1))
    ring(made, HELLO, life=1, number=0)
    machine = made.machines[MACHINE]
    assert (machine.phase, machine.life, machine.last_bell) == (MachinePhase.READY, 1, 0)
    assert machine.resources == Amounts({"h100": 8})
    assert machine.labels == {"cluster": "c", "x": "y"}
    assert made.is_scheduling


def test_a_new_life_begins_anew() -> None:
    """A new keeper life's instructions start at one; those for the old life are dropped."""
    batches = (Batch(number=9, life=2),)
    made = draft(replace(READY, batches=9, outgoing=batches))
    ring(made, HELLO, life=3, number=0)
    machine = made.machines[MACHINE]
    assert (machine.life, machine.batches, machine.outgoing, machine.last_bell) == (3, 0, (), 0)


def test_the_same_life_may_greet_again() -> None:
    """A restarted agent that finds its keeper alive only changes when it was last heard."""
    batches = (Batch(number=9, life=2),)
    made = draft(replace(READY, batches=9, outgoing=batches))
    ring(made, HELLO)
    assert (made.machines[MACHINE].batches, made.machines[MACHINE].outgoing) == (9, batches)


def test_a_machine_may_say_what_it_has_become() -> None:
    """The labels of a living machine are its latest ones; its batches stay."""
    batches = (Batch(number=9, life=2),)
    made = draft(replace(READY, batches=9, outgoing=batches, labels={"containers": "true"}))
    ring(made, replace(HELLO, labels={"containers": "no"}))
    assert made.machines[MACHINE].labels == {"containers": "no"}
    assert made.machines[MACHINE].outgoing == batches


def test_deleting_never_goes_back() -> None:
    """A machine that greets while it is being deleted is still being deleted."""
    made = draft(replace(READY, phase=MachinePhase.DELETING))
    ring(made, HELLO, life=3, number=0)
    assert made.machines[MACHINE].phase is MachinePhase.DELETING


def test_health_is_what_was_told_last() -> None:
    """The scheduler learns of bad devices, and that they are healthy when none is reported."""
    made = draft()
    ring(made, Health(bad_devices={"h100": (3,), "tpu": ()}, text="XID 79 on 3"))
    assert made.machines[MACHINE].bad_devices == {"h100": (3,)}
    assert made.is_scheduling
    ring(made, Health(), number=6)
    assert made.machines[MACHINE].bad_devices == {}


def test_a_heartbeat_is_only_heard() -> None:
    """A heartbeat says that the machine lives, and gives the scheduler nothing to do."""
    made = draft()
    ring(made, Heartbeat())
    assert made.machines[MACHINE].heard_at == 50.0
    assert not made.is_scheduling


def test_a_silent_machine_that_is_heard_takes_jobs_again() -> None:
    """Any bell of its life ends the quarantine of a machine, and the scheduler looks again."""
    made = draft(replace(READY, phase=MachinePhase.SILENT))
    ring(made, Heartbeat())
    assert made.machines[MACHINE].phase is MachinePhase.READY
    assert made.is_scheduling


def test_a_bell_that_is_only_listed_is_a_sign_of_life() -> None:
    """A permit counts from a bell that landed, so a listed one is enough, of this life or later."""
    own = replace(READY, permit_s=600.0)
    for life, heard_at in ((2, 50.0), (3, 50.0), (1, own.heard_at)):
        made = draft(own)
        record_alive(made, rung(MACHINE, life, 9))
        assert made.machines[MACHINE].heard_at == heard_at
        assert made.machines[MACHINE].last_bell == own.last_bell
    made = draft()
    record_alive(made, rung(MACHINE, 2, 9))
    record_alive(made, rung("stranger", 2, 9))
    assert not made.is_changed


def test_what_a_newer_agent_tells_too_costs_nothing_else() -> None:
    """Facts of an unknown kind, or with an unknown field, are left out and named."""
    drained = encode(Drained(of=OF))
    odd = encode(Heartbeat()).replace(b"}", b',"newer":1}')
    data = b'{"schema":1,"facts":[%s,%s,%s,%s]}' % (NEWER, encode(HELLO), odd, drained)
    bell, unknown = decoded(data, key="b", most_values=100)
    assert bell.facts == (HELLO, Drained(of=OF))
    assert unknown.startswith("b: facts.0.kind: unknown (found 'newer'); facts.2.")
    assert unknown.endswith("; the rest of it counts")
    assert decoded(encode(bell), key="b", most_values=100) == (bell, "")


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":2,"facts":[]}',
        b'{"schema":1,"newer":1,"facts":[]}',
        b'{"schema":1,"newer":1}',
        b'{"schema":1,"facts":[%s]}' % b",".join([encode(Heartbeat())] * MOST_APART + [NEWER]),
    ],
)
def test_a_bell_of_another_form_tells_nothing(data: bytes) -> None:
    """What a fact in it means is not known; and many facts take too long to tell apart."""
    with pytest.raises(RecordError):
        decoded(data, key="b", most_values=10_000)


def test_a_bell_that_breaks_a_rule_tells_nothing() -> None:
    """A fact of our own version that is wrong is a bug's, beside whatever it is told."""
    with pytest.raises(RecordError, match=r"facts\.0\.of: missing"):
        decoded(b'{"schema":1,"facts":[{"kind":"drained"},%s]}' % NEWER, key="b", most_values=100)


@pytest.mark.parametrize("facts", ["5", "null", '"ended"', '{"kind":"drained"}', "true"])
def test_facts_that_are_no_list_are_refused_beside_an_unknown_field(facts: str) -> None:
    """A bell that no agent of any version writes is set aside, and fails no turn."""
    data = f'{{"schema":1,"facts":{facts},"newer":1}}'.encode()
    with pytest.raises(RecordError, match="facts"):
        decoded(data, key="b", most_values=100)
