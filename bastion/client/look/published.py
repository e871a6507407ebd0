"""
What the bastion published of jobs and machines: rows of views, final records, events, and root if
views are behind it.

Reading needs no running bastion. Text is parsed with the standard library: a list of ten thousand
jobs must not wait for a validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import merge, nlargest
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from bastion.client.look.array_views import array_of_record, task_of
from bastion.client.look.queue_rows import QueueRows
from bastion.client.look.rows import (
    event_of,
    job_of_result,
    machine_of_row,
    range_of,
    shortage_of_row,
)
from bastion.client.look.views import (
    UNREADABLE,
    EventView,
    JobView,
    PoolsView,
    WarmView,
    name_of,
)
from bastion.client.status.view_reader import ViewReader, not_json
from bastion.errors import NotFoundError, RecordError
from bastion.records.keys import layout
from bastion.spec.arrays.task import task_id, tasks_of_id
from bastion.store.port import Entry
from quota.pattern import pattern

if TYPE_CHECKING:
    from bastion.client.look.job_line import JobLine
    from bastion.job import JobRecord
    from bastion.machine import Pool
    from bastion.records.requests.launch_request import SpecRecord

_T = TypeVar("_T")
_PAGE = 1000
_LAUNCH = pattern(r"[\w@+-][\w.@+-]*", re.ASCII)
"""The characters of a launch id that may also be in a key."""
_NAMES_READ = 50
"""Final records that are read for a name that no id has: about two seconds on a cloud."""
_NEAR = 10_000
"""Events whose segments are listed without a search: a few pages of them at most."""
_MARGIN_S = 60.0
"""
Events are sealed after they happen; a segment older than a job by this margin has none of its
events.
"""


class Published(ViewReader):
    """What a bucket has about jobs and machines. Its arguments are those of `ViewReader`."""

    def queue(self) -> tuple[JobView, ...]:
        """
        Return all active jobs as last published: running first, then in the order of the queue.

        They include the tasks of arrays that have a row; each array is one more.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        return self._rows_of(QueueRows.every)

    def queue_lines(self) -> Sequence[JobView | JobLine]:
        """
        Return the rows of `queue`, parsed as far as a list needs them.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        return self._rows_of(QueueRows.lines)

    def queue_like(self, text: str) -> tuple[JobView, ...]:
        """
        Return the active jobs of which `text` may be the id, its beginning, the name or the launch.

        The result may include others; the order is that of `queue`.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        return self._rows_of(lambda rows: rows.like(text))

    def queued(self, ids: set[str]) -> dict[str, JobView]:
        """
        Return the rows of these jobs in the queue; jobs without a row are left out.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        return self._rows_of(lambda rows: rows.of(ids))

    def queue_as_of(self) -> float:
        """
        Return the last time at which the published queue is known to be current, by the store's
        clock.
        """
        return self._true_until(self._queue().head, "views_seq")

    def _rows_of(self, read: Callable[[QueueRows], _T]) -> _T:
        try:
            return read(self._queue())
        except (ValueError, RecursionError) as error:
            raise not_json(layout.view("queue"), error) from error

    def _queue(self) -> QueueRows:
        found = self._parsed(layout.view("queue"), QueueRows)
        self._check("queue", None if found is None else found.head)
        assert found is not None
        return found

    def pools(self) -> PoolsView:
        """
        Return machines and pools as last published.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        from bastion.records.maintenance import closed_rows, windows_left

        view = self._view("pool")
        as_of = self._true_until(view, "pool_seq")
        rows = view.get("machines") or ()
        windows = windows_left(self._json(layout.view("status")) or {}, as_of)
        return PoolsView(
            as_of=as_of,
            machines=tuple(map(machine_of_row, closed_rows(rows, windows, as_of))),
            pools=tuple(view.get("pools") or ()),
            shortages=tuple(map(shortage_of_row, view.get("shortages") or ())),
            warm={pool: WarmView(**each) for pool, each in (view.get("warm") or {}).items()},
            maintenance=tuple(map(str, windows)),
        )

    def pool_records(self) -> dict[str, Pool]:
        """
        Return the pools by name, as the admins configured them.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        rows = self._view("pool").get("pools") or ()
        from bastion.machine import Pool
        from bastion.records.coding.codec import decode

        pools = (decode(Pool, json.dumps(row).encode(), key=layout.view("pool")) for row in rows)
        return {pool.name: pool for pool in pools}

    def bucket(self) -> str:
        """
        Return the bucket's own name, which machines in clouds have on them.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        return str(self._view("pool").get("bucket") or "")

    def result(self, project: str, job: str) -> JobView | None:
        """The final record of a job, or None while it has none."""
        from bastion.records.coding.codec import decode_known
        from bastion.records.requests.result import Result

        key = layout.result(project, job)
        data = self._bytes(key)
        return None if data is None else job_of_result(decode_known(Result, data, key=key))

    def has_launch(self, project: str, launch: str) -> bool:
        """Whether there was ever a launch with this id."""
        return self._bytes(layout.spec(project, launch)) is not None

    def spec(self, project: str, launch: str) -> SpecRecord | None:
        """Return the submitted spec, or None if there is no such launch."""
        from bastion.records.coding.codec import decode
        from bastion.records.requests.launch_request import SpecRecord

        if not _LAUNCH.fullmatch(launch):
            return None
        key = layout.spec(project, launch)
        data = self._bytes(key)
        return None if data is None else decode(SpecRecord, data, key=key)

    def record(self, job: str) -> JobRecord | None:
        """Return an active job from root, which is authoritative and newer than any view."""
        return _record(self._json(layout.ROOT) or {}, job)

    def active_named(self, name: str, *, project: str = "") -> JobView | None:
        """Return the newest active job or array of this name in root, in case views lag."""
        root = self._json(layout.ROOT) or {}
        arrays = (row["each"] for row in root.get("arrays", {}).values())
        named = [
            (row["submitted_at"], row["id"])
            for row in (*root.get("jobs", {}).values(), *arrays)
            if name in (row.get("name"), name_of(row["id"])) and project in ("", row["project"])
        ]
        return self.active(max(named)[1]) if named else None

    def active(self, job: str) -> JobView | None:
        """Return an active job or array from root while no view shows it yet."""
        from bastion.array import ArrayRecord
        from bastion.job import state_of
        from bastion.records.coding.codec import decode_known

        root = self._json(layout.ROOT) or {}
        found = _record(root, job)
        if found is not None:
            return _job_of_record(found)
        tasks = tasks_of_id(job)
        row = root.get("arrays", {}).get(job if tasks is None else tasks[0])
        if row is None:
            return None
        record = decode_known(ArrayRecord, json.dumps(row).encode(), key=layout.ROOT)
        own = (_record(root, each) for each in root.get("jobs", {}) if name_is_of(each, record.id))
        states = (state_of(job) for job in own if job is not None)
        array = array_of_record(record, states)
        return array if tasks is None else task_of(array, tasks[1].first)

    def task(self, array: JobView, index: int) -> JobView | None:
        """Return a task of `array`: from its row, its final record, or the array itself."""
        wanted = task_id(array.id, index)
        try:
            rows = {} if array.has_ended else self.queued({wanted})
        except NotFoundError:
            rows = {}
        known = rows.get(wanted) or task_of(array, index)
        if known is not None and not known.has_ended:
            return known
        return self.result(array.project, wanted) or known or self.active(wanted)

    def finished(
        self, projects: Iterable[str], *, limit: int, since: float = 0.0
    ) -> tuple[JobView, ...]:
        """
        Return the newest `limit` finished jobs of some projects, newest first; reads no others.

        An array counts as one job; its tasks are not included. Jobs that ended before `since` are
        left out.
        """
        every = (
            entry
            for place in projects
            for entry in self._every(layout.results_of(place))
            if entry.modified_at >= since and tasks_of_id(entry.key.split("/")[2]) is None
        )
        newest = nlargest(limit, every, key=lambda entry: entry.modified_at)
        found = (self._ended(entry) for entry in newest)
        return tuple(job for job in found if job is not None)

    def _ended(self, entry: Entry) -> JobView | None:
        """Return the finished job whose final record is at `entry`, even if it cannot be read."""
        project, job = entry.key.split("/")[1:3]
        try:
            return self.result(project, job)
        except RecordError as error:
            return JobView(
                id=job,
                name=name_of(job),
                project=project,
                user="",
                launch=job,
                state=UNREADABLE,
                submitted_at=entry.modified_at,
                ended_at=entry.modified_at,
                text=f"{error.message}; bastion fsck shows more",
                as_of=entry.modified_at,
            )

    def finished_like(self, project: str, text: str) -> tuple[tuple[str, float], ...]:
        """Return (id, ended) of a project's finished jobs whose id starts with `text`; no tasks."""
        entries = self._every(layout.results_of(project) + text)
        found = ((entry.key.split("/")[2], entry.modified_at) for entry in entries)
        return tuple((job, at) for job, at in found if tasks_of_id(job) is None)

    def newest_named(self, name: str, *, project: str = "", since: float = 0.0) -> JobView | None:
        """
        Return the newest of the recently finished jobs called `name` in its launch, or None.

        Jobs that ended before `since` are left out.
        """
        places = (project,) if project else self.projects()
        newest = self.finished(places, limit=_NAMES_READ, since=since)
        return next((job for job in newest if job.name == name), None)

    def projects(self) -> tuple[str, ...]:
        """Return every project that ever finished a job, with one cheap list call each."""
        found: list[str] = []
        after = ""
        while page := self._store.list(layout.RESULTS, start_after=after, limit=1):
            project = page[0].key.split("/")[1]
            found.append(project)
            after = layout.after(layout.results_of(project))
        return tuple(found)

    def newest_events(self, count: int) -> tuple[EventView, ...]:
        """Return at least the last `count` events of all jobs; the log before them is not read."""
        number = (self._json(layout.ROOT) or {}).get("next_event", 0)
        reach = count
        while True:  # numbers may have gaps where root was restored or a line is unreadable
            first = max(0, number - reach)
            found = tuple(self.events(first=first))
            if not first or len(found) >= count:
                return found
            reach *= 8

    def events(self, *, job: str = "", since: float = 0.0, first: int = 0) -> Iterator[EventView]:
        """
        Yield events in order: sealed segments, then the events that root has not sealed yet.

        Args:
            job: Only those of this job, or of this array and its tasks; empty: all. For a task that
                has not started, the events of its array count as well.
            since: The earliest time, in Unix seconds of the store's clock.
            first: The lowest number.
        """
        about = _About(job)
        # Root first: segments sealed after this read are in the list that follows.
        root = self._json(layout.ROOT) or {}
        # A range that root still has is read from root: its segment may be missing or damaged.
        held = {layout.events(part["first"]): part["events"] for part in root.get("sealed", ())}
        number = root.get("next_event")
        after = self._long_before(since, number=number) if isinstance(number, int) else ""
        after = max(after, self._shortly_before(first))
        found = _reaching(self._every(layout.EVENTS, after=after), first)
        listed = ((entry.key, entry.modified_at) for entry in found)
        last = first - 1
        for key, modified_at in merge(listed, ((key, inf) for key in sorted(held))):
            if modified_at + _MARGIN_S < since:
                continue
            for line in held[key] if key in held else self._segment(key, about.needle):
                event = event_of(line)
                if event.number > last and about(event) and event.at >= since:
                    last = event.number
                    yield event
        for event in map(event_of, root.get("events", ())):
            if event.number > last and about(event) and event.at >= since:
                yield event

    def _segment(self, key: str, needle: bytes) -> Iterator[Any]:
        """Yield the events of a segment that contain `needle`; unreadable lines are left out."""
        for line in (self._bytes(key) or b"").splitlines():
            if needle in line:
                with suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        yield event

    def _long_before(self, since: float, *, number: int) -> str:
        """
        Return a key after which all segments are listed that may have events from `since` on.

        It searches below the event `number`. A log of years has hundreds of thousands of segments.
        """
        begin, end = 0, number if since > 0 else 0
        while end - begin > _NEAR:
            middle = (begin + end) // 2
            page = self._store.list(layout.EVENTS, start_after=layout.events(middle), limit=1)
            if page and page[0].modified_at + _MARGIN_S < since:
                begin = middle
            else:
                end = middle
        return layout.events(begin) if begin else ""

    def _shortly_before(self, number: int) -> str:
        """Return a key after which the segment that may contain event `number` is listed."""
        reach = _PAGE
        while reach < number:
            after = layout.events(number - reach)
            page = self._store.list(layout.EVENTS, start_after=after, limit=1)
            begins = layout.parse_events(page[0].key) if page else None
            if begins is not None and begins <= number:
                return after
            reach *= 8
        return ""

    def _every(self, prefix: str, after: str = "") -> Iterator[Entry]:
        while page := self._store.list(prefix, start_after=after, limit=_PAGE):
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].key

    def _true_until(self, view: Any, named: str) -> float:
        """
        Return until when `view` is current: a later status may name its commit, so no row has
        changed.
        """
        status = self._json(layout.view("status")) or {}
        is_standing = status.get(named, -1) == view.get("seq")
        return float(max(view["now"], status.get("now", 0.0) if is_standing else 0.0))


