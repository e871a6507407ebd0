"""
One command that a user runs beside the processes of a host.

To the keeper it is an attempt with a key of its own, so it starts at most once, and it is dead
before its host's end is written. Its output is shipped immediately, like that of processes. Its end
is a register beside its output.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial

from bastion.agent.host.context import Surroundings
from bastion.agent.keeper.port import ExitRecord
from bastion.agent.report.end_record import shipped_size
from bastion.agent.report.log_shipping import Shipping
from bastion.agent.report.redaction import Redaction
from bastion.errors import NotFoundError
from bastion.records.keys import layout
from bastion.records.register import Lost, Won, win
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import CommandEnd

GRACE_S = 5.0
"""From SIGTERM to SIGKILL: a program that needs longer to clean up should be a job."""


class Command:
    """
    One command.

    Args:
        of: The host that it runs beside.
        name: The id of the request for it.
        key: Its key in the keeper.
        secrets: Values that are masked in its output; None: they are no longer known.
        started_at: When the keeper started it, on the agent's clock.
        is_new: Whether nothing can have been shipped yet.
    """

    def __init__(
        self,
        of: HostFact,
        name: str,
        key: str,
        around: Surroundings,
        *,
        secrets: tuple[str, ...] | None,
        started_at: float,
        is_new: bool,
    ) -> None:
        self.key = key
        self._around = around
        self._prefix = layout.command_log(of.project, of.job, name)
        self._logs = Shipping(
            around.store,
            around.keeper,
            around.errands,
            around.settings.tempo.logs,
            key=key,
            prefixes=(self._prefix,),
            is_new=is_new,
            started_at=started_at,
            redaction=Redaction(secrets),
        )
        self._logs.hurry(started_at, for_s=math.inf)
        self._end: CommandEnd | None = None
        self._is_refused = False
        self._is_stopping = False
        self.is_done = False
        """Whether its end and all its output are in the bucket."""

    @property
    def is_dead(self) -> bool:
        """Whether it no longer runs, or never ran."""
        return self._end is not None

    def refuse(self, problem: str) -> None:
        """End it without starting it."""
        self._is_refused = True
        self._end = CommandEnd(write_id=self._around.nonce(), problem=problem)

    def grew(self, size_bytes: int, now: float) -> None:
        """Record that it has written up to `size_bytes`."""
        self._logs.grew(0, size_bytes, now)

    def stop(self, why: str) -> None:
        """Stop it, once."""
        if self._end is None and not self._is_stopping:
            self._is_stopping = True
            with suppress(NotFoundError):
                self._around.keeper.stop(self.key, reason=why, by="", grace_s=GRACE_S)

    def exited(self, record: ExitRecord) -> None:
        """Close its output and record how it ended."""
        (process,) = record.processes
        self._logs.close(record.processes)
        self._end = CommandEnd(
            write_id=self._around.nonce(),
            code=process.code,
            signal=process.signal,
            problem=_problem(record),
            size_bytes=shipped_size(process),
        )

    def turn(self, now: float) -> float:
        """Ship its output and write its end; return when to call again."""
        wake_at = now + 1.0 if self._is_refused else self._logs.turn(now)
        is_shipped = self._is_refused or self._logs.is_complete or bool(self._logs.broken)
        if self._end is not None and is_shipped and not self.is_done:
            work = partial(win, self._around.store, layout.command_end(self._prefix), self._end)
            self._around.errands.send(
                f"end {self.key}", work, self._wrote, now=now, otherwise=self._give_up
            )
        return wake_at

    def _wrote(self, _: Won[CommandEnd] | Lost[CommandEnd]) -> None:
        if not self._is_refused:
            self._around.keeper.forget(self.key)
        self.is_done = True

    def _give_up(self, error: Exception) -> None:
        """Leave the existing end, which cannot be decoded: the command is dead."""
        self._around.say(f"{self.key}: its end cannot be written: {error}")
        self.is_done = True


def _problem(record: ExitRecord) -> str:
    """Return why a command did not run, or was cut short."""
    (process,) = record.processes
    if record.lost:
        return "the keeper of its machine died while it ran"
    if record.machine_fault:
        return f"its machine could not start it: {record.machine_fault}"
    if process.setup_failure:
        return process.setup_failure
    if record.timed_out:
        return "its time limit was over"
    return record.notices[0].reason if record.notices else ""
