"""The agent's part in an upgrade: it installs the build, and ends once no job runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bastion.agent.begin.upgrade import UpgradeError, install
from bastion.agent.host.context import Surroundings
from bastion.machine import Build


class Upgrades:
    """
    The upgrades of one agent; one without a start-up script is upgraded by its provider.

    Args:
        around: The agent's parts.
    """

    def __init__(self, around: Surroundings) -> None:
        self._settings = around.settings
        self._errands = around.errands
        self._say = around.say
        self._wanted: Build | None = None
        self._tried: Build | None = None
        self.is_ready = False
        """Whether another build is installed, and the agent ends once nothing runs here."""

    def ask(self, build: Build) -> None:
        """Install `build`, unless it is running; the last request counts."""
        if self._settings.boot and build.digest != self._settings.build:
            self._say(f"told to become build {build.digest[:12]}, it is installed")
            self._wanted, self._tried = build, None

    def turn(self, now: float) -> None:
        """Install the requested build, once."""
        if self._wanted is None or self._tried == self._wanted or self.is_ready:
            return
        if self._errands.is_free("upgrade", now):
            self._tried = self._wanted
            settings = self._settings
            work = partial(install, self._wanted, Path(settings.boot), settings.machine)
            self._errands.send(
                "upgrade", work, self._installed, otherwise=self._failed, now=now, is_slow=True
            )

    def _installed(self, _: None) -> None:
        self.is_ready = self._tried == self._wanted

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, UpgradeError | OSError | ValueError):
            raise error
        self._say(f"this agent stays as it is: {error}")