def _reaching(segments: Iterable[Entry], number: int) -> Iterator[Entry]:
    """Yield the segments that may contain events from `number` on."""
    waiting: Entry | None = None
    for entry in segments:
        begins = layout.parse_events(entry.key)
        if waiting is not None and (begins is None or begins > number):
            yield waiting
        waiting = entry
    if waiting is not None:
        yield waiting


class _About:
    """
    Which events are about a job; call it in their order.

    Args:
        job: Its id, or that of an array or a task; empty: every job.
    """

    def __init__(self, job: str) -> None:
        task = tasks_of_id(job)
        self._job, self._array = job, "" if task is None else task[0]
        self._has_begun = False
        self.needle = f'"{self._array or job}'.encode() if job else b""
        """What the lines of such events contain."""

    def __call__(self, event: EventView) -> bool:
        if self._array and event.job == self._array:
            return not self._has_begun
        is_own = not self._job or event.job == self._job or name_is_of(event.job, self._job)
        self._has_begun |= is_own
        return is_own


def _record(root: dict[str, Any], job: str) -> JobRecord | None:
    from bastion.job import JobRecord
    from bastion.records.coding.codec import decode_known

    row = root.get("jobs", {}).get(job)
    if row is None:
        return None
    if row.get("gang"):
        row = {**row, "gang": root.get("gangs", {}).get(row["gang"][0], row["gang"])}
    return decode_known(JobRecord, json.dumps(row).encode(), key=layout.ROOT)


