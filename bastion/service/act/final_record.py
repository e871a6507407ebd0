"""
The final record of a job: its contents, and how it is written.

It is a function of committed state, and root is authoritative. A different record in its place was
written manually, or by a bastion whose root has since been lost. That record is moved to
`state/aside/` and replaced, and an event of the job says so.
"""

from __future__ import annotations

from hashlib import sha256

from bastion.array import ArrayRecord
from bastion.errors import (
    ConflictError,
    ForeignRecordError,
    NotFoundError,
    OversizeError,
    RecordError,
    StoreError,
)
from bastion.job import JobRecord
from bastion.records.coding.codec import decode, encode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.register import create_anew, create_same
from bastion.records.requests.result import Result
from bastion.records.settings.notification import iso
from bastion.store import ObjectStore


def result_of(job: JobRecord) -> Result:
    """Return the final record of `job`."""
    assert job.outcome is not None, f"{job.id} is {job.phase} without an outcome"
    assert job.ended_at is not None, f"{job.id} ended at no time"
    return Result(
        id=job.id,
        project=job.project,
        user=job.user,
        launch=job.launch,
        name=job.name,
        outcome=job.outcome.kind.value,
        text=job.outcome.text,
        code=job.outcome.code,
        submitted_at=job.submitted_at,
        ended_at=job.ended_at,
        submitted=iso(job.submitted_at),
        ended=iso(job.ended_at),
        attempts=job.attempts,
        preemptions=job.preemptions,
        failures=job.failures,
        past=job.past,
        ulid=job.ulid,
        task=job.task,
        request=job.request,
        report=job.report,
    )


def array_result(array: ArrayRecord) -> Result:
    """Return the final record of `array`: its worst outcome, and its tasks by outcome."""
    assert array.ended_at is not None, f"{array.id} has not ended"
    outcome, each = array.outcome, array.each
    return Result(
        id=array.id,
        project=array.project,
        user=each.user,
        launch=each.launch,
        name=each.name,
        outcome=outcome.kind.value,
        text=outcome.text,
        code=outcome.code,
        submitted_at=each.submitted_at,
        ended_at=array.ended_at,
        submitted=iso(each.submitted_at),
        ended=iso(array.ended_at),
        ulid=each.ulid,
        request=each.request,
        tasks=array.ended,
    )


def write_final(store: ObjectStore, record: Result) -> str:
    """
    Write `record` at its key, and replace any other record there.

    Returns:
        What was replaced and where it is kept, in words; empty if nothing was replaced.

    Raises:
        ConflictError: The object was changed in the meantime; try again.
        ForeignRecordError: Another version of Bastion wrote the object at this key.
        StoreError: Out of reach or in doubt; try again.
    """
    key, data = layout.result(record.project, record.id), encode(record)
    try:
        create_same(store, key, data)
        return ""
    except ConflictError:
        pass
    try:
        found = store.read(key, limit_bytes=RECORD_BYTES)
    except NotFoundError as error:
        raise StoreError(f"{key}: in doubt whether it was written") from error
    except OversizeError as error:
        create_anew(store, key, data)
        return f"it held {error.message.removeprefix(f'{key}: ')}; root says {record.outcome}"
    assert found is not None
    existing = _record(found.data, key)
    if existing == record:
        return ""  # The same record in other bytes: another version wrote it.
    aside = layout.aside(f"{key}-{sha256(found.data).hexdigest()[:12]}")
    create_same(store, aside, found.data)
    create_anew(store, key, data)
    said = f"said {existing.outcome}" if existing is not None else "could not be decoded"
    return f"it {said} and root says {record.outcome}; the old record is kept at {aside}"


def _record(data: bytes, key: str) -> Result | None:
    """Return the record in `data`, or None if it cannot be decoded."""
    try:
        return decode(Result, data, key=key)
    except ForeignRecordError:
        raise
    except RecordError:
        return None
