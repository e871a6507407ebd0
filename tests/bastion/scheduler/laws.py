"""
What must hold for every plan in every state, written from the promises and not from the code.

Every law takes the input and the output of `decide`, and raises AssertionError. Whether something
"fits" is found by trying every placement (`byhand`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from bastion.job import JobClass, JobRecord, Phase, Placement
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse, Wait
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.queue.shape import grace_of
from bastion.scheduler.reasons.reason import NeverFits, Planned, Rotated, text
from bastion.scheduler.snapshot import Snapshot
from quota import Amounts
from quota.ledger import apart, available, closed, covering, is_open_to, may_reclaim, used
from quota.tree import Node
from tests.bastion.scheduler.byhand import (
    COUNTED,
    NOTHING,
    admits,
    alive,
    block_of,
    can_start,
    charge_of,
    held_by,
    is_wanted,
    machines_of,
    placed,
    size_of,
    spot_of,
    stand,
    start_of,
    takes_whole,
    timed,
    total,
    waiting,
)

Devices = Counter[tuple[str, str, int]]
Law = Callable[[Snapshot, float, Plan], None]
_Claim = tuple[bool, bool, bool, bool, float, float, int, str, Amounts, Sequence[JobRecord]]


def devices(placements: Iterable[Placement]) -> Devices:
    """Return every device of `placements`."""
    return Counter(
        (host.machine, resource, index)
        for placement in placements
        for replica in placement
        for host in replica.hosts
        for resource, indices in host.devices.items()
        for index in indices
    )


def hosts(placements: Iterable[Placement]) -> set[str]:
    """Return the machines of `placements`."""
    return {
        host.machine for placement in placements for replica in placement for host in replica.hosts
    }


def preempts(plan: Plan) -> dict[str, Preempt]:
    """Return the jobs that are preempted."""
    return {name: v for name, v in plan.verdicts.items() if isinstance(v, Preempt)}


def usage(
    snapshot: Snapshot,
    plan: Plan | None = None,
    *,
    gone: Iterable[str] = (),
    promises: Iterable[Promise | PlannedStart] = (),
) -> dict[str, Amounts]:
    """Return what projects hold without `gone`, with the starts of `plan` and with `promises`."""
    left_out = set(gone)
    held: dict[str, Amounts] = defaultdict(lambda: NOTHING)
    for job in alive(snapshot):
        if job.id not in left_out:
            held[job.project] += held_by(snapshot, job)
    for name, verdict in (admits(plan) if plan else {}).items():
        job = snapshot.jobs[name]
        held[job.project] += total(charge_of(snapshot, job, verdict.placement, plan))
    for promise in promises:
        held[snapshot.jobs[promise.gang[0]].project] += promised(snapshot, plan, promise)
    return held


def promised(snapshot: Snapshot, plan: Plan | None, promise: Promise | PlannedStart) -> Amounts:
    """Return what a promise costs its project."""
    pairs = zip(promise.gang, promise.placements)
    return Amounts.sum(
        total(charge_of(snapshot, snapshot.jobs[name], placement, plan))
        for name, placement in pairs
    )


def is_within(snapshot: Snapshot, held: dict[str, Amounts], project: str, asked: Amounts) -> bool:
    """
    Whether `asked` fits in a share of `project` or of a group; a gang that asks for nothing
    borrows.
    """
    return bool(covering(snapshot.quota, held, project, asked))


def reclaims(
    snapshot: Snapshot,
    held: dict[str, Amounts],
    project: str,
    asked: Amounts,
    victims: Iterable[str] = (),
) -> bool:
    """
    Whether `asked` may start for `project` once `victims` of these projects are removed from
    `held`.

    It must be within the share at every level where it meets them, and its groups must be allowed
    to hold that much.
    """
    after = {**held, project: held.get(project, NOTHING) + asked}
    groups = snapshot.quota.groups_of(project)
    if any(_goes_over(snapshot, held, after, group.name, asked) for group in groups):
        return False
    others = set(victims) - {project}
    return all(may_reclaim(snapshot.quota, held, project, asked, of=each) for each in others)


def _goes_over(
    snapshot: Snapshot,
    held: dict[str, Amounts],
    after: dict[str, Amounts],
    group: str,
    asked: Amounts,
) -> bool:
    """Whether members of `group` hold more `after` than before, and more than it may hold."""
    quota = snapshot.quota
    members, ceiling = quota.groups[group].members, quota.groups[group].ceiling
    before = Amounts.sum(closed(quota, held, each) for each in members)
    taken = Amounts.sum(closed(quota, after, each) for each in members)
    return any(taken[t] > max(ceiling[t], before[t]) for t in asked)


_Comer = tuple[tuple[bool, float, int, int, str], Amounts, list[JobRecord]]
"""((is stopping, since when it holds something, priority, number, name), what, its jobs)"""


def _comers(snapshot: Snapshot) -> list[_Comer]:
    """Return every gang that holds something, or has a promise within a share."""
    gangs: dict[str, list[JobRecord]] = defaultdict(list)
    for job in alive(snapshot):
        alone = job.phase is Phase.STOPPING or not job.gang
        gangs[job.id if alone else f"gang {job.gang}"].append(job)
    found = []
    for jobs in gangs.values():
        held = Amounts.sum(held_by(snapshot, job) for job in jobs)
        at = min(job.attempt.admitted_at for job in jobs if job.attempt)
        leaves = jobs[0].phase is Phase.STOPPING
        first = min(jobs, key=lambda job: (job.index, job.id))
        priority = min(job.request.priority for job in jobs)
        found.append(((leaves, at, priority, 0, first.id), held, jobs))
    for number, promise in enumerate(snapshot.promises):
        left = waiting(snapshot, promise.gang)
        if promise.within_share and left:
            cost = promised(snapshot, None, promise)
            priority = min(job.request.priority for job in left)
            found.append(((False, float("inf"), priority, number, promise.gang[0]), cost, left))
    return found


def covers(snapshot: Snapshot, own: set[str]) -> dict[str, str]:
    """
    Return the jobs beyond their project's share, with the group whose share holds each.

    `own` are those on their project's share. On the share of a group, the earliest gangs come
    first, then high priority among gangs that arrived together, and promises after all running
    gangs.
    """
    quota = snapshot.quota
    waiting_for: dict[str, list[_Comer]] = defaultdict(list)
    standing: dict[str, Amounts] = defaultdict(lambda: NOTHING)
    for entry in _comers(snapshot):
        _, held, jobs = entry
        groups = quota.groups_of(jobs[0].project)
        if groups and held and jobs[0].id in own:
            standing[groups[0].name] += held
        elif groups and held and not _never_borrows(snapshot, jobs):
            waiting_for[groups[0].name].append(entry)
    found: dict[str, str] = {}
    for name in sorted(quota.groups, key=lambda name: -len(quota.groups_of(name))):
        group = quota.groups[name]
        for entry in sorted(waiting_for[name], key=itemgetter(0)):
            _, held, jobs = entry
            if group.nominal.holds(standing[name], held):
                standing[name] += held
                found |= {job.id: name for job in jobs}
            elif group.group:
                waiting_for[group.group].append(entry)
        if group.group:
            standing[group.group] += standing[name]
    return found


def is_safe(snapshot: Snapshot, own: set[str], on: dict[str, str], name: str, other: str) -> bool:
    """Whether a job is on a share in which `other`, another project, has no part."""
    owner = snapshot.jobs[name].project
    cover = owner if name in own else on.get(name, "")
    return not is_open_to(snapshot.quota, cover, owner, other)


def gang_of(snapshot: Snapshot, name: str) -> list[JobRecord]:
    """Return the jobs that start together with `name`."""
    job = snapshot.jobs[name]
    names = job.gang or (name,)
    return [snapshot.jobs[n] for n in names if n in snapshot.jobs]


def _firm(snapshot: Snapshot) -> list[Promise]:
    """Return the promises within a share, except those for which every share is now too small."""
    return [
        each for each in snapshot.promises if each.within_share and not _is_void(snapshot, each)
    ]


def _without_void(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """
    Return `snapshot` with only the promises that are kept: void promises protect nothing.

    A promise is also void if its gang starts in another place than promised.
    """
    kept = {promise.gang[0] for promise in plan.promises if not _is_new(snapshot, promise)}
    starts = admits(plan)

    def is_kept(promise: Promise) -> bool:
        start = starts.get(promise.gang[0])
        if start is None:
            return promise.gang[0] in kept
        is_there = start.placement == promise.placements[0]
        return is_there and start.job_class is JobClass.GUARANTEED

    return replace(snapshot, promises=tuple(filter(is_kept, snapshot.promises)))


def _is_void(snapshot: Snapshot, promise: Promise) -> bool:
    left = waiting(snapshot, promise.gang)
    if not left:
        return False
    asked = promised(snapshot, None, promise)
    nodes = snapshot.quota.chain(left[0].project)
    return not any(node.nominal.holds(NOTHING, asked) for node in nodes)


def guaranteed(snapshot: Snapshot) -> set[str]:
    """
    Return the jobs on their project's own share by the fixed order, computed here independently.

    A job that never borrows has its place whatever the share is.

    A job that is stopping, or will be stopped for a gang on the share, has its place until it ends.
    Each such job counts on its own, and after all jobs that continue, so two that follow each other
    never cost a third its place. Of promises of equal priority, the earliest has its place. In a
    group, a promise comes after continuing jobs whatever its priority, because it may be on the
    share of the group and then needs no place on the project's own share.
    """
    found = set()
    named = {name for promise in _firm(snapshot) for name, _ in promise.victims}
    gangs: dict[str, list[_Claim]] = defaultdict(list)
    seen = set()
    for job in alive(snapshot):
        members = [
            j
            for j in gang_of(snapshot, job.id)
            if j.is_admitted and j.attempt and j.phase is not Phase.STOPPING
        ]
        if job.phase is Phase.STOPPING:
            members = [job]
        first = members[0].id
        if first in seen:
            continue
        seen.add(first)
        attempts = [j.attempt for j in members if j.attempt]
        was = any(a.job_class is JobClass.BORROWED for a in attempts)
        priority = min(j.request.priority for j in members)
        at = min(a.admitted_at for a in attempts)
        held = Amounts.sum(held_by(snapshot, j) for j in members)
        is_named = not named.isdisjoint(j.id for j in members)
        leaves = (job.phase is Phase.STOPPING or is_named) and not was
        never = _never_borrows(snapshot, members)
        entry = (leaves or not never, was, leaves, False, priority, at, 0, first, held, members)
        gangs[job.project].append(entry)
    for number, promise in enumerate(snapshot.promises):
        left = waiting(snapshot, promise.gang)
        is_sound = all(
            host.machine in snapshot.machines
            for placement in promise.placements
            for replica in placement
            for host in replica.hosts
        )
        if promise.within_share and left and is_sound:
            priority = min(job.request.priority for job in left)
            held = promised(snapshot, None, promise)
            project = left[0].project
            is_last = bool(snapshot.quota.groups_of(project))
            stands = _never_borrows(snapshot, left)
            first = promise.gang[0]
            order = (not stands, False, False, is_last, priority, float("inf"), number, first)
            entry = (*order, held, left)
            gangs[project].append(entry)
    for project, entries in gangs.items():
        room = snapshot.quota.project(project).nominal
        for may_borrow, _, leaves, *_, held, jobs in sorted(entries, key=lambda entry: entry[:8]):
            is_forced = leaves or not may_borrow
            if held and (is_forced or all(units <= room[t] for t, units in held.items())):
                room = room - held
                found |= {job.id for job in jobs}
    return found


def every_job_has_a_verdict(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    Every queued or admitted job has one verdict of its kind, and a reason with words.

    Verdicts that require an action are included without a request for them.
    """
    for job in snapshot.jobs.values():
        if job.phase is Phase.QUEUED:
            assert isinstance(plan.verdicts.get(job.id), Admit | Wait | Refuse)
        elif job.is_admitted:
            assert isinstance(plan.verdicts.get(job.id), Keep | Preempt)
    for name, verdict in plan.verdicts.items():
        assert len(text(verdict.reason, now)) > 10
        attempt = snapshot.jobs[name].attempt
        if isinstance(verdict, Keep) and attempt and verdict.job_class is attempt.job_class:
            continue
        is_acted_on = not isinstance(verdict, Wait) or isinstance(verdict.reason, NeverFits)
        assert name in plan.verdicts.decided or not is_acted_on


