"""`Outside`: what users and admins do while a simulation runs, as a bucket recorded it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from bastion.simulator.engine.driver import Driver
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State
from bastion.simulator.workload.job import Happening
from quota import Quota


class Run(Protocol):
    """The part of an engine that others can change."""

    state: State
    driver: Driver

    def set_aside(self, life: Life) -> None:
        """Hold a waiting job: the scheduler does not see it."""
        ...

    def put_back(self, life: Life) -> None:
        """Let a held job wait again."""
        ...

    def cancel(self, life: Life, takes_s: float) -> None:
        """Cancel a job for its user: it ends now, or gets its notice and ends `takes_s` later."""
        ...


class Outside:
    """
    The script of one simulation.

    Args:
        script: In order of time.
        driver_of: Creates the driver for a new quota file; None: quota files are ignored.
    """

    def __init__(
        self,
        script: tuple[Happening, ...] = (),
        driver_of: Callable[[Quota], tuple[Quota, Driver]] | None = None,
    ) -> None:
        self._left = deque(script)
        self._driver_of = driver_of
        self._held: dict[str, Life] = {}
        """Waiting jobs that a user holds: the scheduler does not see them."""

    def next_at(self) -> float:
        """Return when the next step is due; infinite if there is none."""
        return self._left[0].at_s if self._left else math.inf

    def happen(self, engine: Run, now: float) -> bool:
        """Take the steps that are due by `now`; return whether there were any."""
        did = False
        while self._left and self._left[0].at_s <= now:
            self._do(engine, self._left.popleft())
            did = True
        return did

    def _do(self, engine: Run, each: Happening) -> None:
        match each.what:
            case "quota" if each.quota is not None and self._driver_of is not None:
                quota, engine.driver = self._driver_of(each.quota)
                engine.state.govern(quota)
            case "cordon" | "uncordon":
                _cordon(engine, each.name, is_closed=each.what == "cordon")
            case "hold" | "release" | "cancel":
                life = engine.state.lives.get(each.name)
                if life is not None:
                    self._tell(engine, life, each)
            case _:
                pass

    def _tell(self, engine: Run, life: Life, each: Happening) -> None:
        name = life.record.id
        match each.what:
            case "hold" if not life.is_running and name not in self._held:
                self._held[name] = life
                engine.set_aside(life)
            case "release" if name in self._held:
                engine.put_back(self._held.pop(name))
            case "cancel":
                if self._held.pop(name, None) is not None:
                    engine.put_back(life)
                engine.cancel(life, each.takes_s)
            case _:
                pass


def _cordon(engine: Run, name: str, *, is_closed: bool) -> None:
    state = engine.state
    machine = state.machines.get(name)
    if machine is None or bool(machine.cordoned) == is_closed:
        return
    state.machines[name] = replace(machine, cordoned="by an admin" if is_closed else "")
    devices = machine.resources[state.cluster.named[machine.pool].type]
    state.capacity += -devices if is_closed else devices
