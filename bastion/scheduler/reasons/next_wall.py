"""
What a job meets next, once what its reason names has changed.

It must not know how that was found.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.words import listed, units
from bastion.value import value
from quota.amounts import Amounts


@value
class NextWall:
    """The next thing in the way of a job: told together with the first."""

    kind: Literal["CapacityLost", "WaitingForCapacity", "Fragmented", "BeyondShare"]
    """The reason that the job will be told then."""
    units: Amounts
    """That are missing; what is asked for, where enough is free and scattered."""
    names: tuple[str, ...] = ()
    """Machines that are out of use, or projects that hold or reserve it."""

    def words(self) -> str:
        """How a sentence ends that names it."""
        what = units(self.units)
        match self.kind:
            case "CapacityLost":
                return f"; then it waits for {listed(self.names)} to be back in use"
            case "Fragmented":
                return f"; then it waits for {what} together on single machines"
            case "BeyondShare":
                return f"; then it waits to borrow {what}"
            case _:
                held = f" that {listed(self.names)} hold" if self.names else ""
                return f"; then it waits for {what}{held}"


def words_of(then: NextWall | None) -> str:
    """The same, or nothing."""
    return "" if then is None else then.words()
