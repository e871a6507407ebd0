"""
The watch over this machine's container engine: whether it answers, and its leftover containers.

A container that belongs to no attempt of the keeper is removed. There should be none: an attempt is
over only when its containers are gone. But an engine may create a container late, for a program
that has since been killed. Such a container never ran, and only this watch would find it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bastion.agent.containers.engine import Engine, EngineError, EngineGoneError
from bastion.agent.containers.program import ATTEMPT_LABEL, HOME_LABEL
from bastion.agent.errands import Errands
from bastion.agent.keeper.port import Keeper, Running

_CHECK_S = 30.0
"""Between two health checks: for this long, launches may be sent here in vain."""

_SWEEP_S = 600.0
"""Between two sweeps."""


_FIRST_S = 2.0
"""Longest wait for the first answer: the agent does nothing before it. The greeting includes it."""


class EngineWatch:
    """
    The watch over one engine; constructing it checks the engine once.

    Args:
        engine: The engine to watch.
        keeper: Lists the running attempts.
        errands: Run the requests to the engine.
        home: The agent's home, which labels its containers.
        say: Writes one line to the agent's log.
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
        self._check_at = 0.0
        self._sweep_at = 0.0
        self.is_well = True
        """Whether it answered the last health check."""
        self._record_health(_problem(engine.within(_FIRST_S)))
        self._has_changed = False

    def turn(self, now: float) -> bool:
        """Check the engine if that is due; return whether `is_well` has changed since last time."""
        if now >= self._check_at:
            self._check_at = now + _CHECK_S
            self._errands.send(
                "engine", partial(_problem, self._engine), self._record_health, now=now
            )
        if self.is_well and now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            find = partial(_containers, self._engine, self._home)
            self._errands.send("containers", find, self._sweep, now=now)
        changed, self._has_changed = self._has_changed, False
        return changed

    def _record_health(self, problem: str) -> None:
        if self.is_well != (not problem):
            self._say(f"no containers here: {problem}" if problem else "containers can run here")
            self.is_well = not problem
            self._has_changed = True

    def _sweep(self, found: dict[str, str]) -> None:
        """Remove the containers found, except those of running attempts."""
        prefix = f"{self._home}:"
        running = {
            prefix + state.key for state in self._keeper.attempts() if isinstance(state, Running)
        }
        for container, attempt in found.items():
            if attempt not in running:
                self._say(f"a leftover container of {attempt} is removed")
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
    """Return id and attempt of every container of a home; empty if that is unknown."""
    try:
        found = engine.containers(f"{HOME_LABEL}={home}")
    except (EngineError, EngineGoneError):
        return {}
    return {container: labels.get(ATTEMPT_LABEL, "") for container, labels in found}


def _remove(engine: Engine, container: str) -> None:
    """Remove a container; a failure is left to the next sweep."""
    try:
        engine.remove(container)
    except (EngineError, EngineGoneError):
        return