def no_device_is_shared(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """No two jobs hold the same device, no job gets a broken one, and no two promises share one."""
    held = devices([placed(job) for job in alive(snapshot)])
    held += devices([verdict.placement for verdict in admits(plan).values()])
    assert all(number == 1 for number in held.values())
    promised = devices([place for promise in plan.promises for place in promise.placements])
    assert all(number == 1 for number in promised.values())
    machines = machines_of(snapshot, plan)
    for verdict in admits(plan).values():
        for name, resource, index in devices([verdict.placement]):
            assert machines[name].accepts
            assert index not in machines[name].bad_devices.get(resource, ())
            assert index < size_of(snapshot, machines[name])[resource]


def no_machine_holds_too_much(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Amounts are not given out twice; a job that takes whole machines is alone on them."""
    there: dict[str, list[JobRecord]] = defaultdict(list)
    amounts: dict[str, Amounts] = defaultdict(lambda: NOTHING)
    started = {name: verdict.placement for name, verdict in admits(plan).items()}
    holding = {**{job.id: placed(job) for job in alive(snapshot)}, **started}
    for name, placement in holding.items():
        job = snapshot.jobs[name]
        for place in placement:
            for host in place.hosts:
                there[host.machine].append(job)
                if job.request.hosts == 1:
                    amounts[host.machine] += job.request.per_replica.only(COUNTED)
    machines = machines_of(snapshot, plan)
    for verdict in admits(plan).values():
        for place in verdict.placement:
            for host in place.hosts:
                jobs = there[host.machine]
                assert len({job.id for job in jobs}) == 1 or not any(map(takes_whole, jobs))
                assert amounts[host.machine] <= size_of(snapshot, machines[host.machine])


def filters_are_kept(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """A job that starts, or has a promise or a planned start, is placed where its filters allow."""
    machines = machines_of(snapshot, plan)
    reserved: list[Promise | PlannedStart] = [*plan.promises, *plan.planned]
    given = [(name, verdict.placement) for name, verdict in admits(plan).items()]
    given += [pair for each in reserved for pair in zip(each.gang, each.placements)]
    for name, placement in given:
        where = snapshot.jobs[name].request.where
        for place in placement:
            for host in place.hosts:
                if host.machine in machines:
                    assert is_wanted(where, spot_of(snapshot, machines[host.machine])), name


def blocks_are_kept(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """A gang that starts, or has a promise or a planned start, lies in one block if it must."""
    machines = machines_of(snapshot, plan)
    placements: dict[tuple[str, ...], list[Placement]] = defaultdict(list)
    for name, verdict in admits(plan).items():
        placements[snapshot.jobs[name].gang or (name,)].append(verdict.placement)
    reserved: list[Promise | PlannedStart] = [*plan.promises, *plan.planned]
    for gang, found in [*placements.items(), *((each.gang, each.placements) for each in reserved)]:
        same = max((j.request.where.same for j in waiting(snapshot, gang)), default="")
        names = {h.machine for placement in found for place in placement for h in place.hosts}
        spots = [spot_of(snapshot, machines[name]) for name in names & machines.keys()]
        blocks = {block_of(spot, same) for spot in spots} if same else set()
        assert len(blocks) <= 1, f"{gang} spans {blocks}"


def within_capacity(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """No plan raises the usage of a tier above its total, for any type."""
    tiers = range(len(snapshot.quota.tiers))
    before, after = [NOTHING for _ in tiers], [NOTHING for _ in tiers]
    for job in alive(snapshot):
        for tier, charge in enumerate(charge_of(snapshot, job, placed(job))):
            before[tier] += charge
    for name, verdict in admits(plan).items():
        charges = charge_of(snapshot, snapshot.jobs[name], verdict.placement, plan)
        for tier, charge in enumerate(charges):
            after[tier] += charge
    for tier, more in enumerate(after):
        for resource, units in more.items():
            assert before[tier][resource] + units <= snapshot.quota.tiers[tier].units[resource]


def ceilings_are_kept(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """No start takes a project or a group beyond its ceiling; promises are not counted."""
    quota, before, after = snapshot.quota, usage(snapshot), usage(snapshot, plan)
    nodes: list[Node] = [*quota.projects.values(), *quota.groups.values()]
    for node in nodes:
        had, has = (used(quota, held, node.name) for held in (before, after))
        for each in quota.types:
            most = max(node.ceiling[each], had[each])
            assert has[each] <= most, f"{node.name} holds {has[each]} {each} of {most}"


def gangs_are_whole(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """A job starts or stops with all its replicas and all jobs of its gang."""
    for name, verdict in admits(plan).items():
        request = snapshot.jobs[name].request
        assert request.replicas <= len(verdict.placement) <= request.most
        for job in gang_of(snapshot, name):
            if job.phase is Phase.QUEUED and not job.cancelled_by:
                assert isinstance(plan.verdicts[job.id], Admit)
    for name in preempts(plan):
        for job in gang_of(snapshot, name):
            if job.phase in (Phase.STARTING, Phase.RUNNING):
                assert isinstance(plan.verdicts[job.id], Preempt)


def no_guaranteed_victim(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    No job within its share is stopped for another project, now or by a promise.

    A promise given up in this cycle counts in the shares until then, and no longer afterwards.
    """
    before = snapshot, _without_void(snapshot, plan)
    worlds = [(each, own, covers(each, own)) for each in before for own in [guaranteed(each)]]

    def is_kept(name: str, other: str) -> bool:
        return all(is_safe(each, own, on, name, other) for each, own, on in worlds)

    for name, verdict in preempts(plan).items():
        if not verdict.by:
            continue  # it starts again larger, or leaves for maintenance
        other = snapshot.jobs[verdict.by].project
        if other != snapshot.jobs[name].project:
            assert not is_kept(name, other)
    for promise in plan.promises:
        for name, _ in promise.victims:
            victim = snapshot.jobs.get(name)
            other = snapshot.jobs[promise.gang[0]].project
            if victim and victim.phase is Phase.RUNNING and victim.project != other:
                assert not is_kept(name, other)


def borrowers_have_their_time(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    No borrower is stopped for another project before it has run for `min_runtime_s`.

    The time counts from the start of its first job. A restart resets it, except for a promise that
    has already named it as a victim.
    """
    for name, verdict in preempts(plan).items():
        if not verdict.by or snapshot.jobs[verdict.by].project == snapshot.jobs[name].project:
            continue
        attempts = [job.attempt for job in gang_of(snapshot, name) if job.attempt]
        started = min(each.started_at or each.admitted_at for each in attempts)
        assert now >= started + snapshot.quota.scheduler.min_runtime_s


def none_above_its_share_reclaims(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    A gang that has another project's job stopped is planned, or its promise began within its share.

    What its project has borrowed since the promise was made does not void the promise.
    """
    held = usage(snapshot)
    planned = {each.gang[0] for each in (*snapshot.planned, *plan.planned)}
    known = {promise.gang for promise in snapshot.promises}
    for name, verdict in preempts(plan).items():
        if not verdict.by:
            continue  # not stopped for another job: it grows, or its machines close
        by = snapshot.jobs[verdict.by]
        is_own = by.project == snapshot.jobs[name].project
        assert is_own or verdict.by in planned or any(verdict.by in gang for gang in known)
    for promise in plan.promises:
        project = snapshot.jobs[promise.gang[0]].project
        victims = [snapshot.jobs[name] for name, _ in promise.victims if name in snapshot.jobs]
        if promise.gang in known or all(job.project == project for job in victims):
            continue
        asked = promised(snapshot, plan, promise)
        ending = {job.id for job in alive(snapshot) if job.phase is Phase.STOPPING}
        others = {job.project for job in victims if job.id not in ending}
        ending |= {name for each in plan.promises for name, _ in each.victims}
        ending |= {job.id for job in alive(snapshot) if _ends_at(snapshot, job) <= promise.deadline}
        left = usage(snapshot, gone=ending)
        # In a group, what comes after another project's job counts once that job has ended.
        in_group = is_within(snapshot, left, project, asked) and snapshot.quota.groups_of(project)
        assert is_within(snapshot, held, project, asked) or in_group
        assert reclaims(snapshot, left, project, asked, others), promise


def victims_are_minimal(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    None of the victims that are told to stop could be spared, for devices or for the quota.

    Everything else that starts or is promised in the same cycle counts as already there. That
    leaves less free capacity than there was, so a gang that still fits without a victim proves that
    the victim was unnecessary. The same holds if an earlier promise gave way to a gang on machines
    that the victim leaves, because that promise would stand.

    The other promise may need a victim that two promises name. Another promise that uses its
    devices without naming it would be void if the victim continued, and the jobs stopped only for
    that promise would continue too; the victim was unnecessary if the gang fits in this case as
    well.

    The victims of another promise are certain to go once two cycles have named them. A promise has
    begun once some of its victims are stopping. From then on, its gang waits for nothing that ends
    after the announced time.
    """
    stopped_for = {
        name: each.reason.by
        for name, each in plan.verdicts.items()
        if isinstance(each, Preempt | Keep) and hasattr(each.reason, "by")
    }
    stopping = {job.id for job in alive(snapshot) if job.phase is Phase.STOPPING}
    named = {(each.gang, name) for each in snapshot.promises for name, _ in each.victims}
    firm = {
        name
        for promise in plan.promises
        for name, _ in promise.victims
        if promise.within_share and not _is_new(snapshot, promise) and (promise.gang, name) in named
    }
    told = preempts(plan)
    for promise in plan.promises:
        victims = {name for name, _ in promise.victims if name not in stopping}
        others = [each for each in plan.promises if each.gang != promise.gang]
        shared = {name for each in others for name, _ in each.victims}
        own = {n for n in victims - shared if n in told and stopped_for.get(n) == promise.gang[0]}
        for victim in _gangs(snapshot, own):
            gone = _gone_in_time(snapshot, promise, stopping) | ((firm | victims) - victim)
            may_start = partial(_may_start, snapshot, now, plan, promise, victim)
            void = _void_beside(snapshot, victim, others)
            standing = [each for each in others if each not in void]
            spared = {name for each in void for name, _ in each.victims} - stopping - victims
            spared -= {name for each in standing for name, _ in each.victims}
            is_needless = may_start(gone, others) and may_start(gone - spared, standing)
            assert not is_needless, (promise, victim)


def _gone_in_time(snapshot: Snapshot, promise: Promise, stopping: set[str]) -> set[str]:
    """Return those of `stopping` that `promise` may wait for: once begun, what ends in time."""
    if not any(name in stopping for name, _ in promise.victims):
        return stopping
    attempts = {name: snapshot.jobs[name].attempt for name in stopping}
    return {
        name
        for name, attempt in attempts.items()
        if attempt and attempt.stop and attempt.stop.deadline <= promise.deadline
    }


def _void_beside(
    snapshot: Snapshot, victim: set[str], promises: Iterable[Promise]
) -> list[Promise]:
    """Return those of `promises` with their own victims that lie on what `victim` holds."""
    jobs = [job for job in alive(snapshot) if job.id in victim]
    held = devices(map(placed, jobs)).keys()
    whole = hosts([placed(job) for job in jobs if takes_whole(job)])
    return [
        each
        for each in promises
        if each.victims
        and (devices(each.placements).keys() & held or hosts(each.placements) & whole)
    ]


def _may_start(
    snapshot: Snapshot,
    now: float,
    plan: Plan,
    promise: Promise,
    victim: set[str],
    gone: set[str],
    others: Sequence[Promise],
) -> bool:
    """Whether the gang of `promise` could start without `victim`, of the promises with `others`."""
    gang = [snapshot.jobs[name] for name in promise.gang]
    broken = _gave_way(snapshot, plan, victim, others)
    held = usage(snapshot, plan, gone=gone, promises=[*others, *broken])
    ignored = [each.gang for each in plan.promises if each not in others]
    left = stand(snapshot, now, plan, gone=gone, ignoring=ignored, beside=broken)
    named = {name for name, _ in promise.victims} & gone & snapshot.jobs.keys()
    met = {
        snapshot.jobs[name].project
        for name in named
        if snapshot.jobs[name].phase is not Phase.STOPPING
    }
    return can_start(snapshot, gang, left, _allows(snapshot, gang, held, met))


def _gave_way(
    snapshot: Snapshot, plan: Plan, victim: set[str], others: Sequence[Promise]
) -> list[Promise]:
    """Return broken promises whose project has a new one, in `others`, on a place of `victim`."""
    left = hosts([placed(job) for job in alive(snapshot) if job.id in victim])
    projects = {
        snapshot.jobs[each.gang[0]].project
        for each in others
        if _is_new(snapshot, each) and hosts(each.placements) & left
    }
    kept = {each.gang[0] for each in plan.promises} | admits(plan).keys()
    return [
        each
        for each in snapshot.promises
        if each.gang[0] not in kept
        and each.gang[0] in snapshot.jobs
        and snapshot.jobs[each.gang[0]].project in projects
    ]


def _never_borrows(snapshot: Snapshot, gang: Sequence[JobRecord]) -> bool:
    """Whether `gang` can only be on its project's own share."""
    borrows = all(job.request.borrow for job in gang)
    return not (borrows and snapshot.quota.project(gang[0].project).borrow)


def _is_own(snapshot: Snapshot, held: dict[str, Amounts], project: str, asked: Amounts) -> bool:
    """Whether `asked` fits in the share of `project` itself."""
    return asked <= snapshot.quota.project(project).nominal - held.get(project, NOTHING)


def _allows_within(
    snapshot: Snapshot,
    gang: Sequence[JobRecord],
    held: dict[str, Amounts],
    victims: Iterable[str] = (),
) -> Callable[[Amounts], bool]:
    """Return a check of whether a charge fits in a share, below the ceilings of its groups."""
    project, others = gang[0].project, set(victims)
    fits = _is_own if _never_borrows(snapshot, gang) else is_within

    def allows(charge: Amounts) -> bool:
        is_fitting = fits(snapshot, held, project, charge)
        return is_fitting and reclaims(snapshot, held, project, charge, others)

    return allows


def _allows(
    snapshot: Snapshot,
    gang: Sequence[JobRecord],
    held: dict[str, Amounts],
    victims: Iterable[str] = (),
) -> Callable[[Amounts], bool]:
    """Return a check of whether a charge fits in a share, or in what others leave idle."""
    project = gang[0].project
    is_within = _allows_within(snapshot, gang, held, victims)

    def allows(charge: Amounts) -> bool:
        if is_within(charge):
            return True
        if _never_borrows(snapshot, gang):
            return False
        if snapshot.quota.groups and set(victims) - {project}:
            return False  # victims of another project are allowed only within a share
        room = available(snapshot.quota, held, project)
        return all(units <= room[t] for t, units in charge.items())

    return allows


def _is_new(snapshot: Snapshot, promise: Promise) -> bool:
    """Whether it was made in this cycle, not carried over."""
    known = [(each.gang, each.made_at, each.placements) for each in snapshot.promises]
    return (promise.gang, promise.made_at, promise.placements) not in known


def _gangs(snapshot: Snapshot, names: Iterable[str]) -> list[set[str]]:
    found = {frozenset(job.id for job in gang_of(snapshot, name)) for name in names}
    return [set(each) for each in sorted(found, key=sorted)]


def ends_by(snapshot: Snapshot, now: float, gang: Sequence[JobRecord]) -> float:
    """Return when `gang` has ended at the latest if it starts now."""
    runtimes = [job.request.max_runtime_s for job in gang]
    grace_s = max(grace_of(job.request, snapshot.quota.scheduler) for job in gang)
    return now + grace_s + max(float("inf") if s is None else s for s in runtimes)


def _ends_at(snapshot: Snapshot, job: JobRecord) -> float:
    """Return when a job that holds devices has ended at the latest, by its own limit."""
    assert job.attempt is not None
    return ends_by(snapshot, job.attempt.started_at or job.attempt.admitted_at, [job])


def work_is_conserved(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    Nothing that a waiting gang may use stays idle, apart from promises, plans and drains.

    A gang that ends before every planned start may also use planned capacity. Capacity of promises
    and plans that a cycle gives up is used in the next cycle.
    """
    if plan.promises or snapshot.promises or plan.considered:
        return
    told = timed(plan.planned)
    if told != timed(snapshot.planned):
        return
    held = usage(snapshot, plan)
    beside = usage(snapshot, plan, promises=told)
    left = stand(snapshot, now, plan)
    until = min(map(start_of, told), default=float("inf"))
    open_left = stand(snapshot, now, plan, ignoring=[each.gang for each in told])
    planned = {name for each in told for name in each.gang}
    draining = {
        snapshot.jobs[name].project
        for name, verdict in plan.verdicts.items()
        if isinstance(verdict.reason, Planned) and verdict.reason.at is None
    }
    for name, verdict in plan.verdicts.items():
        if not isinstance(verdict, Wait | Refuse) or _is_aside(verdict.reason.kind):
            continue
        gang = waiting(snapshot, [job.id for job in gang_of(snapshot, name)])
        project = gang[0].project
        if name in planned or project in draining:
            continue
        allows = _allows(snapshot, gang, beside)
        if any(_would_put_off(snapshot, now, gang, each) for each in told):
            allows = _allows_within(snapshot, gang, beside)
        assert not can_start(snapshot, gang, left, allows), f"{name} could: {verdict.reason}"
        if ends_by(snapshot, now, gang) <= until:
            allows = _allows(snapshot, gang, held)
            assert not can_start(snapshot, gang, open_left, allows), f"{name}: {verdict.reason}"


def _would_put_off(
    snapshot: Snapshot, now: float, gang: Sequence[JobRecord], planned: PlannedStart
) -> bool:
    """
    Whether `gang`, if it borrowed, would use the share that a planned gang of its project waits
    for.

    That is so if it asks for the same devices, comes after the planned gang, and does not end in
    time.
    """
    first = [snapshot.jobs[name] for name in planned.gang if name in snapshot.jobs]
    project = gang[0].project
    if not first or first[0].project != project:
        return False
    if ends_by(snapshot, now, gang) <= start_of(planned):
        return False
    if _priority(first) > _priority(gang) or _scarce(first).isdisjoint(_scarce(gang)):
        return False
    types = snapshot.quota.types
    asked = Amounts.sum(job.replicas * job.request.per_replica.only(types) for job in first)
    return asked <= snapshot.quota.project(project).nominal


def _priority(gang: Sequence[JobRecord]) -> int:
    return min(job.request.priority for job in gang)


def _scarce(gang: Sequence[JobRecord]) -> frozenset[str]:
    """Return the types of devices that it asks for; all of its types if it asks for none."""
    types = frozenset(t for job in gang for t in job.request.per_replica.types())
    return types.difference(COUNTED) or types


def what_is_promised_is_closed(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """No job starts on what is promised to another one, unless it ends by the deadline."""
    for promise in plan.promises:
        closed = devices(promise.placements)
        whole = {
            host.machine
            for name, placement in zip(promise.gang, promise.placements)
            if takes_whole(snapshot.jobs[name])
            for replica in placement
            for host in replica.hosts
        }
        for name, verdict in admits(plan).items():
            gang = gang_of(snapshot, name)
            ends = ends_by(snapshot, now, gang)
            there = {host.machine for place in verdict.placement for host in place.hosts}
            meets = closed.keys() & devices([verdict.placement]).keys() or whole & there
            assert ends <= promise.deadline or not meets, (name, promise)


def _is_aside(kind: str) -> bool:
    return kind in {
        "NotMember",
        "UnknownProject",
        "QuotaFileInvalid",
        "Held",
        "Backoff",
        "Dependency",
        "Cancelled",
        "NeverFits",
        "NoMachineMatches",
        "OverLoad",
        "BudgetSpent",
        "OverUserLimit",
    }


def _lowest(snapshot: Snapshot, job: JobRecord) -> int:
    """Return the priority of its gang."""
    members = [j for j in gang_of(snapshot, job.id) if j.is_admitted]
    return min(each.request.priority for each in members)


def _kept_ahead(
    snapshot: Snapshot, plan: Plan, gang: Sequence[JobRecord]
) -> list[PlannedStart] | None:
    """
    Return planned starts of its project, of the same or higher priority, that `gang` waits behind.

    There are none while these are not settled: while one drains until an unknown time, or was made
    or given up in this cycle.
    """
    project = gang[0].project
    mine = min(job.request.priority for job in gang)

    def comes_before(names: Sequence[str]) -> bool:
        jobs = [snapshot.jobs[name] for name in names if name in snapshot.jobs]
        return any(
            job.project == project and job.request.priority <= mine and job not in gang
            for job in jobs
        )

    before = {(p.gang, p.at) for p in timed(snapshot.planned) if comes_before(p.gang)}
    kept = [each for each in timed(plan.planned) if comes_before(each.gang)]
    drains = any(
        isinstance(verdict.reason, Planned) and verdict.reason.at is None and comes_before([name])
        for name, verdict in plan.verdicts.items()
    )
    if drains or before != {(each.gang, each.at) for each in kept}:
        return None
    return kept


def _meet_at(snapshot: Snapshot, project: str, other: str) -> Node | None:
    """
    Return what stands for `project` where it meets `other`: the project itself or one of its
    groups.
    """
    own = apart(snapshot.quota, project, other)
    return own[-1] if own else None


def _giving_way(snapshot: Snapshot, plan: Plan, own: set[str], project: str) -> list[Promise]:
    """
    Return earlier promises on the share of a group that `project`, another project, is in too.

    They give way to a gang that is nearer to its own share. A job that is stopping, or will be
    stopped for a promise, does not count: it is gone when the promises are kept.
    """
    going = {name for promise in plan.promises for name, _ in promise.victims}
    jobs = {
        name: job
        for name, job in snapshot.jobs.items()
        if job.phase is not Phase.STOPPING and name not in going
    }
    on = covers(replace(snapshot, jobs=jobs), own)
    groups = {group.name for group in snapshot.quota.groups_of(project)}
    return [
        promise
        for promise in plan.promises
        if on.get(promise.gang[0]) in groups
        and snapshot.jobs[promise.gang[0]].project != project
        and not _is_new(snapshot, promise)
    ]


def the_guarantee(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    A gang that can run within its share starts, or has a promise within the admin's bound.

    A gang that no cycle has considered yet has no claim. Jobs of its own project are in its way
    unless they have lower priority: no other job of its project may be stopped for it, even one
    that borrows a type that the gang does not ask for. An earlier planned start of its project
    counts as held. A promise on the share of a group gives way to a gang that is nearer to its own
    share.
    """
    options = snapshot.quota.scheduler
    bound = now + options.min_runtime_s + options.max_grace_s
    for promise in plan.promises:
        if _is_new(snapshot, promise):
            assert promise.deadline <= bound
    held = usage(snapshot, plan, promises=plan.promises)
    own = guaranteed(_without_void(snapshot, plan))
    on = covers(snapshot, own)
    for name, verdict in plan.verdicts.items():
        if not isinstance(verdict, Wait) or _is_aside(verdict.reason.kind):
            continue
        if verdict.reason.kind in ("Promised", "NotYetConsidered"):
            continue
        project = snapshot.jobs[name].project
        gang = waiting(snapshot, [job.id for job in gang_of(snapshot, name)])
        ahead = _kept_ahead(snapshot, plan, gang)
        if ahead is None:
            continue
        plans = [each.gang for each in timed(plan.planned) if each not in ahead]
        own_plans = Amounts.sum(promised(snapshot, plan, each) for each in ahead)
        priority = min(job.request.priority for job in gang)
        movable = {
            job.id
            for job in alive(snapshot)
            if job.phase is Phase.STOPPING
            or (job.project == project and job.id not in own and _lowest(snapshot, job) > priority)
        }
        giving_way = _giving_way(snapshot, plan, own, project)
        fits = _is_own if _never_borrows(snapshot, gang) else is_within
        # First the groups nearest to the gang, then those around them.
        for level in snapshot.quota.chain(project):
            movable |= {
                job.id
                for job in alive(snapshot)
                if _meet_at(snapshot, project, job.project) == level
                and not is_safe(snapshot, own, on, job.id, project)
            }
            broken = [
                promise
                for promise in giving_way
                if _meet_at(snapshot, project, snapshot.jobs[promise.gang[0]].project) == level
            ]
            ignored = [*plans, *(promise.gang for promise in broken)]
            left = stand(snapshot, now, plan, gone=movable, ignoring=ignored)
            standing: list[Promise | PlannedStart] = [p for p in plan.promises if p not in broken]
            standing += ahead
            stays = usage(snapshot, plan, gone=movable, promises=standing)
            met = {job.project for job in alive(snapshot) if job.id in movable}
            met |= {snapshot.jobs[promise.gang[0]].project for promise in broken}

            def allows(
                charge: Amounts,
                project: str = project,
                stays: dict[str, Amounts] = stays,
                met: set[str] = met,
                own_plans: Amounts = own_plans,
                fits: Callable[..., bool] = fits,
            ) -> bool:
                if not fits(snapshot, held, project, charge + own_plans):
                    return False
                return reclaims(snapshot, stays, project, charge, met)

            assert not can_start(snapshot, gang, left, allows), f"{name}: {verdict.reason}"


def victims_run_on_until_the_last_must_stop(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    A job that is stopped only for a new promise ends when the promise is due, and not before.

    This does not hold for jobs that are rotated for an earlier planned start.
    """
    named = Counter(job for promise in plan.promises for job, _ in promise.victims)
    planned = {each.gang[0] for each in plan.planned}
    for promise in plan.promises:
        if not _is_new(snapshot, promise):
            continue
        for job, at in promise.victims:
            gang = gang_of(snapshot, job)
            grace_s = max(grace_of(each.request, snapshot.quota.scheduler) for each in gang)
            is_rotated = getattr(plan.verdicts[job].reason, "by", "") in planned
            if named[job] == 1 and not is_rotated:
                assert at + grace_s >= promise.deadline, f"{job} stops early for {promise.gang}"


def a_rotation_is_of_use(_: Snapshot, __: float, plan: Plan) -> None:
    """A rotated job makes room for a planned start that stands, and for no other gang."""
    planned = {name for each in plan.planned for name in each.gang}
    for name, verdict in preempts(plan).items():
        if isinstance(verdict.reason, Rotated):
            assert verdict.reason.by in planned, f"{name} is rotated, and nothing is planned for it"


def what_is_not_lent_is_kept(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    Borrowers leave what other projects do not lend, now and not only once planned gangs have
    started.

    Promises are an exception: a project with a promised start uses what it keeps for itself.
    """
    borrowed = {n for n, v in admits(plan).items() if v.job_class is JobClass.BORROWED}
    if not borrowed or plan.promises or snapshot.promises or snapshot.quota.groups:
        return
    quota, after = snapshot.quota, usage(snapshot, plan)
    before = after.copy()
    for name in borrowed:
        job, placement = snapshot.jobs[name], admits(plan)[name].placement
        before[job.project] -= total(charge_of(snapshot, job, placement, plan))
    closed_before, closed_after = (
        Amounts.sum(
            held[name].only(quota.types) | quota.project(name).kept
            for name in {*after, *quota.projects}
        )
        for held in (before, after)
    )
    for each in quota.types:
        most = max(quota.totals[each], closed_before[each])
        assert closed_after[each] <= most, f"{sorted(borrowed)} start on {each} that is not lent"


def told_starts_are_kept() -> Law:
    """
    An announced planned start stays or becomes earlier, and its gang starts by then.

    This law has a memory. It is for worlds where nothing is lost or edited and all priorities are
    equal. A start may be postponed only by what another project starts within its share, or by a
    running job that had borrowed and is now within its share because other jobs of its project
    ended: it was supposed to give that capacity back.
    """
    told: dict[tuple[str, ...], float] = {}

    def law(snapshot: Snapshot, now: float, plan: Plan) -> None:
        within = {n for n, v in admits(plan).items() if v.job_class is JobClass.GUARANTEED}
        within |= {promise.gang[0] for promise in (*snapshot.promises, *plan.promises)}
        within |= _no_longer_borrowed(snapshot, plan)
        moving = {snapshot.jobs[name].project for name in within if name in snapshot.jobs}
        for gang in list(told):
            job = snapshot.jobs.get(gang[0])
            if job is None or job.is_admitted or moving - {job.project}:
                del told[gang]
        for planned in timed(plan.planned):
            start = start_of(planned)
            at = told.setdefault(planned.gang, start)
            assert start <= at, f"{planned.gang} was told {at}, and now {start}"
            told[planned.gang] = start
        waits = {name for name, verdict in plan.verdicts.items() if isinstance(verdict, Wait)}
        for gang, at in told.items():
            assert now < at or not waits.intersection(gang), f"{gang} was told {at}, and waits"

    return law


def _no_longer_borrowed(snapshot: Snapshot, plan: Plan) -> set[str]:
    """Return running jobs that had borrowed, and are within the share of their project now."""
    return {
        name
        for name, verdict in plan.verdicts.items()
        if isinstance(verdict, Keep) and verdict.job_class is JobClass.GUARANTEED
        if (attempt := snapshot.jobs[name].attempt) and attempt.job_class is JobClass.BORROWED
    }


LAWS: tuple[Law, ...] = (
    every_job_has_a_verdict,
    no_device_is_shared,
    no_machine_holds_too_much,
    filters_are_kept,
    blocks_are_kept,
    within_capacity,
    ceilings_are_kept,
    gangs_are_whole,
    no_guaranteed_victim,
    borrowers_have_their_time,
    none_above_its_share_reclaims,
    victims_are_minimal,
    what_is_promised_is_closed,
    victims_run_on_until_the_last_must_stop,
    a_rotation_is_of_use,
    what_is_not_lent_is_kept,
    work_is_conserved,
    the_guarantee,
)
