"""The commands that users run beside the processes of one host."""

from __future__ import annotations

from functools import partial

from bastion.agent.attempt_key import command_key, command_of, key_of
from bastion.agent.host.command.command import GRACE_S, Command
from bastion.agent.host.command.process import beside, in_container, started_as
from bastion.agent.host.context import Surroundings
from bastion.agent.keeper.port import (
    AttemptStart,
    AttemptState,
    Ended,
    ExitRecord,
    KeeperGoneError,
    Running,
)
from bastion.errors import BastionError, ConflictError
from bastion.machine import Exec
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import CommandEnd

MAX_COMMANDS = 16
"""Most commands beside one host: each costs processes, memory and calls to the store."""


class _Asked:
    """A command to start that may already have an end."""

    __slots__ = ("attempt", "is_new", "is_over", "told")

    def __init__(self, told: Exec, attempt: AttemptStart | None) -> None:
        self.told = told
        self.attempt = attempt
        self.is_new = False
        self.is_over = False


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
        self._asked: dict[str, _Asked] = {}

    @property
    def is_done(self) -> bool:
        """Whether none is left: none runs, and every end is written."""
        return not self._commands and not self._asked

    @property
    def are_dead(self) -> bool:
        """Whether none runs or will be started; output and ends may still have to be sent."""
        return not self._asked and all(each.is_dead for each in self._commands.values())

    def start(self, told: Exec, attempt: AttemptStart | None, now: float) -> None:
        """
        Start a command beside the running host, unless it already has an end.

        An earlier agent may have run it, and the keeper has then forgotten it. A problem with the
        command becomes its end.

        Args:
            told: The instruction.
            attempt: The host's start request; None if an earlier agent started it.
            now: The agent's clock.
        """
        key = command_key(key_of(self._of), told.id)
        if key not in self._commands and key not in self._asked:
            self._asked[key] = _Asked(told, attempt)
            self._look(key, now)

    def _look(self, key: str, now: float) -> None:
        asked = self._asked[key]
        of, told = self._of, asked.told
        end_key = layout.command_end(layout.command_log(of.project, of.job, told.id))
        work = partial(look, self._around.store, end_key, CommandEnd)

        def looked(end: CommandEnd | None) -> None:
            asked.is_new, asked.is_over = end is None, end is not None

        def unreadable(error: Exception) -> None:
            self._around.say(f"{key} is not run: {error}")
            asked.is_over = True

        self._around.errands.send(f"look {key}", work, looked, now=now, otherwise=unreadable)

    def _begin_asked(self, now: float) -> None:
        """Start the commands that have no end, and settle those that have one."""
        for key, asked in tuple(self._asked.items()):
            if asked.is_over:
                del self._asked[key]
                self._around.instructions.settle(key)
            elif asked.is_new:
                del self._asked[key]
                self._begin(key, asked.told, asked.attempt, now)
            else:
                self._look(key, now)

    def _begin(self, key: str, told: Exec, attempt: AttemptStart | None, now: float) -> None:
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
        except KeeperGoneError:
            raise  # it may run: the next life reports how it ended
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

    def stop(self, now: float) -> None:
        """Stop all commands: the processes of their host have ended."""
        why = "the processes that it ran beside have ended"
        asked, self._asked = self._asked, {}
        for each in asked.values():
            self.refuse(each.told, why, now)
        for command in self._commands.values():
            command.stop(why)

    def turn(self, now: float) -> float:
        """Start requested commands, and ship output; return when to call again."""
        self._begin_asked(now)
        times = [command.turn(now) for command in self._commands.values()]
        done = {key for key, command in self._commands.items() if command.is_done}
        self._commands = {key: each for key, each in self._commands.items() if key not in done}
        return now if self._asked else min(times, default=now + 60.0)

    def _start(self, told: Exec, key: str, attempt: AttemptStart | None) -> AttemptStart:
        """
        Return the request to the keeper.

        Raises:
            BastionError: The host has no such process, or the process is no longer known.
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
            # The program that represents a container uses the engine's socket; no job may use it.
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
