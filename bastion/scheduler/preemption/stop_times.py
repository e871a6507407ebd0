"""
Stop times: when the victims of a promise are stopped.

No victim stops before its minimum running time, if it is entitled to that. Each stops so late that
it ends together with the last: before that, what it holds would only idle. A victim of two promises
stops in time for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bastion.scheduler.reasons.reason import PreemptReason
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running


def stop_at(draft: Draft, running: Running) -> float:
    """Return when a victim may be stopped: now, or after its minimum running time."""
    if not (running.is_borrowed or running.is_grown):
        return draft.now
    return max(draft.now, running.started_at + draft.options.min_runtime_s)


def stop_now(draft: Draft, running: Running, reason: PreemptReason, *, by: str = "") -> None:
    """Name a victim that stops in this cycle."""
    end = draft.now + running.grace_s
    draft.victims[running.name] = PlannedStop(by=by, stop_at=draft.now, end_at=end, reason=reason)


def spare_until(draft: Draft, victims: Iterable[Running], until: float) -> None:
    """Let `victims` keep running, as long as they have ended by `until`."""
    for victim in victims:
        known = draft.victims[victim.name]
        if known.end_at < until:
            stop = until - victim.grace_s
            draft.victims[victim.name] = replace(known, stop_at=stop, end_at=until)


def stop_by(draft: Draft, victim: Running, at: float) -> None:
    """Stop a victim at `at`, if that is earlier than its current stop time."""
    known = draft.victims[victim.name]
    if at < known.stop_at:
        end = at + victim.grace_s
        draft.victims[victim.name] = replace(known, stop_at=at, end_at=end)


def deadline_of(
    draft: Draft, waits: Iterable[Running], own: Iterable[Running], shared: Sequence[Running]
) -> float:
    """
    Return the deadline of a new promise that waits for `waits`, and stop its victims in time.

    `own` are stopped for it alone, `shared` for earlier promises, too: these stop no later than
    before.
    """
    ends = [draft.victims[victim.name].end_at for victim in shared]
    for victim in shared:
        stop_by(draft, victim, stop_at(draft, victim))
    deadline = max([draft.now, *map(draft.ends_at, waits)])
    spare_until(draft, own, deadline)
    for victim, end in zip(shared, ends):
        spare_until(draft, [victim], min(end, deadline))
    return deadline
