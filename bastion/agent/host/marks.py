"""The marks of a host's processes, reported as they appear: checkpoints and numbers."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.agent.home import MAX_NAME, Marks
from bastion.agent.host.context import Surroundings
from bastion.agent.host.output_saving import Saving
from bastion.agent.report.redaction import Redaction
from bastion.records.reports import facts
from bastion.records.reports.facts import HostFact

_REPORT_S = 10.0
"""
Between two reports of numbers from one host, and of checkpoints: each costs a commit of the
bastion.
"""

_MARKS_S = 0.5
"""Between two checks for marks: two system calls for each running host."""


_AWAY_S = 60.0
"""Time without an agent after which the next one still reports a checkpoint."""


class Marking:
    """
    The marks of one host.

    Args:
        of: The host, called `key` on its machine.
        saving: Keeps its output at a checkpoint.
        redaction: Masks secrets in the names of its numbers.
        is_new: Whether its processes are new; else an earlier agent may have reported their last
            checkpoint.
    """

    def __init__(
        self,
        of: HostFact,
        key: str,
        around: Surroundings,
        saving: Saving,
        redaction: Redaction,
        *,
        is_new: bool,
    ) -> None:
        self._of = of
        self._key = key
        self._around = around
        self._saving = saving
        self._redaction = redaction
        self._is_new = is_new
        self._look_at = 0.0
        self._checkpointed_at: float | None = None
        """When the last reported checkpoint was made."""
        self._checkpoint_at = 0.0
        self._reported: Mapping[str, float] = {}
        self._report_at = 0.0

    def turn(self, now: float) -> float:
        """Check for marks if that is due; return when to call again."""
        if now >= self._look_at:
            self._look_at = now + _MARKS_S
            self._look(now)
        return self._look_at

    def _look(self, now: float) -> None:
        marks = self._around.home.marks(self._key)
        if now >= self._checkpoint_at:
            self._tell_checkpoint(marks.checkpointed_at, now)
        self._is_new = True
        if now >= self._report_at and self._tell(marks):
            self._report_at = now + _REPORT_S

    def _tell_checkpoint(self, at: float | None, now: float) -> None:
        """Report a new checkpoint, and keep the output as of then."""
        if at in (None, self._checkpointed_at):
            return
        self._checkpointed_at = at
        if self._is_new or not self._is_old(at):
            self._around.bells.ring(facts.Checkpointed(of=self._of))
            self._checkpoint_at = now + _REPORT_S
        self._saving.ask()

    def _is_old(self, at: float | None) -> bool:
        """Whether the bastion, which counts from the report, would take it for too new."""
        return at is not None and at < self._around.moment() / 1000 - _AWAY_S

    def end(self, marks: Marks) -> None:
        """Report the last numbers, before the end of the host is reported."""
        self._tell(marks)

    def _tell(self, marks: Marks) -> bool:
        # An empty report is not sent: the file may be missing or unreadable for a moment.
        # If the secrets are no longer known, a name cannot be distinguished from one.
        may_tell = bool(marks.report) and not self._redaction.is_blind
        is_new = may_tell and marks.report != self._reported
        if is_new:
            self._reported = marks.report
            # Masking is by byte, so a name with multi-byte letters may grow.
            numbers = {
                self._redaction.name(name)[:MAX_NAME]: number
                for name, number in marks.report.items()
            }
            self._around.bells.ring(facts.Reported(of=self._of, numbers=numbers))
        return is_new
