"""
Why a job can never run, whatever ends: it asks for more than there is.

A part of `bastion.scheduler.reason`, which gathers them all; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.value import value
from quota.amounts import Amounts

NEVER = "can never run"
"""How every sentence begins about what no waiting would help."""


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

    def words(self, _: float) -> str:
        """The sentence."""
        if self.of == "replica":
            if not self.most:
                return (
                    f"{NEVER}: one replica asks for {self.asked}, and no machine it may use"
                    " has any; bastion pool shows what there is"
                )
            return (
                f"{NEVER}: one replica asks for {self.asked}, the largest machine it may use"
                f" has {self.most}; ask for less or spread it over more replicas"
            )
        if self.of == "total":
            return (
                f"{NEVER}: it asks for {self.asked}, and the totals of the quota file are"
                f" {self.most}; ask for less, or an admin raises the total"
            )
        if self.of == "layout":
            return (
                f"{NEVER}: it asks for {self.asked}, and even alone there is no way to lay"
                " that out on the machines it may use and within the totals of every tier; ask for"
                " less or for smaller replicas"
            )
        return (
            f"{NEVER}: it asks for {self.asked}, and all machines it may use have {self.most}"
            " together; ask for less"
        )
