"""
Which job is meant: by id, by the unique beginning of an id, or by name (then the newest).

Active jobs are looked at first; among the finished, only keys are listed until one is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.client.published import Published
from bastion.client.views import JobView, name_of
from bastion.errors import NotFoundError, SpecError

_SHOWN = 8
"""Candidates that an error lists."""


def find(published: Published, text: str, *, project: str = "") -> JobView:
    """
    The job that `text` names.

    Args:
        published: Where to look.
        text: An id, the unique beginning of one, or a name: then the newest job that has it.
        project: Only in this project; empty: in all.

    Raises:
        NotFoundError: There is none.
        SpecError: It is the beginning of several ids; the message lists them.
        StoreError: Out of reach.
    """
    rows = _rows(published, project)
    chosen = _choose(text, [(row.id, _name(row, text), row.submitted_at) for row in rows])
    if chosen is not None:
        return next(row for row in rows if row.id == chosen)
    found = _root_or_result(published, text, project)
    if found is None:
        raise NotFoundError(
            f"no job {text!r}" + (f" in project {project}" if project else ""),
            hint="bastion list shows active jobs, bastion list --all finished ones too",
        )
    return found


def find_all(published: Published, text: str, *, project: str = "") -> tuple[JobView, ...]:
    """
    The jobs that `text` names: those of a launch when it is a launch's id, else the one job.

    Raises:
        NotFoundError: There is none.
        SpecError: It is ambiguous: the beginning of several ids, or the name of several active
            jobs; the message lists them.
        StoreError: Out of reach.
    """
    rows = _rows(published, project)
    of_launch = tuple(row for row in rows if row.launch == text)
    if of_launch:
        return of_launch
    named = [row.id for row in rows if _name(row, text) == text and row.id != text]
    if len(named) > 1:
        raise _ambiguous(text, named)
    return (find(published, text, project=project),)


def find_target(published: Published, text: str, *, project: str) -> str:
    """
    The id of the job or launch that `text` names, for others to wait for.

    Raises:
        NotFoundError: There is none.
        SpecError: It is ambiguous.
        StoreError: Out of reach.
    """
    rows = _rows(published, project)
    launches = sorted({row.launch for row in rows if row.launch != row.id})
    if text not in launches and not any(_name(row, text) == text for row in rows):
        named = [launch for launch in launches if name_of(launch) == text]
        if len(named) > 1:
            raise _ambiguous(text, named)
        if named:
            return named[0]
    try:
        jobs = find_all(published, text, project=project)
    except NotFoundError:
        if published.has_launch(project, text):
            return text
        raise
    return text if text in launches else jobs[0].id


def _name(row: JobView, text: str) -> str:
    """The name of a job that `text` may be: in its launch, or in its id."""
    return row.name if row.name == text else name_of(row.id)


def _rows(published: Published, project: str) -> Sequence[JobView]:
    try:
        rows = published.queue()
    except NotFoundError:
        return ()
    return [row for row in rows if row.project == project] if project else rows


def _root_or_result(published: Published, text: str, project: str) -> JobView | None:
    active = published.active(text)
    if active is not None and project in ("", active.project):
        return active
    for place in (project,) if project else published.projects():
        ended = published.finished_like(place, text)
        chosen = _choose(text, [(job, name_of(job), at) for job, at in ended])
        if chosen is not None:
            return published.result(place, chosen)
    return None


def _choose(text: str, jobs: Sequence[tuple[str, str, float]]) -> str | None:
    """The id meant among (id, name, time), or None."""
    named: list[tuple[float, str]] = []
    begin: list[str] = []
    for job, name, at in jobs:
        if job == text:
            return job
        if name == text:
            named.append((at, job))
        elif job.startswith(text):
            begin.append(job)
    if named:
        return max(named)[1]
    if len(begin) > 1:
        raise _ambiguous(text, begin)
    return begin[0] if begin else None


def _ambiguous(text: str, ids: Sequence[str]) -> SpecError:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return SpecError(
        f"{text!r} names {len(ids)} jobs: {', '.join(ids[:_SHOWN])}{more}",
        hint="give the whole id, or more of it",
    )
