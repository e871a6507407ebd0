"""
One request and its answer: a create in the inbox, then a wait for the object that the bastion
writes.

The bytes of a request are frozen before the first try, and only these bytes are retried. A created
request is never withdrawn: if no answer arrives in time, the request is still in the inbox and will
be processed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from bastion.client.patience import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    PATIENCE_S,
    REFUSED_S,
    Outage,
    PatientStore,
)
from bastion.clock import Clock
from bastion.errors import (
    ConflictError,
    InDoubtError,
    NotFoundError,
    StoreError,
    StoreRefusedError,
    TimedOutError,
)
from bastion.records.coding.codec import decode_known, encode, encode_request
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.store.port import ObjectStore
from bastion.value import value

if TYPE_CHECKING:
    from bastion.records.requests.request import Body

_SLOW_S = 2.0
"""A bastion that reads a folder answers faster than this."""
_SLOW_POLLS = 12
"""
An answer usually takes at most this many polls (12 s on a cloud, where an idle bastion polls every
5 s).
"""
_FREE_POLL_S = 0.02
"""At such short intervals each poll costs one system call, and the answer comes within 0.1 s."""
_GROWTH, _FREE_GROWTH = 1.5, 1.15
_FIRST_POLL_S = 0.002
_LONGEST_TOOK_S = 0.2
"""A longer wait says more about one moment than about the next answer."""
_FIRST_SHARE, _NEXT_SHARE = 0.5, 0.125
"""As fractions of the last answer's time: before the first poll for the next, and between polls."""


@value
class RequestRef:
    """The name of a request that is or was in the inbox."""

    project: str
    user: str
    ulid: str
    verb: str

    @property
    def key(self) -> str:
        """The key of the request, until the bastion has processed it."""
        return layout.request(self.project, self.user, self.ulid, self.verb)

    @property
    def answer_key(self) -> str:
        """The key of its answer."""
        return layout.answer(self.project, self.user, self.ulid)


