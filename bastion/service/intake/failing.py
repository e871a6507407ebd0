"""
Objects of the inbox that fail while others succeed, and when they are given up.

`Unwritten` are requests that wait because the bucket does not accept an object that their commit
relies on. The turn that met the failure is discarded. Later turns leave such a request in the
inbox, so that all others continue, and write its object again outside the turn.

`FailedReads` are objects that the store does not return although it answers other requests. A
request is given up by time, since that refuses what a user asked for. A right that is changed takes
a minute or two. A bell is given up by turns: it would keep later bells of its machine waiting, and
its facts are in registers too.
"""

from __future__ import annotations

from collections.abc import Container

from bastion.clock import Clock
from bastion.errors import StoreError, StoreRefusedError
from bastion.value import replace, value

GIVEN_UP_S = 600.0
"""A request that fails for this long is refused; a verb waits as long for an unknown job."""
LONGEST_STEP_S = 60.0
"""The most that one failure counts: an outage of the whole bucket, without commits, is no fault."""
REFUSED_S = 180.0
"""A request whose read the store refuses for this long is refused."""
FAILED_S = 600.0
"""The same for failures that may pass."""
GAP_S = 10.0
"""The most that the time between two reads counts: a turn takes less, and an outage counts once."""
REFUSED_TURNS = 3
"""A bell that the store refuses in this many turns is set aside."""
FAILED_TURNS = 300
"""The same for failures that may pass: several minutes of turns."""


@value
class _FailedWrite:
    """What one request waits for."""

    error: Exception
    failed_at: float
    """The time of the last commit before its last failure."""
    failing_s: float = 0.0
    """How long it has failed while the bucket accepted commits."""
    small: tuple[str, bytes] = ("", b"")
    """Key and bytes of the object; those of a launch are made again, as they may take megabytes."""


class Unwritten:
    """The requests that wait for one of their objects to be written, by their key in the inbox."""

    def __init__(self) -> None:
        self._failing: dict[str, _FailedWrite] = {}

    def __contains__(self, request: str) -> bool:
        return request in self._failing

    def add(
        self, request: str, error: Exception, *, at: float, small: tuple[str, bytes] = ("", b"")
    ) -> None:
        """Record that its object was not written again; `at` is the time of the last commit."""
        before = self._failing.get(request, _FailedWrite(error=error, failed_at=at, small=small))
        step_s = min(at - before.failed_at, LONGEST_STEP_S)
        self._failing[request] = replace(
            before, error=error, failed_at=at, failing_s=before.failing_s + step_s
        )

    def small(self, request: str) -> tuple[str, bytes]:
        """Return the key and the bytes of the object, unless it is the spec of a launch."""
        return self._failing[request].small

    def forget(self, request: str) -> None:
        """Drop a request: its object is written, or it was answered."""
        self._failing.pop(request, None)

    def problem(self, request: str) -> str:
        """Return what cannot be written, and why, in words."""
        return f"the bastion cannot write what it needs for this: {self._failing[request].error}"

    def is_given_up(self, request: str) -> bool:
        """Whether it has failed for so long that it is refused."""
        return self._failing[request].failing_s >= GIVEN_UP_S


@value
class _FailedRead:
    at: float
    """The time of the last read, on the monotonic clock of this leader."""
    turns: int = 1
    for_s: float = 0.0


class FailedReads:
    """
    The failed reads of one leader; another one starts to count again.

    Args:
        clock: Measures the time between two reads.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, _FailedRead] = {}

    def gives_up_request(self, key: str, error: StoreError) -> bool:
        """Whether the request at `key` is given up after one more failed read."""
        limit_s = REFUSED_S if isinstance(error, StoreRefusedError) else FAILED_S
        return self._failed(key).for_s >= limit_s

    def gives_up_bell(self, key: str, error: StoreError) -> bool:
        """Whether the bell at `key` is given up after one more failed read."""
        turns = REFUSED_TURNS if isinstance(error, StoreRefusedError) else FAILED_TURNS
        return self._failed(key).turns >= turns

    def keep(self, listed: Container[str]) -> None:
        """Forget all objects but those that are `listed`."""
        self._failing = {key: each for key, each in self._failing.items() if key in listed}

    def _failed(self, key: str) -> _FailedRead:
        now, before = self._clock.monotonic(), self._failing.get(key)
        if before is None:
            found = _FailedRead(at=now)
        else:
            for_s = before.for_s + min(now - before.at, GAP_S)
            found = _FailedRead(at=now, turns=before.turns + 1, for_s=for_s)
        self._failing[key] = found
        return found
