"""
Patience with a store: what may be asked twice is asked again, for a bounded time, and it is said.

Reading changes nothing, and what is named by its own bytes may be created twice: both are tried
again with growing pauses. So may the quota file be written, as its writer reads it back after a
conflict. Requests have a rule of their own (`bastion.client.change.inbox`). Other swaps and
deletions are tried once.

A refusal at the first contact is final: a bucket that is not there does not come by waiting. After
an answer a refusal may be a binding that is being changed, and is tried again for some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from bastion.clock import Clock
from bastion.errors import BastionError, StoreError, StoreRefusedError
from bastion.records.keys import layout
from bastion.store.port import (
    READ_LIMIT_BYTES,
    Entry,
    Object,
    ObjectStore,
    Version,
    Written,
)

_T = TypeVar("_T")

PATIENCE_S = 120.0
"""How long one thing is tried. Source: google-cloud-storage, `DEFAULT_RETRY`, its deadline."""
REFUSED_S = 5.0
"""How long a refusal is tried again: people who lack a right wait that long to be told."""
SAID_AFTER_S = 2.0
"""Shorter outages are not worth a word."""
SAID_AGAIN_S = 60.0
FIRST_PAUSE_S = 0.2
_HINT = "the store did not answer for long; nothing was changed by asking: try again later"
LONGEST_PAUSE_S = 5.0


def first_contact_s(root: str) -> float:
    """How long the bucket or folder at the URL `root` is tried before it ever answered."""
    return 0.0 if root.startswith("file:") else PATIENCE_S


def warn(line: str) -> None:
    """Hand `line` to Python's logging, which shows it on stderr unless a program says otherwise."""
    import logging

    logging.getLogger("bastion").warning(line)


class Outage:
    """
    Whether the store answers, and what is said while it does not.

    A store may refuse a part of the bucket while it gives the rest. What is asked beside other
    things has a name of its own: an answer to these does not end its outage.

    Args:
        clock: How long it lasts.
        say: Where a line goes.
    """

    def __init__(self, clock: Clock, *, say: Callable[[str], None] = warn) -> None:
        self._clock = clock
        self._say = say
        self._since: dict[str, float] = {}
        """Since when each part fails, by its name."""
        self._said_at: float | None = None
        self.has_answered = False
        """Whether the store ever did anything but fail or refuse."""

    def met(self, error: StoreError, *, of: str = "") -> None:
        """Note that the part `of` of the bucket failed; say so when it has for a while."""
        now = self._clock.monotonic()
        since = self._since.setdefault(of, now)
        is_due = self._said_at is None or now - self._said_at >= SAID_AGAIN_S
        if now - since >= SAID_AFTER_S and is_due:
            self._said_at = now
            self._say(f"{error.in_a_line}; trying again")

    def over(self, *, of: str = "") -> None:
        """Note that the store answered about the part `of`; say so once none fails."""
        self.has_answered = True
        self._since.pop(of, None)
        if self._said_at is not None and not self._since:
            self._said_at = None
            self._say("the store answers again")


class PatientStore:
    """
    Another store, asked again where that is harmless.

    Args:
        store: Does the work.
        outage: Told how it goes.
        clock: For waiting.
        first_s: How long a first contact is tried. A folder that is not there is a wrong name.
    """

    def __init__(
        self, store: ObjectStore, outage: Outage, clock: Clock, *, first_s: float = PATIENCE_S
    ) -> None:
        self.hasty = store
        """The store itself, which is asked once: for loops that come back anyway."""
        self._first_s = first_s
        self._outage = outage
        self._clock = clock

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        return self._tried(partial(self.hasty.read, key, unless=unless, limit_bytes=limit_bytes))

    def create(self, key: str, data: bytes) -> Written:
        """See the port. A conflict may be with an earlier try, where there may be several."""
        if key.startswith(layout.BUNDLES) or key == layout.QUOTA:
            return self._tried(partial(self.hasty.create, key, data))
        return self.hasty.create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port. A conflict may be with an earlier try, where there may be several."""
        swap = partial(self.hasty.swap, key, data, if_version=if_version)
        return self._tried(swap) if key == layout.QUOTA else swap()

    def delete(self, key: str) -> None:
        """See the port."""
        self.hasty.delete(key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        return self._tried(partial(self.hasty.list, prefix, start_after=start_after, limit=limit))

    def _tried(self, ask: Callable[[], _T]) -> _T:
        """What `ask` returns, or anything it raises but a failure that may pass."""
        began, pause_s = self._clock.monotonic(), FIRST_PAUSE_S
        while True:
            try:
                found = ask()
            except StoreError as error:
                is_refusal = isinstance(error, StoreRefusedError)
                patience_s = REFUSED_S if is_refusal else PATIENCE_S
                if not self._outage.has_answered:
                    patience_s = 0.0 if is_refusal else self._first_s
                pause_s = max(pause_s, min(error.retry_after_s, LONGEST_PAUSE_S))
                if self._clock.monotonic() + pause_s - began > patience_s:
                    error.hint = error.hint or _HINT
                    raise
                self._outage.met(error)
            except BastionError:
                self._outage.over()
                raise
            else:
                self._outage.over()
                return found
            self._clock.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
