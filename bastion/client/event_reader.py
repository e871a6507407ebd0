"""A client's reads of the past: the events of jobs, also live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bastion.client.quota_reader import QuotaReader
from bastion.errors import StoreError

if TYPE_CHECKING:
    from bastion.client.look.views import EventView, JobView

_EVENT_POLLS = 5
"""Polls between two looks for events: each reads the whole root."""
_SLACK_S = 1.0
"""The time of a submission's events may be slightly earlier than the submission."""


class EventReader(QuotaReader):
    """The part of `Client` that reads events. Its arguments are those of `Client`."""

    def events(
        self, *names: str, project: str = "", since: float = 0.0, last: int | None = None
    ) -> tuple[EventView, ...]:
        """
        Return the events of some jobs, oldest first; of all jobs if none is named.

        Events of an array are also events of its tasks.

        Args:
            names: The jobs.
            project: Only look for the jobs in this project.
            since: Only events at or after this time, in Unix seconds by the store's clock.
            last: Only this many, the newest. Of a long log, only its end is read.

        Raises:
            NotFoundError: There is no such job.
            SpecError: A name is ambiguous.
            StoreError: The bucket is unreachable.
        """
        if last is not None and not names and not since:
            found = self._published.newest_events(last)
        else:
            found = tuple(self._events(self._named(names, project), since))
        return found if last is None else found[max(0, len(found) - last) :]

    def follow_events(
        self, *names: str, project: str = "", since: float = 0.0
    ) -> Iterator[EventView]:
        """
        Yield what `events` returns, and then new events, until all named jobs have ended.

        Without names it never ends. It waits while the store is unreachable.

        Raises:
            NotFoundError: There is no such job.
            SpecError: A name is ambiguous.
            StoreError: The bucket is unreachable at the first look.
        """
        from bastion.client.look.array_views import each_of

        jobs = self._named(names, project)
        places = {one: job.project for job in jobs.values() for one in each_of(job)}
        events = self._events(jobs, since)
        last = -1
        while True:
            # The jobs first: an event committed with the end of the last job is read below.
            is_over = bool(places) and self._have_ended(places)
            try:
                for event in events:
                    last, since = event.number, event.at
                    yield event
            except StoreError as error:
                self._outage.met(error)
            else:
                self._outage.over()
                if is_over:
                    return
            self.clock.sleep(_EVENT_POLLS * self.poll_s)
            later = self._events(jobs, since)
            events = (event for event in later if event.number > last)

    def _named(self, names: tuple[str, ...], project: str) -> Mapping[str, JobView]:
        from bastion.client.look.find_job import find

        found = (find(self._published, name, project=project) for name in names)
        return {job.id: job for job in found}

    def _events(self, jobs: Mapping[str, JobView], since: float) -> Iterator[EventView]:
        if not jobs:
            yield from self._published.events(since=since)
            return
        each = (
            self._published.events(job=job.id, since=max(since, job.submitted_at - _SLACK_S))
            for job in jobs.values()
        )
        from heapq import merge

        last = -1
        for event in merge(*each, key=lambda event: event.number):
            if event.number > last:  # a task and its array may both be named
                last = event.number
                yield event

    def _have_ended(self, places: Mapping[str, str]) -> bool:
        try:
            seen = self.watch.look(places)
        except StoreError as error:
            self._outage.met(error)
            return False
        return all(job is not None and job.has_ended for job in seen.values())
