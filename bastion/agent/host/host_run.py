"""The run of one host: the logs, marks and output of processes that the keeper holds."""

from __future__ import annotations

from dataclasses import replace

from bastion.agent.host.context import Surroundings
from bastion.agent.host.marks import Marking
from bastion.agent.host.output_saving import Saving
from bastion.agent.keeper.port import LAST_LINES_BYTES, ExitRecord
from bastion.agent.report.end_record import ended_so
from bastion.agent.report.log_shipping import Shipping
from bastion.agent.report.redaction import Redaction
from bastion.agent.usage.series import Holding
from bastion.agent.usage.watch import send
from bastion.job import End
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact


class HostRun:
    """
    The run of one host.

    Args:
        of: The host, called `key` on its machine.
        saving: Keeps its output.
        processes: The number of its processes.
        started_at: When the keeper started them.
        is_new: Whether this agent requested the start.
        secrets: Values that are masked in its logs and reports; None: they are no longer known.
        holding: What it holds; None: an earlier agent started it.
    """

    def __init__(
        self,
        of: HostFact,
        key: str,
        context: Surroundings,
        saving: Saving,
        *,
        processes: int,
        started_at: float,
        is_new: bool,
        secrets: tuple[str, ...] | None,
        holding: Holding | None,
    ) -> None:
        self.series = context.series(of, key, holding, started_at)
        """Its samples; None if nothing is sampled here."""
        self._key = key
        self._context = context
        self._saving = saving
        redaction = Redaction(secrets)
        self._marking = Marking(of, key, context, saving, redaction, is_new=is_new)
        self._has_secrets = bool(secrets)
        self.logs = Shipping(
            context.store,
            context.keeper,
            context.errands,
            context.settings.tempo.logs,
            key=key,
            prefixes=tuple(
                layout.log(
                    of.project,
                    of.job,
                    of.attempt,
                    replica=of.replica,
                    host=of.host,
                    process=process,
                )
                for process in range(processes)
            ),
            is_new=is_new,
            started_at=started_at,
            redaction=redaction,
        )

    def watch(self, now: float) -> float:
        """Ship logs, report marks and keep output while it runs; return when to call again."""
        look_at = self._marking.turn(now)
        self._saving.turn(now)
        return min(look_at, self.logs.turn(now))

    def flush(self, now: float) -> float:
        """Ship logs and keep output of dead processes; return when to call again."""
        self._saving.turn(now)
        return self.logs.turn(now)

    @property
    def is_shipped(self) -> bool:
        """Whether its logs and samples are complete in the bucket."""
        return self.logs.is_complete and (self.series is None or self.series.is_empty)

    def ship(self, now: float) -> None:
        """Send the rest of the logs and samples of a host that has ended."""
        self.logs.turn(now)
        if self.series is not None and self.series.seal(now, is_end=True):
            send(self._context.store, self._context.errands, self._key, self.series, now)

    def end_of(self, record: ExitRecord) -> End:
        """Close the logs and return the end that follows from the keeper's record."""
        self.logs.close(record.processes)
        if self._has_secrets and record.first_failed is not None:
            # Output of its clean-up in the first log is not why it failed.
            until = record.cleaned_from if record.first_failed == 0 else None
            lines = self.logs.last_lines(record.first_failed, LAST_LINES_BYTES, until=until)
            record = replace(record, last_lines=lines)
        home = self._context.home
        marks = home.marks(self._key)
        self._marking.end(marks)
        end = ended_so(record, marks, home.word(self._key))
        if self.series is None:
            return end
        return replace(end, utilisation=self.series.summary())
