"""
The requests that one turn applies: as many as leave it short, with a share for every user.

To apply a request, decide on it and commit it takes time for each job that it names. A turn that
takes too many publishes nothing meanwhile, and its lease may run out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from bastion.records.request import JobsRequest, LaunchRequest, UpdateRequest
from bastion.service.intake.inbox import ReadRequest


def apply_portion(
    requests: Sequence[ReadRequest], apply: Callable[[ReadRequest], bool], *, most_jobs: int
) -> list[ReadRequest]:
    """
    Apply the requests of this turn, and return those that need not wait.

    `apply` is called for all of them in their order if they name at most `most_jobs` jobs.
    Otherwise it is called for those of each user until one need not wait, then again for each user,
    until those that need not wait name so many jobs. The requests of one user keep their order.
    Every user has its turn in the first round, so no flood of others can delay it.
    """
    if sum(map(_jobs_of, requests)) <= most_jobs:
        return [each for each in requests if apply(each)]
    waiting: dict[str, deque[ReadRequest]] = {}
    for each in requests:
        name = each.waiting.name
        waiting.setdefault(f"{name.project}/{name.user}", deque()).append(each)
    applied: list[ReadRequest] = []
    jobs = 0
    while waiting and jobs < most_jobs:
        for owner, theirs in list(waiting.items()):
            while theirs:
                each = theirs.popleft()
                if apply(each):
                    applied.append(each)
                    jobs += _jobs_of(each)
                    break
            else:
                del waiting[owner]
    return applied


def _jobs_of(request: ReadRequest) -> int:
    """Return how many jobs `request` names; the tasks of an array count as one."""
    match request.body:
        case LaunchRequest(launch=launch):
            return len(launch.jobs)
        case JobsRequest(targets=targets) | UpdateRequest(targets=targets):
            return len(targets)
        case _:
            return 1
