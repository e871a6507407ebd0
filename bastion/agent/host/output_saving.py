"""The times at which a host's output is kept: at checkpoints, at a stop, and at its end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bastion.agent.host.context import Surroundings
from bastion.agent.kept_output import save
from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.records.reports import facts
from bastion.records.reports.facts import HostFact

_AGAIN_S = 5.0
"""Pause after a shortage of descriptors or memory."""

_TRIES = 60
"""Tries per saving, five minutes in total: output that is not kept is lost to the next attempt."""


_STILL_S = 45.0
"""Between two reports of a saving that outlasts its host: without one, a job drains for 120 s."""

_LONGEST_S = 3600.0
"""The longest drain of a job for its output: after that it continues without, and says so."""


class Saving:
    """The output of one host; `key` is its key on its machine."""

    def __init__(self, of: HostFact, key: str, around: Surroundings) -> None:
        self._of = of
        self._key = key
        self._around = around
        self._wanted: int | None = None
        self._sent_at = 0.0
        self._again_at = 0.0
        self._tries = 0
        self._ended_at = self._still_at = 0.0
        self._told: str | None = ""
        """The last report about it; None: an earlier agent made it."""

    def adopt(self) -> None:
        """Continue after an earlier agent, which may have reported that output was not kept."""
        self._told = None

    @property
    def is_done(self) -> bool:
        """Whether every requested saving is done, or impossible."""
        return self._wanted is None

    @property
    def is_kept(self) -> bool:
        """Whether the last saving succeeded, if there was any, as far as this agent knows."""
        return self._told == ""

    def ask(self) -> None:
        """Request a saving of the output as it is now, if there is any."""
        if self._around.home.has_output(self._key):
            self._wanted = self._around.moment()
            self._tries = 0

    def turn(self, now: float) -> None:
        """Continue the requested savings."""
        errand = f"output {self._key}"
        is_free = now >= self._again_at and self._around.errands.is_free(errand, now)
        if self._wanted is None or not is_free:
            return
        self._sent_at = now
        output = Path(self._around.home.named(self._key).output)
        work = partial(save, self._around.store, self._of, output, self._wanted)
        then = partial(self._saved, self._wanted)
        self._around.errands.send(errand, work, then, now=now, otherwise=then, is_long=True)

    def finish(self, now: float) -> None:
        """Continue the savings of a host that has ended, and report at times that they continue."""
        self.turn(now)
        if not self._ended_at:
            self._ended_at, self._still_at = now, now + _STILL_S
        is_late = self._still_at <= now < self._ended_at + _LONGEST_S
        if is_late and not self.is_done:
            self._still_at = now + _STILL_S
            self._told = "it is still being saved"
            self._around.bells.ring(facts.Unkept(of=self._of, text=self._told))

    def _saved(self, number: int, outcome: int | Exception) -> None:
        text = ""
        if isinstance(outcome, Exception):
            text = str(outcome) or repr(outcome)
            self._tries += 1
            if is_machine_fault(outcome) and self._tries < _TRIES and self._wanted == number:
                self._again_at = self._sent_at + _AGAIN_S
                return
            self._around.say(f"{self._key}: its output is not kept: {text}")
        self._tell(text)
        if self._wanted == number:
            self._wanted = None

    def _tell(self, text: str) -> None:
        """Report why it is not kept, if that is news: the next attempt would miss it."""
        if text != self._told:
            self._told = text
            self._around.bells.ring(facts.Unkept(of=self._of, text=text))
