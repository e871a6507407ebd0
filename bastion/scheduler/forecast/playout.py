"""
One simulated future: which gang ends when, and which waiting gang starts on what is freed.

It follows the rules of a cycle as far as they matter for a guess: gangs within their share first,
then the order of the cycle; a gang that does not fit blocks no other. In it no gang is preempted,
and none is submitted.

This module must not change anything: whatever it tries, it undoes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import heapify, heappop

from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.need import Need
from bastion.scheduler.queue.order import Gang, Line
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from bastion.value import value
from quota.amounts import Amounts

MAX_ENDS = 64
"""A start after this many ends is too far away to predict."""


@value
class ExpectedEnd:
    """When a running gang has ended in this future."""

    at: float
    """Infinite if unknown."""
    runs: int = 0
    """The number of earlier runs that this rests on; 0: its time limit."""


class _Waiting:
    """A line, as far as it still waits in this future."""

    def __init__(self, draft: Draft, line: Line) -> None:
        self.line = line
        self.shape = line.shape
        self.asked = draft.asks(line.shape)
        self.need = Need(draft, line.shape, guaranteed=False)
        has_plan = draft.reservations.kept_for(line.head) is not None
        self.at = line.at + has_plan
        """Of the next gang."""

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.line.gangs)

    @property
    def head(self) -> Gang:
        return self.line.gangs[self.at].gang


class Future:
    """
    What follows if every running gang ends as expected.

    A gang that starts in it does not end in it: nothing is predicted that far ahead.
    """

    def __init__(self, draft: Draft, lines: Iterable[Line], at_most: int) -> None:
        self._draft = draft
        waiting = [_Waiting(draft, line) for line in lines]
        self._waiting = [each for each in waiting if not each.is_over]
        self._at_most = at_most
        self._rests_on = 0
        self.starts: dict[str, ExpectedEnd] = {}
        """
        By the first job of a starting gang: when, and on how many runs the last end before it
        rests.
        """

    def play(self, ends: Iterable[tuple[ExpectedEnd, Running]]) -> None:
        """End every running gang, and find the first starts."""
        draft = self._draft
        due = [(end.at, r.name, end.runs, r) for end, r in ends if not math.isinf(end.at)]
        heapify(due)
        gone: list[Running] = []
        began: list[tuple[str, Amounts]] = []
        draft.capacity.begin()
        try:
            while due and len(self.starts) < self._at_most and len(gone) < MAX_ENDS:
                at, _, runs, running = heappop(due)
                gone.append(running)
                self._let_end(running)
                self._rests_on = runs or self._rests_on
                if not due or due[0][0] > at:
                    began += self._start(max(at, draft.now))
        finally:
            draft.capacity.undo()
            draft.shares.let_end(gone, sign=-1)
            for project, total in began:
                draft.shares.add(project, -total)

    def _let_end(self, running: Running) -> None:
        release = Release(self._draft.capacity, running)
        for each in self._waiting:
            each.need.count(release)
        self._draft.shares.let_end([running])

    def _start(self, now: float) -> Iterator[tuple[str, Amounts]]:
        """Start what fits now; return (project, charge) of each."""
        shares = self._draft.shares
        able = [each for each in self._waiting if each.need.may_fit()]
        while able and len(self.starts) < self._at_most:
            able.sort(key=lambda each: not shares.is_within(each.line.project, each.asked))
            each = able[0]
            placed = self._placed(each)
            if placed is None:  # capacity only shrinks until a gang ends
                able = [other for other in able if other.line.key != each.line.key]
                continue
            shares.add(each.line.project, placed.total)
            self.starts[each.head[0].id] = ExpectedEnd(at=now, runs=self._rests_on)
            yield each.line.project, placed.total
            each.at += 1
            if each.is_over:
                able.remove(each)
                self._waiting.remove(each)

    def _placed(self, each: _Waiting) -> Placed | None:
        """Place the head of a line and take its devices; return None if it does not fit."""
        if not self._allows(each, each.asked):
            return None
        return self._draft.try_place(each.shape, partial(self._allows, each), guaranteed=False)

    def _allows(self, each: _Waiting, asked: Amounts) -> bool:
        shares, project = self._draft.shares, each.line.project
        is_within = shares.is_within(project, asked)
        return is_within or shares.lets_borrow(project, each.shape, asked)
