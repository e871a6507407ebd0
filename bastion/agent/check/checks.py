"""The checks of one machine that its admins request."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from bastion.agent.begin.begin import pass_burn
from bastion.agent.begin.devices import look_at_devices
from bastion.agent.begin.setup_commands import TEXT_CHARACTERS
from bastion.agent.check.machine_lines import machine_lines
from bastion.agent.host.context import Surroundings
from bastion.agent.settings import AgentSettings
from bastion.clock import Clock
from bastion.errors import ConflictError
from bastion.machine import Check
from bastion.own_program import own_program
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.register import create_same
from bastion.records.reports.facts import Checked
from bastion.records.reports.registers import CheckOutcome
from bastion.store.port import ObjectStore

_LOAD = tuple(own_program("bastion.agent.check.burn"))
_LAST_S = 1.0
"""How long to wait for the output of a killed load."""


class Checks:
    """
    The checks of one agent: each runs beside everything else, and is reported once.

    Args:
        around: The agent's parts.
        clock: Time on this machine.
        passed: Called when a burn has passed.
        load: The command that loads a machine whose pool names none.
    """

    def __init__(
        self,
        around: Surroundings,
        clock: Clock,
        passed: Callable[[], None],
        *,
        load: Sequence[str] = _LOAD,
    ) -> None:
        self._around = around
        self._clock = clock
        self._passed = passed
        self._load = tuple(load)
        self._under_way: dict[str, tuple[Check, CheckOutcome | None]] = {}

    def begin(self, told: Check, number: int, now: float, *, hosts: int) -> None:
        """Start a check, unless it came too late or would disturb one of `hosts`."""
        if told.id in self._under_way:
            return
        self._around.instructions.begin(_key(told), number)
        store_time = self._around.bells.store_time
        assert store_time is not None, "instructions are read after the first bell"
        late_s = store_time[0] + now - store_time[1] - told.until
        undone = f"the instruction came {late_s:.0f} s too late" if late_s > 0 else ""
        if told.by == "burn" and hosts:
            undone = "a job runs here that the load would disturb"
        done = CheckOutcome(write_id=told.id, by=told.by, undone=undone) if undone else None
        self._under_way[told.id] = told, done
        if done is None:
            ahead_s = self._clock.wall() - (store_time[0] + now - store_time[1])
            lines = partial(
                machine_lines,
                self._around.settings,
                life=self._around.keeper.life,
                hosts=hosts,
                ahead_s=ahead_s,
            )
            work = partial(_outcome, told, self._around.settings, lines, self._load)
            then = partial(self._found, told)
            self._around.errands.send(
                _key(told), work, then, otherwise=partial(self._failed, told), now=now, is_slow=True
            )

    def turn(self, now: float) -> None:
        """Write and report the outcomes."""
        for told, outcome in tuple(self._under_way.values()):
            if outcome is not None:
                key = layout.check(self._around.settings.machine, told.id)
                work = partial(_write, self._around.store, key, outcome)
                told_all: Callable[[None], None] = partial(self._tell, told, outcome)
                self._around.errands.send(f"{_key(told)} outcome", work, told_all, now=now)

    def _found(self, told: Check, outcome: CheckOutcome) -> None:
        self._under_way[told.id] = told, outcome

    def _failed(self, told: Check, error: Exception) -> None:
        undone = f"it could not be done: {error}"
        self._found(told, CheckOutcome(write_id=told.id, by=told.by, undone=undone))

    def _tell(self, told: Check, outcome: CheckOutcome, _: None) -> None:
        del self._under_way[told.id]
        self._around.instructions.settle(_key(told))
        fact = Checked(id=told.id, by=told.by, problem=outcome.problem, undone=outcome.undone)
        self._around.bells.ring(fact)
        if fact.by == "burn" and not fact.problem and not fact.undone:
            self._passed()


def _key(told: Check) -> str:
    return f"check {told.id}"


def _outcome(
    told: Check,
    settings: AgentSettings,
    describe: Callable[[], Iterable[str]],
    load: Sequence[str],
) -> CheckOutcome:
    """Describe the machine, and load its devices if requested."""
    lines = tuple(describe())
    report = look_at_devices(settings.devices) if settings.devices else None
    problem = (report.unwell or report.text) if report is not None else ""
    if told.by == "burn" and not problem:
        pool = [f"--device={kind}={n}" for kind, n in settings.resources.items()]
        command = ["/bin/sh", "-c", told.command] if told.command else [*load, *pool]
        said, problem = _run(command, told.max_s)
        lines = (*lines, *said)
        folder = settings.boot or settings.begin
        if told.command and folder and not problem:
            pass_burn(told.command, Path(folder))
    return CheckOutcome(write_id=told.id, by=told.by, lines=lines, problem=problem)


def _run(command: Sequence[str], max_s: float) -> tuple[tuple[str, ...], str]:
    """Run a load to its end; return the lines that it printed, and what is wrong."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=max_s)
        how = f"exited with {process.returncode}"
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            printed, _ = process.communicate(timeout=_LAST_S)
        except subprocess.TimeoutExpired as late:  # an escaped process holds the pipe
            printed = late.stdout or b""
        how = f"took more than {max_s:g} s"
    lines = tuple(printed.decode(errors="replace")[-TEXT_CHARACTERS:].strip().splitlines())
    if process.returncode == 0:
        return lines, ""
    return lines[:-1], f"the load {how}: {lines[-1] if lines else 'it printed nothing'}"


def _write(store: ObjectStore, key: str, outcome: CheckOutcome) -> None:
    with suppress(ConflictError):  # an earlier agent has reported it
        create_same(store, key, encode(outcome))
