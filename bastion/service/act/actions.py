"""
Actions: the idempotent writes to the bucket that committed state requires.

Every function here returns work for a lane. The work writes to the bucket and returns an update of
the next draft. If the leader dies in between, the next leader writes the same bytes under the same
names.

A register that cannot be decoded counts as not won. A register that another version of Bastion
wrote counts as won: the work fails, is listed among the bastion's problems, and is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from bastion.array import ArrayRecord
from bastion.errors import (
    ConflictError,
    ForeignRecordError,
    NotFoundError,
    OversizeError,
    RecordError,
    StoreRefusedError,
)
from bastion.job import End, JobRecord
from bastion.lifecycle import GoGiven, GoRevoked, HostClaimed, HostEnded
from bastion.machine import Batch, Machine
from bastion.monitor import Action, RevokeClaim, RevokeGo, WriteEnd, WriteGo, WriteResult
from bastion.records.coding.codec import encode, plain
from bastion.records.keys import layout
from bastion.records.register import create_same, look, win
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import ClaimRegister, EndRegister, GoRegister
from bastion.records.requests.answer import Answer
from bastion.records.requests.inbox import MAX_BYTES
from bastion.records.root import Root, Segment
from bastion.service.act.final_record import array_result, result_of, write_final
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.bells import apply_host_event
from bastion.service.intake.registers import Seat, seat_of, standing_end
from bastion.store import Entry, ObjectStore

DraftUpdate: TypeAlias = Callable[[Draft], None]
"""The result of a piece of work: a change to the next draft."""
Work: TypeAlias = Callable[[], DraftUpdate]


def job_work(store: ObjectStore, root: Root, job: JobRecord, action: Action) -> Work:
    """Return the work of one action that the monitor of `job` requires."""
    match action:
        case WriteGo():
            return lambda: _write_go(store, root, job)
        case RevokeGo():
            return lambda: _revoke_go(store, root, job)
        case RevokeClaim(replica=r, host=h):
            return lambda: _revoke_claim(store, root, seat_of(job, r, h))
        case WriteEnd(replica=r, host=h, end=end):
            return lambda: _write_end(store, root, seat_of(job, r, h), end)
        case WriteResult():
            return lambda: _write_result(store, job)


def action_key(job: JobRecord, action: Action) -> str:
    """Return the key of this work on its lane: the same every time the action is due."""
    place = ""
    if isinstance(action, (RevokeClaim, WriteEnd)):
        place = f"/{action.replica}/{action.host}"
    return f"job/{job.id}/{type(action).__name__}{place}"


_KINDS = {
    "WriteResult": "final records",
    "array": "final records",
    "WriteGo": "start barriers",
    "RevokeGo": "start barriers",
    "RevokeClaim": "claims",
    "WriteEnd": "ends",
    "sweep": "registers",
    "batch": "instructions",
    "answer": "answers",
    "delete": "deletions from the inbox",
    "write": "writes for requests",
}


def kind_of(key: str) -> str:
    """Return what the log calls the work under `key`: a refusal meets all work of its kind."""
    words = key.replace(" ", "/").split("/")
    name = words[2] if words[0] == "job" and len(words) > 2 else words[0]
    return _KINDS.get(name, name)


def array_work(store: ObjectStore, array: ArrayRecord) -> Work:
    """Write the final record of an array whose tasks have all ended."""

    def work() -> DraftUpdate:
        replaced = write_final(store, array_result(array))

        def update(draft: Draft) -> None:
            _record_replaced(draft, array.each, replaced)
            draft.array_written(array.id)

        return update

    return work


def batch_work(store: ObjectStore, machine: Machine, batch: Batch) -> Work:
    """
    Write one batch of instructions.

    If another object has its number, agents skip that object, and the instructions are allocated
    again under the next number.
    """

    def work() -> DraftUpdate:
        key = layout.instructions(machine.name, batch.life, batch.number)
        try:
            create_same(store, key, encode(batch))
        except ConflictError:
            return lambda draft: draft.batch_spoilt(machine.name, batch)
        return lambda draft: draft.batch_written(machine.name, batch)

    return work


def answer_work(store: ObjectStore, key: str, answer: Answer) -> Work:
    """Write the answer to a request, unless there is one: the first answer counts."""

    def work() -> DraftUpdate:
        project, user, ulid = key.split("/")
        _create_once(store, layout.answer(project, user, ulid), encode(answer))

        def update(draft: Draft) -> None:
            draft.answered(key)

        return update

    return work


def segment_work(store: ObjectStore, segment: Segment) -> Work:
    """Write one sealed range of events."""

    def work() -> DraftUpdate:
        lines = [
            json.dumps(plain(event), separators=(",", ":"), ensure_ascii=False) + "\n"
            for event in segment.events
        ]
        create_same(store, layout.events(segment.first), "".join(lines).encode())

        def update(draft: Draft) -> None:
            draft.segment_written(segment.first)

        return update

    return work


def delete_work(store: ObjectStore, key: str) -> Work:
    """Delete an object in the inbox that a commit has absorbed."""

    def work() -> DraftUpdate:
        store.delete(key)
        return no_update

    return work


class UnreadableError(StoreRefusedError):
    """The store refuses to return an object that is set aside; a refused write says nothing."""


def aside_work(store: ObjectStore, entry: Entry, *, unreadable: str = "") -> Work:
    """
    Copy an object in the inbox that could not be decoded to `state/aside/`, then delete it.

    An object that is too large, or `unreadable` (why the store does not return it), is not copied:
    a note with its size takes its place.
    """

    def work() -> DraftUpdate:
        if unreadable:
            data = f"{entry.key}: {entry.size} bytes, not readable: {unreadable}\n".encode()
        elif entry.size <= MAX_BYTES:
            try:
                found = store.read(entry.key, limit_bytes=MAX_BYTES)
            except NotFoundError:
                return no_update
            except StoreRefusedError as refusal:
                raise UnreadableError(refusal.message, hint=refusal.hint) from refusal
            except OversizeError as error:
                data = f"{error}\n".encode()
            else:
                assert found is not None
                data = found.data
        else:
            data = f"{entry.key}: {entry.size} bytes, too many to be kept\n".encode()
        _create_once(store, layout.aside(entry.key), data)
        store.delete(entry.key)
        return no_update

    return work


def register_work(store: ObjectStore, seat: Seat, *, is_claimed: bool) -> Work:
    """Read the register of one host, in case its bell was lost."""

    def work() -> DraftUpdate:
        if is_claimed:
            end = standing_end(store, seat)
            return no_update if end is None else _ended(seat, end)
        try:
            found = look(store, seat.claim_key, ClaimRegister)
        except RecordError as error:
            return _undecodable(store, seat, error)
        return no_update if found is None else _claim_update(seat.of, found)

    return work


def _undecodable(store: ObjectStore, seat: Seat, error: RecordError) -> DraftUpdate:
    """End the host of a claim that cannot be decoded: no agent starts anything with it."""
    end: End | None = End(kind="lost", detail=error.message)
    if isinstance(error, ForeignRecordError):
        end = standing_end(store, seat)
    if end is None:
        raise error
    return _ended(seat, end)


def _ended(seat: Seat, end: End) -> DraftUpdate:
    event = HostEnded(replica=seat.of.replica, host=seat.of.host, end=end)
    return lambda draft: apply_host_event(draft, seat.of, event)


def no_update(draft: Draft) -> None:
    """Change nothing."""


def _go_key(job: JobRecord) -> str:
    assert job.attempt is not None
    return layout.go(job.project, job.id, job.attempt.number, job.attempt.nonce)


def _write_go(store: ObjectStore, root: Root, job: JobRecord) -> DraftUpdate:
    assert job.attempt is not None
    claims = [state.claim for _, _, _, state in job.attempt.each_host()]
    register = GoRegister(
        write_id=f"go-{root.epoch}-{root.write_id}",
        addresses=tuple(claim.address if claim else "" for claim in claims),
        port=claims[0].port if claims[0] else 0,
    )
    return _settle_go(store, job, register)


def _revoke_go(store: ObjectStore, root: Root, job: JobRecord) -> DraftUpdate:
    return _settle_go(store, job, GoRegister(write_id=f"revoked-{root.epoch}-{root.write_id}"))


def _settle_go(store: ObjectStore, job: JobRecord, wanted: GoRegister) -> DraftUpdate:
    try:
        is_open = bool(win(store, _go_key(job), wanted).record.addresses)
    except ForeignRecordError:
        raise
    except RecordError:
        # An agent that cannot decode the barrier ends its host as lost, so it is closed.
        is_open = False
    event = GoGiven() if is_open else GoRevoked()
    return lambda draft: apply_host_event(draft, seat_of(job, 0, 0).of, event)


def _revoke_claim(store: ObjectStore, root: Root, seat: Seat) -> DraftUpdate:
    register = ClaimRegister(write_id=f"revoked-{root.epoch}-{root.write_id}")
    try:
        return _claim_update(seat.of, win(store, seat.claim_key, register).record)
    except RecordError as error:
        return _undecodable(store, seat, error)


def _claim_update(of: HostFact, winner: ClaimRegister) -> DraftUpdate:
    if winner.claim is None:
        revoked = HostEnded(replica=of.replica, host=of.host, end=End(kind="revoked"))
        return lambda draft: apply_host_event(draft, of, revoked)
    claimed = HostClaimed(replica=of.replica, host=of.host, claim=winner.claim)
    return lambda draft: apply_host_event(draft, of, claimed)


def _write_end(store: ObjectStore, root: Root, seat: Seat, end: End) -> DraftUpdate:
    register = EndRegister(write_id=f"gone-{root.epoch}-{root.write_id}", end=end)
    try:
        end = win(store, seat.end_key, register).record.end
    except ForeignRecordError:
        raise
    except RecordError as error:
        end = End(kind="lost", detail=error.message)
    return _ended(seat, end)


def _write_result(store: ObjectStore, job: JobRecord) -> DraftUpdate:
    replaced = write_final(store, result_of(job))

    def update(draft: Draft) -> None:
        _record_replaced(draft, job, replaced)
        draft.result_written(job.id)

    return update


def _record_replaced(draft: Draft, job: JobRecord, text: str) -> None:
    if text:
        draft.tell_of(job.id, job.project, what="final record replaced", text=text)


def _create_once(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        create_same(store, key, data)
    except ConflictError:
        return
