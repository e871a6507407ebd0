"""
A keeper without processes: scripts on a clock, for tests and for the simulation.

It has no thread and does nothing by itself: every call first lets happen, in order, all that was
due by the clock. What a real home keeps on its disk is a `FakeHome`, which outlives its keepers:
make the next life with the same home, as `spawn_keeper` would. One thread at a time may call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from bastion.agent.keeper_port import (
    KEEPER_STOPPED,
    LOST_CONTACT,
    SIBLING_FAILED,
    TIME_LIMIT,
    AttemptStart,
    AttemptState,
    Ended,
    Exited,
    ExitRecord,
    KeeperError,
    KeeperEvent,
    KeeperGoneError,
    Notice,
    OutputGrew,
    ProcessExit,
    ProcessStart,
    Running,
)
from bastion.clock import Clock
from bastion.errors import ConflictError, NotFoundError
from bastion.value import value

_LAST_LINES_BYTES = 4096
_TERM, _KILL = 15, 9


@value
class Reaction:
    """What a process does when it is given notice."""

    after_s: float = 0.0
    code: int | None = None
    signal: int | None = _TERM


@value
class Script:
    """What a fake process does from its start on."""

    output: tuple[tuple[float, bytes], ...] = ()
    """What it writes, and how many seconds after its start; in order."""
    runs_s: float = 0.0
    """Until it ends by itself; infinite: never."""
    code: int | None = 0
    signal: int | None = None
    setup_failure: str = ""
    """Why it cannot be started, or empty."""
    on_notice: Reaction | None = Reaction()
    """None: it ignores SIGTERM."""


class _Process:
    def __init__(self, script: Script, started_at: float) -> None:
        self.output = [(started_at + after_s, data) for after_s, data in script.output]
        self.ends_at = started_at + script.runs_s
        self.code, self.signal = script.code, script.signal
        self.reaction = script.on_notice
        self.log = b""
        self.exit: ProcessExit | None = None
        if script.setup_failure:
            self.code, self.signal = None, None
            self.end(started_at, setup_failure=script.setup_failure)

    @property
    def due_at(self) -> float:
        if self.exit:
            return inf
        return min(self.ends_at, self.output[0][0] if self.output else inf)

    def end(self, at: float, *, setup_failure: str = "") -> None:
        self.exit = ProcessExit(
            code=self.code,
            signal=self.signal,
            setup_failure=setup_failure,
            ended_at=at,
            log_size_bytes=len(self.log),
            dropped_bytes=0,
        )

    def notice(self, at: float) -> None:
        reaction = self.reaction
        if reaction is not None and at + reaction.after_s <= self.ends_at:
            self.ends_at = at + reaction.after_s
            self.code, self.signal = reaction.code, reaction.signal

    def kill(self, at: float) -> None:
        self.ends_at, self.code, self.signal = at, None, _KILL
        self.output = []


class _Attempt:
    def __init__(
        self, start: AttemptStart, life: int, at: float, scripts: tuple[Script, ...]
    ) -> None:
        self.start = start
        self.life = life
        self.started_at = at
        self.limit_at = inf if start.max_runtime_s is None else at + start.max_runtime_s
        self.kill_at = inf
        self.notices: list[Notice] = []
        self.first_failed: int | None = None
        self.failed_by_itself = False
        self.record: ExitRecord | None = None
        self.processes: list[_Process] = []
        failed = next((i for i, script in enumerate(scripts) if script.setup_failure), inf)
        for index, script in enumerate(scripts):
            if index > failed:
                script = replace(script, setup_failure=f"not started: p{failed} could not be")
            self.processes.append(_Process(script, at))

    @property
    def is_alive(self) -> bool:
        return any(process.exit is None for process in self.processes)

    @property
    def due_at(self) -> float:
        if self.record:
            return inf
        due_at = min(process.due_at for process in self.processes)
        return min(self.kill_at, self.limit_at, due_at)

    def close(self, at: float, *, lost: bool = False) -> ExitRecord:
        exits = []
        for process in self.processes:
            if lost:
                process.code = process.signal = None
            if lost or process.exit is None:
                process.end(at)
            assert process.exit is not None
            exits.append(replace(process.exit, log_size_bytes=len(process.log)))
        failed = None if lost else self.first_failed
        last = b"" if failed is None else self.processes[failed].log[-_LAST_LINES_BYTES:]
        if self.start.secrets:
            last = b""
        notices = () if lost else tuple(self.notices)
        self.record = ExitRecord(
            key=self.start.key,
            life=self.life,
            started_at=self.started_at,
            ended_at=at,
            processes=tuple(exits),
            notices=notices,
            first_failed=failed,
            failed_by_itself=self.failed_by_itself and not lost,
            last_lines=last.decode("utf-8", "replace"),
            timed_out=bool(notices) and notices[0].reason == TIME_LIMIT,
            out_of_memory=False,
            lost=lost,
        )
        return self.record


class FakeHome:
    """
    What stays on a machine when its keeper dies: journal, spool and, if so crashed, processes.

    `executed` holds every key that was ever forked, in order, and is never cleared: a key that is
    in it twice was started twice.
    """

    def __init__(self) -> None:
        self.life = 0
        self.executed: list[str] = []
        self._attempts: dict[str, _Attempt] = {}

    def living(self, now: float) -> tuple[str, ...]:
        """Keys with a living process at `now`, strays of a dead keeper included."""
        return tuple(
            key
            for key, attempt in self._attempts.items()
            if attempt.record is None
            and any(process.exit is None and process.ends_at > now for process in attempt.processes)
        )


class FakeKeeper:
    """
    One life of a scripted keeper: a `Keeper` and a `Spool`.

    Args:
        home: Where it lives; older lives' attempts are lost from now on.
        clock: Says what is due; `poll` sleeps on it.
        scripts: What a process does, by how it is started.
        life: Above every earlier life of this home.
        permit_s: As the real keeper's; 0: for ever.

    Raises:
        KeeperError: The home has seen this life or a later one.
    """

    def __init__(
        self,
        home: FakeHome,
        clock: Clock,
        scripts: Callable[[ProcessStart], Script],
        *,
        life: int = 1,
        permit_s: float = 0.0,
    ) -> None:
        if life <= home.life:
            raise KeeperError(f"life {life} has been: this home has seen life {home.life}")
        self.life = home.life = life
        self._home = home
        self._clock = clock
        self._scripts = scripts
        self._permit_until = clock.monotonic() + permit_s if permit_s > 0 else inf
        self._events: list[KeeperEvent] = []
        self._gone = ""
        for attempt in home._attempts.values():
            if attempt.record is None:
                attempt.close(clock.monotonic(), lost=True)

    def start(self, attempt: AttemptStart) -> None:
        """See `Keeper.start`."""
        now = self._catch_up()
        if attempt.key in self._home._attempts:
            raise ConflictError(f"{attempt.key} was started before")
        if now >= self._permit_until:
            raise KeeperError("the permit has run out: renew it first")
        if not attempt.key or not attempt.processes:
            raise KeeperError("an attempt must have a key and a process")
        scripts = tuple(map(self._scripts, attempt.processes))
        made = _Attempt(attempt, self.life, now, scripts)
        self._home.executed.append(attempt.key)
        self._home._attempts[attempt.key] = made
        for index, process in enumerate(made.processes):
            if process.exit:
                self._failed(made, index, now)
        if not made.is_alive:
            self._events.append(Exited(record=made.close(now)))
        self._catch_up()

    def stop(self, key: str, *, reason: str, by: str, grace_s: float) -> None:
        """See `Keeper.stop`."""
        now = self._catch_up()
        if key not in self._home._attempts:
            raise NotFoundError(f"no attempt {key}")
        self._notice(self._home._attempts[key], reason, by, grace_s, now)
        self._catch_up()

    def permit(self, *, valid_for_s: float, sent_at: float) -> None:
        """See `Keeper.permit`."""
        if sent_at > self._catch_up():
            raise KeeperError("sent_at lies in the future")
        if self._permit_until < inf:
            self._permit_until = max(self._permit_until, sent_at + valid_for_s)

    def attempts(self) -> tuple[AttemptState, ...]:
        """See `Keeper.attempts`."""
        self._catch_up()
        return tuple(_state(attempt, self.life) for attempt in self._home._attempts.values())

    def forget(self, key: str) -> None:
        """See `Keeper.forget`."""
        self._catch_up()
        attempt = self._home._attempts.get(key)
        if attempt is not None and attempt.record is None:
            raise ConflictError(f"{key} is running: it can be stopped")
        self._home._attempts.pop(key, None)

    def poll(self, timeout_s: float) -> tuple[KeeperEvent, ...]:
        """See `Keeper.poll`; sleeps on the clock until the next thing is due."""
        deadline = self._catch_up() + timeout_s
        while not self._events and (now := self._clock.monotonic()) < deadline:
            self._clock.sleep(min(deadline, self.due_at) - now)
            self._catch_up()
        events, self._events = tuple(self._events), []
        return events

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """See `Spool.read`; the spool can be read when the keeper is gone, too."""
        if not self._gone:
            self._catch_up()
        attempt = self._home._attempts.get(key)
        if attempt is None or process >= len(attempt.processes):
            raise NotFoundError(f"no log of process {process} of {key}")
        return attempt.processes[process].log[offset : offset + size_bytes]

    @property
    def due_at(self) -> float:
        """When the next thing happens if nobody calls; infinite: nothing will."""
        attempts = [attempt.due_at for attempt in self._home._attempts.values()]
        running = any(attempt.record is None for attempt in self._home._attempts.values())
        permit_at = self._permit_until if running else inf
        return min([permit_at if permit_at > self._clock.monotonic() else inf, *attempts])

    def crash(self, *, leaves_strays: bool) -> None:
        """
        Die as by kill -9: every later call raises `KeeperGoneError`.

        Args:
            leaves_strays: Processes go on until the next life; else they vanish with the keeper.
        """
        now = self._catch_up()
        self._gone = "the keeper has crashed"
        for attempt in self._home._attempts.values():
            for process in attempt.processes:
                if attempt.record is None and not leaves_strays:
                    process.kill(now)

    def terminate(self) -> None:
        """Stop everything with grace, as SIGTERM does, and be gone once nothing runs."""
        now = self._catch_up()
        for attempt in self._home._attempts.values():
            self._notice(attempt, KEEPER_STOPPED, "keeper", attempt.start.grace_s, now)
        while any(attempt.record is None for attempt in self._home._attempts.values()):
            self._clock.sleep(max(0.0, self.due_at - self._clock.monotonic()))
            self._catch_up()
        self._gone = "the keeper has ended"

    def _catch_up(self) -> float:
        """Let happen what is due, in order; the time now."""
        if self._gone:
            raise KeeperGoneError(self._gone)
        now = self._clock.monotonic()
        while True:
            running = [item for item in self._home._attempts.values() if item.record is None]
            first = min(running, key=lambda attempt: attempt.due_at, default=None)
            due_at = inf if first is None else first.due_at
            if self._permit_until <= min(now, due_at):
                for attempt in running:
                    if all(notice.reason != LOST_CONTACT for notice in attempt.notices):
                        at = max(self._permit_until, attempt.started_at)
                        self._notice(attempt, LOST_CONTACT, "keeper", attempt.start.grace_s, at)
                due_at = min((attempt.due_at for attempt in running), default=inf)
                first = min(running, key=lambda attempt: attempt.due_at, default=None)
            if first is None or due_at > now:
                return now
            self._happen(first, due_at)

    def _happen(self, attempt: _Attempt, at: float) -> None:
        """The one thing of `attempt` that is due first."""
        for index, process in enumerate(attempt.processes):
            if process.due_at <= at:
                self._process_acts(attempt, index, process, at)
                break
        else:
            if attempt.kill_at <= at:
                attempt.kill_at = inf
                for process in attempt.processes:
                    if process.exit is None:
                        process.kill(at)
            else:
                attempt.limit_at = inf
                self._notice(attempt, TIME_LIMIT, "keeper", attempt.start.grace_s, at)
        if not attempt.is_alive and attempt.record is None:
            self._events.append(Exited(record=attempt.close(at)))

    def _process_acts(self, attempt: _Attempt, index: int, process: _Process, at: float) -> None:
        if process.output and process.output[0][0] <= process.ends_at:
            process.log += process.output.pop(0)[1]
            grew = OutputGrew(key=attempt.start.key, process=index, size_bytes=len(process.log))
            self._events.append(grew)
            return
        process.end(at)
        if process.code != 0:
            self._failed(attempt, index, at)

    def _failed(self, attempt: _Attempt, index: int, at: float) -> None:
        if attempt.first_failed is None:
            attempt.first_failed = index
            attempt.failed_by_itself = not attempt.notices
            if attempt.failed_by_itself:
                grace_s = attempt.start.grace_s
                self._notice(attempt, SIBLING_FAILED, f"p{index}", grace_s, at)

    def _notice(self, attempt: _Attempt, reason: str, by: str, grace_s: float, at: float) -> None:
        if not attempt.is_alive:
            return
        if all((notice.reason, notice.by) != (reason, by) for notice in attempt.notices):
            attempt.notices.append(Notice(reason=reason, by=by, at=at))
            for process in attempt.processes:
                if process.exit is None:
                    process.notice(at)
        attempt.kill_at = min(attempt.kill_at, at + grace_s)


def _state(attempt: _Attempt, life: int) -> AttemptState:
    secrets = attempt.start.secrets
    if attempt.record is not None:
        known = secrets if attempt.life == life or not secrets else None
        return Ended(record=attempt.record, secrets=known)
    return Running(
        key=attempt.start.key,
        started_at=attempt.started_at,
        pids=tuple(
            None if process.exit else index + 1 for index, process in enumerate(attempt.processes)
        ),
        log_sizes_bytes=tuple(len(process.log) for process in attempt.processes),
        notices=tuple(attempt.notices),
        secrets=secrets,
    )
