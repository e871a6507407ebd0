"""
The port to the keeper: what an agent may ask of the one program that holds users' processes.

Rules the real keeper and the fake keep, and `tests/contracts/test_keeper.py` holds them to:

* A key is started at most once, whatever crashes: the start is on disk before the first fork, and
  a second start of the same key is refused by this keeper and by every later one of this home.
* `Exited` is told only when every process of the attempt, every descendant of those and every pipe
  is done: devices are free, log sizes are final, the record is on disk.
* A record stays, whoever connects or dies, until `forget`.
* Times named `_at` are seconds on CLOCK_BOOTTIME (`Clock.monotonic`): they order what happened on
  one machine in one boot, and mean nothing elsewhere.

It must not know the bucket, the agent's instructions or what a job is: a key is an opaque string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol, TypeAlias

from bastion.agent.keeper.reasons import (
    IDLE,
    KEEPER_STOPPED,
    LOST_CONTACT,
    SIBLING_FAILED,
    TIME_LIMIT,
)
from bastion.errors import BastionError
from bastion.value import value

__all__ = [
    "IDLE",
    "KEEPER_STOPPED",
    "LOST_CONTACT",
    "SIBLING_FAILED",
    "SPOOL_LIMIT_BYTES",
    "TIME_LIMIT",
    "AttemptStart",
    "AttemptState",
    "Ended",
    "ExitRecord",
    "Exited",
    "IdleRule",
    "Keeper",
    "KeeperError",
    "KeeperEvent",
    "KeeperGoneError",
    "MachineFaultError",
    "Notice",
    "OutputGrew",
    "ProcessExit",
    "ProcessStart",
    "RunAs",
    "Running",
    "Spool",
    "WentIdle",
]

LAST_LINES_BYTES = 4096
"""Of the log of the process that failed first: a traceback, and little enough for a register."""

SPOOL_LIMIT_BYTES = 1 << 30
"""Spool of one process, unless said otherwise: a gibibyte is more than anyone reads."""


class KeeperError(BastionError):
    """The keeper said no; nothing was started or changed."""


class KeeperGoneError(KeeperError):
    """No keeper answers: whether the last request was done is in its journal; start a new life."""


class MachineFaultError(KeeperError):
    """
    The machine, not the request, is at fault: see `bastion.agent.machine.machine_fault`.

    Nothing was started or changed; the same may work later, or on another machine.
    """


@value
class ProcessStart:
    """One process to start; its working directory must exist."""

    argv: tuple[str, ...]
    """The program (a path, or a name looked up in the `PATH` of `env`) and its arguments."""
    env: Mapping[str, str] = field(repr=False)
    """The complete environment; the keeper adds only `BASTION_MARK`."""
    cwd: str


@value
class RunAs:
    """The user that processes run as, by number: the keeper asks no directory service."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Every group that they are in."""


@value
class IdleRule:
    """When an attempt is taken for hung, and what becomes of it; its stacks are in its log then."""

    timeout_s: float
    """Without any of `signs`; time in which the machine slept does not count."""
    ends: bool = True
    """Whether it is stopped; else it is only told."""
    signs: tuple[str, ...] = ("output", "devices", "processor")
    devices: tuple[int, ...] = ()
    """Indices, as nvidia-smi has them, whose use is a sign."""


@value
class AttemptStart:
    """The processes of one replica on this machine, started and ended together."""

    key: str
    """Opaque and unique for ever, such as `project/job/a1-nonce/r0/h0`; 255 bytes once encoded."""
    processes: tuple[ProcessStart, ...]
    grace_s: float
    """From SIGTERM to SIGKILL, for stops the keeper decides on itself."""
    max_runtime_s: float | None = None
    """Counted from the start; None: no limit."""
    memory_limit_bytes: int | None = None
    """For all processes together; kept only where cgroups can be written."""
    notice_path: str = ""
    """Where notices are written, the `BASTION_NOTICE_FILE` of the processes; empty: nowhere."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values in the environments that nobody may write down: held in memory until `forget`."""
    spool_limit_bytes: int = SPOOL_LIMIT_BYTES
    """For each process: beyond it only the head and the last 64 KiB are kept."""
    umask: int = 0o022
    undo: tuple[str, ...] = ()
    """A command (its program a path) for what no signal reaches: run once everything is dead, again
    until it exits 0, by this life or a later one; `Exited` is told only then. Empty: none."""
    idle: IdleRule | None = None
    """None: it may be silent for ever."""
    on_end: ProcessStart | None = None
    """Run once, when all processes are dead, before the end is told; it changes no outcome."""
    on_end_s: float = 0.0
    """How long that may take; in the grace of a stop it has at most half of it."""
    hold_s: float = 0.0
    """How long whoever asked wants to keep the devices if it fails by itself."""
    run_as: RunAs | None = None
    """Another user than the keeper's, which is root then; None: the keeper's own."""


@value
class Notice:
    """That processes were told to end (SIGTERM), and why."""

    reason: str
    by: str
    at: float
    """When it was delivered, to at least one living process."""


@value
class ProcessExit:
    """How one process ended; all three of `code`, `signal`, `setup_failure` empty: nobody knows."""

    code: int | None
    signal: int | None
    setup_failure: str
    """Why it could not be started at all, or empty."""
    ended_at: float
    log_size_bytes: int
    """Final size of its log in the spool, marker of a cut included."""
    dropped_bytes: int
    """What the process wrote and the spool did not keep; 0: the log is complete."""
    untold_bytes: int = 0
    """How many of these no marker in the spool tells of: one is added where the log is shipped."""

    @property
    def failed(self) -> bool:
        """Whether it ended in any other way than with code 0."""
        return self.code != 0


