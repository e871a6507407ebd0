"""The commands that users run beside the processes of one host."""

from __future__ import annotations

from bastion.agent.attempt_key import command_key, command_of, key_of
from bastion.agent.host.command.command import GRACE_S, Command
from bastion.agent.host.command.process import beside, in_container, started_as
from bastion.agent.host.context import Surroundings
from bastion.agent.keeper.port import AttemptStart, AttemptState, Ended, ExitRecord, Running
from bastion.errors import BastionError, ConflictError
from bastion.machine import Exec
from bastion.records.reports.facts import HostFact

MAX_COMMANDS = 16
"""Maximum number beside one host: each costs processes, memory and calls to the store."""


class Commands:
    """
    The commands beside one host.

    Args:
        of: The host.
        around: The agent's parts.
    """

    def __init__(self, of: HostFact, around: Surroundings) -> None:
        self._of = of
        self._around = around
        self._commands: dict[str, Command] = {}

    @property
    def is_done(self) -> bool:
        """Whether none is left: none runs, and every end is written."""
        return not self._commands

    def start(self, told: Exec, attempt: AttemptStart | None, now: float) -> None:
        """
        Start a command beside the running host; a problem with it becomes its end.

        Args:
            told: The instruction.
            attempt: The host's start request; None if an earlier agent started it.
            now: The agent's clock.
        """
        key = command_key(key_of(self._of), told.id)
        if key in self._commands:
            return
        secrets: tuple[str, ...] | None = None
        problem = ""
        try:
            if len(self._commands) >= MAX_COMMANDS:
                most = f"at most {MAX_COMMANDS} commands run beside one host at a time"
                raise BastionError(most)
            start = self._start(told, key, attempt)
            secrets = start.secrets
            self._around.keeper.start(start)
        except ConflictError:
            self._adopt_started(key)
            return
        except BastionError as error:
            problem = error.in_a_line
        self._commands[key] = Command(
            self._of,
            told.id,
            key,
            self._around,
            secrets=secrets,
            started_at=now,
            is_new=True,
        )
        if problem:
            self._commands[key].refuse(problem)
        self._around.instructions.settle(key)

    def refuse(self, told: Exec, problem: str, now: float) -> None:
        """Report that a command is not started, and why."""
        key = command_key(key_of(self._of), told.id)
        if key not in self._commands:
            self._commands[key] = Command(
                self._of, told.id, key, self._around, secrets=(), started_at=now, is_new=True
            )
            self._commands[key].refuse(problem)
            self._around.instructions.settle(key)

    def adopt(self, state: AttemptState) -> None:
        """Take over a command that an earlier agent started."""
        key = state.key if isinstance(state, Running) else state.record.key
        named = command_of(key)
        if named is None or key in self._commands:
            return
        started_at = state.started_at if isinstance(state, Running) else state.record.started_at
        command = Command(
            self._of,
            named[1],
            key,
            self._around,
            secrets=state.secrets,
            started_at=started_at,
            is_new=False,
        )
        self._commands[key] = command
        self._around.instructions.settle(key)
        match state:
            case Running(log_sizes_bytes=sizes):
                command.grew(sizes[0], started_at)
            case Ended(record=record):
                command.exited(record)

    def grew(self, key: str, size_bytes: int, now: float) -> None:
        """Record that a command has written up to `size_bytes`."""
        if key in self._commands:
            self._commands[key].grew(size_bytes, now)

    def exited(self, record: ExitRecord) -> None:
        """Record that a command has ended."""
        if record.key in self._commands:
            self._commands[record.key].exited(record)

    def stop(self) -> None:
        """Stop all commands: the processes of their host have ended."""
        for command in self._commands.values():
            command.stop("the processes that it ran beside have ended")

    def turn(self, now: float) -> float:
        """Ship their output; return when to call again."""
        times = [command.turn(now) for command in self._commands.values()]
        done = {key for key, command in self._commands.items() if command.is_done}
        self._commands = {key: each for key, each in self._commands.items() if key not in done}
        return min(times, default=now + 60.0)

    def _start(self, told: Exec, key: str, attempt: AttemptStart | None) -> AttemptStart:
        """
        Return the request to the keeper.

        Raises:
            BastionError: The host has no such process, or the process is not known any more.
        """
        host = self._state()
        count = len(host.pids) if host is not None else len(attempt.processes) if attempt else 0
        if told.process >= count:
            raise BastionError(
                f"process: this host has no process {told.process}; it has {count}, counted from 0"
            )
        pid = host.pids[told.process] if host is not None else None
        process = started_as(attempt, told.process, pid)
        secrets = attempt.secrets if attempt is not None else host.secrets if host else ()
        return AttemptStart(
            key=key,
            processes=(beside(process, told.argv),),
            grace_s=GRACE_S,
            max_runtime_s=told.max_runtime_s,
            memory_limit_bytes=attempt.memory_limit_bytes if attempt is not None else None,
            secrets=secrets or (),
            # The program that represents a container uses the engine's socket, as no job may.
            run_as=None if in_container(process) else self._around.settings.run_as,
        )

    def _state(self) -> Running | None:
        key = key_of(self._of)
        for state in self._around.keeper.attempts():
            if isinstance(state, Running) and state.key == key:
                return state
        return None

    def _adopt_started(self, key: str) -> None:
        for state in self._around.keeper.attempts():
            if key == (state.key if isinstance(state, Running) else state.record.key):
                self.adopt(state)
                return
        self._around.instructions.settle(key)
