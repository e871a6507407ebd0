"""
The port to the keeper: what an agent may request of the program that holds users' processes.

Seven operations: `start`, `stop` and `limit` an attempt, renew the `permit` of all, list the
`attempts`, `forget` one that is over, `poll` for events; `start_all` and `forget_all` do many
together. `tests/contracts/test_keeper.py` holds the real keeper and the fake to these rules:

* A key is started at most once, even after a crash: the start is on disk before the first fork, and
  a second start of the same key is refused by this keeper and by every later one of this home.
* `Exited` is reported only when every process of the attempt, every descendant of those and every
  pipe is done: devices are free, log sizes are final, the record is on disk.
* A record is kept until `forget`, independent of connections and crashes.
* Times named `_at` are seconds on CLOCK_BOOTTIME (`Clock.monotonic`): they order events on one
  machine in one boot, and mean nothing elsewhere.

This module must not know the bucket, the agent's instructions or what a job is: a key is an opaque
string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    "Answers",
    "AttemptStart",
    "AttemptState",
    "Ended",
    "ExitRecord",
    "Exited",
    "IdleRule",
    "Keeper",
    "KeeperEndingError",
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
"""End of the log of the first process to fail: a traceback, small enough for a register."""

SPOOL_LIMIT_BYTES = 1 << 30
"""Default limit for the spool of one process: a gibibyte is more than a person reads."""


class KeeperError(BastionError):
    """The keeper refused; nothing was started or changed."""


class KeeperGoneError(KeeperError):
    """No keeper answers. Its journal has the outcome of the last request; start a new life."""


class KeeperEndingError(KeeperError):
    """This life ends and starts nothing more; a new life, or another machine, can."""


class MachineFaultError(KeeperError):
    """
    The machine is at fault, not the request: see `bastion.agent.machine.machine_fault`.

    Nothing was started or changed. A retry may succeed later, or on another machine.
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
    """The user that processes run as, by number: the keeper queries no directory service."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Every group of the user, `gid` included."""


@value
class IdleRule:
    """When an attempt counts as hung, and what the keeper then does; it logs the stacks first."""

    timeout_s: float
    """Time without any of `signs`; suspended time does not count."""
    ends: bool = True
    """Whether a hung attempt is stopped; else it is only reported."""
    signs: tuple[str, ...] = ("output", "devices", "processor")
    devices: tuple[int, ...] = ()
    """Indices of nvidia-smi; use of one of these devices is a sign."""


@value
class AttemptStart:
    """The processes of one replica on this machine, started and ended together."""

    key: str
    """Opaque and permanently unique, such as `project/job/a1-nonce/r0/h0`; 255 bytes encoded."""
    processes: tuple[ProcessStart, ...]
    grace_s: float
    """From SIGTERM to SIGKILL, for stops that the keeper decides itself."""
    max_runtime_s: float | None = None
    """Counted from the start; None: no limit."""
    memory_limit_bytes: int | None = None
    """For all processes together; enforced only where cgroups can be written."""
    notice_path: str = ""
    """File that notices are written to, the processes' `BASTION_NOTICE_FILE`; empty: none."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values in the environments that never go to a disk: held in memory until `forget`."""
    spool_limit_bytes: int = SPOOL_LIMIT_BYTES
    """Per process: beyond it, only the head and the last 64 KiB are kept."""
    umask: int = 0o022
    undo: tuple[str, ...] = ()
    """A command (its program a path) that removes what no signal reaches, such as a container. It
    runs once everything is dead, and is retried by this life or a later one until it exits 0.
    `Exited` is reported only then. Empty: none."""
    idle: IdleRule | None = None
    """None: the attempt never counts as hung."""
    on_end: ProcessStart | None = None
    """The clean-up: run once, when all processes are dead, before the end is reported; it changes
    no outcome."""
    on_end_words: tuple[str, ...] = ()
    """The clean-up as its user wrote it, for the log; empty: the same as its `argv`."""
    on_end_s: float = 0.0
    """Longest run of the clean-up; in a stop's grace period it gets at most half of that."""
    hold_s: float = 0.0
    """How long its user keeps the devices if it fails by itself."""
    run_as: RunAs | None = None
    """User of the processes, if the keeper is root's; None: the keeper's own user."""


@value
class Notice:
    """A SIGTERM to the processes, and its reason."""

    reason: str
    by: str
    at: float
    """When it was delivered to at least one living process."""


@value
class ProcessExit:
    """How one process ended; unknown where `code`, `signal` and `setup_failure` are all empty."""

    code: int | None
    signal: int | None
    setup_failure: str
    """Why it could not be started, or empty."""
    ended_at: float
    log_size_bytes: int
    """Final size of its log in the spool, including the marker of a truncation."""
    dropped_bytes: int
    """Bytes that the process wrote and the spool dropped; 0: the log is complete."""
    untold_bytes: int = 0
    """Dropped bytes without a marker in the spool; the shipper of the log adds the marker."""

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
    """The keeper died while the attempt ran, and a later life killed what was left of it."""
    idle: str = ""
    """Which signs of life were missing, and for how long, if it was stopped as hung; or empty."""
    on_end: str = ""
    """Why its `on_end` failed, or empty."""
    cleaned_from: int | None = None
    """Where the output of `on_end` starts in the first process's log; None: it never started."""
    hold_until: float | None = None
    """When its devices are released; None: it did not fail by itself, or was stopped."""
    machine_fault: str = ""
    """
    What the machine lacked to start a process, or empty. The attempt is then lost, even if other
    processes of it were started.
    """


