"""What strikes real processes at random: kill -9, and SIGSTOP with SIGCONT a while later."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.end_to_end.programs import Programs

PAUSE_S = (0.2, 1.2)
"""Between two strikes."""
FROZEN_S = (0.5, 8.0)
"""How long a stopped process stays so; the longest of them cost a bastion on a folder its lead."""
WEIGHTS = {"bastion": 2, "agent": 4, "keeper": 1, "process": 3}
"""Who is struck how often: a keeper takes the jobs of its machine with it."""


class Bastions:
    """Two bastions, and the supervisor who starts them again when they die."""

    def __init__(self, programs: Programs, names: tuple[str, ...], chance: random.Random) -> None:
        self._programs = programs
        self._chance = chance
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._start_at = dict.fromkeys(names, 0.0)
        self.odd_exits: list[str] = []
        """Of a standby that nobody killed."""

    def look(self) -> None:
        """Start those that are down and due."""
        for name, at in self._start_at.items():
            running = self._running.get(name)
            if running is not None and running.poll() is not None:
                if running.returncode >= 0:
                    self.odd_exits.append(f"bastion {name} exited with {running.returncode}")
                del self._running[name]
                self._start_at[name] = time.monotonic() + self._chance.uniform(0.1, 3.0)
            elif running is None and time.monotonic() >= at:
                self._running[name] = self._programs.serve("--standby", f"--name={name}")

    def stop(self) -> list[int]:
        """End them as systemd does; their exit codes."""
        for running in self._running.values():
            running.send_signal(signal.SIGTERM)
        return [running.wait(timeout=60) for running in self._running.values()]


class Strikes:
    """Strikes one process of `programs` after the other, as `chance` has it."""

    def __init__(self, programs: Programs, chance: random.Random) -> None:
        self._programs = programs
        self._chance = chance
        self._next_at = 0.0
        self._frozen: list[tuple[float, psutil.Process]] = []
        self.dealt: Counter[str] = Counter()

    def look(self) -> None:
        """Strike, if it is time; let go what was frozen long enough."""
        now = time.monotonic()
        self._thaw(lambda until: now >= until)
        if now >= self._next_at:
            self._next_at = now + self._chance.uniform(*PAUSE_S)
            self._strike(now)

    def end(self) -> None:
        """Let everything go on."""
        self._thaw(lambda until: True)

    def _strike(self, now: float) -> None:
        kind = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        how = self._chance.choice((signal.SIGKILL, signal.SIGSTOP))
        targets = sorted(self._targets(kind), key=lambda process: process.pid)
        if not targets:
            return
        target = self._chance.choice(targets)
        with suppress(psutil.NoSuchProcess):
            target.send_signal(how)
            self.dealt[f"{how.name} {kind}"] += 1
            if how is signal.SIGSTOP:
                self._frozen.append((now + self._chance.uniform(*FROZEN_S), target))

    def _targets(self, kind: str) -> list[psutil.Process]:
        match kind:
            case "bastion":
                return self._programs.processes(" serve ")
            case "agent":
                return self._programs.processes(" agent ", "--machine=")
            case _:
                keepers = self._programs.processes("bastion.agent.keeper")
                return keepers if kind == "keeper" else _below(keepers)

    def _thaw(self, is_due: Callable[[float], bool]) -> None:
        for until, process in [each for each in self._frozen if is_due(each[0])]:
            self._frozen.remove((until, process))
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


def _below(keepers: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for keeper in keepers:
        with suppress(psutil.NoSuchProcess):
            found += keeper.children(recursive=True)
    return found
