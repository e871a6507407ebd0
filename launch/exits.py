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
"""The job failed without an exit code."""
JOB_CANCELLED = 101
JOB_TIMED_OUT = 102
NOT_FOUND = 103
REFUSED = 104
IN_DOUBT = 105
"""The request may have been accepted: a script must check before it submits again."""
CHANGES = 106
WAIT_TIMED_OUT = 124
"""Same as timeout(1)."""
DETACHED = 130
"""Ctrl-C while following: 128 + SIGINT, as in shells."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: the reader of our output has closed it."""

MEANINGS = {
    OK: "success; for run, wait and logs --exit: the job succeeded",
    FAILED: "the command failed",
    USAGE: "the command line or a file is invalid, or the file does not exist",
    JOB_FAILED: "the job failed without an exit code",
    JOB_CANCELLED: "the job was cancelled",
    JOB_TIMED_OUT: "the job reached its time limit",
    NOT_FOUND: "not found: a job, a task or a machine",
    REFUSED: "the bastion refused the request; for --dry_run: it would refuse it",
    IN_DOUBT: "the request may have been accepted; the hint says how to check",
    CHANGES: "quota diff --exit_code: the file would change something",
    WAIT_TIMED_OUT: "the wait timed out; nothing was stopped",
    DETACHED: "Ctrl-C: detached; the job continues",
    BROKEN_PIPE: "the reader of the output closed it",
}
"""The meaning of every code but a job's exit code, which `run`, `wait` and `logs --exit` return."""

_BY_STATE = {"cancelled": JOB_CANCELLED, "timed_out": JOB_TIMED_OUT}


def of_program(code: int) -> int:
    """Return the exit code for a program of this machine; a signal is 128 plus its number."""
    return 128 - code if code < 0 else code


def of_job(job: JobView) -> int:
    """Return the exit code for the end of `job`; a signal is 128 plus its number."""
    outcome = job.outcome or job.state
    if outcome == "succeeded":
        return OK
    if outcome in _BY_STATE:
        return _BY_STATE[outcome]
    if job.code is None or job.code == 0:
        return JOB_FAILED
    return of_program(job.code)


def of_jobs(jobs: Sequence[JobView]) -> int:
    """Return the code of the first of `jobs` that did not succeed, or 0."""
    return next((code for code in map(of_job, jobs) if code), OK)
