"""What the agent of a cloud machine does about interruptions, and when it is an orphan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bastion.agent.cloud.interruptions import (
    LONGEST_GRACE_S,
    LOOK_S,
    grace_of,
    look_for_interruption,
)
from bastion.agent.cloud.metadata import Metadata, MetadataError
from bastion.agent.cloud.orphan import AGAIN_S, end_first, end_orphan, is_orphan
from bastion.agent.host.context import Surroundings
from bastion.agent.host.host import Host
from bastion.agent.setup.environment import COUNTED
from bastion.clock import Clock
from bastion.job import StopReason
from bastion.records.reports.facts import Interruption, reclaimed_by

FREE_S = 10.0
"""How long a machine that the cloud takes back must be idle before it ends early."""


class CloudWatch:
    """
    Notices of the cloud, and the dead man's switch, of one machine.

    Args:
        metadata: The machine's metadata server.
        around: The agent's parts.
        clock: Time on this machine.
    """

    def __init__(self, metadata: Metadata, around: Surroundings, clock: Clock) -> None:
        self._metadata = metadata
        self._settings = around.settings
        self._errands = around.errands
        self._bells = around.bells
        self._clock = clock
        self._say = around.say
        self._has_gpus = any(kind not in COUNTED for kind, _ in around.settings.resources.items())
        self._look_at = 0.0
        self._end_at = 0.0
        self._warned: Interruption | None = None
        self._until: float | None = None
        self._stopped: set[str] = set()
        self._free_since: float | None = None
        """Since when a machine that the cloud takes back has been idle."""

    @property
    def is_taken(self) -> bool:
        """Whether the provider has announced to take this machine: nothing new starts here."""
        return self._until is not None

    def turn(self, now: float, *, reached_at: float, hosts: Mapping[str, Host]) -> None:
        """Query the metadata server, stop `hosts` when they must end, and end an orphan."""
        self._look(now)
        self._stop(now, hosts)
        self._end_taken(now, hosts)
        self._end_orphan(now, now - reached_at, is_busy=bool(hosts))

    def _look(self, now: float) -> None:
        if self._until is None and now >= self._look_at:
            self._look_at = now + LOOK_S
            look = partial(
                look_for_interruption,
                self._metadata,
                self._settings.cloud,
                wall=self._store_wall(now),
                has_gpus=self._has_gpus,
            )
            self._errands.send(
                "interruption",
                look,
                partial(self._found, now),
                now=now,
                otherwise=_not_asked,
                is_long=True,
                is_look=True,
            )

    def _store_wall(self, now: float) -> float:
        """
        Return the time by the store, whose clock is correct, since a cloud announces real times.

        For a Slurm job or a pod it is the machine's own clock, which wrote the notice.
        """
        is_own = self._settings.cloud in ("slurm", "kubernetes")
        told = None if is_own else self._bells.store_time
        return self._clock.wall() if told is None else told[0] + now - told[1]

    def _stop(self, now: float, hosts: Mapping[str, Host]) -> None:
        if self._until is None or now < self._until - LONGEST_GRACE_S:
            return
        by, grace_s = reclaimed_by(self._settings.machine), grace_of(max(0.0, self._until - now))
        for key in sorted(hosts.keys() - self._stopped):
            self._stopped.add(key)
            hosts[key].stop_by_agent(StopReason.PREEMPT, now, by=by, grace_s=grace_s)

    def _end_taken(self, now: float, hosts: Mapping[str, Host]) -> None:
        """
        End a pod that is to end, once nothing more needs it.

        Until then, an admin or a preempting pod waits for its node.
        """
        if self._until is None or self._settings.cloud != "kubernetes":
            return
        if hosts or not self._bells.is_silent:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        elif now >= self._free_since + FREE_S and now >= self._end_at:
            self._end_at = now + AGAIN_S
            self._say("nothing is left to be done in a pod that is to end")
            settings = self._settings
            end_first(settings.cloud, settings.environ)

    def _end_orphan(self, now: float, out_s: float, *, is_busy: bool) -> None:
        settings = self._settings
        is_due = is_orphan(out_s, settings.orphan_timeout_s, is_busy=is_busy)
        if not is_due or now < self._end_at:
            return
        self._end_at = now + AGAIN_S
        self._say(f"the store is out of reach for {out_s:.0f} s")
        end = partial(end_orphan, settings.cloud, self._metadata, settings.environ, self._say)
        self._errands.send("orphan", end, lambda _: None, now=now, is_long=True)

    def _found(self, asked_at: float, interruption: Interruption | None) -> None:
        if interruption is None:
            return
        is_new = self._warned is None or interruption.is_certain
        if is_new:
            self._say(f"the provider announces: {interruption.text}, {interruption.in_s:.0f} s")
            self._bells.ring(interruption)
        self._warned = interruption
        if interruption.is_certain:
            self._until = asked_at + interruption.in_s


def _not_asked(error: Exception) -> None:
    """Ignore that the metadata server did not answer: it is queried again."""
    if not isinstance(error, MetadataError):
        raise error
