"""
Aged lines: those whose heads have waited for `plan_after_s`, in the order of their plans.

Only a few of thousands are ever read. So lines from which a cycle has taken nothing are not sorted
again: each project keeps them in order, and these orders are merged as far as they are read.

This module must not know what a planned start is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any

from bastion.scheduler.phases.reservations.earliest_start import fits_share
from bastion.scheduler.queue.lines import Backlog
from bastion.scheduler.queue.order import Entry, Line, age_of, place_of
from bastion.scheduler.state.blocked import moved
from bastion.scheduler.state.draft import Draft


def aged(draft: Draft) -> Iterator[Line]:
    """Yield lines that may borrow, the longest waiting first; each once, as it was when read."""
    borrow = {name: draft.shares.project(name).borrow for name in draft.rest}
    for line in _merged(draft, draft.rest, lambda backlog: backlog.by_age, age_of):
        # Within its share it gets a promise, and elsewhere it has none.
        if line.shape.borrows and borrow[line.project]:
            yield line


def aged_on_shares(draft: Draft) -> Iterator[Line]:
    """Yield lines that the share of their project holds, in the order of the projects."""
    for line in _merged(draft, draft.lines, lambda backlog: backlog.lines, place_of):
        if fits_share(draft, line.project, line.shape):
            yield line


def _merged(
    draft: Draft,
    lines: Mapping[str, list[Line]],
    kept: Callable[[Backlog], Sequence[Line]],
    place: Callable[[Entry], Any],
) -> Iterator[Line]:
    """
    Yield the aged among `lines` without a planned start, by the `place` of their heads.

    `kept` returns the lines of a project in that order, as they were when the cycle began.
    """
    after_s, touched = draft.options.plan_after_s, moved(draft)

    def sorted_by(some: Sequence[Line]) -> Iterator[tuple[Any, Line]]:
        for line in some:
            if line.is_over or line.fail_when_busy or line.first.queued_at + after_s > draft.now:
                continue
            if line.head[0].id not in draft.plans:
                yield place(line.first), line

    changed, streams = [], []
    for project, found in lines.items():
        backlog = draft.backlogs[project]
        if backlog.oldest + after_s > draft.now:
            continue
        whole = kept(backlog)
        if project in touched:
            whole = [line for line in whole if line.is_whole]
            changed += [line for line in found if not line.is_whole]
        streams.append(sorted_by(whole))
    streams.append(iter(sorted(sorted_by(changed), key=itemgetter(0))))
    for _, line in merge(*streams, key=itemgetter(0)):
        yield line
