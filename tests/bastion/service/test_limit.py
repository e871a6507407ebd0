"""The maximum size of one root: anything beyond is refused, with the number."""

from __future__ import annotations

from dataclasses import replace

from bastion.clock import VirtualClock
from bastion.monitor import Options
from bastion.records.keys import ulid
from bastion.records.keys.layout import RequestName
from bastion.records.requests.inbox import Waiting
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.root import MAX_ACTIVE_JOBS, Root
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.requests import Rules, answer_key, apply_request
from bastion.spec import Job, Launch, Process, Resources
from bastion.store import Entry, Version
from quota import parse
from tests.rigs import job_records
from tests.rigs.leader import QUOTA

NOW = VirtualClock().wall()
RULES = Rules(quota=parse(QUOTA), pools={}, options=Options())


def asked(jobs: int) -> tuple[Waiting, LaunchRequest]:
    """Return a launch of that many jobs."""
    name = RequestName(
        project="blue", user="ann", ulid=ulid.make(NOW, b"0123456789"), verb="launch"
    )
    entry = Entry(key="k", version=Version("1"), size=1, modified_at=NOW)
    one = Job(processes=(Process(["true"], resources=Resources(h100=1)),))
    named = tuple(replace(one, name=f"job-{number}") for number in range(jobs))
    return Waiting(entry=entry, name=name), LaunchRequest(launch=Launch(name="l", jobs=named))


def draft_of(jobs: int) -> Draft:
    """Return a root with that many running jobs: as many as can be admitted at all."""
    running = job_records.running()
    active = {f"job-{number}": running for number in range(jobs)}
    return Draft(Root(epoch=1, seq=1, now=NOW, write_id="w", jobs=active), NOW)


def test_jobs_beyond_the_limit_are_refused() -> None:
    """
    The 30,000th job is accepted, the next one refused: one limit covers records and admissions.

    So the scheduler can never admit more, whatever the quota file says.
    """
    assert MAX_ACTIVE_JOBS == 30_000
    draft = draft_of(MAX_ACTIVE_JOBS - 1)
    waiting, two = asked(2)
    apply_request(draft, waiting, two, RULES)
    answer = draft.answers[answer_key(waiting)]
    assert answer.problems == (
        "there are 29999 active jobs; with these 2 it would be more than the 30000 that one"
        " bastion handles",
    )
    draft = draft_of(MAX_ACTIVE_JOBS - 1)
    waiting, one = asked(1)
    apply_request(draft, waiting, one, RULES)
    assert draft.answers[answer_key(waiting)].accepted
    assert len(draft.jobs) == MAX_ACTIVE_JOBS
