"""
Requests that wait because the bucket does not accept an object that their commit relies on.

The turn that met the failure is discarded. Later turns leave such a request in the inbox, so that
all others continue, and write its object again outside the turn.
"""

from __future__ import annotations

from bastion.value import replace, value

GIVEN_UP_S = 600.0
"""A request that fails for this long is refused; a verb waits as long for an unknown job."""
LONGEST_STEP_S = 60.0
"""The most that one failure counts: an outage of the whole bucket, without commits, is no fault."""


@value
class _Failing:
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
        self._failing: dict[str, _Failing] = {}

    def __contains__(self, request: str) -> bool:
        return request in self._failing

    def add(
        self, request: str, error: Exception, *, at: float, small: tuple[str, bytes] = ("", b"")
    ) -> None:
        """Record that its object was not written again; `at` is the time of the last commit."""
        before = self._failing.get(request, _Failing(error=error, failed_at=at, small=small))
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
