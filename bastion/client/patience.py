"""
Patience with a store: calls that are safe to repeat are retried for a bounded time, and this is
reported.

Reads change nothing, and objects named by their own content may be created twice: both are retried
with growing pauses. So is a write of the quota file, since its writer reads it back after a
conflict. Requests have their own rule (`bastion.client.change.inbox`). Other swaps and deletions
are tried once.

A refusal at the first contact is final: waiting does not create a missing bucket. After the store
has answered once, a refusal may be due to a binding that is being changed, and is retried for some
seconds. Loops that poll retry it for as long as they wait. If the store refuses only one part of
the bucket, they retry that part for a minute.
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
"""How long one call is retried. Source: google-cloud-storage, `DEFAULT_RETRY`, its deadline."""
REFUSED_S = 5.0
"""How long a refusal is retried: users without a right wait this long for the error."""
REFUSED_PART_S = 60.0
"""How long the refusal of one part is retried while the store serves the rest of the bucket."""
SAID_AFTER_S = 2.0
"""Shorter outages are not reported."""
SAID_AGAIN_S = 60.0
FIRST_PAUSE_S = 0.2
_HINT = "the store has not answered for a long time; this read changed nothing: try again later"
LONGEST_PAUSE_S = 5.0


def first_contact_s(root: str) -> float:
    """Return how long the first contact with the bucket or folder at the URL `root` is retried."""
    return 0.0 if root.startswith("file:") else PATIENCE_S


def warn(line: str) -> None:
    """
    Send `line` to Python's logging, which prints it on stderr unless the program configures
    otherwise.
    """
    import logging

    logging.getLogger("bastion").warning(line)


class Outage:
    """
    Whether the store answers, and what is reported while it does not.

    A store may refuse one part of the bucket while it serves the rest. Parts that are read beside
    other things have names of their own: an answer from another part does not end their outage.

    Args:
        clock: Measures how long it lasts.
        say: Receives the lines to report.
    """

    def __init__(self, clock: Clock, *, say: Callable[[str], None] = warn) -> None:
        self._clock = clock
        self._say = say
        self._since: dict[str, float] = {}
        """The time since which each part fails, by its name."""
        self._refused_since: dict[str, float] = {}
        """The time since which each part is refused while the rest is served."""
        self._said_at: float | None = None
        self.has_answered = False
        """Whether the store ever did anything other than fail or refuse."""

    def met(self, error: StoreError, *, of: str = "") -> None:
        """
        Note that the part `of` of the bucket failed; report it if it has failed for a while.

        Raises:
            StoreRefusedError: The store has refused this part for `REFUSED_PART_S`, and serves the
                rest: a right is missing.
        """
        now = self._clock.monotonic()
        self._check_rights(error, of, now)
        since = self._since.setdefault(of, now)
        is_due = self._said_at is None or now - self._said_at >= SAID_AGAIN_S
        if now - since >= SAID_AFTER_S and is_due:
            self._said_at = now
            self._say(f"{error.in_a_line}; trying again")

    def over(self, *, of: str = "") -> None:
        """Note that the store answered for the part `of`; report it once no part fails."""
        self.has_answered = True
        self._since.pop(of, None)
        self._refused_since.pop(of, None)
        if self._said_at is not None and not self._since:
            self._said_at = None
            self._say("the store answers again")

    def _check_rights(self, error: StoreError, of: str, now: float) -> None:
        if not isinstance(error, StoreRefusedError) or not of or "" in self._since:
            self._refused_since.pop(of, None)
        elif now - self._refused_since.setdefault(of, now) >= REFUSED_PART_S:
            raise StoreRefusedError(
                f"{error.message}, for {REFUSED_PART_S:g} seconds; the rest of the bucket can be"
                " read",
                hint=f"{error.hint}; nothing was stopped" if error.hint else "nothing was stopped",
            ) from error


class PatientStore:
    """
    Another store, retried where that is harmless.

    Args:
        store: Does the work.
        outage: Records failures and answers.
        clock: Used for waiting.
        first_s: How long the first contact is retried. A missing folder is a wrong name.
    """

    def __init__(
        self, store: ObjectStore, outage: Outage, clock: Clock, *, first_s: float = PATIENCE_S
    ) -> None:
        self.hasty = store
        """The store itself, without retries: for loops that poll anyway."""
        self._first_s = first_s
        self._outage = outage
        self._clock = clock

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        return self._tried(partial(self.hasty.read, key, unless=unless, limit_bytes=limit_bytes))

    def create(self, key: str, data: bytes) -> Written:
        """See the port. If there may be several tries, a conflict may be with an earlier one."""
        if key.startswith(layout.BUNDLES) or key == layout.QUOTA:
            return self._tried(partial(self.hasty.create, key, data))
        return self.hasty.create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port. If there may be several tries, a conflict may be with an earlier one."""
        swap = partial(self.hasty.swap, key, data, if_version=if_version)
        return self._tried(swap) if key == layout.QUOTA else swap()

    def delete(self, key: str) -> None:
        """See the port."""
        self.hasty.delete(key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        return self._tried(partial(self.hasty.list, prefix, start_after=start_after, limit=limit))

    def _tried(self, ask: Callable[[], _T]) -> _T:
        """Return what `ask` returns; retries failures that may be temporary, raises all others."""
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
