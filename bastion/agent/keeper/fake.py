"""
A keeper without processes: scripts on a clock, for tests and for the simulation.

It has no thread: every call first runs, in order, all events that are due by the clock. A
`FakeHome` is what a real home has on its disk, and outlives its keepers. Create the next life with
the same home, as `spawn_keeper` would. One thread at a time may call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from bastion.agent.keeper.port import (
    IDLE,
    KEEPER_STOPPED,
    LOST_CONTACT,
    SIBLING_FAILED,
    TIME_LIMIT,
    Answers,
    AttemptStart,
    AttemptState,
    Ended,
    Exited,
    KeeperEndingError,
    KeeperError,
    KeeperEvent,
    KeeperGoneError,
    MachineFaultError,
    Notice,
    OutputGrew,
    ProcessStart,
    Running,
    WentIdle,
)
from bastion.agent.keeper.reasons import LOST_GRACE_S
from bastion.agent.keeper.script import Reaction, Script, ScriptedAttempt, ScriptedProcess
from bastion.clock import Clock
from bastion.errors import BastionError, ConflictError, NotFoundError

__all__ = ["FakeHome", "FakeKeeper", "Reaction", "Script"]


class FakeHome:
    """
    What is left of a keeper that dies: journal, spool and, for some crashes, processes.

    `executed` holds every key that was ever forked, in order, and is never cleared: a key that is
    in it twice was started twice.
    """

    def __init__(self) -> None:
        self.life = 0
        self.full = ""
        """Why no start can be recorded on its disk now; empty if there is room."""
        self.exhausted = ""
        """What the machine lacks to start a process now; empty if nothing."""
        self.executed: list[str] = []
        self._attempts: dict[str, ScriptedAttempt] = {}

    def living(self, now: float) -> tuple[str, ...]:
        """Return the keys with a living process at `now`, strays of a dead keeper included."""
        return tuple(
            key
            for key, attempt in self._attempts.items()
            if attempt.record is None
            and any(
                process.exit is None and process.ends_at > now
                for process in (*attempt.processes, attempt.clean_up)
                if process is not None
            )
        )


class FakeKeeper:
    """
    One life of a scripted keeper: a `Keeper` and a `Spool`.

    Args:
        home: Its journal and spool; attempts of older lives are lost from now on.
        clock: Decides what is due; `poll` sleeps on it.
        scripts: Returns the script of a process.
        life: Above every earlier life of this home.
        permit_s: As for the real keeper; 0: forever.

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
            raise KeeperError(f"life {life} is over: this home has seen life {home.life}")
        self.life = home.life = life
        self._home = home
        self._clock = clock
        self._scripts = scripts
        self._permit_until = clock.monotonic() + permit_s if permit_s > 0 else inf
        self._events: list[KeeperEvent] = []
        self._gone = ""
        self._next_at: float | None = None
        """When the next event of any attempt is due; None: it must be computed."""
        for attempt in home._attempts.values():
            if attempt.record is None:
                attempt.close(clock.monotonic(), lost=True)

    def start(self, attempt: AttemptStart) -> None:
        """See `Keeper.start`."""
        now = self._catch_up()
        self._next_at = None
        if attempt.key in self._home._attempts:
            raise ConflictError(f"{attempt.key} was started before")
        if now >= self._permit_until:
            raise KeeperEndingError("the permit has expired: this keeper life ends")
        if not attempt.key or not attempt.processes:
            raise KeeperError("an attempt must have a key and a process")
        scripts = tuple(map(self._scripts, attempt.processes))
        if self._home.full:
            raise MachineFaultError(f"no start can be recorded: {self._home.full}")
        lacks = self._home.exhausted
        made = ScriptedAttempt(attempt, self.life, now, scripts, machine_fault=lacks)
        self._home.executed.append(attempt.key)
        self._home._attempts[attempt.key] = made
        for index, process in enumerate(made.processes):
            if process.exit:
                self._failed(made, index, now)
        self._conclude(made, now)
        self._catch_up()

    def start_all(self, attempts: Sequence[AttemptStart]) -> Answers:
        """See `Keeper.start_all`."""
        return tuple(error_of(partial(self.start, each)) for each in attempts)

    def stop(self, key: str, *, reason: str, by: str, grace_s: float) -> None:
        """See `Keeper.stop`."""
        now = self._catch_up()
        self._next_at = None
        if key not in self._home._attempts:
            raise NotFoundError(f"no attempt {key}")
        self._home._attempts[key].hold_s = 0.0
        self._notice(self._home._attempts[key], reason, by, grace_s, now)
        self._catch_up()

    def limit(self, key: str, *, max_runtime_s: float) -> None:
        """See `Keeper.limit`."""
        self._catch_up()
        self._next_at = None
        attempt = self._home._attempts.get(key)
        if attempt is None:
            raise NotFoundError(f"no attempt {key}")
        if attempt.is_alive:
            attempt.start = replace(attempt.start, max_runtime_s=max_runtime_s)
            attempt.limit_at = attempt.started_at + max_runtime_s
        self._catch_up()

    def permit(self, *, valid_for_s: float, sent_at: float) -> None:
        """See `Keeper.permit`."""
        if sent_at > self._catch_up():
            raise KeeperError("sent_at lies in the future")
        if self._clock.monotonic() >= self._permit_until:
            raise KeeperEndingError("the permit has expired: this keeper life ends")
        if self._permit_until < inf:
            self._next_at = None
            self._permit_until = max(self._permit_until, sent_at + valid_for_s)

    def attempts(self) -> tuple[AttemptState, ...]:
        """See `Keeper.attempts`."""
        self._catch_up()
        return tuple(_state(attempt, self.life) for attempt in self._home._attempts.values())

    def forget(self, key: str) -> None:
        """See `Keeper.forget`."""
        self._catch_up()
        self._next_at = None
        attempt = self._home._attempts.get(key)
        if attempt is not None and attempt.record is None:
            raise ConflictError(f"{key} is running: it can be stopped")
        self._home._attempts.pop(key, None)

    def forget_all(self, keys: Sequence[str]) -> Answers:
        """See `Keeper.forget_all`."""
        return tuple(error_of(partial(self.forget, key)) for key in keys)

    def poll(self, timeout_s: float) -> tuple[KeeperEvent, ...]:
        """See `Keeper.poll`; sleeps on the clock until the next event is due."""
        deadline = self._catch_up() + timeout_s
        while not self._events and (now := self._clock.monotonic()) < deadline:
            self._clock.sleep(min(deadline, self.due_at) - now)
            self._catch_up()
        events, self._events = tuple(self._events), []
        return events

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """See `Spool.read`; the spool can still be read when the keeper is gone."""
        if not self._gone:
            self._catch_up()
        attempt = self._home._attempts.get(key)
        if attempt is None or process >= len(attempt.processes):
            raise NotFoundError(f"no log of process {process} of {key}")
        return attempt.processes[process].log[offset : offset + size_bytes]

    @property
    def due_at(self) -> float:
        """When the next event happens without another call; infinite if never."""
        if self._next_at is not None and self._next_at > self._clock.monotonic():
            return self._next_at
        attempts = [attempt.due_at for attempt in self._home._attempts.values()]
        permit_at = self._permit_until
        return min([permit_at if permit_at > self._clock.monotonic() else inf, *attempts])

    def crash(self, *, leaves_strays: bool) -> None:
        """
        Die as by kill -9: every later call raises `KeeperGoneError`.

        Args:
            leaves_strays: Processes run until the next life; else they die with the keeper.
        """
        now = self._catch_up()
        self._next_at = None
        self._gone = "the keeper has crashed"
        for attempt in self._home._attempts.values():
            for process in (*attempt.processes, attempt.clean_up):
                if process is not None and attempt.record is None and not leaves_strays:
                    process.kill(now)

    def terminate(self) -> None:
        """Stop everything with grace, as SIGTERM does, and exit once nothing runs."""
        now = self._catch_up()
        self._next_at = None
        for attempt in self._home._attempts.values():
            self._notice(attempt, KEEPER_STOPPED, "keeper", attempt.start.grace_s, now)
        while any(attempt.record is None for attempt in self._home._attempts.values()):
            self._clock.sleep(max(0.0, self.due_at - self._clock.monotonic()))
            self._catch_up()
        self._gone = "the keeper has ended"

    def _catch_up(self) -> float:
        """Run the events that are due, in order, and return the time now."""
        if self._gone:
            raise KeeperGoneError(self._gone)
        now = self._clock.monotonic()
        if self._next_at is not None and now < self._next_at:
            return now
        while True:
            running = [item for item in self._home._attempts.values() if item.record is None]
            first = min(running, key=lambda attempt: attempt.due_at, default=None)
            due_at = inf if first is None else first.due_at
            if self._permit_until <= min(now, due_at):
                for attempt in running:
                    if all(notice.reason != LOST_CONTACT for notice in attempt.notices):
                        at = max(self._permit_until, attempt.started_at)
                        grace_s = min(LOST_GRACE_S, attempt.start.grace_s)
                        self._notice(attempt, LOST_CONTACT, "keeper", grace_s, at)
                due_at = min((attempt.due_at for attempt in running), default=inf)
                first = min(running, key=lambda attempt: attempt.due_at, default=None)
            if first is None and now >= self._permit_until and not self._events:
                self._gone = "its permit has expired"
                raise KeeperGoneError(self._gone)
            if first is None or due_at > now:
                is_over = first is None and now >= self._permit_until
                permit_at = self._permit_until if self._permit_until > now else inf
                self._next_at = now if is_over else min(due_at, permit_at)
                return now
            self._advance(first, due_at)

    def _advance(self, attempt: ScriptedAttempt, at: float) -> None:
        """Run the first due event of `attempt`."""
        if attempt.clean_up is not None:
            self._advance_clean_up(attempt, attempt.clean_up, at)
            return
        for index, process in enumerate(attempt.processes):
            if process.due_at <= at:
                self._advance_process(attempt, index, process, at)
                break
        else:
            if attempt.kill_at <= at:
                attempt.kill_at = inf
                for process in attempt.processes:
                    if process.exit is None:
                        process.kill(at)
            elif attempt.idle_at <= at:
                self._report_idle(attempt, at)
            else:
                attempt.limit_at = inf
                self._notice(attempt, TIME_LIMIT, "keeper", attempt.start.grace_s, at)
        self._conclude(attempt, at)

    def _conclude(self, attempt: ScriptedAttempt, at: float) -> None:
        """Start the clean-up, or record the end, of an attempt whose processes are dead."""
        if attempt.is_alive or attempt.record is not None:
            return
        if attempt.clean_up is None:
            attempt.died(at)
            if attempt.start.on_end is not None:
                attempt.clean_up = ScriptedProcess(self._scripts(attempt.start.on_end), at)
                attempt.cleaned_from = len(attempt.processes[0].log)
                self._note(attempt, b"[on_end]\n")
        if attempt.clean_up is None or attempt.clean_up.exit is not None:
            self._events.append(Exited(record=attempt.close(at)))

    def _advance_clean_up(
        self, attempt: ScriptedAttempt, process: ScriptedProcess, at: float
    ) -> None:
        if process.due_at > at:
            process.kill(at)
            attempt.kill_at = inf
        elif process.output and process.output[0][0] <= process.ends_at:
            self._note(attempt, process.output.pop(0)[1])
        else:
            process.end(at)
            if process.code != 0:
                attempt.on_end_problem = f"exited with code {process.code}"
            self._conclude(attempt, at)

    def _note(self, attempt: ScriptedAttempt, data: bytes) -> None:
        log = attempt.processes[0]
        log.log += data
        self._events.append(OutputGrew(key=attempt.start.key, process=0, size_bytes=len(log.log)))

    def _report_idle(self, attempt: ScriptedAttempt, at: float) -> None:
        rule = attempt.start.idle
        assert rule is not None
        attempt.idle = f"no output for {rule.timeout_s:g} s"
        self._note(attempt, f"[{attempt.idle}]\n".encode())
        if rule.ends:
            self._notice(attempt, IDLE, "keeper", attempt.start.grace_s, at, is_own=True)
        else:
            self._events.append(WentIdle(key=attempt.start.key, text=attempt.idle))

    def _advance_process(
        self, attempt: ScriptedAttempt, index: int, process: ScriptedProcess, at: float
    ) -> None:
        if process.output and process.output[0][0] <= process.ends_at:
            data = process.output.pop(0)[1]
            if self._home.full:
                process.dropped_bytes += len(data)
                return
            process.log += data
            grew = OutputGrew(key=attempt.start.key, process=index, size_bytes=len(process.log))
            self._events.append(grew)
            attempt.printed_at = at
            if attempt.idle and attempt.kill_at == inf:
                attempt.idle = ""
                self._events.append(WentIdle(key=attempt.start.key, text=""))
            return
        process.end(at)
        if process.code != 0:
            self._failed(attempt, index, at)

    def _failed(self, attempt: ScriptedAttempt, index: int, at: float) -> None:
        if attempt.first_failed is None:
            attempt.first_failed = index
            attempt.failed_by_itself = not attempt.notices
            if attempt.failed_by_itself:
                grace_s = attempt.start.grace_s
                self._notice(attempt, SIBLING_FAILED, f"p{index}", grace_s, at, is_own=True)

    def _notice(
        self,
        attempt: ScriptedAttempt,
        reason: str,
        by: str,
        grace_s: float,
        at: float,
        *,
        is_own: bool = False,
    ) -> None:
        if attempt.record is not None:
            return
        kept_s = 0.0
        if not is_own:
            attempt.end_by = min(attempt.end_by, at + grace_s)
            if attempt.start.on_end is not None:
                kept_s = min(attempt.start.on_end_s, grace_s / 2)
        if attempt.clean_up is not None:
            attempt.kill_at = min(attempt.kill_at, attempt.end_by)
        if not attempt.is_alive:
            return
        if all((notice.reason, notice.by) != (reason, by) for notice in attempt.notices):
            attempt.notices.append(Notice(reason=reason, by=by, at=at))
            for process in attempt.processes:
                if process.exit is None:
                    process.notice(at)
        attempt.kill_at = min(attempt.kill_at, at + grace_s - kept_s)


def error_of(request: Callable[[], None]) -> BastionError | None:
    """Make `request`; return why it is refused, or None."""
    try:
        request()
    except KeeperGoneError:
        raise
    except BastionError as error:
        return error
    return None


def _state(attempt: ScriptedAttempt, life: int) -> AttemptState:
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
        idle=attempt.idle,
    )