def name_is_of(job: str, array: str) -> bool:
    """Whether `job` is a task of `array`."""
    return job.startswith(f"{array}.") and tasks_of_id(job) is not None


UNPUBLISHED = "it changed a moment ago; the bastion will show the reason shortly"
"""The reason of a committed job that no view shows yet."""


def _job_of_record(job: JobRecord) -> JobView:
    from bastion.job import state_of
    from bastion.lifecycle import remark

    attempt = job.attempt
    hosts = (place.machine for _, _, place, _ in attempt.each_host()) if attempt else ()
    return JobView(
        id=job.id,
        name=job.name or name_of(job.id),
        project=job.project,
        user=job.user,
        launch=job.launch,
        state=state_of(job),
        phase=job.phase.value,
        job_class=attempt.job_class.value if attempt and job.is_admitted else "",
        priority=job.request.priority,
        units=job.replicas * job.request.per_replica,
        replicas=job.replicas,
        replica_range=range_of(job.request),
        task=job.task,
        submitted_at=job.submitted_at,
        queued_at=job.queued_at if job.ended_at is None else None,
        started_at=attempt.started_at if attempt else None,
        ended_at=job.ended_at,
        attempt=job.attempts,
        preemptions=job.preemptions,
        machines=tuple(dict.fromkeys(hosts)),
        text=job.outcome.text if job.outcome else remark(job) or UNPUBLISHED,
        code=job.outcome.code if job.outcome else None,
        as_of=job.submitted_at,
    )
