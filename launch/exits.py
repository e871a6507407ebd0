"""Exit codes: one table, the same for every verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.client import JobView

OK = 0
FAILED = 1
USAGE = 2
JOB_FAILED = 100
"""The job failed without a code of its own."""
JOB_CANCELLED = 101
JOB_TIMED_OUT = 102
NOT_FOUND = 103
REFUSED = 104
IN_DOUBT = 105
"""The request may have been accepted: a script must ask before it submits again."""
CHANGES = 106
WAIT_TIMED_OUT = 124
"""As timeout(1) has it."""
DETACHED = 130
"""Ctrl-C while following: 128 + SIGINT, as shells have it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: the reader of our output is gone."""

MEANINGS = {
    OK: "done; for run, wait and logs --exit: the job succeeded",
    FAILED: "it could not be done",
    USAGE: "the command line or a file is wrong, or the file is not there",
    JOB_FAILED: "the job failed without a code of its own",
    JOB_CANCELLED: "the job was cancelled",
    JOB_TIMED_OUT: "the job was stopped at its time limit",
    NOT_FOUND: "what was asked for is not there: a job, a task, a machine",
    REFUSED: "the bastion said no, and why; for --dry_run: it would",
    IN_DOUBT: "the request may have been accepted; the hint says how to find out",
    CHANGES: "quota diff --exit_code: the file would change something",
    WAIT_TIMED_OUT: "the time to wait is over; nothing was stopped",
    DETACHED: "Ctrl-C: detached; the job goes on",
    BROKEN_PIPE: "the reader of the output is gone",
}
"""The meaning of every code except a job's own, which `run`, `wait` and `logs --exit` pass on."""

_BY_STATE = {"cancelled": JOB_CANCELLED, "timed_out": JOB_TIMED_OUT}


def of_job(job: JobView) -> int:
    """Return the exit code for the end of `job`; a signal is 128 plus its number."""
    outcome = job.outcome or job.state
    if outcome == "succeeded":
        return OK
    if outcome in _BY_STATE:
        return _BY_STATE[outcome]
    if job.code is None or job.code == 0:
        return JOB_FAILED
    return 128 - job.code if job.code < 0 else job.code


def of_jobs(jobs: Sequence[JobView]) -> int:
    """Return the code of the first of `jobs` that did not succeed, or 0."""
    return next((code for code in map(of_job, jobs) if code), OK)
