"""
The effort of one cycle: searches are counted in steps, and stop when the steps are spent.

One step is one gang removed, or put back, on trial. A number in the snapshot bounds the cost of a
cycle, not a clock, so a cycle stays a function of its snapshot. Every cycle also checks each
standing promise against the state, and that takes steps from the same budget.

This module must not know what is searched for.
"""

from __future__ import annotations

STEPS = 1_950
"""Steps of one cycle: about 0.2 s in plain Python. The number is our own choice."""
STEP_S = 100e-6
"""The most that a step takes: slightly more than on the machine where it was measured."""
STEPS_OF_A_PROMISE = 3 / 4
"""Steps charged for a standing promise. Source: docs/explanation/scheduling-measured.md."""
PART_FOR_SEARCHES = 4
"""At least one step in this many is left for searches, however many promises stand."""


def left_for_searches(steps: int, standing: int) -> int:
    """Return how many of `steps` are left, at least one, beside `standing` promises."""
    return max(1, steps // PART_FOR_SEARCHES, steps - int(STEPS_OF_A_PROMISE * standing))


def steps_within(seconds: float) -> int:
    """Return how many steps a cycle may take if it is to search for at most `seconds`."""
    return max(1, min(STEPS, int(seconds / STEP_S)))


def beside_searches(steps: int) -> Effort:
    """Return what elastic gangs may take beside `steps` of search: no commit waits for them."""
    return Effort(steps // 2)


class Effort:
    """The steps left in one cycle."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        """Negative where a search continued beyond the budget."""

    def spend(self, steps: int = 1) -> None:
        """Count `steps`. A search in progress always finishes."""
        self.left -= steps

    @property
    def is_spent(self) -> bool:
        """Whether no further search may start."""
        return self.left <= 0
