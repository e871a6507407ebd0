"""What works on this machine, told when it changes: disk, descriptors, memory and devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bastion.agent.begin.devices import DeviceReport, look_at_devices
from bastion.agent.errands import Errands
from bastion.agent.home import Home
from bastion.agent.report.bells import Bells
from bastion.records.facts import Health

_LOOK_S = 10.0
"""Between two looks at disk, descriptors and memory: some microseconds each."""
_DEVICES_S = 60.0
"""Between two looks at devices: nvidia-smi takes up to seconds, beside the agent's own thread."""


class HealthWatch:
    """
    The health of one machine over one life of its agent.

    Args:
        home: Tells of the disk and of what a process needs.
        errands: Where devices are looked at.
        bells: Where changes are told.
        say: Takes one line for the agent's log.
        now: The agent's clock.
        devices: What is looked at, by type; empty: no device is.
        report: What the check before the greeting found.
    """

    def __init__(
        self,
        home: Home,
        errands: Errands,
        bells: Bells,
        say: Callable[[str], None],
        *,
        now: float,
        devices: Mapping[str, int],
        report: DeviceReport,
    ) -> None:
        self._home = home
        self._errands = errands
        self._bells = bells
        self._say = say
        self._devices = devices
        self._report = report
        self._look_at = now
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
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        before = self.unwell
        self._tell(self._report.unwell or self._home.unwell())
        return bool(self.unwell) and not before

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
