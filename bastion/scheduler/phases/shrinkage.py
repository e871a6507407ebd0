"""
Shrinkage: an elastic gang gives its replicas above the minimum to jobs of its own user.

A job blocked by a limit of its user is not in the queue, so it preempts nothing there. If the limit
admits it once the user's grown gangs are at their minimum, and it fits beside these, then as few of
them as necessary are stopped, to start again with what fits. Only gangs of equal or lower priority
are stopped, after `min_runtime_s`, and only if no spent budget prevents their restart.

This module must not know how elastic gangs give back to queued jobs: see `preemption.victims`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bastion.job import Phase
from bastion.scheduler.effort import Effort, beside_searches
from bastion.scheduler.preemption.harm import first_to_yield
from bastion.scheduler.preemption.stop_times import stop_now
from bastion.scheduler.preemption.victims import yields_to
from bastion.scheduler.reasons.reason import Shrunk
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.holders.user_limits import User, Waiting
from quota.amounts import Amounts

GANGS_JUDGED_A_STEP = 32
"""Waiting gangs checked against a limit in the time of one step."""


def shrink(draft: Draft) -> None:
    """Name the grown gangs to stop for jobs blocked by the limit of their user."""
    grown: dict[User, list[Running]] = {}
    for running in _able(draft):
        if running.has_run_for(draft.options.min_runtime_s, draft.now):
            grown.setdefault((running.project, running.user), []).append(running)
    if not grown or draft.search.unseen:
        return
    # What they leave may admit a job without any of these.
    leaving = {(each.project, each.user) for each in draft.departing()}
    effort = beside_searches(draft.snapshot.steps)
    with draft.capacity.trial():
        for user in sorted(grown.keys() - leaving):
            mine = sorted(grown[user], key=lambda running: first_to_yield(draft, running))
            _shrink(draft, user, mine, effort)


def shrinks_at(draft: Draft) -> Iterable[float]:
    """Return when running gangs may be considered again, by time alone."""
    return (running.started_at + draft.options.min_runtime_s for running in _able(draft))


def _able(draft: Draft) -> Iterator[Running]:
    """Yield the grown gangs of users with limits that nothing stops yet."""
    limits = draft.user_limits
    if limits is None:
        return
    for running in draft.occupancy.elastic.values():
        is_able = running.phase is Phase.RUNNING and running.name not in draft.victims
        is_able = is_able and running.is_grown and draft.may_return(running)
        if is_able and limits.waiting((running.project, running.user)):
            yield running


def _shrink(draft: Draft, user: User, grown: Sequence[Running], effort: Effort) -> None:
    """Name as few of `grown`, all of `user`, as needed for one more job of theirs to start."""
    for count in range(1, len(grown) + 1):
        chosen = grown[:count]
        found = next(_let_in(draft, user, chosen, effort), None)
        if found is not None:
            break
    else:
        return
    for running in chosen[:-1]:
        fewer = [each for each in chosen if each is not running]
        if any(entry is found[0] for entry, _ in _let_in(draft, user, fewer, effort)):
            chosen = fewer
    _fits(draft, chosen, found)  # what it takes is not free for others
    by = found[0].gang[0].id
    for running in chosen:
        has, least = len(running.places), running.shape.replicas
        stop_now(draft, running, Shrunk(by=by, replicas=has, least=least, user=running.user), by=by)


def _let_in(
    draft: Draft, user: User, chosen: Sequence[Running], effort: Effort
) -> Iterator[Waiting]:
    """Yield the gangs of `user` that could start only with those `chosen` at their minimum."""
    assert draft.user_limits is not None, "it has users with grown gangs"
    if effort.is_spent:
        return
    effort.spend(1 + draft.user_limits.waiting(user) // GANGS_JUDGED_A_STEP)
    for waiting in draft.user_limits.let_in(user, draft.spare(chosen)):
        gang, shape = waiting[0].gang, waiting[1].shape
        if effort.is_spent or gang[0].id not in draft.user_limits.over:
            continue
        if not all(yields_to(draft, running, gang, shape) for running in chosen):
            continue
        effort.spend(len(chosen))
        with draft.capacity.trial():
            fits = _fits(draft, chosen, waiting)
        if fits:
            yield waiting


def _fits(draft: Draft, chosen: Sequence[Running], waiting: Waiting) -> bool:
    """Whether it has room beside those `chosen` at their minimum; if so, it takes the devices."""
    project, shape = waiting[1].project, waiting[1].shape
    shares, spare = draft.shares, draft.spare(chosen)

    def is_own(units: Amounts) -> bool:
        return shares.may_start(project, units, own=not shape.borrows)

    def may_borrow(units: Amounts) -> bool:
        return shares.lets_borrow(project, shape, units)

    for running in chosen:
        Release(draft.capacity, running)
    shares.add(project, -spare)
    fewest = (draft.try_place(r.shape, guaranteed=not r.is_borrowed) for r in chosen)
    fits = all(fewest) and bool(
        draft.try_place(shape, is_own, guaranteed=True)
        or draft.try_place(shape, may_borrow, guaranteed=False)
    )
    shares.add(project, spare)
    return fits
