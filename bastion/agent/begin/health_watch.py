"""The health of this machine, reported when it changes: disk, descriptors, memory and devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bastion.agent.begin.begin import Begun
from bastion.agent.begin.clock_check import clock_trouble
from bastion.agent.begin.devices import DeviceReport, look_at_devices
from bastion.agent.begin.foreign import both, held_devices
from bastion.agent.host.context import Surroundings
from bastion.clock import Clock
from bastion.records.reports.facts import Health
from bastion.records.reports.usage import ForeignProcess

_LOOK_S = 10.0
"""Between two checks of disk, descriptors and memory: some microseconds each."""
_LOOK_UNWELL_S = 1.0
"""The same on a machine on which nothing starts."""
_DEVICES_S = 60.0
"""Between two checks of devices: nvidia-smi takes up to seconds, on a thread of its own."""


class HealthWatch:
    """
    The health of one machine over one life of its agent.

    Args:
        around: The agent's parts; its settings name the devices to check.
        clock: Time on this machine.
        now: The agent's clock.
        begun: What the check before the greeting found.
    """

    def __init__(self, around: Surroundings, clock: Clock, *, now: float, begun: Begun) -> None:
        self._home = around.home
        self._errands = around.errands
        self._bells = around.bells
        self._say = around.say
        self._devices = around.settings.devices
        self._is_checked = bool(around.settings.boot or around.settings.begin)
        self._declared = around.settings.resources
        self._respects_foreign = around.settings.respects_foreign
        self._report = begun.report
        self._foreign = begun.foreign
        self._first_clock = begun.clock
        self._burn = begun.burn
        self._look_at = now
        self._clock = clock
        self._has_clock = False
        self._devices_at = now + _DEVICES_S
        self._told = self._told_foreign = DeviceReport()
        self._is_told = False
        self.unwell = ""
        """Why nothing can be started here; empty if it can."""
        self._tell(begun.report.unwell or begun.burn or begun.clock)

    def see_foreign(self, foreign: Sequence[ForeignProcess]) -> None:
        """Keep jobs off the devices that foreign processes hold, if the pool requests it."""
        if self._respects_foreign:
            self._foreign = held_devices(foreign, dict(self._declared.items()))
            if self._foreign != self._told_foreign:
                self.look_now()

    def look_now(self) -> None:
        """Check in the next turn, even if the time has not come."""
        self._look_at = 0.0

    def turn(self, now: float) -> bool:
        """Check when it is time, and report changes; return whether the machine became unwell."""
        if self._devices and now >= self._devices_at:
            self._devices_at = now + _DEVICES_S
            look = partial(look_at_devices, self._devices)
            self._errands.send("devices", look, self._looked, now=now, is_long=True, is_look=True)
        has_clock = self._bells.store_time is not None
        if now < self._look_at and has_clock == self._has_clock:
            return False
        self._has_clock = has_clock
        self._look_at = now + _LOOK_S
        before = self.unwell
        unwell = self._report.unwell or self._burn or self._home.unwell()
        self._tell(unwell or self._clock_trouble(now), is_looked=True)
        if self.unwell:
            self._look_at = now + _LOOK_UNWELL_S
        return bool(self.unwell) and not before

    def pass_burn(self) -> None:
        """Record that an admin's burn has passed: the one before the greeting no longer counts."""
        self._burn = ""
        self.look_now()

    def _clock_trouble(self, now: float) -> str:
        """Return what is wrong with the clock, on a machine that is checked."""
        if not self._is_checked:
            return ""
        if self._bells.store_time is None:
            return self._first_clock
        store_time, at = self._bells.store_time
        return clock_trouble(self._clock.wall() - (store_time + now - at))

    def _looked(self, report: DeviceReport) -> None:
        self._report = report

    def _tell(self, unwell: str, *, is_looked: bool = False) -> None:
        """Report a change; while the machine stays unwell, a different text is not a change."""
        is_other = bool(unwell) != bool(self.unwell)
        if is_other:
            self._say(f"this machine is unwell: {unwell}" if unwell else "this machine is well")
        holders = self._foreign.text
        if holders != self._told_foreign.text:
            is_other = True
            self._say(holders or "no process of others holds a device any more")
        # The report of an earlier agent stays in force until the first check replaces it.
        is_other |= is_looked and not self._is_told
        if is_other or self._report.bad != self._told.bad:
            self._is_told = True
            found = both(self._report, self._foreign)
            text = found.text or unwell
            self._bells.ring(Health(bad_devices=found.bad, text=text, unwell=unwell))
            self._told, self._told_foreign = self._report, self._foreign
        self.unwell = unwell
