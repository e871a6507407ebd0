"""The next root: numbers follow each other, and nothing is committed partially."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.lifecycle import events as ev
from bastion.machine import Batch, Follow, Machine, MachinePhase
from bastion.records.requests.answer import Answer
from bastion.records.root import Event, Root
from bastion.service.draft.root_draft import Draft
from tests.rigs import job_records

MACHINE = Machine(name="m", pool="p", phase=MachinePhase.READY, life=3, batches=4)
FOLLOW = Follow(project="blue", job="j")


def root(**more: object) -> Root:
    """Return a root with some history."""
    given = {"epoch": 2, "seq": 7, "now": 1.0, "write_id": "old", "next_event": 10, **more}
    return Root(**given)  # type: ignore[arg-type]


def test_a_commit_follows_the_last() -> None:
    """The next root has the next number, names the last, and has the draft's time."""
    made = Draft(root(), 5.0).finish(write_id="new", leader=None)
    assert (made.seq, made.prev_write_id, made.write_id, made.now) == (8, "old", "new", 5.0)
    assert made.epoch == 2


def test_nothing_changed() -> None:
    """A draft without changes requests no commit."""
    job = job_records.running()
    draft = Draft(root(jobs={job.id: job}, machines={"m": MACHINE}), 5.0)
    draft.put_machine(replace(MACHINE))
    draft.apply(job.id, ev.HostStarted(replica=0, host=0))
    draft.answered("none")
    draft.segment_written(99)
    draft.result_written(job.id)
    draft.seal(at_most=500, older_than=0.0)
    assert not draft.is_changed


def test_a_machine_that_is_heard_leaves_the_jobs_as_they_are() -> None:
    """What a commit does not change is the same object in the next root; readers rely on that."""
    job = job_records.running()
    before = root(jobs={job.id: job}, machines={"m": MACHINE})
    draft = Draft(before, 5.0)
    draft.put_machine(replace(MACHINE, heard_at=5.0))
    draft.jobs[job.id] = replace(job)
    made = draft.finish(write_id="w")
    assert draft.is_changed
    assert made.jobs is before.jobs
    assert made.arrays is before.arrays
    assert made.machines["m"].heard_at == 5.0


def test_a_machine_is_told_once_in_a_turn_to_follow_a_job() -> None:
    """Thousands of readers of the same logs cause one instruction in root."""
    draft = Draft(root(machines={"m": MACHINE}), 5.0)
    for _ in range(3):
        draft.instruct("m", FOLLOW)
        draft.instruct("m", replace(FOLLOW, job="other"))
    (batch,) = draft.finish(write_id="w").machines["m"].outgoing
    assert batch.instructions == (FOLLOW, replace(FOLLOW, job="other"))


def test_events_are_numbered_without_a_gap() -> None:
    """New lines continue where root's ended; one about a withdrawn job leaves no gap."""
    draft = Draft(root(events=(Event(n=9, at=0.0, what="old"),)), 5.0)
    draft.tell(what="first")
    draft.add(job_records.queued())
    draft.tell(what="second")
    draft.withdraw(["train-1"])
    made = draft.finish(write_id="w")
    assert [(event.n, event.what) for event in made.events] == [
        (9, "old"),
        (10, "first"),
        (11, "second"),
    ]
    assert made.next_event == 12
    assert not made.jobs


def test_what_is_committed_cannot_be_withdrawn() -> None:
    """Only a job of this turn can be refused."""
    job = job_records.queued()
    draft = Draft(root(jobs={job.id: job}), 5.0)
    with pytest.raises(AssertionError, match="train-1: committed"):
        draft.withdraw([job.id])


