"""
Why a job can never run, whatever ends: it asks for more than there is.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.words import NAMED, counted, units
from bastion.value import value
from quota.amounts import Amounts

NEVER = "can never run"
"""The beginning of every sentence about a job that no waiting would help."""
CONFIG = "config/bastion.toml"
"""Where an admin configures which machines a pool has."""


@value
class NeverFits:
    """It asks for more than there is, even with everything free and healthy."""

    kind: Literal["NeverFits"] = "NeverFits"
    asked: Amounts
    """By one replica if one replica is too much, else by the whole gang."""
    most: Amounts
    """The most that could ever be had; nothing if that is not the obstacle."""
    of: Literal["replica", "gang", "total", "layout", "block", "quota", "share"]
    """
    What is too much: for the largest machine, for all of them, or for the quota file's totals. Or
    there is enough, but no way to lay it out, or none in one block, which it may not span. Or the
    quota file never lets its project have it. Or no share holds what is not under quota, and it
    never borrows.
    """
    replicas: int = 0
    """Of the same shape, if all machines together are too few for them."""
    fitting: int = 0
    """How many of these all machines would hold."""
    pools: tuple[tuple[str, int], ...] = ()
    """Pool -> machines that it has or may create and this job may use, most first."""
    project: str = ""
    """The project that can never have it."""
    per_machine: int = 0
    """For replicas that ask for nothing: how many one machine takes."""
    same: str = ""
    """The label, or `pool`, of the block."""
    is_own: bool = False
    """Whether the launch asks for that, and not the quota file's placement."""
    walls: tuple[tuple[str, str], ...] = ()
    """(what the quota file says, and where): everything that would have to change."""

    def words(self, _: float) -> str:
        """The sentence."""
        if self.of == "total":
            return (
                f"{NEVER}: it asks for {units(self.asked)}, and the total in the quota file is"
                f" {units(self.most)}; ask for less, or an admin raises the total"
            )
        if self.of == "quota":
            why = "; ".join(why for why, _ in self.walls[:NAMED])
            places = " and ".join(dict.fromkeys(place for _, place in self.walls[:NAMED]))
            rest = len(self.walls) - NAMED
            more = f" and {rest} more" if rest > 0 else ""
            return (
                f"{NEVER}: it asks for {units(self.asked)}, and {self.project} can never hold more"
                f" than {units(self.most)}: {why}; ask for less, or an admin changes {places}{more}"
            )
        if self.of == "share":
            return f"{NEVER}: {self._without_share()}"
        if self.of == "replica":
            return f"{NEVER}: one replica asks for {units(self.asked)}, {self._too_small()}"
        if self.per_machine:
            return self._too_many_replicas()
        if self.of == "block":
            return (
                f"{NEVER}: it asks for {units(self.asked)} in one {self.same}, and none of those it"
                f" may use{self._where()} holds all of it, even with all machines free; ask for"
                f" less, or {self._otherwise()}"
            )
        if self.of == "layout":
            return (
                f"{NEVER}: it asks for {units(self.asked)}, and has no placement on the machines"
                f" it may use{self._where()} within the totals of the tiers, even with all of them"
                " free; ask for less or for smaller replicas"
            )
        return (
            f"{NEVER}: it asks for {units(self.asked)} in {counted(self.replicas, 'replica')}, and"
            f" all machines it may use{self._where()} have room for {self.fitting} of them; ask for"
            f" less, or an admin lets {self._pool()} have more machines in {CONFIG}"
        )

    def _without_share(self) -> str:
        what = "it asks for nothing under quota, so it can only borrow, and"
        for why, place in self.walls:
            return f"{what} {why}; charge it to another project, or an admin changes {place}"
        return f"{what} it may not borrow; submit it without --no_borrow"

    def _too_many_replicas(self) -> str:
        """Return the words for replicas that ask for nothing, if machines are too few for all."""
        many = (
            f"{NEVER}: its {self.replicas} replicas ask for nothing, of which a machine takes"
            f" {self.per_machine}"
        )
        if self.of == "block":
            return (
                f"{many}, and no {self.same} it may use{self._where()} takes all of them; ask for"
                f" fewer, or {self._otherwise()}"
            )
        return (
            f"{many}, and the machines it may use{self._where()} are too few; ask for fewer, or an"
            f" admin lets {self._pool()} have more machines in {CONFIG}"
        )

    def _otherwise(self) -> str:
        """Return what would let it span blocks."""
        if self.is_own:
            return f"leave out same={self.same}"
        return 'an admin chooses another placement than "consolidated" in the quota file'

    def _too_small(self) -> str:
        where = self._where()
        if not self.most:
            return f"and no machine it may use{where} has any; bastion pool shows what there is"
        return (
            f"and the largest machine it may use{where} has {units(self.most)}; ask for less,"
            f" spread it over more replicas, or an admin gives {self._pool()} larger machines in"
            f" {CONFIG}"
        )

    def _where(self) -> str:
        named = [f"{counted(number, 'machine')} of {pool}" for pool, number in self.pools[:NAMED]]
        rest = len(self.pools) - NAMED
        more = f" and {counted(rest, 'pool')} more" if rest > 0 else ""
        return f" ({', '.join(named)}{more})" if named else ""

    def _pool(self) -> str:
        return self.pools[0][0] if len(self.pools) == 1 else "a pool"
