"""
The baton: many actors on threads of their own, of which exactly one runs at a time.

An actor hands the baton on at every port call (`step`) and when it sleeps; a seeded chooser picks
which goes next of those that are awake. When all sleep, virtual time jumps to the earliest waking.
So one seed gives one run, whatever the machine, its cores and its hash seed do.

Rules:

* What actors share they reach through ports only, and every port call is a `step`. Handing on
  before the call is then enough: what an actor does between two calls no other can see.
* Nothing here or in the world reads a real clock, iterates over a set or asks for an `id`.
* `Crash` and `Over` are no `Exception`s: no product code catches them.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

STEP_S = 0.002
"""What every step costs in virtual time: no actor can busy-wait while time stands still."""
STACK_BYTES = 1 << 20
"""Stack of an actor: the default of 8 MiB is more than any needs."""
TAIL = 40
"""Steps of the trace that a failure shows."""


class Crash(BaseException):
    """The process dies here, as by kill -9."""


class Over(BaseException):
    """The simulation has ended; the thread is unwound."""


class Step(NamedTuple):
    """One line of the trace."""

    at: float
    actor: str
    operation: str
    key: str

    def __str__(self) -> str:
        """As it is printed."""
        return f"{self.at:10.3f}  {self.actor:<12} {self.operation:<16} {self.key}"


class SimulationError(AssertionError):
    """The run broke a promise: seed, invariant, and the end of the trace."""

    def __init__(self, *, seed: int, name: str, text: str, tail: list[Step]) -> None:
        lines = "\n".join(map(str, tail))
        super().__init__(f"seed {seed} breaks {name!r}: {text}\n{lines}")
        self.seed = seed
        self.name = name
        self.text = text


class _Actor:
    def __init__(self, name: str, wakes_at: float) -> None:
        self.name = name
        self.wakes_at = wakes_at
        self.doom: BaseException | None = None
        self.gate = threading.Lock()
        self.gate.acquire()


class Baton:
    """
    The chooser, the virtual clock and the trace of one run.

    Args:
        seed: Everything that is left to chance follows from it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now = 0.0
        self.trace: list[Step] = []
        self.failure: SimulationError | None = None
        self._loyalty = self.chance.choice((0.0, 0.5, 0.9))
        self._main = _Actor("main", 0.0)
        self._current = self._main
        self._actors: list[_Actor] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timed = 0
        self._until: Callable[[], bool] = lambda: False
        self._limit_s = 0.0
        self._is_over = False
        self.endless = "everything ends"
        """Name of the invariant that a run without an end breaks."""
        self.left: Callable[[], str] = str
        """Says what is left to do, for a run without an end."""

    @property
    def actor(self) -> str:
        """Whose turn it is."""
        return self._current.name

    def spawn(self, name: str, body: Callable[[], None], *, after_s: float = 0.0) -> None:
        """Let `body` run as an actor from `after_s` on, until it returns."""
        actor = _Actor(name, self.now + after_s)
        self._actors.append(actor)
        threading.Thread(target=self._live, args=(actor, body), name=name, daemon=True).start()

    def kill(self, name: str) -> None:
        """Let the actor of that name crash where it stands; unknown names are fine."""
        for actor in self._actors:
            if actor.name == name:
                actor.doom = Crash()
                actor.wakes_at = self.now

    def wake(self, name: str) -> None:
        """Let the actor of that name go on now, if it sleeps."""
        for actor in self._actors:
            if actor.name == name:
                actor.wakes_at = min(actor.wakes_at, self.now)

    def later(self, after_s: float, work: Callable[[], None]) -> None:
        """Do `work`, which must not call a port, `after_s` from now, whatever lives then."""
        self._timed += 1
        heappush(self._timers, (self.now + after_s, self._timed, work))

    def note(self, operation: str, key: str) -> None:
        """Add a line to the trace."""
        self.trace.append(Step(self.now, self._current.name, operation, key))

    def step(self, operation: str, key: str) -> None:
        """The running actor is about to do `operation`: perhaps others go first."""
        self.note(operation, key)
        self.now += STEP_S
        actor = self._current
        if self.chance.random() >= self._loyalty or self._is_over or actor.doom:
            self._hand_on(actor)

    def sleep(self, seconds: float) -> None:
        """The running actor does nothing for so long."""
        actor = self._current
        actor.wakes_at = self.now + max(STEP_S, seconds)
        self._hand_on(actor)

    def fail(self, name: str, text: str) -> None:
        """The invariant `name` is broken; the first one ends the run."""
        if self.failure is None:
            tail = self.trace[-TAIL:]
            self.failure = SimulationError(seed=self.seed, name=name, text=text, tail=tail)

    def run(self, *, until: Callable[[], bool], limit_s: float) -> None:
        """
        Let the actors act until `until()` holds, asked whenever all sleep.

        Raises:
            SimulationError: An invariant broke, or virtual time reached `limit_s` before.
        """
        self._until, self._limit_s = until, limit_s
        self._main.wakes_at = float("inf")
        self._hand_on(self._main)
        while self._actors:
            actor = self._actors[-1]
            actor.doom = Over()
            self._give(self._main, actor)
        if self.failure is not None:
            raise self.failure

    def _live(self, actor: _Actor, body: Callable[[], None]) -> None:
        actor.gate.acquire()
        try:
            self._check_doom(actor)
            body()
        except (Crash, Over):
            pass
        except BaseException:  # noqa: BLE001 - a bug of the program or of the harness
            self.fail("no actor dies of an error", f"{actor.name}: {traceback.format_exc()}")
        self._actors.remove(actor)
        following = self._following()
        self._current = following
        following.gate.release()

    def _hand_on(self, actor: _Actor) -> None:
        self._give(actor, self._following())
        self._check_doom(actor)

    def _give(self, actor: _Actor, following: _Actor) -> None:
        if following is not actor:
            self._current = following
            following.gate.release()
            actor.gate.acquire()

    @staticmethod
    def _check_doom(actor: _Actor) -> None:
        doom, actor.doom = actor.doom, None
        if doom is not None:
            raise doom

    def _following(self) -> _Actor:
        while not self._is_over:
            if self.failure is not None:
                self._is_over = True
                break
            while self._timers and self._timers[0][0] <= self.now:
                heappop(self._timers)[2]()
            ready = [actor for actor in self._actors if actor.wakes_at <= self.now]
            if ready:
                return ready[int(self.chance.random() * len(ready))]
            self._jump()
        return self._main

    def _jump(self) -> None:
        """All sleep: is it over? Else it is as late as the first waking."""
        if self._until():
            self._is_over = True
            return
        wakings = [actor.wakes_at for actor in self._actors]
        wakings += [timer[0] for timer in self._timers[:1]]
        if not wakings or min(wakings) > self._limit_s:
            self.fail(self.endless, f"not after {self.now:.0f} s: {self.left()}")
            return
        self.now = max(self.now, min(wakings))


class SimClock:
    """
    A process's own clock: virtual time, and an opinion of the date that may be wrong.

    Args:
        skew_s: How far this machine's date is off.
    """

    EPOCH = 1_700_000_000.0

    def __init__(self, baton: Baton, *, skew_s: float = 0.0) -> None:
        self._baton = baton
        self._skew_s = skew_s
        self._stepped_s = 0.0

    def step(self, by_s: float) -> None:
        """Set the date so much forward, or back; what counts seconds goes on."""
        self._stepped_s += by_s

    def wall(self) -> float:
        """The date, as this machine believes."""
        return self.EPOCH + self._baton.now + self._skew_s + self._stepped_s

    def monotonic(self) -> float:
        """Virtual seconds, from an arbitrary point."""
        return 1_000.0 + self._baton.now + self._skew_s

    def sleep(self, seconds: float) -> None:
        """Hand the baton on; go on when it is later."""
        self._baton.sleep(seconds)


class ByDate(SimClock):
    """A mutant: seconds are counted by the date, which may be set."""

    def monotonic(self) -> float:
        """Seconds since 1970, as this machine believes."""
        return self.wall()
