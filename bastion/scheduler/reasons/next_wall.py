"""
The next wall: what blocks a job after the cause that its reason names is gone.

This module must not know how that was found.
"""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.reasons.words import is_or_are, listed, place_of, units
from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class NextWall:
    """The next obstacle of a job, shown together with the first."""

    kind: Literal[
        "BeyondShare",
        "BudgetSpent",
        "CapacityLost",
        "Fragmented",
        "Maintenance",
        "NeverFits",
        "NoMachineMatches",
        "OverCeiling",
        "OverUserLimit",
        "PlannedForOther",
        "ProviderStockout",
        "ShareInUse",
        "WaitingForCapacity",
    ]
    """The reason that the job will have then."""
    units: Amounts = NOTHING
    """What is lacking; what is asked for, if enough is free and scattered."""
    names: tuple[str, ...] = ()
    """
    Machines that are out of use, projects that hold or reserve it, pools, a window, a filter, a
    user, or a project or group with a budget.
    """
    over: str = "machines"
    """What it is scattered over, if enough is free: as in `Fragmented`."""

    def words(self) -> str:
        """Return the end of a sentence that names it."""
        what = units(self.units)
        match self.kind:
            case "CapacityLost":
                return f"; then it waits for {listed(self.names)} to be back in service"
            case "Fragmented":
                return f"; then it waits for {what} together {place_of(self.over)}"
            case "BeyondShare":
                return f"; then it waits to borrow {what}"
            case "OverCeiling" | "ShareInUse":
                return f"; then it waits for {listed(self.names)} to free {what}"
            case "PlannedForOther":
                verb = is_or_are(self.units)
                return f"; then it waits for {listed(self.names)}, for which {what} {verb} reserved"
            case "ProviderStockout":
                return (
                    f"; then it waits for the provider of {listed(self.names)} to create machines"
                )
            case "NeverFits":
                why = f": {what} is more than it could ever have" if self.units else ""
                return f"; and it can never run{why}"
            case "NoMachineMatches":
                named = f" with {listed(self.names)}" if self.names else ""
                return f"; then it waits for a machine{named}"
            case "BudgetSpent":
                return f"; then the budget of {listed(self.names)} is in the way"
            case "OverUserLimit":
                return f"; then a limit of {listed(self.names)} in its project is in the way"
            case "Maintenance":
                return f"; then it waits for maintenance to end: {listed(self.names)}"
            case _:
                verb = "holds" if len(self.names) == 1 else "hold"
                held = f" that {listed(self.names)} {verb}" if self.names else ""
                return f"; then it waits for {what}{held}"


def words_of(then: NextWall | None) -> str:
    """Return the words of `wall`, or nothing."""
    return "" if then is None else then.words()
