"""
The dependencies of a job: other jobs, and how they must end.

A target is the id of a job or a launch, or the name of a job of the same launch if its jobs start
separately. Dependencies that no start order can satisfy are refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from bastion.errors import SpecError
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.spec.values.written import once_each
from bastion.value import field
from quota.pattern import pattern

_TARGET = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,140}[A-Za-z0-9])?")
"""An id: two names of 63 characters, a suffix, and separators."""

When: TypeAlias = Literal["ok", "any", "failed"]
"""`ok`: it succeeded; `failed`: it ended in any other way; `any`: it ended."""

MAX_AFTER = 100
"""Per job: each is checked whenever a job ends, and is named in the reason why the job waits."""


@value
class After:
    """
    One dependency: `After("train-x7k2")`, `After("train-x7k2", when="any")`.

    `job` names a job, or a launch for all its jobs. `ok`: every one of them succeeded. `failed`:
    all have ended and at least one did not succeed. A job that is retried or preempted has not
    ended. Where text is allowed, `train-x7k2:any` means the same.
    """

    job: str = field(kw_only=False)
    when: When = "ok"

    def __post_init__(self) -> None:
        check_types(self, prefix="after.")
        if not _TARGET.fullmatch(self.job):
            raise SpecError(
                f"after: {self.job!r} is neither the name nor the id of a job or"
                " launch; write it as"
                " train-x7k2, train-x7k2:any or train-x7k2:failed"
            )

    def __str__(self) -> str:
        """Return it as written on a command line."""
        return self.job if self.when == "ok" else f"{self.job}:{self.when}"


def afters(written: Iterable[After | str]) -> tuple[After, ...]:
    """
    Return the dependencies as values, without duplicates.

    Raises:
        SpecError: One is malformed, or there are too many; the error lists every problem.
    """
    return once_each("after", written, _parsed, most=MAX_AFTER)


def _parsed(text: str) -> After:
    job, colon, when = text.partition(":")
    if not colon:
        return After(job)
    for known in get_args(When):
        if when == known:
            return After(job, when=known)
    raise SpecError(f"after: {text!r}: {when!r} is unknown; allowed: {', '.join(get_args(When))}")


def order_problems(
    whole: Sequence[After], jobs: Mapping[str, Sequence[After]], *, together: bool
) -> list[str]:
    """
    Return why the jobs of one launch could never start in the requested order.

    Args:
        whole: The dependencies of the whole launch.
        jobs: The dependencies of each job, by its name.
        together: Whether they start together.
    """
    problems = [
        f"after: {each.job!r} is one of its own jobs; say under each job what it waits for, and"
        " name an earlier job by its id"
        for each in whole
        if each.job in jobs
    ]
    inside = {name: [a.job for a in asked if a.job in jobs] for name, asked in jobs.items()}
    if together and len(jobs) > 1:
        return problems + [
            f"jobs.{name}.after: {other!r} is a job of this launch, and its jobs start together;"
            " set together to false for one after the other"
            for name, others in inside.items()
            for other in others
        ]
    circle = _circle(inside)
    if circle:
        told = " -> ".join(circle)
        problems.append(
            f"jobs.{circle[0]}.after: {told} is a circle: none of them could ever start"
        )
    return problems


def _circle(waits: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of a dependency cycle, its first repeated at the end; empty if none."""
    done: set[str] = set()
    for start in waits:
        path: list[str] = []
        stack = [(start, iter(waits[start]))] if start not in done else []
        while stack:
            name, others = stack[-1]
            if not path or path[-1] != name:
                path.append(name)
            other = next((o for o in others if o not in done), None)
            if other is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif other in path:
                return [*path[path.index(other) :], other]
            else:
                stack.append((other, iter(waits[other])))
    return []
