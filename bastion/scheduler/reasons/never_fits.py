"""
Why a job can never run, whatever ends: it asks for more than there is.

A part of `bastion.scheduler.reasons.reason`, which gathers them all; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.words import NAMED, counted
from bastion.value import value
from quota.amounts import Amounts

NEVER = "can never run"
"""How every sentence begins about what no waiting would help."""
CONFIG = "config/bastion.toml"
"""Where an admin says which machines a pool has."""


@value
class NeverFits:
    """It asks for more than there is, even with everything free and healthy."""

    kind: Literal["NeverFits"] = "NeverFits"
    asked: Amounts
    """By one replica where one replica is too much, else by the whole gang."""
    most: Amounts
    """That could ever be had; nothing where that is not what is in the way."""
    of: Literal["replica", "gang", "total", "layout"]
    """What is too much: for the largest machine, for all of them, for the quota file's totals; or
    there is enough, but no way to lay it out."""
    replicas: int = 0
    """Of those that are alike, where all machines are too few for them."""
    fitting: int = 0
    """How many of these all machines would hold."""
    pools: tuple[tuple[str, int], ...] = ()
    """Pool -> machines that it has or may make and this may use, most first."""

    def words(self, _: float) -> str:
        """The sentence."""
        if self.of == "total":
            return (
                f"{NEVER}: it asks for {self.asked}, and the totals of the quota file are"
                f" {self.most}; ask for less, or an admin raises the total"
            )
        if self.of == "replica":
            return f"{NEVER}: one replica asks for {self.asked}, {self._too_small()}"
        if self.of == "layout":
            return (
                f"{NEVER}: it asks for {self.asked}, and even alone there is no way to lay"
                f" that out on the machines it may use{self._where()} and within the totals of"
                " every tier; ask for less or for smaller replicas"
            )
        return (
            f"{NEVER}: it asks for {self.asked} in {counted(self.replicas, 'replica')}, and all"
            f" machines it may use{self._where()} hold {self.fitting} of them; ask for less, or an"
            f" admin lets {self._whom()} have more machines in {CONFIG}"
        )

    def _too_small(self) -> str:
        where = self._where()
        if not self.most:
            return f"and no machine it may use{where} has any; bastion pool shows what there is"
        return (
            f"the largest machine it may use{where} has {self.most}; ask for less, spread it over"
            f" more replicas, or an admin gives {self._whom()} larger machines in {CONFIG}"
        )

    def _where(self) -> str:
        named = [f"{counted(number, 'machine')} of {pool}" for pool, number in self.pools[:NAMED]]
        rest = len(self.pools) - NAMED
        more = f" and {counted(rest, 'pool')} more" if rest > 0 else ""
        return f" ({', '.join(named)}{more})" if named else ""

    def _whom(self) -> str:
        return self.pools[0][0] if len(self.pools) == 1 else "a pool"
