"""
`Forms`: the waiting lines of one project, joined where they need the same room.

What holds for one line of a form holds for all of them: whether there is room, and why not.

This module must not know capacity, nor why anything waits.
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
    """Lines that need the same room; at least one."""

    lines: Sequence[Line]
    tails: Sequence[Tail]
    """Of the lines whose gangs wait; gangs of the others are refused where they cannot start."""

    @property
    def shape(self) -> Shape:
        """The shape of the first line; the others differ at most in priority and times."""
        return self.lines[0].shape


class Forms:
    """The forms of lines that no longer change."""

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
        """Return what gangs that could each start within `nominal` wait for; it never changes."""
        if self._waited_for is None:
            few = (form for form in self._forms if form.shape.asked <= nominal)
            asked = [(form, asks(form.shape)) for form in few]  # a lower bound
            self._waited_for = Amounts.sum(
                sum([len(gangs) - at for gangs, at in form.tails]) * units
                for form, units in asked
                if units and units <= nominal
            )
        return self._waited_for

    def first_after(self, now: float, wait_s: float) -> float:
        """Return when the first head that has not yet waited that long will have; call in order."""
        if self._matters_at <= now:
            found = [
                line.gangs[line.at].queued_at + wait_s for line in self.lines if not line.is_over
            ]
            self._matters_at = min([at for at in found if at > now], default=inf)
        return self._matters_at


def form_of(lines: Sequence[Line]) -> Form:
    """Return one form of `lines`, which need the same room."""
    return Form(lines, [(line.gangs, line.at) for line in lines if not line.fail_when_busy])