@value
class Running:
    """An attempt with running processes or descendants."""

    key: str
    started_at: float
    pids: tuple[int | None, ...]
    """Per process; None once it has ended (or could not start)."""
    log_sizes_bytes: tuple[int, ...]
    notices: tuple[Notice, ...]
    secrets: tuple[str, ...] | None = field(default=(), repr=False)
    """The values it was started with."""
    idle: str = ""
    """Which signs of life are missing, and for how long, if it is reported as hung; or empty."""


@value
class Ended:
    """An attempt that is over and not yet forgotten."""

    record: ExitRecord
    secrets: tuple[str, ...] | None = field(default=(), repr=False)
    """The values it was started with; None: there were some, known only to a dead keeper."""


AttemptState: TypeAlias = Running | Ended


@value
class OutputGrew:
    """A log has reached `size_bytes`; reported immediately, then at most 20 times per second."""

    key: str
    process: int
    size_bytes: int


@value
class Exited:
    """An attempt is over."""

    record: ExitRecord


@value
class WentIdle:
    """A running attempt shows no sign of life, as `text` says; empty: it shows one again."""

    key: str
    text: str


KeeperEvent: TypeAlias = OutputGrew | Exited | WentIdle


Answers: TypeAlias = tuple[BastionError | None, ...]
"""Why each of several requests was refused; None if it was not."""


class Keeper(Protocol):
    """
    One life of the keeper of one machine.

    Any thread may call any operation, `poll` only one thread at a time.
    """

    @property
    def life(self) -> int:
        """The number this keeper was started with."""
        ...

    def start(self, attempt: AttemptStart) -> None:
        """
        Start every process of `attempt`; a key is started once.

        A process that cannot be started (no such program, no such directory) is no error here. It
        ends immediately with a `setup_failure`, which stops its siblings. A fault of the machine is
        in the record's `machine_fault`.

        Raises:
            ConflictError: This key was started before; its state is in `attempts`.
            MachineFaultError: The start cannot be recorded, for example on a full disk. Nothing was
                started, and the key may be used again.
            KeeperEndingError: The permit has expired, or the keeper was told to end. Nothing was
                started.
            KeeperError: The attempt is malformed or too large. Nothing was started, and the key may
                be used again.
            KeeperGoneError: No answer; a later `attempts` shows whether it was started.
        """
        ...

    def start_all(self, attempts: Sequence[AttemptStart]) -> Answers:
        """
        Start each of `attempts` as `start` does, with one wait for all of them.

        Return for each the error that `start` raises, or None if it was started.

        Raises:
            KeeperGoneError: No answer; a later `attempts` shows which were started.
        """
        ...

    def stop(self, key: str, *, reason: str, by: str, grace_s: float) -> None:
        """
        Give notice: write the notice file and send SIGTERM to the whole tree, SIGKILL after grace.

        Returns immediately. A later stop is another notice and can only move SIGKILL earlier. It
        has no effect on an attempt that has ended. A stopped attempt does not hold its devices.

        Raises:
            NotFoundError: No such attempt.
            KeeperGoneError: No answer.
        """
        ...

    def limit(self, key: str, *, max_runtime_s: float) -> None:
        """
        Replace the time limit of an attempt: `max_runtime_s` from its start.

        An attempt past its new limit is stopped now. An attempt that has ended or has had its
        notice is not affected.

        Raises:
            NotFoundError: No such attempt.
            KeeperGoneError: No answer.
        """
        ...

    def permit(self, *, valid_for_s: float, sent_at: float) -> None:
        """
        Extend the permit of all processes to `sent_at + valid_for_s`; it is never shortened.

        An expired permit cannot be renewed: the keeper stops everything and ends, and the agent
        starts another life, to which requests to this one do not apply.

        Args:
            valid_for_s: How long the permit lasts.
            sent_at: When the round trip to the store that proves the permit started
                (`Clock.monotonic`).

        Raises:
            KeeperEndingError: It has expired.
            KeeperGoneError: No answer.
        """
        ...

    def attempts(self) -> tuple[AttemptState, ...]:
        """
        Return every attempt that is not forgotten, including those of older lives, oldest first.

        Raises:
            KeeperGoneError: No answer.
        """
        ...

    def forget(self, key: str) -> None:
        """
        Delete record and spool, once end and logs are safe elsewhere; unknown keys are no error.

        Raises:
            ConflictError: The attempt is running.
            KeeperGoneError: No answer.
        """
        ...

    def forget_all(self, keys: Sequence[str]) -> Answers:
        """
        Forget each of `keys` as `forget` does; return for each the error that it raises, or None.

        Raises:
            KeeperGoneError: No answer.
        """
        ...

    def poll(self, timeout_s: float) -> tuple[KeeperEvent, ...]:
        """
        Return the events since the last call; wait up to `timeout_s` for the first.

        They do not include events from before this object connected: call `attempts` once, after
        connecting.

        Raises:
            KeeperGoneError: The connection broke.
        """
        ...


class Spool(Protocol):
    """The logs of a keeper's attempts, until these are forgotten."""

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """
        Return up to `size_bytes` of a log from `offset`; empty at its current end.

        Raises:
            NotFoundError: No such log.
        """
        ...
