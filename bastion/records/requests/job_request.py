"""The bodies of users' requests about jobs that they have submitted."""

from __future__ import annotations

from typing import Literal

from bastion.errors import SpecError
from bastion.spec.arrays.task import tasks_of_id
from bastion.spec.values.quantity import MAX_SECONDS
from bastion.value import value

MAX_TARGETS = 1000
"""Maximum number of targets per request: each may need a lookup in the bucket."""
MAX_TARGET_CHARACTERS = 210
"""Maximum characters per target: a launch's id and some tasks."""
MAX_TARGET_RANGES = 10_000
"""Maximum ranges of tasks in all targets of a request together."""

MAX_ARGUMENTS = 256
"""Maximum size of a command: root holds it until its machine has received it."""
MAX_ARGUMENT_BYTES = 8 << 10
"""Maximum size of all arguments of a command together."""
MAX_EXEC_S = 7 * 86400.0


@value
class JobsRequest:
    """Apply the verb in the request's name (`cancel`, `hold`, `release`) to these targets."""

    schema: Literal[1] = 1
    targets: tuple[str, ...]
    """
    Ids of jobs, or of launches to mean all of their jobs; `train-0123456789.0-4,9` for tasks of an
    array.
    """

    def __post_init__(self) -> None:
        problems = _target_problems(self.targets)
        if problems:
            raise SpecError(*problems)


@value
class UpdateRequest:
    """Change the fields of a queued or running job that can be changed."""

    schema: Literal[1] = 1
    targets: tuple[str, ...]
    priority: int | None = None
    max_runtime_s: float | None = None

    def __post_init__(self) -> None:
        problems = _target_problems(self.targets)
        if self.priority is None and self.max_runtime_s is None:
            problems.append("nothing to change: give priority or max_runtime")
        if self.priority is not None and not 1 <= self.priority <= 5:
            problems.append(f"priority: {self.priority} is not allowed; 1 (highest) to 5")
        if self.max_runtime_s is not None and not 0 < self.max_runtime_s <= MAX_SECONDS:
            given = self.max_runtime_s
            problems.append(
                f"max_runtime: {given} is not allowed; more than 0 seconds, at most {MAX_SECONDS}"
            )
        if problems:
            raise SpecError(*problems)


@value
class FollowRequest:
    """Flush the logs of these jobs immediately: a user is reading them."""

    schema: Literal[1] = 1
    targets: tuple[str, ...]

    def __post_init__(self) -> None:
        problems = _target_problems(self.targets)
        if problems:
            raise SpecError(*problems)


@value
class ExecRequest:
    """Run a command next to a job's processes, on the machine of one of its hosts."""

    schema: Literal[1] = 1
    job: str
    """The id of a job, or of one task of an array."""
    argv: tuple[str, ...]
    replica: int = 0
    host: int = 0
    process: int = 0
    """Index of the process whose variables and folder the command gets."""
    max_runtime_s: float = 3600.0

    def __post_init__(self) -> None:
        problems = []
        if len(self.job) > MAX_TARGET_CHARACTERS:
            problems.append(f"job: {len(self.job)} characters; at most {MAX_TARGET_CHARACTERS}")
        size = sum(len(each.encode()) for each in self.argv)
        if not self.argv or not self.argv[0]:
            problems.append("argv: names no program")
        if len(self.argv) > MAX_ARGUMENTS or size > MAX_ARGUMENT_BYTES:
            problems.append(
                f"argv: {len(self.argv)} arguments, {size} bytes; at most {MAX_ARGUMENTS} and"
                f" {MAX_ARGUMENT_BYTES}: send a file with the job's code and run that"
            )
        if any("\0" in each for each in self.argv):
            problems.append("argv: an argument holds a zero byte, which no program can be given")
        for name in ("replica", "host", "process"):
            if not 0 <= getattr(self, name) < 10**6:
                problems.append(f"{name}: {getattr(self, name)} is not allowed; 0 or more")
        if not 0 < self.max_runtime_s <= MAX_EXEC_S:
            given = self.max_runtime_s
            problems.append(f"max_runtime: {given} is not allowed; up to {MAX_EXEC_S:g} seconds")
        if problems:
            raise SpecError(*problems)


def _target_problems(targets: tuple[str, ...]) -> list[str]:
    if not 1 <= len(targets) <= MAX_TARGETS:
        return [f"targets: {len(targets)} is not allowed; 1 to {MAX_TARGETS} jobs or launches"]
    longest = max(targets, key=len)
    if len(longest) > MAX_TARGET_CHARACTERS:
        return [
            f"targets: {longest[:40]!r}... has {len(longest)} characters; at most"
            f" {MAX_TARGET_CHARACTERS} each: tasks with gaps are written out, so name ranges"
            " without gaps, or fewer at once"
        ]
    ranges = 0
    for target in targets:
        named = tasks_of_id(target)
        ranges += 1 if named is None else len(named[1].pairs)
        if ranges > MAX_TARGET_RANGES:
            return [
                f"targets: name more than {MAX_TARGET_RANGES} ranges of tasks, the most allowed"
            ]
    return []
