"""
Why every waiting gang cannot start, collected so that thousands cost little.

What holds for one form of lines is found once. The first gang that waits for devices of its project
gets that reason; the others are behind it.

This module changes only where lines begin: behind gangs that have a planned start.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator

from bastion.scheduler.explain.diagnosis import MOST_TRIED, Diagnosis
from bastion.scheduler.forecast.estimate import Estimates, estimates
from bastion.scheduler.plan import Estimate, Wait
from bastion.scheduler.queue.forms import Form, form_of
from bastion.scheduler.queue.order import Gang, Key, Line
from bastion.scheduler.queue.positions import Crowd, Row, Stretch
from bastion.scheduler.reasons.reason import (
    BeyondShare,
    Fragmented,
    NotYetConsidered,
    Planned,
    WaitingForCapacity,
    WaitingReason,
    can_never_run,
)
from bastion.scheduler.state.blocked import Blocked
from bastion.scheduler.state.draft import Draft

HOPE = (WaitingForCapacity, Fragmented)
HOPE_OF_FEW = (*HOPE, BeyondShare)
"""Reasons that time alone ends."""
NOT_YET = Wait(reason=NotYetConsidered())

Told = tuple[Gang, Wait]
"""A waiting gang, why it waits, and when it will probably start."""


class WaitingGangs:
    """The gangs that cannot start, with the reason of each."""

    def __init__(self, draft: Draft, blocked: Blocked) -> None:
        self.draft = draft
        self.blocked = blocked
        self.estimates = Estimates(starts={})
        """Gangs that time alone releases; complete once `tell` has ended."""
        self.in_line: list[Crowd | Row] = []
        """Gangs for which nothing is done."""
        self.diagnosis = Diagnosis(draft, blocked.waited_for())

    def tell(self) -> Iterator[Told]:
        """
        Yield every gang except those `in_line`, which is complete once this has ended.

        A gang is behind others of its project that wait for the same devices.
        """
        draft = self.draft
        hope = HOPE_OF_FEW if len(draft.running) <= MOST_TRIED else HOPE
        hopeful: set[Line] = set()
        rows: dict[tuple[str, frozenset[str]], list[tuple[Form, WaitingForCapacity]]] = {}
        yield from self._with_plans()
        unseen = yield from self._not_considered()
        kept = (*draft.plans.values(), *draft.reservations.drained())
        begun = {each.project for each in kept}
        for project, forms in self.blocked.by_project.items():
            for form in forms:
                if unseen or project in begun:
                    left = [x for x in form.lines if not (x.is_over or x in unseen)]
                    form = form_of(left)
                if not form.lines:
                    continue
                reason = self.diagnosis.reason(form.lines[0].head, form.shape)
                if isinstance(reason, hope):
                    hopeful.update(form.lines)
                if isinstance(reason, WaitingForCapacity):
                    rows.setdefault((project, form.shape.scarce), []).append((form, reason))
                else:
                    yield from self._in_a_crowd(form, reason)
        if hopeful:
            self.estimates = estimates(draft, self._in_order(hopeful))
        for (project, _), row in rows.items():
            yield from self._in_a_row(project, row)

    def _in_order(self, lines: Collection[Line]) -> Iterator[Line]:
        """Yield `lines` in the order of the cycle's turns between projects."""
        turns = [line for line in self.draft.blocked if line in lines]
        by_project: dict[str, list[Line]] = {}
        for line in turns:
            by_project.setdefault(line.project, []).append(line)
        queues: dict[str, Iterator[Line]] = {}
        for name in (line.project for line in turns):
            if name not in queues:  # few of them are asked about
                queues[name] = iter(sorted(by_project[name], key=self._key))
            yield next(queues[name])

    def _key(self, line: Line) -> Key:
        first, used = line.first, self.draft.usage_by_user[line.project]
        return first.rank, used.get(line.user, 0.0), first.submitted_at, first.name

    def _with_plans(self) -> Iterator[Told]:
        """
        Yield gangs with a reservation, and remove them from their lines.

        A drain that waits for no end is kept from its gang by a gang that precedes it.
        """
        draft = self.draft
        drained = (each for each in draft.reservations.drained() if each.waits)
        kept = (*draft.plans.values(), *drained)
        lines: dict[tuple[str, int], list[Line]] = {}
        for blocked in draft.blocked if kept else ():
            lines.setdefault(blocked.key, []).append(blocked)
        for plan in kept:
            key = plan.project, id(plan.shape)
            line = next((each for each in lines.get(key, ()) if each.has(plan.gang)), None)
            if line is not None:
                ending = tuple(job for running in plan.waits for job in running.ids)
                start = None if plan.drains else Estimate(at=plan.until)
                reason = Planned(at=start.at if start else None, waiting_for=ending)
                yield plan.gang, Wait(reason=reason, start=start)
                line.remove(plan.gang)

    def _not_considered(self) -> Generator[Told, None, set[Line]]:
        """Yield the gangs that the cycle did not reach; some can never run, and get that reason."""
        draft, search = self.draft, self.draft.search
        unseen = {
            line
            for line in (draft.blocked if search.unseen else ())
            if not line.is_over
            and draft.beyond(line.shape) is None
            and (search.is_cut_short or search.is_unseen(line.head))
        }
        yield from ((entry.gang, NOT_YET) for line in unseen for entry in line.waiting)
        return unseen

    def _in_a_crowd(self, form: Form, reason: WaitingReason) -> Iterator[Told]:
        """Yield gangs of `form` that are refused; the others all wait in line for `reason`."""
        is_final = can_never_run(reason)
        if is_final or len(form.tails) < len(form.lines):
            refused = (line for line in form.lines if is_final or line.fail_when_busy)
            yield from (
                (entry.gang, Wait(reason=reason)) for line in refused for entry in line.waiting
            )
        if form.tails and not is_final:
            self.in_line.append(Crowd(tails=form.tails, reason=reason))

    def _in_a_row(
        self, project: str, forms: list[tuple[Form, WaitingForCapacity]]
    ) -> Iterator[Told]:
        """Yield the first gang of a row, and the others too if one of them may not wait."""
        used = self.draft.usage_by_user[project]
        stretches = [
            Stretch(
                tails=[((x.gangs, x.at), used.get(x.user, 0.0)) for x in form.lines],
                units=form.shape.units,
                short=reason.short,
                then=reason.then,
            )
            for form, reason in forms
        ]
        row = Row(stretches=stretches)
        number, gang = row.first
        yield gang, Wait(reason=forms[number][1], start=self.estimates.starts.get(gang[0].id))
        if any(len(form.tails) < len(form.lines) for form, _ in forms):
            yield from ((gang, Wait(reason=behind)) for gang, behind in row.reasons())
        else:
            self.in_line.append(row)
