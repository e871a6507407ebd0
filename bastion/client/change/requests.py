"""A user's requests: named, posted and answered; at most once per idempotency key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from bastion.client.change.inbox import Inbox, RequestRef
from bastion.client.change.presence import Presence
from bastion.client.change.request_id import Ulids, keyed
from bastion.clock import Clock
from bastion.errors import RefusedError

if TYPE_CHECKING:
    from typing import TypeAlias

    from bastion.client.look.views import JobView
    from bastion.records.requests.answer import Answer
    from bastion.records.requests.job_request import JobsRequest, UpdateRequest
    from bastion.records.requests.launch_request import LaunchRequest
    from bastion.records.requests.request import Body

    ChangeBody: TypeAlias = Callable[..., JobsRequest | UpdateRequest]
    """Returns the body of a change from its `targets`."""

_MAX_TURNS = 20
"""How often a launch of one idempotency key may be refused and submitted again."""
_UNKNOWN = (": unknown field", "' is not a verb; the verbs are ")
"""How a bastion describes a key that it does not know, and that this client does."""
_OLDER = "the bastion is of an older version than this client: leave that out, or upgrade it first"


class Requests:
    """
    The requests of one user.

    Args:
        inbox: The inbox that they are posted to.
        clock: Provides the time in their names.
        user: The user who submits them.
        presence: Whether there is a bastion to answer.
    """

    def __init__(self, inbox: Inbox, clock: Clock, user: str, presence: Presence) -> None:
        self._inbox = inbox
        self._presence = presence
        self._clock = clock
        self._user = user
        self._ulids = Ulids(clock.wall)

    def ask(self, project: str, verb: str, body: Body, *, timeout_s: float) -> Answer:
        """
        Post a new request, and return its answer once it is accepted.

        Raises:
            NotFoundError: No bastion has ever served this root; nothing was written.
            RefusedError: The bastion refused; the message is its answer.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: It may or may not have arrived.
            StoreError: The store refused it.
        """
        ref = self._post(project, verb, body)
        return self._answered(ref, body, timeout_s=timeout_s)

    def ask_of(
        self,
        verb: str,
        jobs: Iterable[JobView],
        body_of: ChangeBody,
        *,
        timeout_s: float,
    ) -> tuple[str, ...]:
        """
        Request a change of those `jobs` that have not ended; return their ids.

        Posts one request per project, or as many as its targets need, and then waits for all of
        them: a bastion answers the requests that it finds together in one turn.

        Args:
            verb: The change.
            jobs: The jobs to change.
            body_of: Returns the body from `targets`.
            timeout_s: How long to wait for each answer.

        Raises:
            RefusedError: The bastion refused a request; the others stay in force.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: A request may have arrived; a retry is harmless.
            StoreError: The store refused a request.
        """
        by_project: dict[str, list[str]] = {}
        for job in jobs:
            if not job.has_ended:
                by_project.setdefault(job.project, []).append(job.id)
        posted = [
            (self._post(project, verb, body), body)
            for project, ids in by_project.items()
            for body in _bodies(ids, body_of)
        ]
        for ref, body in posted:
            self._answered(ref, body, timeout_s=timeout_s)
        return tuple(job for ids in by_project.values() for job in ids)

    def ask_once(self, project: str, body: LaunchRequest, *, timeout_s: float) -> Answer:
        """
        Return the answer to the first launch with this body's key; post the body if there is none.

        A refused launch does not use up the key: the next try has other names.

        Raises:
            RefusedError: The bastion refused; the message is its answer.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            ConflictError: Another launch with this key is in the inbox.
            InDoubtError: It may have arrived; submitting it again with this key is harmless.
            StoreError: The bucket refused, or became unreachable before anything was sent.
        """
        for turn in range(_MAX_TURNS):
            names = self._keyed(project, body.idempotency_key, turn)
            earlier = next(filter(None, map(self._inbox.answer, names)), None)
            if earlier is None:
                self._presence.look()
                waiting = next(filter(self._inbox.is_waiting, names), None)
                if waiting is not None:
                    return self._answered(waiting, body, timeout_s=timeout_s)
                return self._asked(names[0], body, timeout_s=timeout_s)
            if earlier.accepted:
                return earlier
        raise RefusedError(
            f"idempotency_key {body.idempotency_key!r} was refused {_MAX_TURNS} times",
            hint="choose another key",
        )

    def _asked(self, ref: RequestRef, body: Body, *, timeout_s: float) -> Answer:
        """Post a request, and return its answer once it is accepted."""
        self._post_as(ref, body)
        return self._answered(ref, body, timeout_s=timeout_s)

    def _post(self, project: str, verb: str, body: Body) -> RequestRef:
        """Post a new request, and return its name."""
        ref = self._named(project, verb, self._ulids.new())
        self._presence.look()
        self._post_as(ref, body)
        return ref

    def _post_as(self, ref: RequestRef, body: Body) -> None:
        try:
            self._inbox.post(ref, body)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"the request to {ref.verb} may have reached the inbox ({ref.key})")
            raise

    def _answered(self, ref: RequestRef, body: Body, *, timeout_s: float) -> Answer:
        """Return the answer to a posted request once it is accepted."""
        try:
            answer = self._inbox.wait(
                ref, timeout_s=timeout_s, on_slow=self._presence.still_waiting
            )
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(_left_behind(ref, body))
            raise
        return _accepted(answer)

    def tell(self, project: str, verb: str, body: Body) -> None:
        """Post a request that nothing depends on: waits for no answer and raises no failure."""
        self._inbox.drop(self._named(project, verb, self._ulids.new()), body)

    def _keyed(self, project: str, key: str, turn: int) -> list[RequestRef]:
        ulids = keyed(self._user, project, key, turn=turn, now=self._clock.wall())
        return [self._named(project, "launch", ulid) for ulid in ulids]

    def _named(self, project: str, verb: str, ulid: str) -> RequestRef:
        return RequestRef(project=project, user=self._user, ulid=ulid, verb=verb)


def _bodies(ids: list[str], body_of: ChangeBody) -> Iterator[JobsRequest | UpdateRequest]:
    """Yield the bodies that together name all of `ids`."""
    from bastion.records.requests.job_request import MAX_TARGETS

    for first in range(0, len(ids), MAX_TARGETS):
        yield body_of(targets=tuple(ids[first : first + MAX_TARGETS]))


def _left_behind(ref: RequestRef, body: Body) -> str:
    """Return what happens to a posted request whose answer is no longer waited for."""
    from bastion.records.requests.launch_request import LaunchRequest
    from bastion.spec import job_ids

    told = f"the request to {ref.verb} is in the inbox ({ref.key}) and will be processed"
    if isinstance(body, LaunchRequest):
        return f"{told}; bastion show {job_ids(body.launch, ref.ulid)[0]} shows its state"
    return told


def _accepted(answer: Answer) -> Answer:
    if answer.accepted:
        return answer
    message = "; ".join(answer.problems) or f"the bastion refused to {answer.verb}"
    if answer.machines:
        from bastion.client.change.busy_error import BusyError

        raise BusyError(message, answer.machines)
    is_older = any(words in message for words in _UNKNOWN)
    raise RefusedError(message, hint=_OLDER if is_older else "")
