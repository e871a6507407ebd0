"""
Looking after the container engine of this machine: whether it answers, and what it forgot.

A container that no attempt of the keeper's needs is removed. There should be none: an attempt is
over only when its containers are gone. But an engine may make one late, that was asked for by a
program that has been killed since; it never ran, and nobody else would find it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bastion.agent.containers.engine import Engine, EngineError, EngineGoneError
from bastion.agent.containers.program import ATTEMPT_LABEL, HOME_LABEL
from bastion.agent.errands import Errands
from bastion.agent.keeper.port import Keeper, Running

_LOOK_S = 30.0
"""Between two looks whether it answers: as long as a launch may be sent here in vain."""

_SWEEP_S = 600.0
"""Between two sweeps."""


class EngineWatch:
    """
    The watch over one engine; it looks once when made.

    Args:
        engine: Whose containers they are.
        keeper: Who knows which attempts run.
        errands: How the engine is asked.
        home: The agent's: its containers are labelled with it.
        say: Takes one line for the agent's log.
    """

    def __init__(
        self,
        engine: Engine,
        keeper: Keeper,
        errands: Errands,
        *,
        home: str,
        say: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._keeper = keeper
        self._errands = errands
        self._home = home
        self._say = say
        self._look_at = 0.0
        self._sweep_at = 0.0
        self.is_well = True
        """Whether it answered when it was looked at last."""
        self._saw(_problem(engine))
        self._has_changed = False

    def turn(self, now: float) -> bool:
        """Look when it is time; whether `is_well` is another than at the last call."""
        if now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._errands.send("engine", partial(_problem, self._engine), self._saw, now=now)
        if self.is_well and now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            find = partial(_containers, self._engine, self._home)
            self._errands.send("containers", find, self._sweep, now=now)
        changed, self._has_changed = self._has_changed, False
        return changed

    def _saw(self, problem: str) -> None:
        if self.is_well != (not problem):
            self._say(f"no containers here: {problem}" if problem else "containers can run here")
            self.is_well = not problem
            self._has_changed = True

    def _sweep(self, found: dict[str, str]) -> None:
        """Remove what was found and belongs to nothing that runs by now, or may yet begin to."""
        prefix = f"{self._home}:"
        running = {
            prefix + state.key for state in self._keeper.attempts() if isinstance(state, Running)
        }
        for container, attempt in found.items():
            if attempt not in running:
                self._say(f"a container of {attempt} is left over, and removed")
                errand = f"container {container}"
                work = partial(_remove, self._engine, container)
                self._errands.send(errand, work, lambda _: None, now=0.0)


def _problem(engine: Engine) -> str:
    try:
        engine.check()
    except (EngineError, EngineGoneError) as error:
        return str(error)
    return ""


def _containers(engine: Engine, home: str) -> dict[str, str]:
    """Id and attempt of every container of a home; none where that is not known now."""
    try:
        found = engine.containers(f"{HOME_LABEL}={home}")
    except (EngineError, EngineGoneError):
        return {}
    return {container: labels.get(ATTEMPT_LABEL, "") for container, labels in found}


def _remove(engine: Engine, container: str) -> None:
    """Remove it, or leave that to the next sweep."""
    try:
        engine.remove(container)
    except (EngineError, EngineGoneError):
        return
