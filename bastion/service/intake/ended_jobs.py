"""Final records of jobs that have left root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from bastion.errors import BastionError, NotFoundError, OversizeError, StoreError
from bastion.lifecycle.dependencies import Ended
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.keys.layout import RequestName
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.result import Result
from bastion.records.requests.targets import Targets, end_of, jobs_of
from bastion.spec import job_ids, tasks_of_id
from bastion.store import ObjectStore
from bastion.value import value

MOST_AWAITED = 10_000
"""Maximum jobs and launches not in root that a launch can wait for: 100 turns look them up."""

_RANDOM_CHARACTERS = 16
"""The random characters of a ULID, the same for a repeated idempotency key at another time."""


def is_same_request(name: RequestName, *, user: str, ulid: str) -> bool:
    """Whether the request `ulid` of `user` is that of `name`, or an earlier one of its key."""
    return name.user == user and name.ulid[-_RANDOM_CHARACTERS:] == ulid[-_RANDOM_CHARACTERS:]


class FinalRecords:
    """
    Looks up final records, and the jobs of launches that have ended.

    Args:
        store: The bucket.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def has_ended(self, project: str, target: str) -> bool:
        """
        Whether the job or launch `target` has ended; root has no job of that launch.

        The tasks of an array count as ended when the array has: some of them never had a record.

        Raises:
            StoreError: Out of reach.
        """
        tasks = tasks_of_id(target)
        try:
            if tasks is not None and self.stands(layout.result(project, tasks[0])):
                return True
            if self.stands(layout.result(project, target)):
                return True
            key = layout.spec(project, target)
            found = self._store.read(key, limit_bytes=RECORD_BYTES)
            assert found is not None
            spec = decode(SpecRecord, found.data, key=key)
            # Jobs leave root once they have final records: none is left there, so all have one.
            first = job_ids(spec.launch, spec.ulid)[0]
            return self.stands(layout.result(project, first))
        except StoreError:
            raise
        except BastionError:
            return False

    def is_of_another(self, name: RequestName, job: str) -> bool | None:
        """
        Whether the final record of `job` belongs to another request than `name`; None without one.

        Ids are composed of names, so two launches could produce the same job id.

        Raises:
            StoreError: Out of reach.
        """
        key = layout.result(name.project, job)
        try:
            found = self._store.read(key, limit_bytes=RECORD_BYTES)
            assert found is not None
            result = decode(Result, found.data, key=key)
        except NotFoundError:
            return None
        except StoreError:
            raise
        except BastionError:
            return True
        return not is_same_request(name, user=result.user, ulid=result.ulid)

    def stands(self, key: str) -> bool:
        """
        Whether there is an object at `key`.

        Raises:
            StoreError: Out of reach.
        """
        try:
            self._store.read(key, limit_bytes=0)
        except NotFoundError:
            return False
        except OversizeError:
            return True
        return True


@value
class Awaited:
    """
    The dependencies of a launch that have left root, as far as they have been looked up.

    A launch can wait for tens of thousands of ids, and each can be a launch of a thousand jobs. One
    turn looks up some of them. Jobs that are active in root need no lookup. They may leave root
    between two turns, so each turn determines again what is left to look up.
    """

    looked: frozenset[str] = frozenset()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By launch: its jobs."""
    ends: Mapping[str, Ended] = field(default_factory=dict)
    """By job: how it ended."""

    def left(self, wanted: Iterable[str], is_job: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the ids to look up for `wanted`; `is_job` returns whether root has a job."""
        sought = (each for one in wanted for each in (one, *self.members.get(one, ())))
        return tuple(
            each for each in dict.fromkeys(sought) if each not in self.looked and not is_job(each)
        )

    def after(self, store: ObjectStore, project: str, names: Iterable[str]) -> Awaited:
        """
        Return this with what the bucket has about `names`.

        Raises:
            RecordError: A record cannot be understood.
            StoreError: Out of reach.
        """
        ends, members = dict(self.ends), dict(self.members)
        are_members = {job for jobs in members.values() for job in jobs}
        looked = set(self.looked)
        for name in names:
            looked.add(name)
            if (end := end_of(store, project, name)) is not None:
                ends[name] = end
            elif name not in are_members and (jobs := jobs_of(store, project, name)) is not None:
                members[name] = jobs
        return replace(self, looked=frozenset(looked), members=members, ends=ends)

    def targets(self) -> Targets:
        """Return how the jobs of each id that has left root ended."""
        found = {name: (end,) for name, end in self.ends.items()}
        launches = {
            name: tuple(self.ends[job] for job in jobs if job in self.ends)
            for name, jobs in self.members.items()
        }
        return found | launches
