"""`Synthesis`: the settings of a policy that chooses among others by simulation."""

from __future__ import annotations

from typing import Literal, get_args

from bastion.errors import SpecError
from bastion.value import value
from quota.choice import choose
from quota.options import ORDERS

SYNTHESIZE = "synthesize:"
"""The prefix of its name; orders follow, separated by commas: `synthesize:fifo,las`."""
By = Literal["mean_jct", "p90_jct", "p99_jct", "mean_slowdown", "makespan"]
BY: tuple[By, ...] = get_args(By)


@value
class Synthesis:
    """How often it looks ahead, how far, and how it compares."""

    every_s: float = 3600.0
    """From one choice to the next."""
    ahead_s: float = 86400.0
    """How far each candidate is simulated."""
    by: By = "mean_jct"
    """The smallest value wins; if equal, the first of the candidates."""
    knows_lengths: bool = False
    """Whether it knows how long jobs take, which only a simulation knows."""

    def __post_init__(self) -> None:
        problems = []
        if self.every_s <= 0 or self.ahead_s <= 0:
            problems.append("synthesize: every and ahead: allowed: seconds above zero")
        if self.by not in BY:
            problems.append(f"synthesize: by: {self.by!r} is unknown, {choose(self.by, BY)}")
        if problems:
            raise SpecError(*problems)


HOURLY = Synthesis()
"""It looks ahead by one day, every hour."""


def candidates_of(written: str) -> tuple[str, ...]:
    """
    Return the orders that `synthesize:fifo,las` names.

    Raises:
        SpecError: One is unknown, or there are fewer than two.
    """
    names = [name.strip() for name in written.removeprefix(SYNTHESIZE).split(",") if name.strip()]
    problems = [
        f"policy: {name!r} is not an order to synthesize from, {choose(name, ORDERS)}"
        for name in names
        if name not in ORDERS
    ]
    if not problems and len(set(names)) < 2:
        problems.append(f"policy: {written!r}: allowed: two orders or more, such as fifo,las")
    if problems:
        raise SpecError(*problems)
    return tuple(dict.fromkeys(names))