class Inbox:
    """
    The inbox of users' requests.

    Args:
        store: The bucket.
        clock: Used for waiting.
        poll_s: Seconds between two polls for an answer.
        outage: Records whether the store answers.
    """

    def __init__(self, store: PatientStore, clock: Clock, *, poll_s: float, outage: Outage) -> None:
        self._store = store
        self._clock = clock
        self._poll_s = poll_s
        self._outage = outage
        self._took_s = 0.0
        """How long the last answer took at short polling intervals: the next is similar."""

    def post(self, ref: RequestRef, body: Body) -> None:
        """
        Put a request into the inbox; retries are idempotent.

        Raises:
            ConflictError: Another request has this name.
            SpecError: It is larger than the bastion reads.
            InDoubtError: After all retries, it may or may not have arrived.
            StoreError: The store refused it, and nothing was sent.
        """
        data = encode_request(body)
        began, pause_s = self._clock.monotonic(), FIRST_PAUSE_S
        is_sent = False
        while True:
            try:
                self._store.hasty.create(ref.key, data)
                self._outage.over()
                return
            except ConflictError:
                self._check_ours(ref, body, data)
                return
            except StoreError as error:
                is_refused = isinstance(error, StoreRefusedError)
                is_sent = is_sent or not is_refused
                patience_s = PATIENCE_S if is_sent else REFUSED_S
                if is_refused and not is_sent and not self._outage.has_answered:
                    raise
                pause_s = max(pause_s, min(error.retry_after_s, LONGEST_PAUSE_S))
                if self._clock.monotonic() + pause_s - began > patience_s:
                    if not is_sent:
                        raise
                    raise _in_doubt(ref, body, error) from error
                self._outage.met(error)
            self._clock.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def drop(self, ref: RequestRef, body: Body) -> None:
        """Put a request that nothing depends on into the inbox with one try; ignore a failure."""
        with suppress(StoreError, ConflictError):
            self._store.hasty.create(ref.key, encode(body))

    def _check_ours(self, ref: RequestRef, body: Body, data: bytes) -> None:
        """
        Raise if the request in the inbox is a different one.

        A create may conflict with this client's own earlier try. A request that has left the inbox
        counts as this client's.
        """
        try:
            found = self._read(ref.key)
        except StoreError as error:
            raise _in_doubt(ref, body, error) from error
        if found is not None and found != data:
            raise ConflictError(
                f"there is another request at {ref.key}",
                hint="an --idempotency_key names one launch; choose another key for another launch",
            )

    def wait(
        self, ref: RequestRef, *, timeout_s: float, on_slow: Callable[[], None] = lambda: None
    ) -> Answer:
        """
        Wait for the answer to a posted request, and return it.

        The request stays in the inbox: failures and refusals of the store only prolong the wait.
        `on_slow` is called at every poll once the answer takes longer than usual.

        Raises:
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
        """
        began = self._clock.monotonic()
        until = began + timeout_s
        slow_at = began + max(_SLOW_S, _SLOW_POLLS * self._poll_s)
        is_free = self._poll_s <= _FREE_POLL_S
        growth = _FREE_GROWTH if is_free else _GROWTH
        first_s = min(_FIRST_SHARE * self._took_s, timeout_s)
        pause_s = min(self._poll_s, max(_FIRST_POLL_S, _NEXT_SHARE * self._took_s))
        if first_s > _FIRST_POLL_S:
            self._clock.sleep(first_s)
        while True:
            answer = self._poll(ref)
            if answer is not None:
                if is_free:
                    self._took_s = min(self._clock.monotonic() - began, _LONGEST_TOOK_S)
                return answer
            if self._clock.monotonic() >= until:
                raise TimedOutError(
                    f"no answer within {timeout_s:g}s: the request is in the inbox "
                    f"({ref.key}) and is processed when the bastion runs",
                    hint="bastion status shows whether it runs; the answer will be at "
                    f"{ref.answer_key}",
                )
            if self._clock.monotonic() >= slow_at:
                on_slow()
            self._clock.sleep(pause_s)
            pause_s = min(self._poll_s, pause_s * growth)

    def answer(self, ref: RequestRef) -> Answer | None:
        """
        Return the answer, or None while there is none.

        Raises:
            StoreError: The bucket is unreachable.
        """
        data = self._read(ref.answer_key)
        return None if data is None else decode_known(Answer, data, key=ref.answer_key)

    def is_waiting(self, ref: RequestRef) -> bool:
        """
        Whether the request is in the inbox now.

        Raises:
            StoreError: The bucket is unreachable.
        """
        return self._read(ref.key) is not None

    def _poll(self, ref: RequestRef) -> Answer | None:
        """Return the answer, or None while there is none or the store is unreachable."""
        try:
            data = _bytes(self._store.hasty, ref.answer_key)
        except StoreError as error:
            self._outage.met(error)
            return None
        self._outage.over()
        return None if data is None else decode_known(Answer, data, key=ref.answer_key)

    def _read(self, key: str) -> bytes | None:
        return _bytes(self._store, key)


def _bytes(store: ObjectStore, key: str) -> bytes | None:
    """Return the bytes at `key`, or None."""
    try:
        found = store.read(key)
    except NotFoundError:
        return None
    return None if found is None else found.data


def _in_doubt(ref: RequestRef, body: Body, error: StoreError) -> InDoubtError:
    """Return the error for a request that may have arrived; its hint says how to find out."""
    from bastion.records.requests.launch_request import LaunchRequest
    from bastion.spec import job_ids

    hint = f"try again: to {ref.verb} twice does no harm"
    if isinstance(body, LaunchRequest):
        job = job_ids(body.launch, ref.ulid)[0]
        hint = f"bastion show {job} shows whether it was accepted; if not, submit again"
        if body.idempotency_key:
            hint = "submit again with the same --idempotency_key: it gives the same jobs"
    return InDoubtError(
        "it is unknown whether the request reached the bucket, and it may still be accepted:"
        f" {error}",
        hint=hint,
    )
