"""The end of one host: its register, its last logs and output, and what stays on the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bastion.agent.host.claim import end_key
from bastion.agent.host.context import Surroundings
from bastion.agent.host.host_run import HostRun
from bastion.agent.host.output_saving import Saving
from bastion.errors import BastionError, SpecError
from bastion.job import End
from bastion.records.register import Lost, Won, win
from bastion.records.reports import facts
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import EndRegister


class HostEnd:
    """
    The end of one host.

    Args:
        of: The host, called `key` on its machine.
        saving: Keeps its output.
        end: The content of its register.
        leave: Called once nothing is left to do.
    """

    def __init__(
        self,
        of: HostFact,
        key: str,
        context: Surroundings,
        saving: Saving,
        end: End,
        leave: Callable[[], None],
    ) -> None:
        self._of = of
        self._key = key
        self._context = context
        self._saving = saving
        self._leave = leave
        self._register = EndRegister(write_id=context.nonce(), end=end)
        self._is_written = False
        self._drained: int | None = None
        self._is_told = False

    def exists(self, end: End) -> None:
        """Record that the register holds `end`, this agent's or another's: the devices are free."""
        self._is_written = True
        self._context.bells.ring(facts.Ended(of=self._of, end=end))

    def turn(self, now: float, run: HostRun | None, *, is_alone: bool) -> None:
        """
        Write the register and drain the rest of `run`, as far as possible now.

        It is drained once `is_alone`: the output of commands beside it is in the bucket too.
        """
        context = self._context
        if not self._is_written:
            key = end_key(self._of, context.settings.machine)
            work = partial(win, context.store, key, self._register)
            context.errands.send(
                f"end {self._key}", work, self._wrote, now=now, otherwise=self._not_written
            )
        if run is not None:
            run.ship(now)
            self._tell(run)
            if run.logs.broken and self._is_written and is_alone:
                self._give_up(BastionError(run.logs.broken))
                return
        self._saving.finish(now)
        if not (self._is_written and self._saving.is_done and is_alone):
            return
        if self._drained is None:
            if run is None or run.is_shipped:
                self._drained = context.bells.ring(facts.Drained(of=self._of))
        elif context.bells.has_landed(self._drained):
            if run is None:
                self._clear(is_saved=False)
            else:
                context.requests.forget(self._key, partial(self._forgotten, run))

    def _tell(self, run: HostRun) -> None:
        """Report once why the log is not sent: the bastion does not wait for it forever."""
        why = run.logs.broken or run.logs.trouble
        if why and self._is_written and not self._is_told:
            self._is_told = True
            self._context.bells.ring(facts.Unkept(of=self._of, text=why, is_log=True))

    def _forgotten(self, run: HostRun, refused: BastionError | None) -> None:
        if refused is not None:
            raise refused
        if run.series is not None:
            run.series.forget()
        self._clear(is_saved=self._saving.is_kept)

    def _clear(self, *, is_saved: bool) -> None:
        """Leave its folders; output of an attempt from an earlier keeper life may not be saved."""
        self._context.home.leave(self._key, is_saved=is_saved)
        self._leave()

    def _wrote(self, outcome: Won[EndRegister] | Lost[EndRegister]) -> None:
        self.exists(outcome.record.end)

    def _not_written(self, error: Exception) -> None:
        """Write it without its detail if that cannot be encoded: devices wait for this record."""
        end = self._register.end
        if not isinstance(error, SpecError) or not end.detail:
            self._give_up(error)
            return
        self._context.say(f"{self._key}: the detail of its end is left out: {error}")
        self._register = replace(self._register, end=replace(end, detail=""))

    def _give_up(self, error: Exception) -> None:
        """Leave it as it is, with its spool, for a person to inspect."""
        self._context.say(f"{self._key} is left as it is: {error}")
        self._leave()
