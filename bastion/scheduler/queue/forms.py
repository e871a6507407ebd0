"""
`Forms`: the waiting lines of one project, those together that ask for the same room.

What holds for one line of a form holds for all: whether there is room, and why not.

It must not know capacity, nor why anything waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from bastion.scheduler.queue.order import Line
from bastion.scheduler.queue.positions import Tail
from bastion.scheduler.queue.shape import Shape
from quota.amounts import Amounts


class Form(NamedTuple):
    """Lines that ask for the same room; at least one."""

    lines: Sequence[Line]
    tails: Sequence[Tail]
    """Of the lines whose gangs wait; those of the others are refused where they cannot start."""

    @property
    def shape(self) -> Shape:
        """That of the first line; the others differ in priority and times at most."""
        return self.lines[0].shape


class Forms:
    """Of lines that are not changed any more."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        found: dict[int, list[Line]] = {}
        for line in lines:
            found.setdefault(line.shape.form, []).append(line)
        self._forms = [form_of(each) for each in found.values()]
        self._waited_for: Amounts | None = None
        self._matters_at = -inf

    def __iter__(self) -> Iterator[Form]:
        return iter(self._forms)

    def waited_for(self, nominal: Amounts, asks: Callable[[Shape], Amounts]) -> Amounts:
        """What gangs that could each start within `nominal` wait for; always asked the same."""
        if self._waited_for is None:
            few = (form for form in self._forms if form.shape.asked <= nominal)
            asked = [(form, asks(form.shape)) for form in few]  # at least that
            self._waited_for = Amounts.sum(
                sum([len(gangs) - at for gangs, at in form.tails]) * units
                for form, units in asked
                if units and units <= nominal
            )
        return self._waited_for

    def first_after(self, now: float, wait_s: float) -> float:
        """When the first head that has not yet waited so long will have; asked in order."""
        if self._matters_at <= now:
            found = [
                line.gangs[line.at].queued_at + wait_s for line in self.lines if not line.is_over
            ]
            self._matters_at = min([at for at in found if at > now], default=inf)
        return self._matters_at


def form_of(lines: Sequence[Line]) -> Form:
    """One form of `lines`, which ask for the same room."""
    return Form(lines, [(line.gangs, line.at) for line in lines if not line.fail_when_busy])
