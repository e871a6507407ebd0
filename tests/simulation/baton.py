"""
The baton: many actors on separate threads, of which exactly one runs at a time.

An actor passes the baton on at every port call (`step`) and when it sleeps. A seeded chooser picks
the next actor among those that are awake. When all sleep, virtual time jumps to the earliest
wake-up. So one seed gives one run, independent of the machine, its cores and its hash seed.

* Actors share things only through ports, and every port call is a `step`. Passing the baton on
  before the call is enough: no other actor can see what an actor does between two calls.
* Nothing here or in the world reads a real clock, iterates over a set or uses `id`.
* `Crash` and `Over` are not `Exception`s: no product code catches them.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

STEP_S = 0.002
"""The virtual time that every step takes: no actor can busy-wait while time stands still."""
STACK_BYTES = 1 << 20
"""Stack of an actor: the default of 8 MiB is more than any actor needs."""
TAIL = 40
"""The number of steps of the trace that a failure shows."""


class Crash(BaseException):
    """The process dies here, as by kill -9."""


class Over(BaseException):
    """The simulation is over; the thread unwinds."""


class Step(NamedTuple):
    """One line of the trace."""

    at: float
    actor: str
    operation: str
    key: str

    def __str__(self) -> str:
        """Return the line as it is printed."""
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
        seed: Determines everything that is random.
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
        """The name of the invariant that an endless run breaks."""
        self.left: Callable[[], str] = str
        """Says what is left to do in an endless run."""

    @property
    def actor(self) -> str:
        """The actor whose turn it is."""
        return self._current.name

    def spawn(self, name: str, body: Callable[[], None], *, after_s: float = 0.0) -> None:
        """Run `body` as an actor from `after_s` on, until it returns."""
        actor = _Actor(name, self.now + after_s)
        self._actors.append(actor)
        threading.Thread(target=self._live, args=(actor, body), name=name, daemon=True).start()

    def kill(self, name: str) -> None:
        """Crash the actor of that name where it is; unknown names are ignored."""
        for actor in self._actors:
            if actor.name == name:
                actor.doom = Crash()
                actor.wakes_at = self.now

    def wake(self, name: str) -> None:
        """Let the actor of that name continue now if it sleeps."""
        for actor in self._actors:
            if actor.name == name:
                actor.wakes_at = min(actor.wakes_at, self.now)

    def later(self, after_s: float, work: Callable[[], None]) -> None:
        """Do `work`, which must not call a port, `after_s` from now, whichever actors live then."""
        self._timed += 1
        heappush(self._timers, (self.now + after_s, self._timed, work))

    def note(self, operation: str, key: str) -> None:
        """Add a line to the trace."""
        self.trace.append(Step(self.now, self._current.name, operation, key))

    def step(self, operation: str, key: str) -> None:
        """Announce that the running actor is about to do `operation`; other actors may go first."""
        self.note(operation, key)
        self.now += STEP_S
        actor = self._current
        if self.chance.random() >= self._loyalty or self._is_over or actor.doom:
            self._hand_on(actor)

    def sleep(self, seconds: float) -> None:
        """Let the running actor do nothing for that long."""
        actor = self._current
        actor.wakes_at = self.now + max(STEP_S, seconds)
        self._hand_on(actor)

    def fail(self, name: str, text: str) -> None:
        """Record that the invariant `name` is broken; the first one ends the run."""
        if self.failure is None:
            tail = self.trace[-TAIL:]
            self.failure = SimulationError(seed=self.seed, name=name, text=text, tail=tail)

    def run(self, *, until: Callable[[], bool], limit_s: float) -> None:
        """
        Let the actors act until `until()` holds, which is checked whenever all sleep.

        Raises:
            SimulationError: An invariant broke, or virtual time reached `limit_s` first.
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
        """End the run if it is over; otherwise advance time to the first wake-up."""
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
    A process's own clock: virtual time, and a date that may be wrong.

    Args:
        skew_s: How far this machine's date is off.
    """

    EPOCH = 1_700_000_000.0

    def __init__(self, baton: Baton, *, skew_s: float = 0.0) -> None:
        self._baton = baton
        self._skew_s = skew_s
        self._stepped_s = 0.0

    def step(self, by_s: float) -> None:
        """Move the date forward or back; the clock that counts seconds continues."""
        self._stepped_s += by_s

    def wall(self) -> float:
        """Return the date, as this machine believes."""
        return self.EPOCH + self._baton.now + self._skew_s + self._stepped_s

    def monotonic(self) -> float:
        """Return virtual seconds, from an arbitrary point."""
        return 1_000.0 + self._baton.now + self._skew_s

    def sleep(self, seconds: float) -> None:
        """Pass the baton on; continue when it is later."""
        self._baton.sleep(seconds)


class ByDate(SimClock):
    """A mutant: seconds are counted by the date, which can be changed."""

    def monotonic(self) -> float:
        """Return seconds since 1970, as this machine believes."""
        return self.wall()
