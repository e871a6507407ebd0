"""
`Limits`: what one user of a project may ask for, and have at the same time.

An absent limit limits nothing. The charge of a job counts, so only types under quota are limited.

This module must not know jobs: usage is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping

from quota.amounts import Amounts
from quota.value import field, value

RUNNING = "jobs"
"""The name of the limit on running jobs, where other limits are named by their type."""


@value
class Exceeded:
    """A limit that a gang would exceed."""

    limit: str
    """A resource type, or `jobs`."""
    most: int
    """What it allows at the same time."""
    held: int
    """What the user has."""
    asked: int
    """What the gang would add."""


@value
class Limits:
    """The limits of one user in one project."""

    default_max_runtime_s: float | None = None
    """The `max_runtime` of a job that names none."""
    max_max_runtime_s: float | None = None
    """The longest `max_runtime` that a job may ask for."""
    max_units: Mapping[str, int] = field(default_factory=dict)
    """By type, the most that the user's admitted jobs may be charged together; 0 is a limit."""
    max_running: int | None = None
    """The most jobs of the user that may be admitted together; every task of an array is one."""

    def __bool__(self) -> bool:
        return self != UNLIMITED

    def runtime_s(self, asked_s: float | None) -> float | None:
        """
        Return the `max_runtime` for a job that asks for `asked_s`, or None for endless.

        A job that names none gets the default; without a default, the longest that is allowed.
        """
        if asked_s is not None:
            return asked_s
        default = self.default_max_runtime_s
        return self.max_max_runtime_s if default is None else default

    def is_too_long(self, asked_s: float) -> bool:
        """Whether a `max_runtime` of `asked_s` is above the longest that is allowed."""
        return self.max_max_runtime_s is not None and asked_s > self.max_max_runtime_s

    def exceeded(
        self, held: Amounts, asked: Amounts, *, running: int, jobs: int = 1
    ) -> Exceeded | None:
        """
        Return the first limit that a gang would exceed, types before jobs; None if there is none.

        Args:
            held: What the user's admitted jobs of this project are charged.
            asked: What the gang would be charged.
            running: How many jobs of the user are admitted in this project.
            jobs: How many jobs the gang has.
        """
        for resource, most in self.max_units.items():
            if 0 < asked[resource] > most - held[resource]:
                return Exceeded(
                    limit=resource, most=most, held=held[resource], asked=asked[resource]
                )
        if self.max_running is not None and running + jobs > self.max_running:
            return Exceeded(limit=RUNNING, most=self.max_running, held=running, asked=jobs)
        return None


UNLIMITED = Limits()
"""The default of the file."""
