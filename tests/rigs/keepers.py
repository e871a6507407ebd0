"""Keepers under test: real ones with real processes, and the fake, behind one small interface."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path
from typing import Any

from bastion.agent.keeper.attempt.cgroup import Cgroups, find_places
from bastion.agent.keeper.attempt.process import SPARE_FILES
from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Reaction, Script
from bastion.agent.keeper.port import (
    AttemptStart,
    Ended,
    Exited,
    ExitRecord,
    KeeperEvent,
    KeeperGoneError,
    OutputGrew,
    ProcessStart,
)
from bastion.agent.keeper.socket.client import KeeperClient, spawn_keeper
from bastion.agent.machine import stray_processes as strays
from bastion.clock import Clock, SystemClock, VirtualClock

PATIENCE_S = 20.0
"""Limit for anything that must happen."""

SCRIPTS: dict[str, Script] = {
    "exit 0": Script(),
    "exit 3": Script(code=3),
    "echo hello": Script(output=((0.0, b"hello\n"),)),
    "echo why >&2; exit 7": Script(output=((0.0, b"why\n"),), code=7),
    "kill -SEGV $$": Script(code=None, signal=signal.SIGSEGV),
    "echo up; exec sleep 1000": Script(output=((0.0, b"up\n"),), runs_s=inf),
    "trap 'exit 5' TERM; echo up; while :; do sleep 1000 & wait; done": Script(
        output=((0.0, b"up\n"),), runs_s=inf, on_notice=Reaction(code=5, signal=None)
    ),
    "trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait; done": Script(
        output=((0.0, b"up\n"),), runs_s=inf, on_notice=Reaction(code=0, signal=None)
    ),
    "trap '' TERM; echo up; : >${UP:-/dev/null}; while :; do sleep 1000; done": Script(
        output=((0.0, b"up\n"),), runs_s=inf, on_notice=None
    ),
    "echo tidy; exit 4": Script(output=((0.0, b"tidy\n"),), code=4),
    "while :; do echo tick; sleep 0.1; done": Script(
        output=tuple((n / 10, b"tick\n") for n in range(100)), runs_s=inf
    ),
    "sleep 1; echo up; exec sleep 1000": Script(output=((1.0, b"up\n"),), runs_s=inf),
    "read _ <$UP; exit 3": Script(runs_s=0.1, code=3),
    "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done": Script(
        output=((0.0, b"up\n"),),
        runs_s=inf,
        on_notice=Reaction(code=0, signal=None, says=b"bye\n"),
    ),
}
"""Return the script of a shell line, for the fake."""

EXITS, FAILS, HELLO, COMPLAINS, CRASHES, SLEEPS, OBEYS_5, OBEYS_0, IGNORES, *_MORE = SCRIPTS
TIDIES, TICKS, PAUSES, FAILS_ONCE_UP, SAYS_BYE = _MORE


def shell(line: str, **env: str) -> ProcessStart:
    """Return a process that runs a line of shell."""
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    return ProcessStart(argv=("sh", "-c", line), env={**path, **env}, cwd="/tmp")


def python(program: str, *arguments: str) -> ProcessStart:
    """Return a process that runs a Python program and starts quickly."""
    argv = (sys.executable, "-I", "-S", "-c", program, *arguments)
    return ProcessStart(argv=argv, env={"PATH": "/usr/bin:/bin"}, cwd="/tmp")


def attempt(
    key: str,
    *processes: str | ProcessStart,
    grace_s: float = 10.0,
    max_runtime_s: float | None = None,
    notice_path: str = "",
    on_end: str = "",
    **more: Any,
) -> AttemptStart:
    """Return an attempt; a string is a line of shell."""
    return AttemptStart(
        key=key,
        processes=tuple(shell(each) if isinstance(each, str) else each for each in processes),
        grace_s=grace_s,
        max_runtime_s=max_runtime_s,
        notice_path=notice_path,
        on_end=shell(on_end) if on_end else None,
        **more,
    )


class World(ABC):
    """One home, its current keeper, and the events that were seen."""

    keeper: KeeperClient | FakeKeeper
    clock: Clock

    def __init__(self) -> None:
        self.seen: list[KeeperEvent] = []

    def until(self, found: Callable[[], bool], why: str) -> None:
        """Poll until `found`."""
        deadline = time.monotonic() + PATIENCE_S
        while not found():
            assert time.monotonic() < deadline, f"{why}; seen: {self.seen}"
            self.seen.extend(self.keeper.poll(0.5))

    def ended(self, key: str) -> ExitRecord:
        """Wait for the record of `key`, and return it."""

        def record() -> list[ExitRecord]:
            told = [event.record for event in self.seen if isinstance(event, Exited)]
            return [record for record in told if record.key == key]

        self.until(lambda: bool(record()), f"{key} did not end")
        return record()[0]

    def wrote(self, key: str, size_bytes: int = 1, process: int = 0) -> None:
        """Wait until a process has written that many bytes."""
        self.until(
            lambda: any(
                isinstance(event, OutputGrew)
                and (event.key, event.process) == (key, process)
                and event.size_bytes >= size_bytes
                for event in self.seen
            ),
            f"{key} p{process} did not write {size_bytes} bytes",
        )

    def log(self, key: str, process: int = 0) -> bytes:
        """Return the entire log."""
        return self.keeper.read(key, process, offset=0, size_bytes=1 << 30)

    def record(self, key: str) -> ExitRecord:
        """Return the record of `key`, as in `attempts`."""
        (record,) = [
            state.record
            for state in self.keeper.attempts()
            if isinstance(state, Ended) and state.record.key == key
        ]
        return record

    @abstractmethod
    def next_life(self, *, permit_s: float = 0.0) -> None:
        """Start the next keeper of this home."""

    @abstractmethod
    def crash(self) -> None:
        """Kill the keeper as kill -9 does; processes continue."""

    @abstractmethod
    def without_disk(self) -> AbstractContextManager[None]:
        """Fill the keeper's disk within the context."""

    @abstractmethod
    def without_files(self) -> AbstractContextManager[None]:
        """Prevent the keeper from opening files for new processes within the context."""


