"""How many replicas a job has: a number, or a range for a job that can grow and shrink."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence

from bastion.errors import SpecError
from bastion.value import value
from quota.pattern import pattern

MAX_REPLICAS = 10_000
MAX_EXTRA = 256
"""Maximum replicas of a job above its least; the scheduler adds and removes each separately."""

_RANGE = pattern(r"\s*(\d{1,6})\s*-\s*(\d{1,6})\s*", re.ASCII)


@value
class Replicas:
    """The fewest and the most replicas that a job runs with; equal unless it is elastic."""

    least: int
    most: int

    @property
    def is_elastic(self) -> bool:
        """Whether it can grow and shrink."""
        return self.most > self.least

    @property
    def written(self) -> int | str:
        """The form in a spec: `4`, or `2-8`."""
        return f"{self.least}-{self.most}" if self.is_elastic else self.least


def replicas_of(written: int | str) -> Replicas:
    """
    Return the range in `written`: `4`, or text such as `2-8`.

    Raises:
        SpecError: It is neither, or outside the allowed range.
    """
    if isinstance(written, int):
        found = Replicas(least=written, most=written)
    else:
        match = _RANGE.fullmatch(written)
        if match is None:
            raise SpecError(
                f"replicas: {reprlib.repr(written)} is not a range;"
                ' allowed: a whole number, or the fewest and the most, as "2-8"'
            )
        found = Replicas(least=int(match[1]), most=int(match[2]))
        if found.least > found.most:
            right = f"{found.most}-{found.least}"
            raise SpecError(f'replicas: {written!r} ends before it begins; allowed: "{right}"')
    for number in (found.least, found.most):
        if not 1 <= number <= MAX_REPLICAS:
            raise SpecError(f"replicas: {number} is not allowed; 1 to {MAX_REPLICAS}")
    if found.most - found.least > MAX_EXTRA:
        largest = f"{found.least}-{found.least + MAX_EXTRA}"
        raise SpecError(f'replicas: {written!r} is too wide; at most "{largest}"')
    return found


def resume_problems(replicas: Replicas, *, resume: bool) -> list[str]:
    """Return why the job's own settings prevent it from being elastic."""
    if not replicas.is_elastic or resume:
        return []
    return [
        f'replicas: "{replicas.written}" needs resume=True: to grow or shrink, a job is stopped'
        f" and resumed; or replicas={replicas.least}"
    ]


def range_problems(jobs: Sequence[Replicas], *, gang: int, exclusive: bool) -> list[str]:
    """Return why jobs of a launch, of which `gang` start together, cannot be elastic."""
    why = f"its launch has {gang - 1} more to start with it; together=False" if gang > 1 else ""
    if exclusive:
        why = "it takes whole machines; leave exclusive out"
    return [
        f'jobs.{at}.replicas: "{each.written}" is not possible, as {why}; or replicas={each.least}'
        for at, each in enumerate(jobs)
        if why and each.is_elastic
    ]
