"""
Runs several simulations side by side, each in a fresh process, on all cores.

An interrupt reaches every one of them: each ends with a partial result, and those that have not
started are left out. A second interrupt ends them without one. A failed point is reported by its
label, and the others continue.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import wait

from bastion.clock import Clock, SystemClock
from bastion.errors import BastionError
from bastion.simulator.engine.result import Result
from bastion.simulator.run import simulated
from bastion.simulator.study.point import Point, Runs, Told
from bastion.simulator.study.process import PointProcess

_LOOK_S = 0.25
"""Between two checks of the processes' progress."""
PATIENCE_S = 60.0
"""How long to wait for a partial result after an interrupt. A large one takes seconds."""


def run_points(points: Sequence[Point], *, cores: int = 0, told: Told | None = None) -> Runs:
    """
    Return the results of `points`, in their order; after an interrupt only of those that started.

    Args:
        points: Labelled so that they can be told apart. Each runs in its own process, unless it is
            the only one.
        cores: How many run at the same time; 0 for as many as there are.
        told: Called now and then with their progress.

    Raises:
        BastionError: None of them gave a result; this is why the first did not.
    """
    if len(points) == 1:
        return Runs(points=points, results=[_alone(points[0], told)], failed={})
    return _Crowd(points, cores or _all_cores(), told).run()


def _all_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return cores


def _alone(point: Point, told: Told | None) -> Result:
    def progress(ended: int, jobs: int, now: float) -> None:
        del now
        if told is not None:
            told([ended / jobs])

    return simulated(point.setup, point.workload, progress=progress, names=point.names)


class _Crowd:
    """Points, some of them running."""

    def __init__(
        self, points: Sequence[Point], cores: int, told: Told | None, clock: Clock | None = None
    ) -> None:
        self.points, self.cores, self.told = points, cores, told
        self.clock = clock or SystemClock()
        self.waiting = list(range(len(points)))
        self.running: dict[int, PointProcess] = {}
        self.parts = [0.0] * len(points)
        self.results: dict[int, Result] = {}
        self.failed: dict[int, BastionError] = {}
        self.kill_at = float("inf")
        """When the patience after an interrupt ends."""

    def run(self) -> Runs:
        try:
            while self.waiting or self.running:
                try:
                    self._go_on()
                except KeyboardInterrupt:
                    self._interrupt()
        finally:
            self._kill()
        if self.failed and not self.results:
            raise next(iter(self.failed.values()))
        got = sorted(self.results)
        gave_none = set(range(len(self.points))) - self.results.keys() - self.failed.keys()
        return Runs(
            points=[self.points[index] for index in got],
            results=[self.results[index] for index in got],
            failed={self._label(index): self.failed[index] for index in sorted(self.failed)},
            left_out=[self._label(index) for index in sorted(gave_none)],
        )

    def _label(self, index: int) -> str:
        return self.points[index].setup.name

    def _go_on(self) -> None:
        while self.waiting and len(self.running) < self.cores:
            index = self.waiting.pop(0)
            self.running[index] = PointProcess(self.points[index])
        open_ones = [each.fileno() for each in self.running.values() if not each.is_closed]
        ready = wait(open_ones, timeout=_LOOK_S if open_ones else 0.0)
        for index, process in list(self.running.items()):
            if process.fileno() in ready:
                process.read()
                self.parts[index] = process.part
            # Not only those that closed their pipe: a policy's own child process may keep it open.
            if process.is_over(within_s=_LOOK_S if process.is_closed else 0.0):
                self._take(index, process)
        if self.clock.monotonic() > self.kill_at:
            self._kill()
        if self.told is not None:
            self.told(list(self.parts))

    def _take(self, index: int, process: PointProcess) -> None:
        found = process.found()
        if isinstance(found, Result):
            self.results[index] = found
            self.parts[index] = 1.0
        elif found is not None:
            self.failed[index] = found
        del self.running[index]
        process.close()

    def _interrupt(self) -> None:
        self.waiting.clear()
        if self.kill_at < float("inf"):
            self._kill()
            return
        self.kill_at = self.clock.monotonic() + PATIENCE_S
        for process in self.running.values():
            process.interrupt()

    def _kill(self) -> None:
        for process in self.running.values():
            process.close()
        self.running.clear()