class RealWorld(World):
    """A home in a folder, real processes."""

    keeper: KeeperClient

    def __init__(self, home: Path, *, permit_s: float = 0.0, use_cgroups: bool = True) -> None:
        super().__init__()
        self.home = home
        self.use_cgroups = use_cgroups
        self.clock = SystemClock()
        self.life = 0
        self.next_life(permit_s=permit_s)

    def next_life(self, *, permit_s: float = 0.0) -> None:
        """Start the next keeper of this home."""
        self.life += 1
        self.keeper = spawn_keeper(
            self.home, life=self.life, permit_s=permit_s, use_cgroups=self.use_cgroups
        )

    @property
    def pid(self) -> int:
        """Return the keeper's process id."""
        return int((self.home / "keeper" / "lock").read_text().split()[1])

    @property
    def mark(self) -> str:
        """Return the prefix of marks in this home."""
        return f"{self.home.resolve()}:"

    def crash(self) -> None:
        """Kill it, and wait until it is gone."""
        handle = os.pidfd_open(self.pid)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
        self.gone()

    def without_disk(self) -> AbstractContextManager[None]:
        """Keep all files of the keeper from growing within the context."""
        return self.limited(resource.RLIMIT_FSIZE, 0)

    def without_files(self) -> AbstractContextManager[None]:
        """Leave only the descriptors reserved for the keeper itself within the context."""
        return self.limited(resource.RLIMIT_NOFILE, SPARE_FILES)

    @contextlib.contextmanager
    def limited(self, kind: int, most: int) -> Iterator[None]:
        """Limit the keeper to `most` of a resource within the context."""
        before = resource.prlimit(self.pid, kind)
        resource.prlimit(self.pid, kind, (most, before[1]))
        try:
            yield
        finally:
            resource.prlimit(self.pid, kind, before)

    def gone(self) -> None:
        """Wait until the keeper is gone."""
        deadline = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < deadline:
                self.seen.extend(self.keeper.poll(0.5))
        except KeeperGoneError:
            self.keeper.close()
            return
        raise AssertionError("the keeper did not end")

    def close(self) -> None:
        """Stop everything."""
        log = (self.home / "keeper" / "keeper.log").read_text()
        with contextlib.suppress(KeeperGoneError, OSError):
            self.crash()
        strays.kill_all(self.mark)
        if self.use_cgroups:
            Cgroups(find_places(str(self.home / "keeper"))).end()
        assert "Traceback" not in log, log


class FakeWorld(World):
    """A home in memory, scripts on a virtual clock."""

    keeper: FakeKeeper

    def __init__(self, *, permit_s: float = 0.0) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.home = FakeHome()
        self.next_life(permit_s=permit_s)

    def next_life(self, *, permit_s: float = 0.0) -> None:
        """Start the next keeper of this home."""
        life = self.home.life + 1
        self.keeper = FakeKeeper(self.home, self.clock, _script, life=life, permit_s=permit_s)

    def crash(self) -> None:
        """Kill it; its processes continue."""
        self.keeper.crash(leaves_strays=True)

    @contextlib.contextmanager
    def without_disk(self) -> Iterator[None]:
        """Make every record of a start fail within the context."""
        self.home.full = "No space left on device"
        try:
            yield
        finally:
            self.home.full = ""

    @contextlib.contextmanager
    def without_files(self) -> Iterator[None]:
        """Make every start of a process fail within the context."""
        self.home.exhausted = "Too many open files"
        try:
            yield
        finally:
            self.home.exhausted = ""


def _script(process: ProcessStart) -> Script:
    if process.argv[0] != "sh":
        return Script(setup_failure=f"cannot start {process.argv[0]!r}: no such program in PATH")
    return SCRIPTS[process.argv[2]]
