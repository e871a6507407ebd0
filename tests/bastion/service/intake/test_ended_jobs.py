"""What a launch waits for is looked up over several turns, however much it names."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.records.keys import layout
from bastion.service.intake.inbox import LAUNCH_LOOKS
from bastion.spec import After, Job, Process, Resources
from bastion.store import Object, Version
from bastion.store.memory import MemoryStore
from bastion.store.port import READ_LIMIT_BYTES
from tests.rigs.leader import Rig

MOST_READS = 3 * LAUNCH_LOOKS + 50
"""Reads per turn: a result, a spec and a look at the launch's own jobs, and the rest."""


class Counted(MemoryStore):
    """Counts reads."""

    reads = 0

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        self.reads += 1
        return super().read(key, unless=unless, limit_bytes=limit_bytes)


def made() -> tuple[Rig, Counted]:
    """Return a bastion with machines, and its bucket."""
    rig = Rig()
    bucket = Counted(rig.clock.wall)
    bucket.__dict__.update(rig.bucket.__dict__)
    rig.bucket = bucket
    rig.store = bucket
    rig.leader = rig.take(pid=2)
    rig.turn(3)
    return rig, bucket


def many(number: int, *after: After | str) -> tuple[Job, ...]:
    """Return that many jobs of one launch, each of which waits for all of `after`."""
    process = Process(["true"], resources=Resources(h100=1))
    return tuple(
        Job(name=f"j{n}", processes=(process,), after=after, hold=not after) for n in range(number)
    )


def ended(rig: Rig, number: int) -> tuple[str, tuple[str, ...]]:
    """Return a launch of that many jobs that were cancelled and have left root, and its jobs."""
    asked = rig.launch("old", jobs=many(number), together=False)
    answered(rig, asked)
    answer = rig.answer(asked)
    assert len(rig.root.jobs) == number
    rig.verb("cancel", answer.launch)
    rig.until(lambda: not rig.root.jobs)
    return answer.launch, answer.jobs


def answered(rig: Rig, asked: str) -> int:
    """Take turns until a request is answered; return the most reads of a turn."""
    bucket = rig.bucket
    assert isinstance(bucket, Counted)
    most = 0
    for _ in range(60):
        before = bucket.reads
        rig.leader.turn()
        most = max(most, bucket.reads - before)
        rig.clock.advance(1.0)
        if f"blue/ann/{asked}" in rig.root.answers:
            return most
        assert not rig.keys(layout.answer("blue", "ann", asked))
    raise AssertionError("it was never answered")


def test_a_turn_that_looks_up_a_part_is_followed_by_the_next_at_once() -> None:
    """A large launch is answered without extra polls, although nothing is committed yet."""
    rig, _ = made()
    assert not rig.leader.turn()
    asked = rig.launch("large", jobs=many(2 * LAUNCH_LOOKS + 1), together=False)
    for _ in range(2):
        assert rig.leader.turn()
        assert f"blue/ann/{asked}" not in rig.root.answers
    rig.leader.turn()
    assert rig.answer(asked).accepted


def test_a_launch_that_waits_for_thousands_holds_up_no_turn() -> None:
    """Each id that is not in root costs two reads; a turn makes some of them."""
    rig, _ = made()
    unknown = tuple(f"x{n}-0123456789" for n in range(99))
    jobs = tuple(
        Job(name=f"j{n}", processes=(Process(["true"]),), after=[f"{n}{each}" for each in unknown])
        for n in range(6)
    )
    asked = rig.launch("next", jobs=jobs, together=False)
    assert answered(rig, asked) <= MOST_READS
    problems = rig.answer(asked).problems
    assert problems[0] == "after: there is no job or launch '0x0-0123456789' in project blue"
    assert problems[-1] == "and 544 more"


def test_a_launch_of_hundreds_that_has_ended_is_known_in_some_turns() -> None:
    """The outcome of each of its jobs is read, some in each turn."""
    rig, _ = made()
    launch, jobs = ended(rig, 250)
    asked = rig.launch("next", after=[After(launch, when="any")], h100=1)
    assert answered(rig, asked) <= MOST_READS
    (job,) = rig.answer(asked).jobs
    assert rig.job(job).after == ()
    asked = rig.launch("never", after=[launch])
    answered(rig, asked)
    assert f"its dependency {jobs[0]} was cancelled" in rig.answer(asked).problems[0]


def test_what_ends_while_others_are_looked_up_is_known() -> None:
    """It was active in the first of these turns, and has left root in the last."""
    rig, _ = made()
    _, jobs = ended(rig, 250)
    running = rig.start("running")
    rig.agent_of(running).end(running)
    after = [After(each, when="any") for each in jobs]
    process = Process(["true"], resources=Resources(h100=1))
    parts: list[Sequence[After | str]] = [[running, *after[:99]], after[99:190], after[190:]]
    asked = rig.launch(
        "next",
        jobs=tuple(
            Job(name=f"j{n}", processes=(process,), after=part) for n, part in enumerate(parts)
        ),
        together=False,
    )
    answered(rig, asked)
    assert running not in rig.root.jobs
    assert rig.answer(asked).problems == ()
    assert [rig.job(job).after for job in rig.answer(asked).jobs] == [(), (), ()]


def test_a_verb_on_launches_that_have_ended_asks_for_one_job_of_each() -> None:
    """All jobs of a launch have final records when it is no longer in root."""
    rig, bucket = made()
    launch, _ = ended(rig, 250)
    before = bucket.reads
    asked = rig.verb("cancel", launch)
    rig.leader.turn()
    assert bucket.reads - before < 20
    assert rig.answer(asked).accepted
