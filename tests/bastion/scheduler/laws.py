"""
What must hold of every plan, whatever the state: written from the promises, not from the code.

Every law takes what `decide` saw and what it gave, and raises AssertionError. The worlds of these
tests ask for one type, `gpu`, so that "fits" can be counted by hand here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from bastion.job import JobClass, JobRecord, Phase, Placement
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse, Wait
from bastion.scheduler.promise import Promise
from bastion.scheduler.snapshot import Snapshot
from quota import Amounts
from quota.ledger import available

Devices = Counter[tuple[str, str, int]]
Law = Callable[[Snapshot, float, Plan], None]


def devices(placements: Iterable[Placement]) -> Devices:
    """Every device of `placements`."""
    return Counter(
        (host.machine, resource, index)
        for placement in placements
        for replica in placement
        for host in replica.hosts
        for resource, indices in host.devices.items()
        for index in indices
    )


def alive(snapshot: Snapshot) -> list[JobRecord]:
    """Jobs that hold devices."""
    return [job for job in snapshot.jobs.values() if job.is_admitted and job.attempt]


def placed(job: JobRecord) -> Placement:
    """Where it lies."""
    assert job.attempt is not None
    return job.attempt.placement


def admits(plan: Plan) -> dict[str, Admit]:
    """Who starts."""
    return {name: v for name, v in plan.verdicts.items() if isinstance(v, Admit)}


def preempts(plan: Plan) -> dict[str, Preempt]:
    """Who is stopped."""
    return {name: v for name, v in plan.verdicts.items() if isinstance(v, Preempt)}


def usage(snapshot: Snapshot, plan: Plan | None = None) -> dict[str, Amounts]:
    """What projects hold, with those who start."""
    held: dict[str, Amounts] = defaultdict(lambda: Amounts({}))
    for job in alive(snapshot):
        held[job.project] = held[job.project] + job.request.units
    for name in admits(plan) if plan else ():
        job = snapshot.jobs[name]
        held[job.project] = held[job.project] + job.request.units
    return dict(held)


def gang_of(snapshot: Snapshot, name: str) -> list[JobRecord]:
    """The jobs that start together with `name`."""
    job = snapshot.jobs[name]
    names = job.gang or (name,)
    return [snapshot.jobs[n] for n in names if n in snapshot.jobs]


def guaranteed(snapshot: Snapshot) -> set[str]:
    """
    Jobs on their project's own share by the fixed order, worked out here once more.

    A gang of this world asks for one type, and stands or falls as a whole.
    """
    found = set()
    gangs: dict[str, list[tuple[bool, int, float, str, list[JobRecord]]]] = defaultdict(list)
    seen = set()
    for job in alive(snapshot):
        assert job.attempt is not None
        members = [j for j in gang_of(snapshot, job.id) if j in alive(snapshot)]
        if job.phase is Phase.STOPPING:
            continue
        members = [j for j in members if j.phase is not Phase.STOPPING]
        first = members[0].id
        if first in seen:
            continue
        seen.add(first)
        attempts = [j.attempt for j in members if j.attempt]
        was = any(a.job_class is JobClass.BORROWED for a in attempts)
        priority = min(j.request.priority for j in members)
        at = min(a.admitted_at for a in attempts)
        gangs[job.project].append((was, priority, at, first, members))
    for promise in snapshot.promises:
        waiting = [snapshot.jobs[name] for name in promise.gang if name in snapshot.jobs]
        if promise.within_share and waiting and waiting[0].phase is Phase.QUEUED:
            priority = min(job.request.priority for job in waiting)
            entry = (False, priority, float("inf"), promise.gang[0], waiting)
            gangs[waiting[0].project].append(entry)
    for project, entries in gangs.items():
        left = snapshot.quota.project(project).nominal["gpu"]
        for *_, members in sorted(entries, key=lambda entry: entry[:4]):
            units = sum(j.request.units["gpu"] for j in members)
            if 0 < units <= left:
                left -= units
                found |= {j.id for j in members}
    return found


def everyone_has_a_verdict(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Every queued or admitted job has one verdict of its kind, and a reason with words."""
    from bastion.scheduler.reason import text

    for job in snapshot.jobs.values():
        if job.phase is Phase.QUEUED:
            assert isinstance(plan.verdicts.get(job.id), Admit | Wait | Refuse)
        elif job.is_admitted:
            assert isinstance(plan.verdicts.get(job.id), Keep | Preempt)
    for verdict in plan.verdicts.values():
        assert len(text(verdict.reason, now)) > 10


