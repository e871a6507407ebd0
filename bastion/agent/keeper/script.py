"""Scripts for the processes of a fake keeper, and the attempts that follow them."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from bastion.agent.keeper.port import (
    IDLE,
    LAST_LINES_BYTES,
    TIME_LIMIT,
    AttemptStart,
    ExitRecord,
    Notice,
    ProcessExit,
)
from bastion.value import value

_TERM, _KILL = 15, 9


@value
class Reaction:
    """The reaction of a process to SIGTERM."""

    after_s: float = 0.0
    code: int | None = None
    signal: int | None = _TERM
    says: bytes = b""
    """What it writes immediately."""


@value
class Script:
    """The behavior of a fake process from its start on."""

    output: tuple[tuple[float, bytes], ...] = ()
    """Seconds after its start, and what it then writes; in order."""
    runs_s: float = 0.0
    """Seconds until it ends by itself; infinite if never."""
    code: int | None = 0
    signal: int | None = None
    setup_failure: str = ""
    """Why it cannot be started, or empty."""
    on_notice: Reaction | None = Reaction()
    """None: it ignores SIGTERM."""


class ScriptedProcess:
    """One process that follows a script."""

    def __init__(self, script: Script, started_at: float) -> None:
        self.output = [(started_at + after_s, data) for after_s, data in script.output]
        self.ends_at = started_at + script.runs_s
        self.code, self.signal = script.code, script.signal
        self.reaction = script.on_notice
        self.log = b""
        self.dropped_bytes = 0
        """What it wrote while the disk was full."""
        self.exit: ProcessExit | None = None
        if script.setup_failure:
            self.code, self.signal = None, None
            self.end(started_at, setup_failure=script.setup_failure)

    @property
    def due_at(self) -> float:
        """When it next does something; infinite if never."""
        if self.exit:
            return inf
        return min(self.ends_at, self.output[0][0] if self.output else inf)

    def end(self, at: float, *, setup_failure: str = "") -> None:
        """Record its end."""
        self.exit = ProcessExit(
            code=self.code,
            signal=self.signal,
            setup_failure=setup_failure,
            ended_at=at,
            log_size_bytes=len(self.log),
            dropped_bytes=self.dropped_bytes,
            untold_bytes=self.dropped_bytes,
        )

    def notice(self, at: float) -> None:
        """React to SIGTERM."""
        reaction = self.reaction
        if reaction is not None and at + reaction.after_s <= self.ends_at:
            self.ends_at = at + reaction.after_s
            self.output = [(at, reaction.says)] if reaction.says else []
            self.code, self.signal = reaction.code, reaction.signal

    def kill(self, at: float) -> None:
        """React to SIGKILL."""
        self.ends_at, self.code, self.signal = at, None, _KILL
        self.output = []


class ScriptedAttempt:
    """The processes of one key, and its clean-up."""

    def __init__(
        self,
        start: AttemptStart,
        life: int,
        at: float,
        scripts: tuple[Script, ...],
        *,
        machine_fault: str = "",
    ) -> None:
        self.start = start
        self.life = life
        self.started_at = at
        self.limit_at = inf if start.max_runtime_s is None else at + start.max_runtime_s
        self.kill_at = inf
        self.end_by = inf
        self.hold_s = start.hold_s
        self.printed_at = at
        self.idle = ""
        self.clean_up: ScriptedProcess | None = None
        self.on_end_problem = ""
        self.cleaned_from: int | None = None
        self.last_lines = b""
        self.notices: list[Notice] = []
        self.first_failed: int | None = None
        self.failed_by_itself = False
        self.record: ExitRecord | None = None
        self.processes: list[ScriptedProcess] = []
        self.machine_fault = machine_fault
        if machine_fault:
            failure = f"cannot start its program: {machine_fault}"
            scripts = (replace(scripts[0], setup_failure=failure), *scripts[1:])
        failed = next((i for i, script in enumerate(scripts) if script.setup_failure), inf)
        for index, script in enumerate(scripts):
            if index > failed:
                script = replace(script, setup_failure=f"not started: p{failed} could not be")
            self.processes.append(ScriptedProcess(script, at))

    @property
    def is_alive(self) -> bool:
        """Whether one of its own processes is alive."""
        return any(process.exit is None for process in self.processes)

    @property
    def idle_at(self) -> float:
        """When it counts as hung; the only sign of life here is output."""
        rule = self.start.idle
        is_watched = rule is not None and not self.idle and self.is_alive and self.kill_at == inf
        return self.printed_at + rule.timeout_s if is_watched and rule is not None else inf

    @property
    def due_at(self) -> float:
        """When its next event is due; infinite if never."""
        if self.record:
            return inf
        if self.clean_up is not None:
            return min(self.kill_at, self.clean_up.due_at)
        due_at = min(process.due_at for process in self.processes)
        return min(self.kill_at, self.limit_at, self.idle_at, due_at)

    def died(self, at: float) -> None:
        """Keep the last lines of the process that failed, once all processes are dead."""
        if self.first_failed is not None and not self.start.secrets:
            self.last_lines = self.processes[self.first_failed].log[-LAST_LINES_BYTES:]
        self.limit_at = inf
        self.kill_at = min(at + self.start.on_end_s, self.end_by)

    def close(self, at: float, *, lost: bool = False) -> ExitRecord:
        """Return the record of its end."""
        exits = []
        for process in self.processes:
            if lost:
                process.code = process.signal = None
            if lost or process.exit is None:
                process.end(at)
            assert process.exit is not None
            exits.append(replace(process.exit, log_size_bytes=len(process.log)))
        failed = None if lost else self.first_failed
        notices = () if lost else tuple(self.notices)
        is_hung = bool(notices) and notices[0].reason == IDLE
        is_held = is_hung or (failed is not None and self.failed_by_itself)
        limit_s = inf if self.start.max_runtime_s is None else self.start.max_runtime_s
        self.record = ExitRecord(
            key=self.start.key,
            life=self.life,
            started_at=self.started_at,
            ended_at=at,
            processes=tuple(exits),
            notices=notices,
            first_failed=failed,
            failed_by_itself=self.failed_by_itself and not lost,
            last_lines="" if lost else self.last_lines.decode("utf-8", "replace"),
            timed_out=bool(notices) and notices[0].reason == TIME_LIMIT,
            out_of_memory=False,
            lost=lost,
            idle=self.idle if is_hung else "",
            on_end="died with its keeper" if lost and self.clean_up else self.on_end_problem,
            cleaned_from=None if lost else self.cleaned_from,
            hold_until=(
                min(at + self.hold_s, self.started_at + limit_s)
                if is_held and self.hold_s and not lost and not self.machine_fault
                else None
            ),
            machine_fault="" if lost else self.machine_fault,
        )
        return self.record
