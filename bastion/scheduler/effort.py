"""
The effort of one cycle: searches are counted in steps, and end when the steps are spent.

A step is one gang let go, or put back, on trial. So what a cycle costs is bounded by a number in
its snapshot, not by a clock: it stays a function of the snapshot. Promises that stand are held
against the state in every cycle, and that takes of the same steps.

It must not know what is searched for.
"""

from __future__ import annotations

STEPS = 1_950
"""Steps of one cycle: about a fifth of a second in plain Python; our own choice."""
STEP_S = 100e-6
"""What a step takes at most: a little more than on the machine that it was measured on."""
STEPS_OF_A_PROMISE = 3 / 4
"""Steps that a standing promise takes. Source: docs/explanation/scheduling-measured.md."""
PART_FOR_SEARCHES = 4
"""One step in so many is left for searches, however many promises stand."""


def left_for_searches(steps: int, standing: int) -> int:
    """How many of `steps` are left, at least one, beside so many `standing` promises."""
    return max(1, steps // PART_FOR_SEARCHES, steps - int(STEPS_OF_A_PROMISE * standing))


def steps_within(seconds: float) -> int:
    """How many steps one cycle may take that is to search for no longer than `seconds`."""
    return max(1, min(STEPS, int(seconds / STEP_S)))


def beside_searches(steps: int) -> Effort:
    """What elastic gangs may take beside so many `steps` of search: no commit waits for them."""
    return Effort(steps // 2)


class Effort:
    """The steps that are left in one cycle."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        """Negative where a search went on beyond them."""

    def spend(self, steps: int = 1) -> None:
        """Count `steps`; a search that has begun goes on to its end."""
        self.left -= steps

    @property
    def is_spent(self) -> bool:
        """Whether no further search may begin."""
        return self.left <= 0
