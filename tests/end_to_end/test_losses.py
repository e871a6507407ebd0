"""Jobs that end because of other jobs or the loss of their machine."""

from __future__ import annotations

from typing import Any

import pytest

from bastion import Job, Launch, Process, Resources, Where
from tests.end_to_end.programs import Programs, until

pytestmark = pytest.mark.end_to_end

STEPS = """
trap 'echo saved > "$BASTION_OUTPUT_DIR/s"; exit 1' TERM
echo try $BASTION_ATTEMPT
case $BASTION_ATTEMPT in 1) while :; do sleep 0.05; done;; 2) exit 3;; esac
cat "$BASTION_OUTPUT_DIR/s"
"""
"""Waits to be stopped in its first attempt, fails in its second, succeeds in its third."""


def test_a_preemption_uses_up_no_retry_and_ends_what_is_not_to_resume(programs: Programs) -> None:
    """Four jobs borrow a machine that is reclaimed: two of them start again."""
    whole = Process(["sleep", "600"], resources=Resources(h100=8))
    own = programs.client.launch(Launch(name="own", jobs=[Job(processes=[whole])]))
    until(lambda: own.counts == {"running": 1}, "its own share is used")
    flags = ("--resources=h100=2", "--retries=1", "--retry_backoff=0.1s", "--shell")
    process = Process(STEPS, shell=True, resources=Resources(h100=2))
    lent = []
    for resume in ((), ("--no_resume",)):
        lent.append(programs.run("launch", "-q", *flags, *resume, "--", STEPS).stdout.strip())
        job = Job(processes=[process], retries=1, retry_backoff=0.1, resume=not resume)
        lent += programs.client.launch(Launch(name="api", jobs=[job])).jobs
    for each in lent:
        programs.prints(each, "try 1\n")
    words = ("run", "--user_id=bob", "--resources=h100=8", "--", "echo", "mine")
    assert programs.run(*words).stdout == "mine\n"
    again, once = map(programs.wait, lent[:2]), map(programs.wait, lent[2:])
    for ended in again:
        assert (ended.state, ended.attempt, ended.preemptions) == ("succeeded", 3, 1)
        assert programs.printed(ended.id) == "try 3\nsaved\n"
    for ended in once:
        assert (ended.state, ended.attempt) == ("cancelled", 1)
        assert "preempted for" in ended.text
        assert ended.text.endswith("; it does not resume")
    assert programs.run("wait", lent[0]).returncode == 0
    assert programs.run("wait", lent[2], check=False).returncode == 101
    own.cancel()


def test_a_job_that_must_not_resume_is_lost_with_its_machine(programs: Programs) -> None:
    """It ends where another job would be retried: the attempt dies with its keeper."""
    host = programs.client.pool().machines[0].name
    line = "echo up; test $BASTION_ATTEMPT = 2 || sleep 1000"
    words = ("launch", "-q", f"--hostname={host}", "--shell")
    again = [programs.run(*words, "--", line).stdout.strip(), python(programs, line, host)]
    once = [
        programs.run(*words, "--no_resume", "--", line).stdout.strip(),
        python(programs, line, host, resume=False),
    ]
    for each in (*once, *again):
        programs.prints(each, "up\n")
    kill_keeper(programs, host)
    for job in map(programs.wait, once):
        assert (job.state, job.attempt) == ("lost", 1)
        assert job.text.endswith("; it does not resume")
    for job in map(programs.wait, again):
        assert (job.state, job.attempt) == ("succeeded", 2)


@pytest.mark.prove
def test_a_job_that_loses_its_machine_three_times_in_a_row_is_lost(programs: Programs) -> None:
    """A dead keeper uses up no retry; after three in a row, the job itself is blamed."""
    host = programs.client.pool().machines[0].name
    line = "echo try $BASTION_ATTEMPT; sleep 600"
    words = ("launch", "-q", f"--hostname={host}", "--retries=5", "--shell", "--", line)
    jobs = [programs.run(*words).stdout.strip(), python(programs, line, host, retries=5)]
    for attempt in (1, 2, 3):
        for job in jobs:
            programs.prints(job, f"try {attempt}\n")
        kill_keeper(programs, host)
    for ended in map(programs.wait, jobs):
        assert (ended.state, ended.attempt) == ("lost", 3)
        assert "lost 3 times in a row" in ended.text
        assert programs.run("wait", ended.id, check=False).returncode == 100


def python(on: Programs, line: str, host: str, **fields: Any) -> str:
    """Launch a job of one shell line from Python onto a machine; return its id."""
    job = Job(processes=[Process(line, shell=True)], **fields)
    wanted = Launch(name="api", jobs=[job], where=Where(hostnames=[host]))
    (made,) = on.client.launch(wanted).jobs
    return made


def kill_keeper(on: Programs, host: str) -> None:
    """Kill (-9) the keeper of a machine: the bastion considers its processes lost."""
    (keeper,) = on.processes("bastion.agent.keeper", f"/{host}/")
    keeper.kill()
