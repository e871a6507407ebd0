"""
A start of this cycle, taken back.

A gang of higher priority that does not fit beside the starting gangs would stop some of them in the
next cycle. Instead they do not start at all: what has not started loses nothing.

This module must not know what is searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.scheduler.phases.reservations.lending import lent, reopened
from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.preemption.stop_times import stop_at
from bastion.scheduler.queue.order import ids_of
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running


def take_back(draft: Draft, victims: Sequence[Running]) -> tuple[Running, ...]:
    """
    Undo the starts of those `victims` that start in this cycle, and return the rest.

    If a victim must stop now, jobs of its gang that restart do not start, either.
    """
    back = [each for each in victims if each.name in draft.starting]
    parts = (each for each in victims if len(each.gang) > len(each.jobs))
    torn = {each.gang for each in parts if stop_at(draft, each) <= draft.now}
    if torn:
        back += [each for each in starting(draft) if each.gang in torn and each not in back]
    if not back:
        return tuple(victims)
    ids = {running.ids for running in back}
    for admitted in (draft.admitted, *(draft.admitted_by[each.project] for each in back)):
        admitted[:] = [each for each in admitted if ids_of(each.gang) not in ids]
    with reopened(draft, draft.reservations.drained()):
        _undo(draft, back)
    return tuple(each for each in victims if each not in back)


def _undo(draft: Draft, back: Sequence[Running]) -> None:
    """Undo these starts; what is closed in their places then closes what is left."""
    for running in back:
        waiting = draft.reservations.waiting_for([running.name])
        closed = [each for each in waiting if each.hold is not None]
        with lent(draft, closed):  # else what they leave would be closed, and idle
            for each in waiting:
                left = [other for other in each.waits if other is not running]
                draft.reservations.wait_for(each, left)
            Release(draft.capacity, running)
            draft.shares.let_end([running])
        del draft.starting[running.name]
        gang = tuple(draft.snapshot.jobs[name] for name in running.ids)
        draft.taken_back.append(draft.wait_again(gang))
        draft.search.loosened.add(running.project)
