"""
The bodies of admins' requests about machines and pools.

They arrive through `inbox/_admin/<user>/`, where only admins can write, so a right in the bucket
permits them.
"""

from __future__ import annotations

from math import isfinite
from typing import Literal

from bastion.errors import SpecError
from bastion.value import value

MAX_MACHINES = 1000
"""Maximum number of machines per request."""
MAX_WARM = 100_000
"""Far more than any pool has."""
MAX_NAME_CHARACTERS = 200
"""Maximum characters of a machine's or pool's name."""
MAX_REASON_CHARACTERS = 200
"""Maximum characters of a reason, which root holds with the machine."""
MAX_DEADLINE_S = 30 * 86400.0
NO_SUCH_MACHINE = "no such machine"
"""Follows a name in the answer to a request; it lets clients tell it apart from a refusal."""


@value
class MachinesRequest:
    """Apply the verb in the request's name (`cordon`, `uncordon`) to these machines."""

    schema: Literal[1] = 1
    machines: tuple[str, ...]
    reason: str = ""

    def __post_init__(self) -> None:
        _check(_machine_problems(self.machines, self.reason))


@value
class DrainRequest:
    """Start nothing more on these machines, and report when the last job there has ended."""

    schema: Literal[1] = 1
    machines: tuple[str, ...]
    reason: str = ""
    deadline_s: float | None = None
    """Seconds after which jobs that still run there are preempted; None: they run to their end."""

    def __post_init__(self) -> None:
        problems = _machine_problems(self.machines, self.reason)
        given = self.deadline_s
        if given is not None and not (isfinite(given) and 0 <= given <= MAX_DEADLINE_S):
            problems.append(f"deadline_s: {given} is not allowed; 0 to {MAX_DEADLINE_S:g} seconds")
        _check(problems)


@value
class CheckRequest:
    """Let the agent of a machine report what it has, or put a short load on the machine."""

    schema: Literal[1] = 1
    machine: str
    by: Literal["hello", "burn"] = "hello"

    def __post_init__(self) -> None:
        _check(_machine_problems((self.machine,), ""))


@value
class WarmRequest:
    """Keep `machines` machines of a pool ready for `for_s` even if they are idle; 0: none."""

    schema: Literal[1] = 1
    pool: str
    machines: int
    """Machines, or slices if the pool has slices."""
    for_s: float = 8 * 3600.0

    def __post_init__(self) -> None:
        problems = _machine_problems((self.pool,), "")
        if not 0 <= self.machines <= MAX_WARM:
            problems.append(f"machines: {self.machines} is not allowed; 0 to {MAX_WARM}")
        if not (isfinite(self.for_s) and 0 < self.for_s <= MAX_DEADLINE_S):
            problems.append(f"for_s: {self.for_s} is not allowed; up to {MAX_DEADLINE_S:g} seconds")
        _check(problems)


def _machine_problems(machines: tuple[str, ...], reason: str) -> list[str]:
    problems = []
    if not 1 <= len(machines) <= MAX_MACHINES:
        problems.append(f"machines: {len(machines)} is not allowed; 1 to {MAX_MACHINES}")
    if any(not 0 < len(name) <= MAX_NAME_CHARACTERS for name in machines):
        problems.append(f"machines: a name has 1 to {MAX_NAME_CHARACTERS} characters")
    if len(reason) > MAX_REASON_CHARACTERS:
        problems.append(f"reason: {len(reason)} characters; at most {MAX_REASON_CHARACTERS}")
    return problems


def _check(problems: list[str]) -> None:
    if problems:
        raise SpecError(*problems)
