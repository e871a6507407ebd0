"""Final records of jobs that have left root."""

from __future__ import annotations

from bastion.errors import BastionError, NotFoundError, OversizeError, StoreError
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.keys.layout import RequestName
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.result import Result
from bastion.spec import job_ids, tasks_of_id
from bastion.store import ObjectStore

_RANDOM_CHARACTERS = 16
"""
The random characters of a ULID. A repeated idempotency key gives the same ones with another time.
"""


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
        Whether the job `target`, or every job of the launch `target`, has a final record.

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
            jobs = job_ids(spec.launch, spec.ulid)
            return all(self.stands(layout.result(project, job)) for job in jobs)
        except StoreError:
            raise
        except BastionError:
            return False

    def is_of_another(self, name: RequestName, job: str) -> bool | None:
        """
        Whether the final record of `job` belongs to another request than `name`; None if there is
        none.

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
