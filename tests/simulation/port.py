"""One port call of an actor: the baton is passed on, then the call meets its fate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tests.simulation.baton import Baton, Crash
from tests.simulation.fates import Fate, Fates

_T = TypeVar("_T")

LONGEST_STALL_S = 60.0
"""Longer than a lease: a leader that stalls finds another one leading."""
PAUSE_S = 48.0
"""Longer than a standby takes to lead, and so short that a bastion has nothing to tidy."""
LONGEST_LATE_S = 90.0
LONGEST_WAIT_S = 5.0
"""How long a caller waits for an answer that does not arrive."""


class Port:
    """
    What actors share with the outside.

    Args:
        error: Makes the exception that says "in doubt".
    """

    def __init__(self, baton: Baton, fates: Fates, error: Callable[[str], Exception]) -> None:
        self._baton = baton
        self._fates = fates
        self._error = error

    def call(
        self,
        operation: str,
        key: str,
        work: Callable[[], _T],
        *,
        writes: bool = False,
        spoil: Callable[[], Any] = lambda: None,
    ) -> _T:
        """
        Do `work` for the running actor, unless fate prevents it.

        Args:
            operation: Its name, for fate and the trace.
            key: What it is about.
            work: The call itself.
            writes: Whether it may land long after its caller gave up.
            spoil: Done instead if the call is spoilt.
        """
        baton = self._baton
        actor = baton.actor
        fate = self._fates.draw(actor, operation, key)
        baton.step(operation, key if fate is Fate.FINE else f"{key}  [{fate.name}]")
        if fate is Fate.TWICE and writes:
            with suppress(Exception):
                work()
        if fate in (Fate.FINE, Fate.TWICE):
            return work()
        if fate is Fate.SPOILT:
            fate, work = Fate.UNANSWERED, spoil
        return self._meet(fate, operation, key, work, writes=writes)

    def _meet(
        self, fate: Fate, operation: str, key: str, work: Callable[[], _T], *, writes: bool
    ) -> _T:
        baton, chance = self._baton, self._baton.chance
        if fate in (Fate.STALL, Fate.PAUSE):
            baton.sleep(PAUSE_S if fate is Fate.PAUSE else chance.uniform(0.1, LONGEST_STALL_S))
            return work()
        if fate is Fate.CRASH_BEFORE:
            raise Crash
        if fate in (Fate.LATE, Fate.OVERDUE) and writes:
            late_s = chance.uniform(0.1, LONGEST_LATE_S) if fate is Fate.LATE else LONGEST_LATE_S
            baton.later(late_s, lambda: self._late(operation, key, work))
        elif fate in (Fate.CRASH_AFTER, Fate.UNANSWERED):
            try:
                work()
            except Exception:  # noqa: BLE001 - its answer is lost, whatever it was
                baton.note("failed", key)
            if fate is Fate.CRASH_AFTER:
                raise Crash
        baton.sleep(chance.uniform(0.0, LONGEST_WAIT_S))
        raise self._error(f"{operation} of {key!r} was never answered")

    def _late(self, operation: str, key: str, work: Callable[[], object]) -> None:
        self._baton.note(f"late {operation}", key)
        try:
            work()
        except Exception:  # noqa: BLE001 - no actor waits for it any more
            self._baton.note("failed", key)
