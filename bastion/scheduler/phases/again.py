"""
Begin again: what a cycle knows late, and begins once more with.

It must not know how it was found out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from bastion.scheduler.phases.carried import carried, planned_of
from bastion.scheduler.phases.lean import made_leaner
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.order import Ids, ids_of
from bastion.scheduler.reasons.reason import Reclaimed, Rotated
from bastion.scheduler.state.decisions import Doom
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.outset import PASSES, Outset


def outset_after(draft: Draft) -> Outset | None:
    """What to begin again with after a pass that went through; None when its plan stands."""
    outset = draft.outset
    undone, useless = _undone(draft), _useless(draft)
    if outset.passes >= PASSES:
        if undone or useless:  # what the first pass decides can be done
            return Outset(given=outset.given, snapshot=outset.given, passes=PASSES)
        return None
    if useless:
        return _without_stops(draft, useless)
    if undone:
        draft.instead.update(undone)
        return outset_without(draft)
    if outset.done.stopped and (given_up := _given_up(draft)):
        return _without_plans(outset, given_up)
    if outset.passes > 1 and (leaner := made_leaner(draft)):
        return _with_promises(draft, leaner)
    if not _is_settled(draft):
        return carried(draft)
    if missed := outset.helped - _begun(draft) - draft.promises.keys():
        return _from_the_start(outset, useless=(), needed=missed)
    return None


def _with_promises(draft: Draft, spared: Mapping[str, frozenset[str]]) -> Outset:
    """The same pass again, with promises from the beginning that stop fewer: not those jobs."""
    outset = _taken_back(draft.outset, frozenset().union(*spared.values()))
    new = [draft.promises[name] for name in _resting_on(draft, spared)]
    gangs = {each.gang for each in new}
    kept = [each for each in outset.snapshot.promises if each.gang not in gangs]
    return replace(
        outset,
        snapshot=replace(outset.snapshot, promises=_in_order(draft, [*kept, *new])),
        new=outset.new | gangs,
        passes=outset.passes + 1,
    )


def _in_order(draft: Draft, promises: Sequence[Promise]) -> tuple[Promise, ...]:
    """As they were promised, but each after those that stop whom it waits for."""
    order = {name: at for at, name in enumerate(_resting_on(draft, draft.promises))}
    return tuple(sorted(promises, key=lambda each: order.get(each.gang[0], -1)))


def _is_settled(draft: Draft) -> bool:
    """
    Whether the next cycle would move nobody, as far as that can be seen without deciding it.

    Who starts leaves less to all others, and phase 3 has looked at what its own victims leave. But
    a promise that rests on priority may not stand beside who starts, who may be a victim for whom
    there was none, and have taken what would have come free for somebody anyway; and of what
    phases 4 and 5 plan and stop, somebody that was looked at before may make use.
    """
    snapshot, now = draft.snapshot, draft.now
    outset = draft.outset
    if outset.skipped or outset.late or planned_of(draft) != snapshot.planned:
        return False
    if any(d.stop_at <= now and not isinstance(d.reason, Reclaimed) for d in draft.doomed.values()):
        return False
    if draft.admitted and (draft.hopeless or draft.patient):
        return False
    known = () if draft.admitted else {promise.gang for promise in snapshot.promises}
    return all(each.within_share or each.gang in known for each in draft.promises.values())


def _undone(draft: Draft) -> dict[Ids, frozenset[Ids]]:
    """
    Gangs with a promise, and those that earlier passes started and it would have stopped.

    Not a lost job of a gang that was to be stopped before it started again: it has until then.
    """
    names = {draft.of_job[each.gang[0].id].name: each for each in draft.outset.done.started}
    known = {(each.gang, job) for each in draft.snapshot.promises for job, _ in each.victims}
    found: dict[Ids, set[Ids]] = {}
    for name in names.keys() & draft.doomed.keys():
        promise = draft.promises.get(draft.doomed[name].by)
        if promise is None or any((promise.gang, job) in known for job in draft.running[name].ids):
            continue
        found.setdefault(promise.gang, set()).add(ids_of(names[name].gang))
    return {gang: frozenset(ids) for gang, ids in found.items()}


def outset_without(draft: Draft) -> Outset:
    """What to begin again with when something is void, or somebody is not to start."""
    outset, snapshot = draft.outset, draft.snapshot
    new = [draft.promises[name] for name in _resting_on(draft, (g[0] for g in draft.instead))]
    gone = draft.void.union(*draft.instead.values(), (each.gang for each in new))
    kept = [_as_started(draft, each) for each in snapshot.promises if each.gang not in gone]
    planned = tuple(each for each in snapshot.planned if each.gang not in gone)
    late = [outset.before[gang] for gang in draft.void if gang in outset.before]
    waiting = {job for gangs in draft.instead.values() for ids in gangs for job in ids}
    outset = _taken_back(outset, waiting)
    return replace(
        outset,
        snapshot=replace(
            outset.snapshot, promises=_in_order(draft, [*kept, *new]), planned=planned
        ),
        before={**outset.before, **draft.instead},
        new=outset.new.union(each.gang for each in new),
        late=outset.late.union(*late),
        unplanned=outset.unplanned | draft.unplanned,
        passes=outset.passes + 1,
    )


def _taken_back(outset: Outset, jobs: Collection[str]) -> Outset:
    """As if nothing had been done with `jobs`."""
    snapshot, done, new = outset.snapshot, outset.done.without(jobs), outset.new
    unmade = {each.name for each in outset.done.machines} - {each.name for each in done.machines}
    machines = {name: each for name, each in snapshot.machines.items() if name not in unmade}
    given = {**snapshot.jobs, **{name: outset.given.jobs[name] for name in jobs}}
    if len(done.stopped) < len(outset.done.stopped):
        # Whoever is not stopped after all stands where he stood, whatever has been promised since.
        known = {each.gang for each in outset.given.promises}
        new = new.union(each.gang for each in snapshot.promises if each.gang not in known)
    snapshot = replace(snapshot, jobs=given, machines=machines)
    return replace(outset, snapshot=snapshot, done=done, new=new)


def _given_up(draft: Draft) -> set[Ids]:
    """Gangs for whom earlier cycles or passes had planned, and nothing is done any more."""
    outset = draft.outset
    kept = _begun(draft) | draft.planned.keys() | draft.promises.keys()
    before = (*outset.given.planned, *outset.snapshot.planned)
    return {each.gang for each in before if each.gang[0] not in kept}


def _without_plans(outset: Outset, gangs: set[Ids]) -> Outset:
    """From the start, as if nothing had been planned for `gangs`: less may have to be stopped."""
    planned = tuple(each for each in outset.given.planned if each.gang not in gangs)
    given = replace(outset.given, planned=planned)
    unplanned = outset.unplanned.union(gang[0] for gang in gangs)
    return _from_the_start(replace(outset, given=given, unplanned=unplanned), useless=())


def _useless(draft: Draft) -> dict[str, Doom]:
    """Jobs that earlier passes stopped for gangs that do not need it, or cannot have it."""
    done = draft.outset.done.stopped.items()
    return {
        job: doom
        for job, doom in done
        if doom.by not in draft.outset.needed and not _is_of_use(draft, job, doom)
    }


def _without_stops(draft: Draft, useless: Mapping[str, Doom]) -> Outset:
    """From the start, as nobody is to be stopped for nothing; from here where that did not do."""
    outset = draft.outset
    known = outset.vain | outset.unplanned | outset.later
    new = {job: doom for job, doom in useless.items() if doom.by not in known}
    if not new:
        return replace(_taken_back(outset, useless), passes=outset.passes + 1)
    within = [r for name, r in draft.reserved.items() if draft.promises[name].within_share]
    taken = {job for each in within for running in each.waits for job in running.ids}
    rotated = {job for job, doom in new.items() if isinstance(doom.reason, Rotated)}
    outset = replace(outset, unrotated=outset.unrotated | (rotated & taken))
    return _from_the_start(outset, new.values(), begun=_begun(draft))


def _is_of_use(draft: Draft, job: str, doom: Doom) -> bool:
    """Whether that for which `job` is stopped is still meant to be."""
    is_promised = doom.by in draft.promises
    if not isinstance(doom.reason, Rotated):
        return is_promised
    waits = draft.reserved[doom.by].waits if is_promised else ()
    gang = draft.of_job[job].gang  # which stops as a whole
    return doom.by in draft.planned or any(running.gang == gang for running in waits)


def _begun(draft: Draft) -> set[str]:
    """Names of gangs that start in this cycle."""
    return {each.gang[0].id for each in (*draft.outset.done.started, *draft.admitted)}


def _from_the_start(
    outset: Outset,
    useless: Collection[Doom],
    *,
    begun: Collection[str] = (),
    needed: Collection[str] = (),
) -> Outset:
    """As if nothing had been done yet, so that nobody is stopped for nothing."""
    reclaimed = {each.by for each in useless if isinstance(each.reason, Reclaimed)}
    rotated = {each.by for each in useless if isinstance(each.reason, Rotated)}
    others = {each.by for each in useless} - reclaimed - rotated
    return Outset(
        given=outset.given,
        snapshot=outset.given,
        vain=(outset.vain | others).difference(needed),
        helped=outset.helped.union(others & set(begun)).difference(needed),
        needed=outset.needed.union(needed),
        unplanned=outset.unplanned | rotated,
        unrotated=outset.unrotated,
        later=outset.later | reclaimed,
        passes=outset.passes + 1,
    )


def _resting_on(draft: Draft, names: Iterable[str]) -> list[str]:
    """`names` of gangs with a promise, and those that stop whom they wait for; these come first."""
    seen: set[str] = set()
    found: list[str] = []

    def add(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        for running in draft.reserved[name].waits:
            doom = draft.doomed.get(running.name)
            if doom is not None and doom.by in draft.reserved:
                add(doom.by)
        found.append(name)

    for name in names:
        add(name)
    return found


def _as_started(draft: Draft, promise: Promise) -> Promise:
    """`promise`, its devices those that its gang found elsewhere."""
    for each in draft.admitted:
        if each.gang[0].id == promise.gang[0]:
            return replace(promise, placements=each.placed.placements)
    return promise
