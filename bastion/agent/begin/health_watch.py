"""What works on this machine, told when it changes: disk, descriptors, memory and devices."""

from __future__ import annotations

from functools import partial

from bastion.agent.begin.devices import DeviceReport, look_at_devices
from bastion.agent.host.context import Surroundings
from bastion.clock import Clock
from bastion.records.facts import Health

_LOOK_S = 10.0
"""Between two looks at disk, descriptors and memory: some microseconds each."""
_DEVICES_S = 60.0
"""Between two looks at devices: nvidia-smi takes up to seconds, beside the agent's own thread."""


MAX_CLOCK_OFF_S = 60.0
"""
The bastion trusts no machine's clock, but jobs do: certificates, signed requests (S3 refuses those
that are 15 minutes off) and files of several hosts.
"""


class HealthWatch:
    """
    The health of one machine over one life of its agent.

    Args:
        around: The agent's parts; its settings name the devices that are looked at.
        clock: Time on this machine.
        now: The agent's clock.
        report: What the check before the greeting found.
    """

    def __init__(
        self, around: Surroundings, clock: Clock, *, now: float, report: DeviceReport
    ) -> None:
        self._home = around.home
        self._errands = around.errands
        self._bells = around.bells
        self._say = around.say
        self._devices = around.settings.devices
        self._is_checked = bool(around.settings.boot)
        self._report = report
        self._look_at = now
        self._clock = clock
        self._has_clock = False
        self._devices_at = now + _DEVICES_S
        self._told = DeviceReport()
        self.unwell = ""
        """Why nothing can be started here; empty where it can."""
        self._tell(report.unwell)

    def turn(self, now: float) -> bool:
        """Look when it is time, and tell what changed; whether the machine became unwell."""
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
        self._tell(self._report.unwell or self._home.unwell() or self._clock_trouble(now))
        return bool(self.unwell) and not before

    def _clock_trouble(self, now: float) -> str:
        """What is wrong with the clock, on a machine that a start-up script began."""
        if self._bells.store_time is None or not self._is_checked:
            return ""
        store_time, at = self._bells.store_time
        off_s = self._clock.wall() - (store_time + now - at)
        if abs(off_s) <= MAX_CLOCK_OFF_S:
            return ""
        where = "ahead of" if off_s > 0 else "behind"
        return f"its clock is {abs(off_s):.0f} s {where} the bucket's"

    def _looked(self, report: DeviceReport) -> None:
        self._report = report

    def _tell(self, unwell: str) -> None:
        """Tell a change; while the machine stays unwell, other words for it are none."""
        is_other = bool(unwell) != bool(self.unwell)
        if is_other:
            self._say(f"this machine is unwell: {unwell}" if unwell else "this machine is well")
        if is_other or self._report.bad != self._told.bad:
            text = self._report.text or unwell
            self._bells.ring(Health(bad_devices=self._report.bad, text=text, unwell=unwell))
            self._told = self._report
        self.unwell = unwell
