"""
Permissions of users on the jobs of a project, by the quota file in force.

| user                                           | can                                     |
|------------------------------------------------|-----------------------------------------|
| a member                                       | submit; change, stop and hold their own |
| an admin of the project                        | do the same with everyone's jobs        |
| a member, if the project names no admins       | stop and hold everyone's jobs           |
| the owner of a job who is no longer a member   | cancel it                               |

Requests of other users are refused. The path of a request identifies its user.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.job import JobRecord
from bastion.records.keys.layout import RequestName
from quota import Quota


def membership_problem(
    asked: RequestName, quota: Quota, owns: Callable[[str, str], bool] = lambda *_: True
) -> str:
    """
    Return why the user cannot make this kind of request in this project, or an empty string.

    `owns` returns whether a user has an active job in a project. A user who was removed from the
    project can still cancel it.
    """
    if asked.verb == "cancel" and owns(asked.project, asked.user):
        return ""
    refusal = quota.resolve_project(asked.user, asked.project)
    return "" if isinstance(refusal, str) else str(refusal)


def ownership_problem(asked: RequestName, job: JobRecord, quota: Quota) -> str:
    """Return why the user cannot do this to `job`, or an empty string."""
    project = quota.project(job.project)
    if job.user == asked.user:
        return ""
    refusal = quota.resolve_project(asked.user, asked.project)
    if not isinstance(refusal, str):
        return str(refusal)
    is_open = asked.verb not in ("update", "exec") and not project.admins.written
    if project.has_admin(asked.user) or is_open:
        return ""
    others = ", ".join(project.admins.written) or "none is named"
    return (
        f"{job.id}: is {job.user}'s; {job.user} or an admin of {job.project} ({others})"
        f" may {asked.verb} it"
    )