@value
class ExitRecord:
    """How an attempt ended on this machine; written when nothing of it is left."""

    key: str
    life: int
    """The keeper life that started it."""
    started_at: float
    ended_at: float
    processes: tuple[ProcessExit, ...]
    notices: tuple[Notice, ...]
    """Every notice that reached a living process, in order; the first decides the outcome."""
    first_failed: int | None
    """Index of the process that failed first, before or after a notice."""
    failed_by_itself: bool
    """Whether a process failed before any notice had been delivered."""
    last_lines: str
    """
    The end of that process's log, at most 4 KiB; undecodable bytes replaced. Empty where the
    attempt has secrets, for this record is on disk.
    """
    timed_out: bool
    out_of_memory: bool
    lost: bool
    """The keeper died with the attempt running: a later life killed what was left of it."""
    idle: str = ""
    """What it had not shown for how long when it was stopped for that, or empty."""
    on_end: str = ""
    """What went wrong with its `on_end`, or empty."""
    hold_until: float | None = None
    """Until when its devices are to be kept; None: it did not fail by itself, or was stopped."""
    machine_fault: str = ""
    """
    What the machine lacked when a process could not be started, or empty. The attempt is lost
    then, whatever became of those that were started.
    """


@value
class Running:
    """An attempt whose processes, or descendants of these, are alive."""

    key: str
    started_at: float
    pids: tuple[int | None, ...]
    """Per process; None once it has ended (or could not start)."""
    log_sizes_bytes: tuple[int, ...]
    notices: tuple[Notice, ...]
    secrets: tuple[str, ...] | None = field(default=(), repr=False)
    """The values it was started with."""
    idle: str = ""
    """What it has not shown for how long, if it was told for that and goes on; or empty."""


@value
class Ended:
    """An attempt that is over and not yet forgotten."""

    record: ExitRecord
    secrets: tuple[str, ...] | None = field(default=(), repr=False)
    """The values it was started with; None: there were some, and a dead keeper knew them."""


AttemptState: TypeAlias = Running | Ended


@value
class OutputGrew:
    """A process's log has reached `size_bytes`: at once for the first bytes, then at most 20/s."""

    key: str
    process: int
    size_bytes: int


@value
class Exited:
    """An attempt is over."""

    record: ExitRecord


@value
class WentIdle:
    """A running attempt showed no sign of life, as `text` says; empty: it shows one again."""

    key: str
    text: str


KeeperEvent: TypeAlias = OutputGrew | Exited | WentIdle


class Keeper(Protocol):
    """One life of the keeper of one machine. Any thread may call; `poll` only one at a time."""

    @property
    def life(self) -> int:
        """The number this keeper was started with."""
        ...

    def start(self, attempt: AttemptStart) -> None:
        """
        Start every process of `attempt`, once and for all.

        A process that cannot be started (no such program, no such directory) is no error here: it
        ends at once with a `setup_failure`, which stops its siblings. Where the machine is at fault
        the record says so in `machine_fault`.

        Raises:
            ConflictError: This key was started before; whatever came of it is in `attempts`.
            MachineFaultError: The start cannot be recorded, as on a full disk: nothing was
                started, the key may be used again.
            KeeperError: The attempt is malformed or the permit has run out: nothing was started,
                the key may be used again.
            KeeperGoneError: No answer: a later `attempts` tells whether it was started.
        """
        ...

    def stop(self, key: str, *, reason: str, by: str, grace_s: float) -> None:
        """
        Give notice: the notice file and SIGTERM to the whole tree now, SIGKILL after `grace_s`.

        Returns at once. A later stop is a further notice and can only bring SIGKILL nearer. An
        attempt that has ended is left as it is. Whoever is stopped is not held afterwards.

        Raises:
            NotFoundError: No such attempt.
            KeeperGoneError: No answer.
        """
        ...

    def limit(self, key: str, *, max_runtime_s: float) -> None:
        """
        Let an attempt run `max_runtime_s` from its start, in place of what was said before.

        Where that is over already it is stopped now. What has ended or has had its notice is left
        as it is.

        Raises:
            NotFoundError: No such attempt.
            KeeperGoneError: No answer.
        """
        ...

    def permit(self, *, valid_for_s: float, sent_at: float) -> None:
        """
        Let processes run until `sent_at + valid_for_s` at least; the end never moves back.

        Args:
            valid_for_s: How long the right lasts.
            sent_at: When the round trip to the store, that proves the right, was begun
                (`Clock.monotonic`).

        Raises:
            KeeperGoneError: No answer.
        """
        ...

    def attempts(self) -> tuple[AttemptState, ...]:
        """
        Everything started and not forgotten, older lives' included, oldest first.

        Raises:
            KeeperGoneError: No answer.
        """
        ...

    def forget(self, key: str) -> None:
        """
        Delete record and spool; only when end and logs are safe elsewhere. Unknown keys are fine.

        Raises:
            ConflictError: The attempt is running.
            KeeperGoneError: No answer.
        """
        ...

    def poll(self, timeout_s: float) -> tuple[KeeperEvent, ...]:
        """
        What happened since the last call, waiting up to `timeout_s` for the first of it.

        What was before this object connected is not told: ask `attempts` once, after connecting.

        Raises:
            KeeperGoneError: The connection broke.
        """
        ...


class Spool(Protocol):
    """Where the logs of a keeper's attempts lie until they are forgotten."""

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """
        Up to `size_bytes` of a log from `offset`; empty at its end so far.

        Raises:
            NotFoundError: No such log.
        """
        ...
