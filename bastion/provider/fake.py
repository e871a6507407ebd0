"""
A provider of machines that exist only in memory, for tests and the simulation.

It has no thread: a change that is due by the clock happens at the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bastion.clock import Clock
from bastion.errors import NoCapacityError, ProviderError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.port import Listed
from bastion.value import value


@value
class _Made:
    """One machine: its listing, and when that changes next."""

    listed: Listed
    due_at: float = 0.0
    shown_at: float = 0.0
    """When lists start to show it."""


class FakeProvider:
    """
    A provider whose machines boot and are deleted after a time.

    Args:
        clock: Decides what is due.
        boot_s: From `create` to `running`.
        delete_s: From `delete` to `gone`.
        on_state: Called whenever a machine becomes `running` or `gone`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        boot_s: float = 0.0,
        delete_s: float = 0.0,
        on_state: Callable[[Listed], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._boot_s = boot_s
        self._delete_s = delete_s
        self._on_state = on_state
        self._made: dict[str, _Made] = {}
        self.stock: int | None = None
        """How many more machines can be created; None: no limit."""
        self.scarce_zone = ""
        """The zone that `stock` applies to; empty: every zone."""
        self.is_reachable = True
        """False: every call raises and changes nothing."""
        self.answers_lost = 0
        """How many of the next changes are made but raise as if the outcome were unknown."""
        self.requests_lost = 0
        """How many of the next changes are not made but raise as if the outcome were unknown."""
        self.refusal: ProviderError | None = None
        """Raised by every create, which then creates nothing."""
        self.error: ProviderError | None = None
        """Raised by every call, which then changes nothing."""
        self.lag_s = 0.0
        """How long lists do not show new machines."""
        self.keeps_deleted = False
        """True: deletions are accepted but nothing is deleted."""
        self.created: list[str] = []
        """Names of every machine ever created, in order."""

    @property
    def vouches(self) -> bool:
        """See the port."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """See the port."""
        self._catch_up()
        now = self._clock.monotonic()
        made = (each for _, each in sorted(self._made.items()))
        return tuple(each.listed for each in made if each.shown_at <= now)

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port: all machines of a batch are created, or none."""
        self._catch_up()
        self._lose_request(f"create {machines[0].name}")
        if self.refusal is not None:
            raise self.refusal
        new = [machine for machine in machines if machine.name not in self._made]
        is_scarce = self.scarce_zone in ("", machines[0].zone)
        if self.stock is not None and new and is_scarce:
            if self.stock < len(new):
                zone = new[0].zone or "stock"
                raise NoCapacityError(f"pool {pool.name}: {self.stock} of {len(new)} in {zone}")
            self.stock -= len(new)
        self.created += [machine.name for machine in new]
        for machine in machines:
            made = self._made.get(machine.name)
            if made is None or made.listed.state == "stopped":
                self._boot(machine)
        self._lose_answer(f"create {machines[0].name}")

    def _boot(self, machine: Machine) -> None:
        listed = Listed(name=machine.name, pool=machine.pool, state="creating", zone=machine.zone)
        now = self._clock.monotonic()
        self._made[machine.name] = _Made(
            listed=listed, due_at=now + self._boot_s, shown_at=now + self.lag_s
        )

    def delete(self, name: str) -> None:
        """See the port."""
        self._catch_up()
        self._lose_request(f"delete {name}")
        made = None if self.keeps_deleted else self._made.get(name)
        if made is not None and made.listed.state not in ("deleting", "gone"):
            self._made[name] = replace(
                made,
                listed=replace(made.listed, state="deleting"),
                due_at=self._clock.monotonic() + self._delete_s,
            )
        self._lose_answer(f"delete {name}")

    def stop(self, name: str) -> None:
        """Kill the agent of a machine."""
        made = self._made[name]
        self._made[name] = replace(made, listed=replace(made.listed, state="stopped"))

    def vanish(self, name: str) -> None:
        """Remove a machine immediately, so that it is no longer listed."""
        del self._made[name]

    def _catch_up(self) -> None:
        if not self.is_reachable:
            raise ProviderUnavailableError("the provider cannot be reached now")
        if self.error is not None:
            raise self.error
        now = self._clock.monotonic()
        for name, made in sorted(self._made.items()):
            if made.due_at > now:
                continue
            if made.listed.state == "creating":
                self._change(name, replace(made.listed, state="running"))
            elif made.listed.state == "deleting":
                self._change(name, replace(made.listed, state="gone"))

    def _change(self, name: str, listed: Listed) -> None:
        self._made[name] = replace(self._made[name], listed=listed, due_at=0.0)
        self._on_state(listed)

    def _lose_request(self, what: str) -> None:
        if self.requests_lost > 0:
            self.requests_lost -= 1
            raise ProviderUnavailableError(f"{what} was never answered")

    def _lose_answer(self, what: str) -> None:
        if self.answers_lost > 0:
            self.answers_lost -= 1
            raise ProviderUnavailableError(f"{what} was never answered")
