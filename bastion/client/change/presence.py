"""
Whether there is a bastion to answer, looked up before a request is sent.

A root that no bastion ever served is most likely mistyped, so nothing is written there. If a
bastion stopped or fell silent, the user is told before the wait; the request stays in the inbox for
the next one.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.client.patience import warn
from bastion.client.status.view_reader import ViewReader, command_to_start
from bastion.clock import Clock
from bastion.errors import BastionError, NotFoundError

_GLANCE_S = 10.0
"""Between two looks for the bastion while waiting for something else."""
_FIRST = "no bastion has run here yet"


class Presence:
    """
    What is known of the bastion of one root.

    Args:
        views: What the bastion published.
        hasty: The same, read without retries.
        place: URL of the root, for messages.
        clock: Times the interval between two glances.
        say: Receives messages for the user.
    """

    def __init__(
        self,
        views: ViewReader,
        hasty: ViewReader,
        place: str,
        clock: Clock,
        *,
        say: Callable[[str], None] = warn,
    ) -> None:
        self._views = views
        self._hasty = hasty
        self._place = place
        self._say = say
        self._clock = clock
        self._has_said = False
        self._is_first = False
        self._glance_at = clock.monotonic()
        self._absence_told = ""

    def absence(self) -> str:
        """
        Return why no bastion leads here; empty while one leads or if none was ever seen.

        Raises:
            StoreError: The bucket is unreachable.
        """
        try:
            return self._views.status().absence
        except NotFoundError:
            return ""

    def glance(self) -> None:
        """Report during a long wait that the bastion left or is back; cheap for every poll."""
        now = self._clock.monotonic()
        if now < self._glance_at:
            return
        self._glance_at = now + _GLANCE_S
        try:
            absence = self._hasty.status().absence
        except BastionError:
            return  # nothing was ever published, or the poll itself reports the store's failure
        if bool(absence) != bool(self._absence_told):
            goes_on = "jobs continue while their machines run"
            self._say(f"{absence}; {goes_on}" if absence else "a bastion leads again")
        self._absence_told = absence

    def look(self) -> None:
        """
        Look for the bastion before a request is written; report once if none would answer.

        Raises:
            NotFoundError: No bastion has ever served this root.
            StoreError: The bucket is unreachable.
        """
        absence = self._absence_or_refusal()
        if absence and not self._has_said:
            self._has_said = True
            self._absence_told = absence
            self._say(f"{absence}; {self._waits}")

    def still_waiting(self) -> None:
        """Report that the answer takes long, then why if no bastion leads; called at every poll."""
        if self._has_said:
            self.glance()
        else:
            self._has_said = True
            slow = f"waiting for the answer of the bastion at {self._place}"
            self._say(f"{_FIRST}; {self._waits}" if self._is_first else slow)

    @property
    def _waits(self) -> str:
        return f"requests wait in the inbox of {self._place}"

    def _absence_or_refusal(self) -> str:
        try:
            return self._views.status().absence
        except NotFoundError:
            if self._views.is_prepared():
                self._is_first = (
                    True  # most likely it is being started: worth a word when it is slow
                )
                return ""
            raise NotFoundError(
                f"no bastion has ever served {self._place}",
                hint="name another with --root=URL or BASTION_ROOT; to start one here:"
                f" {command_to_start(self._place)}",
            ) from None
