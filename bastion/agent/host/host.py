"""
One host of one attempt, from its first instruction until nothing is left to do for it.

    CLAIMING ─> SETTING_UP ─> AT_BARRIER ─> RUNNING ─> HOLDING ─> ENDING ─> GONE
        └────────────┴────────────┴────────────┴──────────────────┘
        ASKING ───────────────────────────────────────────────────────┘   a stop for an unknown host

* `advance` is level-triggered: at every turn a host requests what its stage needs; running errands
  are not sent twice.
* Everything after the start can be derived from the key and the keeper's records, so a restarted
  agent adopts existing hosts and needs no file of its own.
* A stop that arrives before the request to the keeper wins: the host ends without running, as
  `exited` with no codes and the notice's reason. A revoked barrier ends it as `revoked`.
* A failed host that is held for inspection writes no `end` before its hold is over or a stop comes,
  so its devices stay in use until then.
* The keeper forgets a host only when its `end`, its logs and the bell about them are in the bucket.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from bastion.agent.attempt_key import host_of, key_of
from bastion.agent.host.command.commands import Commands
from bastion.agent.host.context import Surroundings
from bastion.agent.host.host_end import HostEnd
from bastion.agent.host.host_run import HostRun
from bastion.agent.host.host_start import HostStart
from bastion.agent.host.output_saving import Saving
from bastion.agent.host.stage import Stage
from bastion.agent.keeper.port import (
    AttemptStart,
    AttemptState,
    Ended,
    Exited,
    ExitRecord,
    KeeperEvent,
    OutputGrew,
    Running,
    WentIdle,
)
from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.agent.report.end_record import end_without_start, held_s
from bastion.agent.usage.series import Holding, HostSeries
from bastion.errors import BastionError, NotFoundError
from bastion.job import End, StopReason
from bastion.machine import Exec, Start, StopHost
from bastion.records.reports import facts
from bastion.records.reports.facts import HostFact

_RETRY_S = 10.0
"""Pause after an internal error of a host."""


class Host:
    """
    One host of one attempt on this machine; created by `told`, `asked` or `adopted`.

    Its start, its run and its end are separate parts. All methods are called on the agent's thread.
    """

    def __init__(
        self, of: HostFact, around: Surroundings, stage: Stage, start: Start | None = None
    ) -> None:
        self.of = of
        self.key = key_of(of)
        self.stage = stage
        self.wake_at = 0.0
        """When `advance` should be called next, if nothing happens before that."""
        self._around = around
        self._saving = Saving(of, self.key, around)
        self._start = HostStart(of, self.key, around, start, self)
        self._run: HostRun | None = None
        self._end: HostEnd | None = None
        self._stop: StopHost | None = None
        self._follow_until = 0.0
        self._hold_until = 0.0
        self._over: ExitRecord | None = None
        self._surprise = ""
        self._hung = self._unused = ""
        self._attempt: AttemptStart | None = None
        self.commands = Commands(of, around)
        """Users' commands beside its processes; they end before it does."""

    @staticmethod
    def told(of: HostFact, start: Start, around: Surroundings) -> Host:
        """Return a host that an instruction starts."""
        return Host(of, around, Stage.CLAIMING, start)

    @staticmethod
    def asked(of: HostFact, stop: StopHost, around: Surroundings) -> Host:
        """Return a host that an instruction stops, and that neither agent nor keeper knows."""
        host = Host(of, around, Stage.ASKING)
        host._stop = stop
        return host

    @staticmethod
    def adopted(state: AttemptState, around: Surroundings, now: float) -> Host | None:
        """Return a host that the keeper already has; None if its key is not one of ours."""
        of = host_of(_key_of(state))
        if of is None:
            return None
        host = Host(of, around, Stage.RUNNING)
        host._adopt(state, now)
        return host

    def refuse(self, why: str) -> None:
        """Never start it here; it ends as lost."""
        self.conclude(End(kind="lost", detail=f"it was not started: {why}"))

    def advance(self, now: float) -> None:
        """Do everything possible now, and set `wake_at`."""
        self.wake_at = now
        if self._over is not None and self.stage is Stage.RUNNING:
            self._close(self._over, now)
        match self.stage:
            case Stage.CLAIMING | Stage.ASKING:
                self._start.settle_claim(now)
            case Stage.SETTING_UP:
                self._start.set_up(now)
            case Stage.AT_BARRIER:
                self._start.pass_barrier(now)
            case Stage.RUNNING:
                assert self._run is not None
                self.wake_at = min(self._run.watch(now), self.commands.turn(now))
            case Stage.HOLDING:
                self._hold(now)
            case Stage.ENDING:
                self._finish(now)
            case Stage.GONE:
                pass

    # The bastion's requests.

    def stop(self, stop: StopHost, now: float) -> None:
        """Stop it in any stage; a known end does not change."""
        self.wake_at = 0.0
        self._stop = stop
        if self.stage is not Stage.RUNNING:
            return
        try:
            self._around.keeper.stop(self.key, reason=stop.reason, by=stop.by, grace_s=stop.grace_s)
        except NotFoundError:
            return
        self._saving.ask()
        if self._run is not None:
            self._run.logs.hurry(now, for_s=stop.grace_s)

    def stop_by_agent(
        self, reason: StopReason, now: float, *, by: str = "", grace_s: float = 30.0
    ) -> None:
        """Stop it on the agent's own initiative."""
        of = self.of
        stop = StopHost(
            project=of.project,
            job=of.job,
            attempt=of.attempt,
            nonce=of.nonce,
            replica=of.replica,
            host=of.host,
            reason=reason.value,
            by=by,
            grace_s=grace_s,
        )
        self.stop(stop, now)

    def limit(self, max_runtime_s: float) -> None:
        """Set its time limit, counted from its start, in any stage."""
        self._start.limit(max_runtime_s)
        if self.stage is Stage.RUNNING:
            with suppress(NotFoundError):
                self._around.keeper.limit(self.key, max_runtime_s=max_runtime_s)

    def follow(self, until: float, now: float) -> None:
        """Ship its logs immediately until then: a user reads them."""
        self.wake_at = 0.0
        self._follow_until = until
        if self._run is not None:
            self._run.logs.hurry(now, for_s=until - now)

    def execute(self, told: Exec, now: float) -> None:
        """Run a command beside its processes, or beside what they left."""
        self.wake_at = 0.0
        if self.stage in (Stage.RUNNING, Stage.HOLDING):
            self.commands.start(told, self._attempt, now)
        else:
            self.commands.refuse(told, f"this host is {self.stage.value}", now)

    # The keeper's reports.

    def saw(self, event: KeeperEvent, now: float) -> None:
        """Note the keeper's report about it, or about a command beside it."""
        match event:
            case OutputGrew(key=key, process=process, size_bytes=size_bytes):
                if key == self.key:
                    self.grew(process, size_bytes, now)
                else:
                    self.commands.grew(key, size_bytes, now)
            case Exited(record=record):
                if record.key == self.key:
                    self.exited(record)
                else:
                    self.commands.exited(record)
            case WentIdle(key=key, text=text):
                if key == self.key:
                    self.went_idle(text)
            case _:
                assert_never(event)

    def grew(self, process: int, size_bytes: int, now: float) -> None:
        """Note that a process has written up to `size_bytes`."""
        if self._run is not None and self.stage is Stage.RUNNING:
            self._run.logs.grew(process, size_bytes, now)
            self.wake_at = 0.0

    def went_idle(self, text: str) -> None:
        """
        Report that it shows no sign of life and continues; with an empty text, that it shows one
        again.
        """
        self._hung = f"{text}; stacks are in its log" if text else ""
        self._tell_idle()

    @property
    def series(self) -> HostSeries | None:
        """Its samples while it runs; None if nothing is sampled."""
        if self.stage is not Stage.RUNNING or self._run is None:
            return None
        return self._run.series

    def left_idle(self, text: str) -> None:
        """Report that its devices are idle; with an empty text, that they are used again."""
        self._unused = text
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self.stage is Stage.RUNNING and self._run is not None:
            text = self._hung or self._unused
            self._around.bells.ring(facts.Idle(of=self.of, text=text))

    def exited(self, record: ExitRecord) -> None:
        """Note that all its processes have ended; `advance` does the rest, and retries it."""
        self._over = record
        self.wake_at = 0.0

    def _close(self, record: ExitRecord, now: float) -> None:
        """Start its end, or hold it."""
        assert self._run is not None
        end = self._run.end_of(record)
        if end.notice == StopReason.IDLE and self._unused and not record.idle:
            end = replace(end, detail=self._unused)
        self._end = self._ending(end)
        self._saving.ask()
        self.wake_at = 0.0
        hold_s = held_s(record, end, life=self._around.keeper.life, now=now)
        if hold_s > 0 and self._stop is None:
            self.stage = Stage.HOLDING
            self._hold_until = now + hold_s
            folder = self._around.home.named(self.key).code
            self._around.bells.ring(facts.Held(of=self.of, for_s=hold_s, folder=folder, end=end))
        else:
            self._begin_end()

    def surprise(self, error: Exception, now: float) -> None:
        """Contain an internal error: it ends or delays only this host, and loses no end."""
        text = f"internal error: {error!r}"
        if self._surprise != text:
            self._around.say(f"{self.key}: {text}")
            self._surprise = text
        if self._run is not None or self.stage is Stage.ENDING:
            self.wake_at = now + _RETRY_S
        else:
            self.conclude(end_without_start(error))

    # The reports of its start; see `Progress`.

    def conclude_if_stopped(self) -> bool:
        """See `Progress`."""
        if self._stop is None:
            return False
        self.conclude(End(kind="exited", notice=self._stop.reason))
        return True

    def conclude(self, end: End) -> None:
        """See `Progress`."""
        if self.stage in (Stage.ENDING, Stage.GONE):
            return
        self.wake_at = 0.0
        self._end = self._ending(end)
        self._begin_end()

    def end_exists(self, end: End) -> None:
        """See `Progress`."""
        if self._end is not None:
            self._end.exists(end)

    def fail(self, error: Exception) -> None:
        """See `Progress`: the error may be the job's, a fault of its machine, or neither."""
        if isinstance(error, BastionError) or is_machine_fault(error):
            self.conclude(end_without_start(error))
        else:
            self.surprise(error, 0.0)

    def leave(self, *, is_settled: bool = True) -> None:
        """See `Progress`."""
        if is_settled:
            self._around.instructions.settle(self.key)
        self.stage = Stage.GONE

    def adopt_started(self, now: float) -> None:
        """See `Progress`: an earlier agent started it and died before it could report that."""
        for state in self._around.keeper.attempts():
            if self.key == _key_of(state):
                self._adopt(state, now)
                return
        self._around.say(f"{self.key} was started and forgotten before: nothing is done")
        self.leave()

    def run(
        self,
        processes: int,
        started_at: float,
        *,
        is_new: bool,
        secrets: tuple[str, ...] | None,
        attempt: AttemptStart | None = None,
        holding: Holding | None = None,
    ) -> None:
        """See `Progress`."""
        around = self._around
        self._attempt = attempt
        self._run = HostRun(
            self.of,
            self.key,
            around,
            self._saving,
            processes=processes,
            started_at=started_at,
            is_new=is_new,
            secrets=secrets,
            holding=holding,
        )
        if self._follow_until > started_at:
            self._run.logs.hurry(started_at, for_s=self._follow_until - started_at)
        around.bells.ring(facts.Started(of=self.of))
        around.instructions.settle(self.key)
        self.stage = Stage.RUNNING

    def _adopt(self, state: AttemptState, now: float) -> None:
        self._saving.adopt()
        match state:
            case Running(started_at=started_at, log_sizes_bytes=sizes, secrets=secrets, idle=idle):
                self.run(len(sizes), started_at, is_new=False, secrets=secrets)
                self.went_idle(idle)
                for process, size in enumerate(sizes):
                    self.grew(process, size, now)
                if self._stop is not None:
                    self.stop(self._stop, now)
            case Ended(record=record, secrets=secrets):
                processes = len(record.processes)
                self.run(processes, record.started_at, is_new=False, secrets=secrets)
                self.exited(record)

    # Its end.

    def _hold(self, now: float) -> None:
        """Keep its devices; its processes are dead, and its logs and output need not wait."""
        assert self._run is not None
        if self._stop is not None or now >= self._hold_until:
            self._begin_end()
            self._finish(now)
            return
        self.wake_at = min(self._hold_until, self._run.flush(now), self.commands.turn(now))

    def _ending(self, end: End) -> HostEnd:
        return HostEnd(self.of, self.key, self._around, self._saving, end, self.leave)

    def _begin_end(self) -> None:
        self.stage = Stage.ENDING
        self._around.home.forget_secrets(self.key)

    def _finish(self, now: float) -> None:
        assert self._end is not None
        self.commands.stop(now)
        wake_at = self.commands.turn(now)
        if self.commands.are_dead:
            self._end.turn(now, self._run, is_alone=self.commands.is_done)
        else:
            self.wake_at = wake_at


def _key_of(state: AttemptState) -> str:
    return state.key if isinstance(state, Running) else state.record.key
