"""
Which job a name means: an id, a name (then the newest), or the unique beginning of an id.

An exact match always takes precedence, even if that job has ended. A beginning only counts for
reading: a change of `train` must never reach `train2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from bastion.client.look.array_views import part_of
from bastion.client.look.published import Published
from bastion.client.look.views import JobView, name_of
from bastion.errors import NotFoundError, SpecError
from bastion.spec.arrays.indices import Indices
from bastion.spec.arrays.task import tasks_named, tasks_of_id
from quota.pattern import pattern


class Named(Protocol):
    """A handle of a launch, or a view of a job."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


JobNames = str | Named | Iterable[str | Named]
"""A job or a launch by name or id, or by a handle or view of it; or several of these."""

_NAMES = pattern(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
"""The form of names and ids of jobs and tasks."""
_MOST_CHARACTERS = 200
"""The longest id: a name of 63, its random end, and a task."""
_SHOWN = 8
"""Candidates that an error lists."""
_COMPARED = 1000
"""Active jobs that a mistyped name is compared with, at about 50 us each."""


def find(
    published: Published, text: str | Named, *, project: str = "", exact: bool = False
) -> JobView:
    """
    Return the job that `text` names.

    Args:
        published: Where to look.
        text: An id, a name (then the newest job that has it), or the unique beginning of an id. The
            suffix `.17` selects that task of the array. A handle or a view can replace its id.
        project: Only in this project; empty: in all.
        exact: Do not accept the beginning of an id.

    Raises:
        NotFoundError: There is no such job, and the hint lists similar names; or nothing was ever
            published here.
        SpecError: It is the beginning of several ids; the message lists them.
        StoreError: The bucket is unreachable.
    """
    if not isinstance(text, str):
        text = _id_of(text)
    rows = _rows(published, text, project)
    task = _task(published, rows, text, project, exact=exact)
    if task is not None:
        return task
    active = {row.id: row for row in rows if row.task is None}
    chosen = _called(
        [(row.id, _name(row, text), row.submitted_at) for row in active.values()], text
    )
    if chosen is not None:
        return active[chosen]
    if (known := _recorded(published, text, project)) is not None:
        return known
    begun = {job: "" for job in active if job.startswith(text)}
    if not begun:
        begun = _ended_like(published, text, project)
    if len(begun) == 1 and not exact:
        ((job, place),) = begun.items()
        found = published.result(place, job) if place else active[job]
        if found is not None:
            return found
    if (known := published.newest_named(text, project=project)) is not None:
        return known
    if len(begun) > 1 and not exact:
        raise _ambiguous(text, list(begun))
    published.queue_like(text)  # if nothing was ever published, this raises the error for it
    raise _not_found(published, text, project, list(begun))


def each_name(names: Iterable[JobNames]) -> list[str]:
    """
    Return names that are given one by one or in lists; a handle or view is replaced by its id.

    Raises:
        SpecError: One is neither.
    """
    found: list[str] = []
    for each in names:
        if isinstance(each, Iterable) and not isinstance(each, str):
            found += each_name(each)
        else:
            found.append(each if isinstance(each, str) else _id_of(each))
    return found


def _id_of(given: object) -> str:
    """Return the id of a handle or a view."""
    known = getattr(given, "id", "")
    if isinstance(known, str) and known:
        return known
    raise _not_a_name(given)


def _not_a_name(given: object) -> SpecError:
    """Return the error for a value in place of a name; a handle or a view has one."""
    known = getattr(given, "id", "")
    hint = f"it is called {known!r}, which is its .id" if isinstance(known, str) and known else ""
    what = f"{type(given).__name__}(...)" if hint else repr(given)
    return SpecError(f"{what} is not the name of a job, nor a list of names", hint=hint)


def find_all(
    published: Published,
    text: str,
    *,
    project: str = "",
    newest: bool = False,
    exact: bool = False,
) -> tuple[JobView, ...]:
    """
    Return the jobs that `text` names: all of the launch with that id or name, or else the single
    job.

    A job's name takes precedence over a launch's. An array is one job, and so are some of its tasks
    together, such as `sweep.0-4,9`.

    Args:
        published: Where to look.
        text: As for `find`.
        project: Only in this project; empty: in all.
        newest: Take the newest of several active jobs with this name, instead of refusing. For
            ended jobs, this includes one whose id does not have the name, which requires a list of
            all final records.
        exact: Do not accept the beginning of an id.

    Raises:
        NotFoundError: There is no such job; the hint lists similar names.
        SpecError: It is ambiguous: the beginning of several ids, or the name of several active
            jobs; the message lists them.
        StoreError: The bucket is unreachable.
    """
    rows = [row for row in _rows(published, text, project) if row.task is None]
    array, tasks = _tasks(published, rows, text, project, exact=exact)
    if array is not None and len(tasks) > 1:
        return (part_of(array, tasks),)
    named = [row.id for row in rows if _name(row, text) == text and row.id != text]
    launches = _launches(rows, text, by_name=not named)
    if len(launches) > 1 and not newest:
        raise _ambiguous(text, sorted(launches))
    if launches:
        of_launch = launches[max(launches, key=lambda launch: launches[launch][0].submitted_at)]
        return _jobs_of(published, of_launch[0].project, of_launch[0].launch, of_launch)
    if len(named) > 1 and not newest:
        raise _ambiguous(text, named)
    try:
        found = find(published, text, project=project, exact=exact)
        if newest and found.has_ended and found.id != text:
            since = found.ended_at or 0.0
            found = published.newest_named(text, project=project, since=since) or found
        return (found,)
    except NotFoundError:
        for place in (project,) if project else published.projects():
            ended = _jobs_of(published, place, text, ())
            if ended:
                return ended
        raise


def _launches(
    rows: Sequence[JobView], text: str, *, by_name: bool
) -> Mapping[str, Sequence[JobView]]:
    """
    Return the launches of several jobs with `text` as their id, or else their name, with their
    rows.
    """
    found: dict[str, list[JobView]] = {}
    for row in rows:
        is_named = by_name and name_of(row.launch) == text
        if row.launch != row.id and (row.launch == text or is_named):
            found.setdefault(row.launch, []).append(row)
    return found


def _jobs_of(
    published: Published, project: str, launch: str, rows: Sequence[JobView]
) -> tuple[JobView, ...]:
    """Return every job of a launch, including ended ones; `rows` are those that have a row."""
    spec = published.spec(project, launch)
    if spec is None:
        return tuple(rows)
    from bastion.spec.launch import job_ids

    known = {row.id: row for row in rows}
    ids = job_ids(spec.launch, spec.ulid)
    found = (known.get(each) or published.result(project, each) for each in ids)
    return tuple(job for job in found if job is not None)


def find_tasks(
    published: Published, text: str, *, project: str = ""
) -> tuple[JobView | None, Indices]:
    """
    Return the array and the tasks that `text` names, such as `sweep.17`; None and none for a job.

    Raises:
        NotFoundError: Its array has no such task.
        StoreError: The bucket is unreachable.
    """
    rows = [row for row in _rows(published, text, project) if row.task is None]
    return _tasks(published, rows, text, project, exact=True)


def find_target(published: Published, text: str, *, project: str) -> str:
    """
    Return the id of the job or launch that `text` names, as a dependency of other jobs.

    Raises:
        NotFoundError: There is no such job or launch.
        SpecError: It is ambiguous.
        StoreError: The bucket is unreachable.
    """
    rows = _rows(published, text, project)
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
    if jobs[0].task is not None or tasks_of_id(jobs[0].id) is not None:
        array = jobs[0].launch
        raise SpecError(f"{text!r} names tasks; wait for their array, {array}")
    return text if text in launches else jobs[0].id


def _task(
    published: Published, rows: Sequence[JobView], text: str, project: str, *, exact: bool
) -> JobView | None:
    """Return the task that `text` names, or None."""
    row = next((row for row in rows if row.id == text and row.task is not None), None)
    if row is not None:
        return row
    array, tasks = _tasks(published, rows, text, project, exact=exact)
    if array is None:
        return None
    if len(tasks) > 1:
        raise SpecError(f"{text!r} names {len(tasks)} tasks", hint=f"name one: {array.id}.17")
    return published.task(array, tasks.first)


def _tasks(
    published: Published, rows: Sequence[JobView], text: str, project: str, *, exact: bool
) -> tuple[JobView | None, Indices]:
    """Return the array and the tasks that `text` names; a job of this name takes precedence."""
    named = tasks_named(text)
    if named is None or any(text in (row.id, _name(row, text)) for row in rows):
        return None, Indices()
    try:
        array = find(published, named[0], project=project, exact=exact)
    except (NotFoundError, SpecError):
        return None, Indices()
    if not array.is_array:
        return None, Indices()
    strange = named[1] - _all_of(published, array)
    if strange:
        raise NotFoundError(
            f"{array.id} has no task {strange.first}",
            hint=f"bastion show {array.id} lists its tasks",
        )
    return array, named[1]


def _all_of(published: Published, array: JobView) -> Indices:
    """Return the indices of all its tasks."""
    found = published.spec(array.project, array.id)
    return Indices() if found is None or found.launch.tasks is None else found.launch.tasks


def _name(row: JobView, text: str) -> str:
    """Return the job's name that `text` may be: the one in its launch, or the one in its id."""
    return row.name if row.name == text else name_of(row.id)


def _rows(published: Published, text: str, project: str) -> Sequence[JobView]:
    """Return the active jobs that `text` may mean, and perhaps others."""
    if not isinstance(text, str) or not text:
        raise _not_a_name(text)
    try:
        rows = published.queue_like(text)
    except NotFoundError:
        return ()
    return [row for row in rows if row.project == project] if project else rows


def _recorded(published: Published, text: str, project: str) -> JobView | None:
    """Return the job with exactly this id or name but no row: newly submitted, or ended."""
    active = published.active(text) or published.active_named(text, project=project)
    if active is not None and project in ("", active.project):
        return active
    if not _may_be_recorded(text):
        return None
    for place in _places(published, project):
        exact = published.result(place, text)
        if exact is not None:
            return exact
        ended = published.finished_like(place, text)
        chosen = _called([(job, name_of(job), at) for job, at in ended], text)
        if chosen is not None:
            return published.result(place, chosen)
    return None


def _ended_like(published: Published, text: str, project: str) -> dict[str, str]:
    """Return the ended jobs whose id starts with `text`, with the project of each."""
    places = _places(published, project) if _may_be_recorded(text) else ()
    return {job: place for place in places for job, _ in published.finished_like(place, text)}


def _may_be_recorded(text: str) -> bool:
    """Whether a final record's key may equal it or start with it."""
    return len(text) <= _MOST_CHARACTERS and _NAMES.fullmatch(text) is not None


def _places(published: Published, project: str) -> Sequence[str]:
    return (project,) if project else published.projects()


def _called(jobs: Iterable[tuple[str, str, float]], text: str) -> str | None:
    """Return the id among (id, name, time) that is `text`, or the newest of that name, or None."""
    named: list[tuple[float, str]] = []
    for job, name, at in jobs:
        if job == text:
            return job
        if name == text:
            named.append((at, job))
    return max(named)[1] if named else None


def _nearest(published: Published, text: str, project: str) -> str:
    """Return the id of the active job with the most similar name; empty if none is similar."""
    import difflib

    rows = (row for row in published.queue_lines() if project in ("", row.project))
    names = {name_of(row.id): row.id for row in islice(rows, _COMPARED)}
    near = difflib.get_close_matches(text, names, n=1)
    return names[near[0]] if near else ""


def _not_found(
    published: Published, text: str, project: str, similar: Sequence[str]
) -> NotFoundError:
    where = f" in project {project}" if project else ""
    if similar:
        return NotFoundError(
            f"no job is called {text!r}{where}; a change needs the whole name or id",
            hint=f"did you mean {_listed(similar)}?",
        )
    if any(mark in text for mark in "*?["):
        return NotFoundError(
            f"no job {text!r}{where}; a name is not a pattern",
            hint="bastion list -q prints ids, one on each line, for grep and xargs",
        )
    ids = _ids_of_launch(published, text, project)
    if len(ids) > 1:
        return NotFoundError(
            f"{text!r} is a launch of {len(ids)} jobs, and one job is needed",
            hint=f"name one of them: {_listed(ids)}",
        )
    hint = (
        "bastion list shows active jobs, bastion list --all finished ones too, and bastion history"
        " those whose final record was deleted"
    )
    if nearest := _nearest(published, text, project):
        hint = f"did you mean {nearest}? {hint}"
    with suppress(NotFoundError):
        if absence := published.status().absence:
            hint += f"; {absence}, and a launch that waits in the inbox is no job yet"
    return NotFoundError(f"no job {text!r}{where}", hint=hint)


def _ids_of_launch(published: Published, text: str, project: str) -> Sequence[str]:
    """Return the ids of the jobs of the launch with the id `text`; empty if there is none."""
    if not _may_be_recorded(text):
        return ()
    from bastion.spec.launch import job_ids

    for place in _places(published, project):
        if (spec := published.spec(place, text)) is not None:
            return job_ids(spec.launch, spec.ulid)
    return ()


def _ambiguous(text: str, ids: Sequence[str]) -> SpecError:
    return SpecError(
        f"{text!r} names {len(ids)} jobs: {_listed(ids)}",
        hint="give the whole id, or more of it",
    )


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"{', '.join(ids[:_SHOWN])}{more}"


def check_takes_command(
    published: Published, job: JobView, *, replica: int, host: int, process: int
) -> None:
    """
    Check that a command may run beside that process of `job`, as far as is known here.

    Raises:
        NotFoundError: It has ended, stands for all tasks of an array, or has no such process.
        StoreError: The bucket is unreachable.
    """
    if job.has_ended:
        raise NotFoundError(f"{job.id} has ended: {job.state}; a command needs a running job")
    check_is_one(job)
    if job.placement:
        machine_of(job, replica=replica, host=host)
    check_process(published, job, process)


def check_process(published: Published, job: JobView, process: int) -> None:
    """
    Check that replicas of `job` have that process.

    Raises:
        NotFoundError: They do not have it.
        StoreError: The bucket is unreachable.
    """
    spec = published.spec(job.project, job.launch) if process else None
    most = max((len(each.processes) for each in spec.launch.jobs), default=0) if spec else 0
    if most and process >= most:
        each = f"each replica has {most}, counted from 0"
        raise NotFoundError(f"{job.id} has no process {process}; {each}")


def machine_of(job: JobView, *, replica: int, host: int) -> str:
    """
    Return the machine of one host of `job`, which has machines.

    Raises:
        NotFoundError: It has no such replica, or its replicas have no such host.
    """
    if not 0 <= replica < len(job.placement):
        count = len(job.placement)
        raise NotFoundError(f"{job.id} has no replica {replica}; it has {count}, counted from 0")
    hosts = job.placement[replica]
    if not 0 <= host < len(hosts):
        each = f"each replica has {len(hosts)}, counted from 0"
        raise NotFoundError(f"{job.id} has no host {host}; {each}")
    return hosts[host]


def check_is_one(job: JobView) -> None:
    """
    Check that `job` is not an array: only its tasks have machines.

    Raises:
        NotFoundError: It stands for all tasks of an array.
    """
    if job.is_array and not job.has_ended:
        hint = f"bastion show {job.id} shows which run; task 3 is {job.id}.3"
        raise NotFoundError(f"{job.id} is an array; name one of its tasks", hint=hint)
