"""When a host's output is kept: at its checkpoints, when it is told to end, and at its end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bastion.agent.output import save
from bastion.agent.surroundings import Surroundings
from bastion.records.facts import HostFact


class Saving:
    """The output of one host; `of` is called `key` on its machine."""

    def __init__(self, of: HostFact, key: str, around: Surroundings) -> None:
        self._of = of
        self._key = key
        self._around = around
        self._wanted: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything that was asked for is kept, or cannot be."""
        return self._wanted is None

    def ask(self) -> None:
        """Keep what is there now, if there is anything."""
        if self._around.home.has_output(self._key):
            self._wanted = self._around.moment()

    def turn(self, now: float) -> None:
        """Go on with what was asked for."""
        errand = f"output {self._key}"
        if self._wanted is None or not self._around.errands.is_free(errand, now):
            return
        output = Path(self._around.home.folders(self._key).output)
        work = partial(save, self._around.store, self._of, output, self._wanted)
        then = partial(self._saved, self._wanted)
        self._around.errands.send(errand, work, then, now=now, otherwise=then, is_long=True)

    def _saved(self, number: int, outcome: int | Exception) -> None:
        if isinstance(outcome, Exception):
            self._around.say(f"{self._key}: its output is not kept: {outcome}")
        if self._wanted == number:
            self._wanted = None
