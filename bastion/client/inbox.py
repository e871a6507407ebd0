"""
One request and its answer: a create in the inbox, then a wait for what the bastion writes.

Rules: the bytes of a request are frozen before the first try, and only the same bytes are ever
tried again. A request that was created is never taken back: when no answer comes in time, it is
still there and will be taken.
"""

from __future__ import annotations

from bastion.clock import Clock
from bastion.errors import (
    ConflictError,
    NotFoundError,
    StoreError,
    StoreRefusedError,
    TimedOutError,
)
from bastion.records import layout
from bastion.records.codec import decode, encode
from bastion.records.request import Answer, Body
from bastion.store.port import ObjectStore
from bastion.value import value

_TRIES = 5
_BACKOFF_S = 0.2
"""Before the second try; doubled for each further one, 3 s in all."""


@value
class Asked:
    """A request that is in the inbox, or was."""

    project: str
    user: str
    ulid: str
    verb: str

    @property
    def key(self) -> str:
        """Where it lies until it is absorbed."""
        return layout.request(self.project, self.user, self.ulid, self.verb)

    @property
    def answer_key(self) -> str:
        """Where its answer will stand."""
        return layout.answer(self.project, self.user, self.ulid)


class Inbox:
    """
    Where requests of users go.

    Args:
        store: The bucket.
        clock: For waiting.
        poll_s: How often to look for an answer.
    """

    def __init__(self, store: ObjectStore, clock: Clock, *, poll_s: float) -> None:
        self._store = store
        self._clock = clock
        self._poll_s = poll_s

    def post(self, asked: Asked, body: Body) -> None:
        """
        Put a request into the inbox, once however often it must be tried.

        Raises:
            ConflictError: Another request has this name.
            StoreError: Out of reach, or still in doubt after several tries.
        """
        data = encode(body)
        for tries in range(_TRIES):
            try:
                self._store.create(asked.key, data)
                return
            except ConflictError:
                self._check_ours(asked, data)
                return
            except StoreRefusedError:
                raise
            except StoreError as error:
                if tries == _TRIES - 1:
                    raise StoreError(
                        f"in doubt whether the request reached the bucket: {error}",
                        hint="bastion list tells; with an --idempotency_key, submit again",
                    ) from error
                self._clock.sleep(_BACKOFF_S * 2**tries)

    def _check_ours(self, asked: Asked, data: bytes) -> None:
        """A create that lost may have lost to our own earlier try; absorbed counts as ours."""
        found = self._read(asked.key)
        if found is not None and found != data:
            raise ConflictError(
                f"there is another request at {asked.key}",
                hint="an --idempotency_key names one launch; choose another key for another launch",
            )

    def wait(self, asked: Asked, *, timeout_s: float) -> Answer:
        """
        The answer to a request.

        Raises:
            TimedOutError: There is none yet; the request is in the inbox and will be taken.
            StoreRefusedError: The store said no for good.
        """
        until = self._clock.monotonic() + timeout_s
        pause_s = min(self._poll_s, 0.002)
        while True:
            answer = self.answer(asked)
            if answer is not None:
                return answer
            if self._clock.monotonic() >= until:
                raise TimedOutError(
                    f"no answer within {timeout_s:g}s: the request lies in the inbox "
                    f"({asked.key}) and is taken when the bastion runs",
                    hint="bastion status tells whether it runs; the answer will be at "
                    f"{asked.answer_key}",
                )
            self._clock.sleep(pause_s)
            pause_s = min(self._poll_s, pause_s * 1.5)

    def answer(self, asked: Asked) -> Answer | None:
        """The answer, or None while there is none or the store cannot be asked."""
        try:
            data = self._read(asked.answer_key)
        except StoreRefusedError:
            raise
        except StoreError:
            return None
        return None if data is None else decode(Answer, data, key=asked.answer_key)

    def is_waiting(self, asked: Asked) -> bool:
        """Whether the request lies in the inbox now."""
        return self._read(asked.key) is not None

    def _read(self, key: str) -> bytes | None:
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return None if found is None else found.data
