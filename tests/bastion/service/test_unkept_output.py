"""Output that a machine could not keep: the user is told during the run and permanently."""

from __future__ import annotations

from bastion.job import End
from bastion.records.reports.facts import Drained, Ended, Unkept
from tests.rigs.leader import Rig

STILL = "it is still being saved"
WHY = "more than 50,000 files and folders; pack them into fewer"


def test_output_that_is_not_kept_is_told_while_the_job_runs() -> None:
    """One event and the job's reason say so; another event says that it is over."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    for text in (WHY, ""):
        agent.ring(Unkept(of=agent.of(job), text=text))
        rig.turn(2)
    told = [event.text for event in rig.history() if event.what == "output"]
    assert told == [f"the output is not kept: {WHY}", "its output is kept again"]


def test_output_that_is_not_kept_at_the_end_is_in_the_result() -> None:
    """The outcome does not change, and the final record and the history say so."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    end = agent.end_as(of, End(kind="exited", codes=(0,), sizes=(3,)), rings=False)
    agent.ring(Ended(of=of, end=end))
    rig.turn(2)
    agent.ring(Unkept(of=of, text=WHY), Drained(of=of))
    result = rig.ended(job)
    assert result.outcome == "succeeded"
    assert result.text == f"exited with code 0; the output is not kept: {WHY}"
    (row,) = [event for event in rig.history() if event.what == "succeeded"]
    assert row.text.endswith(WHY)


def test_a_job_drains_for_as_long_as_its_output_is_told_to_be_saved() -> None:
    """The bastion waits for it, with one event; if it gives up, the outcome names it."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    end = agent.end_as(of, End(kind="exited", codes=(0,), sizes=(3,)), rings=False)
    agent.ring(Ended(of=of, end=end))
    rig.turn(2)
    began = rig.clock.monotonic()
    while rig.clock.monotonic() < began + 400.0:
        agent.ring(Unkept(of=of, text=STILL))
        rig.turn(2, seconds=22.0)
        assert rig.phase(job) == "draining"
    assert [each.text for each in rig.history() if each.what == "output"] == [
        f"the output is not kept: {STILL}"
    ]
    rig.turn(10, seconds=22.0)
    result = rig.ended(job)
    given_up = "the end of the log may be missing: not all of it arrived in time"
    assert result.text == f"exited with code 0; the output is not kept: {STILL}; {given_up}"
