"""A provider for which each call is checked, and during which the bastion may die."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bastion.machine import Machine, Pool
from bastion.provider.port import Listed
from tests.contracts.provider_place import Place

if TYPE_CHECKING:
    from tests.contracts.faults.stage import Stage


class KilledError(BaseException):
    """The bastion dies: none of its code catches this."""


@dataclass
class Watched:
    """
    A provider for which each call is checked.

    The leader's pool is a plain one of eight devices; the adapter gets that of its place.
    """

    place: Place
    stage: Stage
    kill: tuple[str, str] | None = None
    """The operation at whose next call the bastion dies, `before` or `after` it is done."""

    @property
    def vouches(self) -> bool:
        """See the port."""
        return self.place.provider.vouches

    def list(self) -> tuple[Listed, ...]:
        """See the port."""
        self._dies("list", "before")
        found = self.place.provider.list()
        self._dies("list", "after")
        self.stage.shown = {each.name: each.state for each in found}
        return found

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port."""
        self._dies("create", "before")
        self.place.provider.create(machines, replace(self.place.pool, zones=pool.zones))
        self._dies("create", "after")

    def delete(self, name: str) -> None:
        """See the port."""
        self.stage.check_delete(name)
        self._dies("delete", "before")
        self.place.provider.delete(name)
        self._dies("delete", "after")

    def _dies(self, operation: str, when: str) -> None:
        if self.kill == (operation, when):
            self.kill = None
            raise KilledError
