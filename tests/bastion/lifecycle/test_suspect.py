"""Which machine is to blame for a job's failures, and when none is."""

from __future__ import annotations

from bastion.job import OutcomeKind, PastAttempt
from bastion.lifecycle import events as ev
from bastion.lifecycle import step, suspect_of
from tests.rigs.job_records import T0, drained, ended, exited, running


def past(*ends: tuple[str, int]) -> list[PastAttempt]:
    """Return attempts that ran on one machine each and ended with a code."""
    return [
        PastAttempt(
            number=number,
            nonce=f"n{number}",
            admitted_at=0.0,
            started_at=1.0,
            ended_at=2.0,
            kind=OutcomeKind.FAILED if code else OutcomeKind.SUCCEEDED,
            code=code,
            machines=((machine,),),
            failed_on=machine if code else "",
        )
        for number, (machine, code) in enumerate(ends, start=1)
    ]


def test_a_failure_on_one_machine_alone_makes_it_suspect() -> None:
    """It had the same code twice there, and another end elsewhere."""
    for elsewhere in (0, 3):
        suspect = suspect_of(past(("m", 7), ("n", elsewhere), ("m", 7)))
        assert suspect is not None
        assert (suspect.machine, suspect.times, suspect.others) == ("m", 2, 1)


def test_a_job_that_fails_everywhere_is_its_own_cause() -> None:
    """The same failure elsewhere, no attempt elsewhere, or other failures here blame nothing."""
    assert suspect_of(past(("m", 7), ("m", 7), ("n", 7))) is None
    assert suspect_of(past(("m", 7), ("m", 7))) is None
    assert suspect_of(past(("m", 7), ("m", 8), ("n", 0))) is None
    assert suspect_of(past(("m", 7), ("n", 0))) is None
    assert suspect_of([]) is None


def test_a_worker_that_decided_nothing_is_not_the_machine_to_blame() -> None:
    """If the first replica decides, its machine counts, though a worker failed before."""
    job = running(replicas=2, first_decides=True, retries=1)
    job = step(job, ev.HostEnded(replica=1, host=0, end=exited(9)), T0 + 1)
    job = drained(ended(job, exited(4), now=T0 + 2))
    (past,) = job.past
    assert (past.code, past.failed_on) == (4, "m0-0")
