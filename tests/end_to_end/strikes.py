"""
Random faults of real programs: kill -9, and SIGSTOP with SIGCONT a while later.

With `Surroundings`, also faults of the environment: the bucket's folder is moved away and back, a
disk is filled and emptied, descriptors are taken and returned, and clocks are changed.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import psutil

from tests.end_to_end.programs import Programs

PAUSE_S = (0.2, 1.2)
"""Time between two strikes."""
FROZEN_S = (0.5, 8.0)
"""How long a process stays frozen; the longest time costs a bastion on a folder its lease."""
WEIGHTS = {"bastion": 2, "agent": 4, "keeper": 1, "process": 3}
"""Weights of the strikes; the death of a keeper kills the jobs of its machine."""
HARD_WEIGHTS = {"bucket": 1, "disk": 1, "descriptors": 1, "clock": 1}
"""Weights of the faults of the environment, in addition to `WEIGHTS`."""
AWAY_S = (1.0, 12.0)
"""How long the bucket is away; beyond 3 s its leader's lease has expired."""
POOR_S = (1.0, 10.0)
"""How long a disk is full, or a process has no free descriptor."""
STEP_DAYS = (-8.0, -0.02, 0.02, 8.0)
"""Clock changes: half an hour, and more than the age limit of instructions."""


class Bastions:
    """Two bastions, and a supervisor that restarts them when they die."""

    def __init__(
        self,
        programs: Programs,
        names: tuple[str, ...],
        chance: random.Random,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._programs = programs
        self._env = env
        self._chance = chance
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._start_at = dict.fromkeys(names, 0.0)
        self.odd_exits: list[str] = []
        """Exit codes of standbys that were not killed."""

    def look(self) -> None:
        """Restart bastions whose pause is over."""
        for name, at in self._start_at.items():
            running = self._running.get(name)
            if running is not None and running.poll() is not None:
                if running.returncode >= 0:
                    self.odd_exits.append(f"bastion {name} exited with {running.returncode}")
                del self._running[name]
                self._start_at[name] = time.monotonic() + self._chance.uniform(0.1, 3.0)
            elif running is None and time.monotonic() >= at:
                self._running[name] = self._programs.serve(
                    "--standby", f"--name={name}", env=self._env
                )

    def stop(self) -> list[int]:
        """Stop them as systemd does; return their exit codes."""
        for running in self._running.values():
            running.send_signal(signal.SIGTERM)
        return [running.wait(timeout=60) for running in self._running.values()]


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The environment of one run: folder, disk and clock."""

    root: Path
    """The bucket's folder."""
    disk: Path
    """A small disk that some of the machines use."""
    clock: Path | None
    """The file that changes the clocks of bastions and agents, or None."""


class Strikes:
    """
    Strikes the processes of `programs` at random.

    Args:
        programs: The processes to strike.
        chance: The source of randomness.
        around: Their environment, if it is struck too.
    """

    def __init__(
        self, programs: Programs, chance: random.Random, *, around: Surroundings | None = None
    ) -> None:
        self._programs = programs
        self._chance = chance
        self._around = around
        self._weights = WEIGHTS if around is None else WEIGHTS | HARD_WEIGHTS
        self._next_at = 0.0
        self._undo: list[tuple[float, str, Callable[[], object]]] = []
        self.dealt: Counter[str] = Counter()
        self.wrong: list[str] = []

    def look(self) -> None:
        """Strike if a strike is due; continue processes whose freeze is over."""
        now = time.monotonic()
        self._give_back(lambda until: now >= until)
        if now >= self._next_at:
            self._next_at = now + self._chance.uniform(*PAUSE_S)
            self._strike(now)

    def end(self) -> None:
        """Undo every strike that lasts."""
        self._give_back(lambda until: True)

    def _strike(self, now: float) -> None:
        kind = self._chance.choices(list(self._weights), list(self._weights.values()))[0]
        if self._around is not None and kind in HARD_WEIGHTS:
            if not any(each == kind for _, each, _ in self._undo):
                self._strike_ground(kind, self._around, now)
            return
        how = self._chance.choice((signal.SIGKILL, signal.SIGSTOP))
        targets = sorted(self._targets(kind), key=lambda process: process.pid)
        if not targets:
            return
        target = self._chance.choice(targets)
        with suppress(psutil.NoSuchProcess):
            target.send_signal(how)
            self.dealt[f"{how.name} {kind}"] += 1
            if how is signal.SIGSTOP:
                until = now + self._chance.uniform(*FROZEN_S)
                self._undo.append((until, "frozen", partial(_thaw, target)))

    def _strike_ground(self, kind: str, around: Surroundings, now: float) -> None:
        until = now + self._chance.uniform(*(AWAY_S if kind == "bucket" else POOR_S))
        undo: Callable[[], object]
        match kind:
            case "bucket":
                gone = around.root.with_name("away")
                around.root.rename(gone)
                undo = partial(self._bring_back, gone, around.root)
            case "disk":
                undo = _filled(around.disk)
            case "descriptors":
                every = self._targets("agent") + self._targets("keeper")
                if not every:
                    return
                undo = _starved(self._chance.choice(sorted(every, key=lambda each: each.pid)))
            case _:
                if around.clock is None:
                    return
                around.clock.write_text(f"{self._chance.choice(STEP_DAYS) * 86400:.0f}\n")
                undo = partial(around.clock.write_text, "0\n")
        self.dealt[kind] += 1
        self._undo.append((until, kind, undo))

    def _bring_back(self, gone: Path, root: Path) -> None:
        if root.exists():
            self.wrong.append(f"something made {root} while the bucket was away")
            shutil.rmtree(root)
        gone.rename(root)

    def _targets(self, kind: str) -> list[psutil.Process]:
        match kind:
            case "bastion":
                return self._programs.processes(" serve ")
            case "agent":
                return self._programs.processes(" agent ", "--machine=")
            case _:
                keepers = self._programs.processes("bastion.agent.keeper")
                return keepers if kind == "keeper" else _below(keepers)

    def _give_back(self, is_due: Callable[[float], bool]) -> None:
        for each in [each for each in self._undo if is_due(each[0])]:
            self._undo.remove(each)
            each[2]()


def _thaw(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


def _filled(disk: Path) -> Callable[[], None]:
    """Fill `disk` to its last byte; return a function that frees it."""
    path = disk / "filled"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return partial(path.unlink, missing_ok=True)


def _starved(process: psutil.Process) -> Callable[[], None]:
    """Prevent `process` from opening descriptors; return a function that undoes that."""
    try:
        before = process.rlimit(psutil.RLIMIT_NOFILE)
        process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds(), before[1]))
    except psutil.Error:
        return lambda: None

    def fed() -> None:
        with suppress(psutil.Error):
            process.rlimit(psutil.RLIMIT_NOFILE, before)

    return fed


def _below(keepers: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for keeper in keepers:
        with suppress(psutil.NoSuchProcess):
            found += keeper.children(recursive=True)
    return found
