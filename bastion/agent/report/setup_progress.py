"""The progress of a host's set-up, reported while it takes long, for `bastion why`."""

from __future__ import annotations

from bastion.agent.report.bells import Bells
from bastion.records.reports.facts import HostFact, Preparing

_FIRST_S = 5.0
"""Shorter steps are not reported."""
_LONGEST_S = 60.0
"""Longest time between two bells; it doubles up to here, so an hour's pull costs about sixty."""


class SetUpProgress:
    """The set-up calls `now_does` on any thread; the agent calls `turn` on its own."""

    def __init__(self, of: HostFact, bells: Bells) -> None:
        self._of = of
        self._bells = bells
        self._text = ""
        self._told = ""
        self._pause_s = _FIRST_S
        self._next_at: float | None = None

    def now_does(self, text: str) -> None:
        """Set the current step, such as `fetching its code`."""
        self._text = text

    def turn(self, now: float) -> None:
        """Report the step, if it has changed and a report is due."""
        if self._next_at is None:
            self._next_at = now + self._pause_s
        text = self._text
        if now >= self._next_at and text != self._told:
            self._bells.ring(Preparing(of=self._of, text=text))
            self._told = text
            self._next_at = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
