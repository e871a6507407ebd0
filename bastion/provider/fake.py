"""
Machines that are only remembered: a provider that follows a script, for tests and the simulation.

It has no thread: what is due by the clock happens at the next call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bastion.clock import Clock
from bastion.errors import NoCapacityError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.port import Listed
from bastion.value import value


@value
class _Made:
    """One machine: what is listed, and when it moves on."""

    listed: Listed
    due_at: float = 0.0


class FakeProvider:
    """
    A provider whose machines boot and go after a time.

    Args:
        clock: Says what is due.
        boot_s: From `create` to `running`.
        delete_s: From `delete` to `gone`.
        on_state: Told whenever a machine is seen to become `running` or `gone`.
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
        """How many machines more can be made; None: any number."""
        self.is_reachable = True
        """False: every call raises, and nothing is done."""
        self.answers_lost = 0
        """How many of the next changes are done, but raise as if nobody knew."""
        self.created: list[str] = []
        """Names of every machine ever made, in order."""

    def list(self) -> tuple[Listed, ...]:
        """See the port."""
        self._asked()
        return tuple(made.listed for _, made in sorted(self._made.items()))

    def create(self, machine: Machine, pool: Pool) -> None:
        """See the port."""
        self._asked()
        made = self._made.get(machine.name)
        if made is None:
            if self.stock == 0:
                raise NoCapacityError(f"pool {pool.name}: no machine in {machine.zone or 'stock'}")
            if self.stock is not None:
                self.stock -= 1
            self.created.append(machine.name)
        if made is None or made.listed.state == "stopped":
            listed = Listed(
                name=machine.name, pool=machine.pool, state="creating", zone=machine.zone
            )
            self._made[machine.name] = _Made(
                listed=listed, due_at=self._clock.monotonic() + self._boot_s
            )
        self._answer(f"create {machine.name}")

    def delete(self, name: str) -> None:
        """See the port."""
        self._asked()
        made = self._made.get(name)
        if made is not None and made.listed.state not in ("deleting", "gone"):
            self._made[name] = _Made(
                listed=replace(made.listed, state="deleting"),
                due_at=self._clock.monotonic() + self._delete_s,
            )
        self._answer(f"delete {name}")

    def stop(self, name: str) -> None:
        """The agent of a machine dies."""
        made = self._made[name]
        self._made[name] = replace(made, listed=replace(made.listed, state="stopped"))

    def vanish(self, name: str) -> None:
        """A machine is gone from one moment to the next, and no longer listed."""
        del self._made[name]

    def _asked(self) -> None:
        if not self.is_reachable:
            raise ProviderUnavailableError("the provider cannot be asked now")
        now = self._clock.monotonic()
        for name, made in sorted(self._made.items()):
            if made.due_at > now:
                continue
            if made.listed.state == "creating":
                self._become(name, replace(made.listed, state="running"))
            elif made.listed.state == "deleting":
                self._become(name, replace(made.listed, state="gone"))

    def _become(self, name: str, listed: Listed) -> None:
        self._made[name] = _Made(listed=listed)
        self._on_state(listed)

    def _answer(self, what: str) -> None:
        if self.answers_lost > 0:
            self.answers_lost -= 1
            raise ProviderUnavailableError(f"{what} was never answered")