def test_instructions_of_a_turn_are_one_batch() -> None:
    """All instructions to one machine are one batch with the next number of its life."""
    draft = Draft(root(machines={"m": MACHINE}), 5.0)
    draft.instruct("m", FOLLOW)
    draft.instruct("m", replace(FOLLOW, job="k"))
    machine = draft.finish(write_id="w").machines["m"]
    assert machine.batches == 5
    (batch,) = machine.outgoing
    assert (batch.number, batch.life, len(batch.instructions)) == (5, 3, 2)


def test_a_batch_leaves_once_it_stands() -> None:
    """A written batch leaves root; one of an older life is not looked for."""
    batches = (Batch(number=4, life=3), Batch(number=5, life=3))
    machine = replace(MACHINE, outgoing=batches)
    draft = Draft(root(machines={"m": machine}), 5.0)
    draft.batch_written("m", Batch(number=5, life=2))
    assert not draft.is_changed
    draft.batch_written("m", batches[0])
    assert draft.machines["m"].outgoing == (batches[1],)


def test_a_machine_that_goes_takes_its_instructions_along() -> None:
    """Instructions of this turn to a machine that is found gone in it are not committed."""
    draft = Draft(root(machines={"m": MACHINE}), 5.0)
    draft.instruct("m", FOLLOW)
    draft.drop_machine("m")
    assert draft.finish(write_id="w").machines == {}


def test_segments_are_sealed_by_number_or_age() -> None:
    """Committed events are sealed when many or old, once, and leave when written."""
    old = tuple(Event(n=n, at=1.0, what="x") for n in range(3))
    draft = Draft(root(events=old, next_event=3), 5.0)
    draft.seal(at_most=4, older_than=0.5)
    assert not draft.sealed
    draft.tell(what="new")
    draft.seal(at_most=3, older_than=0.5)
    made = draft.finish(write_id="w")
    ((first, events),) = [(segment.first, segment.events) for segment in made.sealed]
    assert (first, events) == (0, old)
    assert [event.n for event in made.events] == [3]
    later = Draft(made, 6.0)
    later.segment_written(0)
    assert later.is_changed
    assert not later.finish(write_id="w2").sealed


def test_old_events_are_sealed_though_few() -> None:
    """A single event does not stay in root forever."""
    draft = Draft(root(events=(Event(n=9, at=1.0, what="x"),)), 100.0)
    draft.seal(at_most=500, older_than=40.0)
    assert len(draft.sealed) == 1


def test_a_first_answer_stands() -> None:
    """This turn cannot change an answer by an earlier commit, or for jobs of one."""
    job = job_records.queued()
    answer = Answer(ulid="01", verb="launch", accepted=True, launch="train-1", jobs=(job.id,))
    draft = Draft(root(answers={"blue/ann/01": answer}), 5.0)
    assert draft.brought("blue/ann/01") is None
    draft.answer("blue/ann/02", answer)
    assert draft.brought("blue/ann/02") is None
    draft.add(job)
    assert draft.brought("blue/ann/02") == answer


def test_history_tells_states_as_users_see_them() -> None:
    """Each change of a job's state is one line, with its reason, place or user."""
    job = job_records.queued()
    draft = Draft(root(), 5.0)
    draft.add(job)
    for event in (
        ev.HeldBack(by="ann"),
        ev.Released(),
        job_records.admitted(),
        ev.HostStarted(replica=0, host=0),
        ev.StopWanted(stop=job_records.stop()),
        ev.HostEnded(replica=0, host=0, end=job_records.exited(143, notice="preempt")),
        ev.DrainEnded(),
        ev.HeldBack(by="bob"),
    ):
        draft.apply(job.id, event)
    told = [(event.what, event.text) for event in draft.finish(write_id="w").events]
    assert told == [
        ("submitted", "by ann"),
        ("held", "by ann"),
        ("queued", "released"),
        ("starting", "attempt 1 on m0-0"),
        ("running", "attempt 1 on m0-0"),
        ("stopping", "preempted for owner"),
        ("draining", "attempt 1 on m0-0"),
        ("preempted", "preempted for owner"),
        ("held", "by bob"),
    ]