def no_device_is_shared(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """No two jobs hold a device, nobody gets a broken one, no two promises share one."""
    held = devices([placed(job) for job in alive(snapshot)])
    held += devices([verdict.placement for verdict in admits(plan).values()])
    assert all(number == 1 for number in held.values())
    promised = devices([place for promise in plan.promises for place in promise.placements])
    assert all(number == 1 for number in promised.values())
    machines = {**snapshot.machines, **{m.name: m for m in plan.new_machines}}
    for verdict in admits(plan).values():
        for name, resource, index in devices([verdict.placement]):
            assert machines[name].accepts
            assert index not in machines[name].bad_devices.get(resource, ())
            full = machines[name].resources or snapshot.pools[machines[name].pool].resources
            assert index < full[resource]


def within_capacity(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """No plan raises the usage of a tier above its total."""
    before: Counter[int] = Counter()
    after: Counter[int] = Counter()
    for job in alive(snapshot):
        for place in placed(job):
            before[place.tier] += job.request.per_replica["gpu"]
    for name, verdict in admits(plan).items():
        for place in verdict.placement:
            after[place.tier] += snapshot.jobs[name].request.per_replica["gpu"]
    for tier, more in after.items():
        assert before[tier] + more <= snapshot.quota.tiers[tier].units["gpu"]


def gangs_are_whole(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Who starts or stops does so with all its replicas and all the jobs of its gang."""
    for name, verdict in admits(plan).items():
        assert len(verdict.placement) == snapshot.jobs[name].request.replicas
        for job in gang_of(snapshot, name):
            if job.phase is Phase.QUEUED and not job.cancelled_by:
                assert isinstance(plan.verdicts[job.id], Admit)
    for name in preempts(plan):
        for job in gang_of(snapshot, name):
            if job.phase in (Phase.STARTING, Phase.RUNNING):
                assert isinstance(plan.verdicts[job.id], Preempt)


def no_guaranteed_victim(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Nobody within its share is stopped, now or by promise, for another project."""
    safe = guaranteed(snapshot)
    for name, verdict in preempts(plan).items():
        if snapshot.jobs[verdict.by].project != snapshot.jobs[name].project:
            assert name not in safe
    for promise in plan.promises:
        for name, _ in promise.victims:
            victim = snapshot.jobs.get(name)
            other = snapshot.jobs[promise.gang[0]].project
            if victim and victim.phase is Phase.RUNNING and victim.project != other:
                assert name not in safe


def borrowers_have_their_time(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    No borrower is stopped for another project before its least running time.

    A gang has had it since its first job started: one that is restarted does not start it anew.
    """
    for name, verdict in preempts(plan).items():
        if snapshot.jobs[verdict.by].project == snapshot.jobs[name].project:
            continue
        attempts = [job.attempt for job in gang_of(snapshot, name) if job.attempt]
        started = min(each.started_at or each.admitted_at for each in attempts)
        assert now >= started + snapshot.quota.scheduler.min_runtime_s


def none_above_its_share_reclaims(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Whoever has another project stopped is within its share, or planned for long."""
    held = usage(snapshot)
    planned = {each.gang[0] for each in plan.planned}
    for name, verdict in preempts(plan).items():
        by = snapshot.jobs[verdict.by]
        if by.project == snapshot.jobs[name].project or verdict.by in planned:
            continue
        if any(verdict.by == promise.gang[0] for promise in snapshot.promises):
            continue  # what it borrowed since the promise was made does not undo the promise
        gang = [job for job in gang_of(snapshot, verdict.by) if job.phase is Phase.QUEUED]
        asked = sum(job.request.units["gpu"] for job in gang)
        nominal = snapshot.quota.project(by.project).nominal["gpu"]
        assert held.get(by.project, Amounts({}))["gpu"] + asked <= nominal


def free_by_machine(
    snapshot: Snapshot, plan: Plan, *, without: Iterable[str] = (), closed: bool = True
) -> dict[str, int]:
    """Free devices by machine once the jobs `without` are gone; `closed`: less what is promised."""
    gone = set(without)
    free = {}
    for machine in snapshot.machines.values():
        full = (machine.resources or snapshot.pools[machine.pool].resources)["gpu"]
        bad = set(machine.bad_devices.get("gpu", ()))
        if machine.accepts:
            free[machine.name] = {i for i in range(full) if i not in bad}
    taken = [placed(job) for job in alive(snapshot) if job.id not in gone]
    taken += [verdict.placement for verdict in admits(plan).values()]
    if closed:
        taken += [place for each in (*plan.promises, *plan.planned) for place in each.placements]
    for name, _, index in devices(taken):
        free.get(name, set()).discard(index)
    return {name: len(indices) for name, indices in free.items()}


def fits(jobs: Iterable[JobRecord], free: Mapping[str, int]) -> bool:
    """Whether a gang fits into `free`; the largest replicas first, which one type allows."""
    left = dict(free)
    needs = sorted(
        (job.request.per_replica["gpu"] for job in jobs for _ in range(job.request.replicas)),
        reverse=True,
    )
    return _fits(needs, left)


def _fits(needs: list[int], left: dict[str, int]) -> bool:
    if not needs:
        return True
    tried = set()
    for name in sorted(left):
        if left[name] >= needs[0] and left[name] not in tried:
            tried.add(left[name])
            if _fits(needs[1:], {**left, name: left[name] - needs[0]}):
                return True
    return False


def victims_are_minimal(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """
    Of the victims of a new promise none could be left out, and each gives devices it needs.

    What else starts in the same cycle counts as there already: that makes less free than was, so
    whoever fits all the same without a victim proves it was one too many.
    """
    if len(snapshot.quota.tiers) > 1:
        return
    for promise in plan.promises:
        if not promise.within_share or not _is_new(snapshot, promise):
            continue
        victims = {name for name, _ in promise.victims}
        gang = [snapshot.jobs[name] for name in promise.gang]
        own = {name for name in victims if snapshot.jobs[name].project == gang[0].project}
        gone = {job.id for job in alive(snapshot) if job.phase is Phase.STOPPING}
        gone |= victims
        rest = tuple(each for each in plan.promises if each.gang != promise.gang)
        others = replace(plan, promises=rest)
        shared = {name for each in rest for name, _ in each.victims}
        shared |= {name for name, v in preempts(plan).items() if v.by not in promise.gang}
        for victim in _gangs(snapshot, victims - shared - own):  # own: the quota may need it
            free = free_by_machine(snapshot, others, without=gone - victim)
            assert not _startable(snapshot, gang, free, gone - victim)


def _is_new(snapshot: Snapshot, promise: Promise) -> bool:
    """Made in this cycle, and not only taken over."""
    known = [(each.gang, each.made_at, each.placements) for each in snapshot.promises]
    return (promise.gang, promise.made_at, promise.placements) not in known


def _gangs(snapshot: Snapshot, names: Iterable[str]) -> list[set[str]]:
    found = {frozenset(job.id for job in gang_of(snapshot, name)) for name in names}
    return [set(each) for each in sorted(found, key=sorted)]


def _startable(
    snapshot: Snapshot, gang: list[JobRecord], free: Mapping[str, int], gone: set[str]
) -> bool:
    held = sum(j.request.units["gpu"] for j in alive(snapshot) if j.id not in gone)
    asked = sum(job.request.units["gpu"] for job in gang)
    return held + asked <= snapshot.quota.totals["gpu"] and fits(gang, free)


def work_is_conserved(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """Nothing idles that a waiting gang could legally use; promises and plans apart."""
    if plan.promises or plan.planned:
        return
    held = usage(snapshot, plan)
    free = free_by_machine(snapshot, plan)
    for name, verdict in plan.verdicts.items():
        if not isinstance(verdict, Wait | Refuse) or _is_aside(verdict.reason.kind):
            continue
        gang = [j for j in gang_of(snapshot, name) if j.phase is Phase.QUEUED]
        asked = Amounts.sum(job.request.units for job in gang)
        if asked <= available(snapshot.quota, held, gang[0].project):
            assert not fits(gang, free), f"{name} could have started: {verdict.reason}"


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
    }


def the_guarantee(snapshot: Snapshot, now: float, plan: Plan) -> None:
    """A satisfiable gang within its share starts, or has a promise within the admin's bound."""
    options = snapshot.quota.scheduler
    bound = now + options.min_runtime_s + options.max_grace_s
    safe = guaranteed(snapshot)
    held = usage(snapshot, plan)
    for promise in plan.promises:
        if _is_new(snapshot, promise):
            assert promise.deadline <= bound
        owner = snapshot.jobs[promise.gang[0]].project
        units = sum(snapshot.jobs[name].request.units["gpu"] for name in promise.gang)
        held[owner] = held.get(owner, Amounts({})) + Amounts({"gpu": units})
    for name, verdict in plan.verdicts.items():
        job = snapshot.jobs[name]
        if not isinstance(verdict, Wait) or _is_aside(verdict.reason.kind):
            continue
        if verdict.reason.kind == "Promised":
            continue
        gang = [j for j in gang_of(snapshot, name) if j.phase is Phase.QUEUED]
        asked = sum(j.request.units["gpu"] for j in gang)
        nominal = snapshot.quota.project(job.project).nominal["gpu"]
        if held.get(job.project, Amounts({}))["gpu"] + asked > nominal:
            continue
        movable = {j.id for j in alive(snapshot) if j.id not in safe}
        free = free_by_machine(snapshot, plan, without=movable)
        assert not _startable(snapshot, gang, free, movable), f"{name}: {verdict.reason}"


LAWS: tuple[Law, ...] = (
    everyone_has_a_verdict,
    no_device_is_shared,
    within_capacity,
    gangs_are_whole,
    no_guaranteed_victim,
    borrowers_have_their_time,
    none_above_its_share_reclaims,
    victims_are_minimal,
    work_is_conserved,
    the_guarantee,
)
