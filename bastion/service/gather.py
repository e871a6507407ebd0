"""
What one turn reads of the inbox before it decides: requests and bells.

A body is read once: one that has to wait in the inbox is remembered until it is absorbed. Whatever
cannot be understood comes back as its problems, never as an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import partial

from bastion.errors import BastionError, NotFoundError, RecordError, StoreError
from bastion.lane import Lane
from bastion.records import layout
from bastion.records.codec import decode
from bastion.records.facts import Bell
from bastion.records.inbox import Look, Misplaced, Ringing, Waiting
from bastion.records.request import (
    BODIES,
    Body,
    JobsRequest,
    LaunchRequest,
    SpecRecord,
    UpdateRequest,
)
from bastion.records.targets import Targets, look_up
from bastion.spec import job_ids, tasks_of_id
from bastion.store import ObjectStore
from bastion.value import value


@value
class Arrived:
    """One request with its body, or with everything that is wrong with it."""

    waiting: Waiting
    body: Body | None = None
    problems: tuple[str, ...] = ()
    is_answered: bool = False
    """It was answered by an earlier commit: only its deletion is left."""
    ended: frozenset[str] = frozenset()
    """Those of its targets that have a final record."""
    targets: Targets = field(default_factory=dict)
    """What the bucket keeps of those that it wants to wait for."""


@value
class Rung:
    """One bell with its facts, or with what is wrong with it."""

    ringing: Ringing
    bell: Bell | None = None
    problem: str = ""


@value
class Gathered:
    """Everything new in the inbox."""

    requests: tuple[Arrived, ...] = ()
    bells: tuple[Rung, ...] = ()
    misplaced: tuple[Misplaced, ...] = ()


_UNREAD = object()
READS_S = 10.0
"""What is not read by then waits for the next turn: a third of a lease on a cloud store."""


class Gatherer:
    """
    Reads the inbox; remembers what has to wait there.

    Args:
        lane: Where objects are read, side by side.
    """

    def __init__(self, store: ObjectStore, lane: Lane) -> None:
        self._store = store
        self._lane = lane
        self._look = Look(store)
        self._bodies: dict[str, Arrived] = {}

    def gather(self, *, skip: Callable[[str], bool], is_active: Callable[[str], bool]) -> Gathered:
        """
        What is in the inbox, apart from the keys that `skip` knows to be absorbed.

        `is_active` tells whether a target names an active job or launch: the others are looked for
        among the final records.

        What cannot be read now is left in the inbox, and with a bell the later ones of its machine.

        Raises:
            StoreError: Out of reach.
        """
        inbox = self._look.once()
        requests = [each for each in inbox.requests if not skip(each.entry.key)]
        bells = [each for each in inbox.bells if not skip(each.entry.key)]
        read = self._read(requests, bells, is_active)
        arrived = [read.get(each.entry.key, _UNREAD) for each in requests]
        rung: list[Rung] = []
        unheard: set[str] = set()
        for each in bells:
            heard = read.get(each.entry.key, _UNREAD)
            if isinstance(heard, Rung) and each.machine not in unheard:
                rung.append(heard)
            elif heard is not None:
                unheard.add(each.machine)
        return Gathered(
            requests=tuple(each for each in arrived if isinstance(each, Arrived)),
            bells=tuple(rung),
            misplaced=tuple(each for each in inbox.misplaced if not skip(each.entry.key)),
        )

    def _read(
        self,
        requests: Iterable[Waiting],
        bells: Iterable[Ringing],
        is_active: Callable[[str], bool],
    ) -> Mapping[str, object]:
        """By key: what was read, None for what is there no more, `_UNREAD` for what failed."""
        read: dict[str, object] = {}
        for waiting in requests:
            key = waiting.entry.key
            if key in self._bodies:
                read[key] = self._bodies[key]
            else:
                self._lane.submit(key, partial(self._request, waiting, is_active))
        for ringing in bells:
            self._lane.submit(ringing.entry.key, partial(self._bell, ringing))
        self._lane.settle(READS_S)
        done = self._lane.collect()
        for each in done:
            read[each.key] = each.result if each.error is None else _UNREAD
            if isinstance(each.result, Arrived) and _may_wait(each.result.body):
                self._bodies[each.key] = each.result
        failures = [each.error for each in done if each.error is not None]
        if failures and len(failures) == len(done):
            raise failures[0]
        return read

    def forget(self, key: str) -> None:
        """The request at `key` was absorbed."""
        self._bodies.pop(key, None)

    def _request(self, waiting: Waiting, is_active: Callable[[str], bool]) -> Arrived | None:
        name = waiting.name
        if name.verb != "follow" and self._exists(
            layout.answer(name.project, name.user, name.ulid)
        ):
            return Arrived(waiting=waiting, is_answered=True)
        kind = BODIES.get(name.verb)
        if kind is None:
            problem = f"{name.verb!r} is no verb; the verbs are {', '.join(BODIES)}"
            return Arrived(waiting=waiting, problems=(problem,))
        if waiting.problem:
            return Arrived(waiting=waiting, problems=(waiting.problem,))
        try:
            found = self._store.read(waiting.entry.key)
        except NotFoundError:
            return None
        assert found is not None
        try:
            body = decode(kind, found.data, key=name.verb)
        except RecordError as error:
            return Arrived(waiting=waiting, problems=(error.message,))
        targets: Targets = {}
        if isinstance(body, LaunchRequest):
            try:
                targets = look_up(self._store, name.project, body.launch.waits_for_others)
            except RecordError as error:
                return Arrived(waiting=waiting, problems=(f"after: {error.message}",))
        return Arrived(
            waiting=waiting,
            body=body,
            ended=self._ended(waiting, body, is_active),
            targets=targets,
        )

    def _ended(
        self, waiting: Waiting, body: Body, is_active: Callable[[str], bool]
    ) -> frozenset[str]:
        match body:
            case JobsRequest(targets=targets) | UpdateRequest(targets=targets):
                pass
            case LaunchRequest(idempotency_key=key) if key:
                targets = job_ids(body.launch, waiting.name.ulid)
            case _:
                return frozenset()
        unknown = (target for target in targets if not is_active(target))
        project = waiting.name.project
        return frozenset(each for each in unknown if self._has_result(project, each))

    def _has_result(self, project: str, target: str) -> bool:
        """
        Whether the job, or every job of the launch, called `target` has a final record.

        Tasks of an array have ended when it has: not each of them has a record of its own.
        """
        tasks = tasks_of_id(target)
        try:
            if tasks is not None and self._exists(layout.result(project, tasks[0])):
                return True
            if self._exists(layout.result(project, target)):
                return True
            key = layout.spec(project, target)
            found = self._store.read(key)
            assert found is not None
            spec = decode(SpecRecord, found.data, key=key)
            jobs = job_ids(spec.launch, spec.ulid)
            return all(self._exists(layout.result(project, job)) for job in jobs)
        except StoreError:
            raise
        except BastionError:
            return False

    def _bell(self, ringing: Ringing) -> Rung | None:
        try:
            found = self._store.read(ringing.entry.key)
        except NotFoundError:
            return None
        assert found is not None
        try:
            return Rung(ringing=ringing, bell=decode(Bell, found.data, key=ringing.entry.key))
        except RecordError as error:
            return Rung(ringing=ringing, problem=error.message)

    def _exists(self, key: str) -> bool:
        try:
            self._store.read(key)
        except NotFoundError:
            return False
        return True


def _may_wait(body: Body | None) -> bool:
    """Whether `body` says the same later: what a launch waits for may have ended by then."""
    return body is not None and not (
        isinstance(body, LaunchRequest) and body.launch.waits_for_others
    )
