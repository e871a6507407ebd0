"""From the start of a new machine's agent to its greeting."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from bastion.agent.begin.clock_check import look_at_clock
from bastion.agent.begin.devices import DeviceReport, look_at_devices
from bastion.agent.begin.setup_commands import failure_of, last_words, run_setup, settle_left
from bastion.agent.machine.health import disk_trouble
from bastion.clock import Clock
from bastion.errors import BastionError, ConflictError, StoreError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, BootFailed, BootStep
from bastion.store.port import ObjectStore
from bastion.value import value

FAILED = "failed"
"""A file in the folder of the start-up script: this machine failed to start, and is not retried."""
LEFT = "left"
"""A file there: the agent was told to leave, and is not started again."""
_STEPS = "steps.json"
_BELL_TRIES = 6
_BURN_S = 600.0
_PASSED = "burn-passed"
_NO_LIFE = 0
"""The life of a machine whose keeper never started: its bells come before those of all lives."""


@value
class Begun:
    """What a new machine reports in its greeting."""

    steps: tuple[BootStep, ...] = ()
    report: DeviceReport = DeviceReport()
    foreign: DeviceReport = DeviceReport()
    """The devices that foreign processes hold."""
    clock: str = ""
    """What is wrong with its clock; empty if nothing is known to be wrong."""
    burn: str = ""
    """How its burn failed; empty if it passed, or if there is none."""


NOTHING_BEGUN = Begun()
"""For a machine that has nothing to do or to check before its greeting."""


@value
class BeginSettings:
    """The part of the start-up script's `boot.json` for the start of the machine."""

    folder: Path
    setup: tuple[str, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    """The accelerators to check, by type; empty: none."""
    burn: str = ""
    """A command that puts load on the devices and fails if one does not withstand it."""
    respects_foreign: bool = False
    """Whether devices that foreign processes hold get no job."""


class BeginError(BastionError):
    """This machine cannot be started, and the bastion was told."""


def begin_settings(folder: Path, resources: Mapping[str, int]) -> BeginSettings:
    """Return the settings in `boot.json` in `folder`; `resources` are the declared ones."""
    said: dict[str, Any] = json.loads((folder / "boot.json").read_text())
    health = said.get("health", {})
    return BeginSettings(
        folder=folder,
        setup=tuple(said.get("setup", ())),
        devices=dict(resources) if health.get("devices") else {},
        burn=health.get("burn", ""),
        respects_foreign=bool(health.get("foreign")),
    )


def begin(
    settings: BeginSettings,
    machine: str,
    store: ObjectStore,
    clock: Clock,
    say: Callable[[str], None],
) -> Begun:
    """
    Run the pool's commands and check the machine's health; return the facts for the greeting.

    Raises:
        BeginError: A command failed; the bastion was told its output, if it could be reached.
    """
    steps = _taken_steps(settings.folder)
    at = clock.monotonic()
    failure = run_setup(settings.setup, settings.folder)
    if failure:
        say(f"this machine cannot be set up: {failure}")
        _tell(BootFailed(step="setup", text=failure), machine, store, clock, say)
        (settings.folder / FAILED).write_text(failure)
        raise BeginError(failure)
    steps.append(BootStep(name="set up", seconds=clock.monotonic() - at))
    at = clock.monotonic()
    report = _report(settings)
    burn = "" if report.unwell or report.bad else burnt(settings.burn, settings.folder)
    steps.append(BootStep(name="checked", seconds=clock.monotonic() - at))
    trouble = look_at_clock(store, machine, _NO_LIFE, clock)
    return Begun(steps=tuple(steps), report=report, clock=trouble, burn=burn)


def _report(settings: BeginSettings) -> DeviceReport:
    trouble = disk_trouble(str(settings.folder))
    if trouble:
        return DeviceReport(unwell=trouble)
    return look_at_devices(settings.devices) if settings.devices else DeviceReport()


def burnt(command: str, folder: Path) -> str:
    """
    Run the pool's burn unless it has passed here before; return how it failed, or empty.

    After a restart of the agent there may be jobs, which a second load would disturb.
    """
    if not command or _has_passed(command, folder):
        return ""
    log = folder / "burn.log"
    settle_left(log, (), _BURN_S)
    log.write_bytes(b"")
    why = failure_of(command, log, _BURN_S)
    if why:
        return f"its burn failed: {command[:200]!r} {why}: {last_words(log)}"
    pass_burn(command, folder)
    return ""


def pass_burn(command: str, folder: Path) -> None:
    """Record that `command` has passed, so that it is not run again before a greeting."""
    (folder / _PASSED).write_text(command)


def _has_passed(command: str, folder: Path) -> bool:
    passed = folder / _PASSED
    return passed.exists() and passed.read_text() == command


def _taken_steps(folder: Path) -> list[BootStep]:
    """Return the steps of the start-up script; reported once, not after a restart of the agent."""
    path = folder / _STEPS
    try:
        said = json.loads(path.read_text())
        path.unlink()
        return [BootStep(name=str(name), seconds=float(seconds)) for name, seconds in said]
    except (OSError, ValueError, TypeError):
        return []


def _tell(
    fact: BootFailed, machine: str, store: ObjectStore, clock: Clock, say: Callable[[str], None]
) -> None:
    key = layout.bell(machine, _NO_LIFE, int(clock.wall()))
    for tried in range(_BELL_TRIES):
        try:
            store.create(key, encode(Bell(facts=(fact,))))
        except ConflictError:
            return  # an earlier try succeeded
        except StoreError as error:
            say(f"the bastion could not be notified: {error.in_a_line}")
            clock.sleep(2.0**tried)
        else:
            return
