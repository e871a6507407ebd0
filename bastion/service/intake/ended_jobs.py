"""What the bucket keeps of jobs that root does not know any more."""

from __future__ import annotations

from bastion.errors import BastionError, NotFoundError, OversizeError, StoreError
from bastion.records import layout
from bastion.records.codec import decode
from bastion.records.layout import RequestName
from bastion.records.limits import RECORD_BYTES
from bastion.records.request import Result, SpecRecord
from bastion.spec import job_ids, tasks_of_id
from bastion.store import ObjectStore

_RANDOM_CHARACTERS = 16
"""Of a ULID: an idempotency key makes the same ones again, and only the time differs."""


def is_same_request(name: RequestName, *, user: str, ulid: str) -> bool:
    """Whether `user` asked by the request `ulid` for what `name` asks for, now or before."""
    return name.user == user and name.ulid[-_RANDOM_CHARACTERS:] == ulid[-_RANDOM_CHARACTERS:]


class FinalRecords:
    """
    Looks for final records, and for the jobs of launches that have ended.

    Args:
        store: The bucket.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def has_ended(self, project: str, target: str) -> bool:
        """
        Whether the job, or every job of the launch, called `target` has a final record.

        Tasks of an array have ended when it has: not each of them has a record of its own.

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
            jobs = job_ids(spec.launch, spec.ulid)
            return all(self.stands(layout.result(project, job)) for job in jobs)
        except StoreError:
            raise
        except BastionError:
            return False

    def is_of_another(self, name: RequestName, job: str) -> bool | None:
        """
        Whether the final record of `job` is of another request than `name`; None without one.

        Ids are put together of names, so two launches could be made to have a job of one id.

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
