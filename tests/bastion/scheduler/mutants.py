"""
Schedulers that are wrong on purpose: each breaks one promise, and a law must detect it.

Most of them see a false world, such as one with a doubled share, a gang torn apart or a broken
device that looks healthy. The others skip a phase or use different rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from bastion.job import JobClass, JobRecord, Phase
from bastion.scheduler.cycle import PHASES, decide
from bastion.scheduler.explain.verdicts import explain
from bastion.scheduler.phases.planned_starts import plan_ahead, take_over_plans
from bastion.scheduler.phases.survey import survey
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Verdict, Verdicts, Wait
from bastion.scheduler.reasons.reason import Held, WaitingReason
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import chosen
from bastion.spec.where import Where
from quota import NOTHING, Amounts, Quota
from tests.bastion.scheduler.world import Decide

Change = Callable[[Snapshot], Snapshot]


def seeing(change: Change) -> Decide:
    """Return `decide` applied to a false world."""
    return lambda snapshot, now: decide(change(snapshot), now)


def _jobs(snapshot: Snapshot, change: Callable[[JobRecord], JobRecord]) -> Snapshot:
    return replace(snapshot, jobs={name: change(job) for name, job in snapshot.jobs.items()})


def _shares(quota: Quota, change: Callable[[Amounts], Amounts]) -> Quota:
    projects = {n: replace(p, nominal=change(p.nominal)) for n, p in quota.projects.items()}
    return replace(quota, projects=projects)


def _torn_gangs(snapshot: Snapshot) -> Snapshot:
    return _jobs(snapshot, lambda job: replace(job, gang=()))


def _small_gangs(snapshot: Snapshot) -> Snapshot:
    def halve(job: JobRecord) -> JobRecord:
        if job.phase is not Phase.QUEUED or job.request.replicas < 2:
            return job
        return replace(job, request=replace(job.request, replicas=job.request.replicas - 1))

    return _jobs(snapshot, halve)


def all_is_lent(snapshot: Snapshot) -> Snapshot:
    """Let no project keep anything for itself."""
    projects = {n: replace(p, kept=NOTHING) for n, p in snapshot.quota.projects.items()}
    return replace(snapshot, quota=replace(snapshot.quota, projects=projects))


def _whole_devices(snapshot: Snapshot) -> Snapshot:
    machines = {n: replace(m, bad_devices={}) for n, m in snapshot.machines.items()}
    return replace(snapshot, machines=machines)


def _forgotten_jobs(snapshot: Snapshot) -> Snapshot:
    jobs = {n: j for n, j in snapshot.jobs.items() if j.phase is not Phase.STOPPING}
    return replace(snapshot, jobs=jobs)


def _larger_tiers(snapshot: Snapshot) -> Snapshot:
    quota = snapshot.quota
    tiers = tuple(replace(tier, units=2 * tier.units) for tier in quota.tiers)
    machines = {n: replace(m, resources=2 * m.resources) for n, m in snapshot.machines.items()}
    return replace(snapshot, quota=replace(quota, tiers=tiers), machines=machines)


def _doubled_shares(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, quota=_shares(snapshot.quota, lambda nominal: 2 * nominal))


def _no_shares(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, quota=_shares(snapshot.quota, lambda _: Amounts({})))


def _own_share_for_one(snapshot: Snapshot) -> Snapshot:
    """Remove the shares of all asking projects but one: their running jobs look borrowed."""
    asking = {job.project for job in snapshot.jobs.values() if job.phase is Phase.QUEUED}
    kept = {
        n: p if n in asking and n == min(asking) else replace(p, nominal=Amounts({}))
        for n, p in snapshot.quota.projects.items()
    }
    return replace(snapshot, quota=replace(snapshot.quota, projects=kept))


def _impatient(snapshot: Snapshot) -> Snapshot:
    options = replace(snapshot.quota.scheduler, min_runtime_s=0.0)
    return replace(snapshot, quota=replace(snapshot.quota, scheduler=options))


def _half_the_machines(snapshot: Snapshot) -> Snapshot:
    names = sorted(snapshot.machines)
    machines = {
        n: replace(m, cordoned="unseen") if i % 2 else m
        for i, (n, m) in enumerate((name, snapshot.machines[name]) for name in names)
    }
    return replace(snapshot, machines=machines)


def _shared_machines(snapshot: Snapshot) -> Snapshot:
    """Make jobs that take whole machines look like all others."""

    def change(job: JobRecord) -> JobRecord:
        where = replace(job.request.where, exclusive=False)
        return replace(job, request=replace(job.request, where=where))

    return _jobs(snapshot, change)


def _anywhere(snapshot: Snapshot) -> Snapshot:
    """Hide all filters, except that a job takes whole machines."""

    def change(job: JobRecord) -> JobRecord:
        where = Where(exclusive=job.request.where.exclusive)
        return replace(job, request=replace(job.request, where=where))

    return _jobs(snapshot, change)


def without_blocks(snapshot: Snapshot) -> Snapshot:
    """Hide that a gang has to lie in one block."""

    def change(job: JobRecord) -> JobRecord:
        where = replace(job.request.where, same="")
        return replace(job, request=replace(job.request, where=where))

    return _jobs(snapshot, change)


def of_one_age(snapshot: Snapshot) -> Snapshot:
    """Make all jobs look as if they were submitted at the same time."""
    return _jobs(snapshot, lambda job: replace(job, submitted_at=0.0))


def without_reports(snapshot: Snapshot) -> Snapshot:
    """Hide what jobs have reported."""
    return replace(snapshot, reports={})


def stops_one_too_many(snapshot: Snapshot, now: float) -> Plan:
    """Stop one more borrower for a promise than it needs."""
    plan = decide(snapshot, now)
    stops = [v for v in plan.verdicts.values() if isinstance(v, Preempt)]
    promised = {promise.gang[0]: promise for promise in plan.promises}
    stop = next((each for each in stops if each.by in promised), None)
    more = [
        name
        for name, verdict in sorted(plan.verdicts.items())
        if isinstance(verdict, Keep)
        and verdict.job_class is JobClass.BORROWED
        and not snapshot.jobs[name].gang
        and snapshot.jobs[name].phase is Phase.RUNNING
    ]
    if stop is None or not more:
        return plan
    promises = tuple(
        replace(each, victims=(*each.victims, (more[0], now))) if each.gang[0] == stop.by else each
        for each in plan.promises
    )
    verdicts: dict[str, Verdict] = {**plan.verdicts, more[0]: stop}
    return replace(plan, verdicts=Verdicts(verdicts), promises=promises)


def forgets_its_promises(snapshot: Snapshot, now: float) -> Plan:
    """Decide as if nothing had been promised, and still report the promises."""
    plan = decide(replace(snapshot, promises=()), now)
    again = {promise.gang[0] for promise in plan.promises} | admitted(plan)
    kept = [each for each in snapshot.promises if again.isdisjoint(each.gang)]
    kept = [each for each in kept if all(name in plan.verdicts for name in each.gang)]
    return replace(plan, promises=(*kept, *plan.promises))


def admitted(plan: Plan) -> set[str]:
    """Return the jobs that start."""
    return {name for name, verdict in plan.verdicts.items() if isinstance(verdict, Admit)}


def says_nothing(snapshot: Snapshot, now: float) -> Plan:
    """Leave waiting jobs without a verdict."""
    plan = decide(snapshot, now)
    verdicts: dict[str, Verdict] = {
        n: v for n, v in plan.verdicts.items() if not isinstance(v, Wait)
    }
    return replace(plan, verdicts=Verdicts(verdicts))


def hurries(snapshot: Snapshot, now: float) -> Plan:
    """Stop every victim of a promise as early as the first."""
    plan = decide(snapshot, now)
    promises = tuple(
        replace(
            each, victims=tuple((job, min(at for _, at in each.victims)) for job, _ in each.victims)
        )
        for each in plan.promises
    )
    return replace(plan, promises=promises)


def postpones(snapshot: Snapshot, now: float) -> Plan:
    """Move every deadline along with the clock."""
    plan = decide(snapshot, now)
    promises = tuple(replace(each, deadline=now + 50) for each in plan.promises)
    return replace(plan, promises=promises)


def holds_back(snapshot: Snapshot, now: float) -> Plan:
    """Let every job wait that is not within its share."""
    plan = decide(snapshot, now)
    verdicts = {
        n: Wait(reason=Held(by="nobody at all"))
        if isinstance(v, Admit) and v.job_class is JobClass.BORROWED
        else v
        for n, v in plan.verdicts.items()
    }
    waiting = [n for n, v in verdicts.items() if v is not plan.verdicts[n]]
    words = {n: Wait(reason=_reason_of(plan)) for n in waiting}
    return replace(plan, verdicts=Verdicts({**verdicts, **words}))


def _reason_of(plan: Plan) -> WaitingReason:
    from bastion.scheduler.reasons.reason import WaitingForCapacity

    return WaitingForCapacity(asked=Amounts({"gpu": 1}), short=Amounts({"gpu": 1}))


def blames_machines(snapshot: Snapshot, now: float) -> Plan:
    """Tell every job that waits for capacity that machines are missing."""
    from bastion.scheduler.reasons.reason import CapacityLost, WaitingForCapacity

    none = CapacityLost(asked=Amounts({}), lost=Amounts({}), of=Amounts({}), machines=())
    return _instead_of(decide(snapshot, now), WaitingForCapacity, none)


def blames_the_share(snapshot: Snapshot, now: float) -> Plan:
    """Tell every job that waits for others' shares that its project is at its ceiling."""
    from bastion.scheduler.reasons.reason import BeyondShare, OverCeiling

    project = min(snapshot.quota.projects)
    none = Amounts({})
    capped = OverCeiling(project=project, asked=none, held=none, ceiling=none)
    return _instead_of(decide(snapshot, now), BeyondShare, capped)


def _instead_of(plan: Plan, kind: type[object], reason: WaitingReason) -> Plan:
    verdicts = {
        n: replace(v, reason=reason) if isinstance(v, Wait) and isinstance(v.reason, kind) else v
        for n, v in plan.verdicts.items()
    }
    return replace(plan, verdicts=Verdicts(verdicts))


def thrashes(snapshot: Snapshot, now: float) -> Plan:
    """Stop a borrower for nothing whenever there is one."""
    plan = decide(snapshot, now)
    for name, verdict in plan.verdicts.items():
        if isinstance(verdict, Keep) and snapshot.jobs[name].phase is Phase.RUNNING:
            from bastion.scheduler.reasons.reason import Outranked

            reason = Outranked(by=name, priority=3, theirs=3)
            stop = Preempt(by=name, deadline=now + 10, reason=reason)
            return replace(plan, verdicts=Verdicts({**plan.verdicts, name: stop}))
    return plan


def favours_victims(snapshot: Snapshot, now: float) -> Plan:
    """Give everything to projects with a job that has just been preempted."""
    jobs = snapshot.jobs.values()
    hurt = {job.project for job in jobs if job.phase is Phase.QUEUED and job.preempted_at == now}
    if not hurt:
        return decide(snapshot, now)
    totals = snapshot.quota.totals
    projects = {
        n: replace(p, nominal=totals if n in hurt else Amounts({}))
        for n, p in snapshot.quota.projects.items()
    }
    return decide(replace(snapshot, quota=replace(snapshot.quota, projects=projects)), now)


def starves(snapshot: Snapshot, now: float) -> Plan:
    """Never start the job whose name sorts last."""
    plan = decide(snapshot, now)
    admitted = [name for name, verdict in plan.verdicts.items() if isinstance(verdict, Admit)]
    last = max(snapshot.jobs, default="")
    if last not in admitted:
        return plan
    verdicts = {**plan.verdicts, last: Wait(reason=Held(by="nobody"))}
    return replace(plan, verdicts=Verdicts(verdicts))


def overtakes(snapshot: Snapshot, now: float) -> Plan:
    """Plan only what phase 3 left over: later jobs of a project overtake its gangs."""
    draft = Draft(snapshot, now, chosen(snapshot.quota.scheduler), Memory())
    survey(draft)
    for phase in PHASES:
        if phase not in (take_over_plans, plan_ahead):
            phase(draft)
    plan = explain(draft)
    draft.close()
    return plan


def forgets_drains(snapshot: Snapshot, now: float) -> Plan:
    """Search for drains from scratch in every cycle, as far as the steps allow."""
    timed = tuple(each for each in snapshot.planned if each.at is not None)
    return decide(replace(snapshot, planned=timed), now)


def puts_off(snapshot: Snapshot, now: float) -> Plan:
    """Repeatedly announce a later time for a planned start."""
    plan = decide(snapshot, now)
    planned = tuple(replace(each, at=now + 1_000) for each in plan.planned)
    return replace(plan, planned=planned)


def depends_on_order(snapshot: Snapshot, now: float) -> Plan:
    """Move the first job that it happens to see to the end of the line."""
    first = next((n for n, j in snapshot.jobs.items() if j.phase is Phase.QUEUED), None)
    if first is None:
        return decide(snapshot, now)
    jobs = dict(snapshot.jobs)
    jobs[first] = replace(jobs[first], held="chance")
    return decide(replace(snapshot, jobs=jobs), now)


MUTANTS: Mapping[str, tuple[Decide, str]] = {
    "torn gangs": (seeing(_torn_gangs), "gangs_are_whole"),
    "small gangs": (seeing(_small_gangs), "gangs_are_whole"),
    "broken devices": (seeing(_whole_devices), "no_device_is_shared"),
    "forgotten jobs": (seeing(_forgotten_jobs), "no_device_is_shared"),
    "larger tiers": (seeing(_larger_tiers), "within_capacity"),
    "doubled shares": (seeing(_doubled_shares), "none_above_its_share_reclaims"),
    "one share only": (seeing(_own_share_for_one), "no_guaranteed_victim"),
    "no shares": (seeing(_no_shares), "the_guarantee"),
    "impatient": (seeing(_impatient), "borrowers_have_their_time"),
    "half the machines": (seeing(_half_the_machines), "work_is_conserved"),
    "shared machines": (seeing(_shared_machines), "no_machine_holds_too_much"),
    "no filters": (seeing(_anywhere), "filters_are_kept"),
    "forgotten promises": (forgets_its_promises, "what_is_promised_is_closed"),
    "one too many": (stops_one_too_many, "victims_are_minimal"),
    "hurries": (hurries, "victims_run_on_until_the_last_must_stop"),
    "holds back": (holds_back, "work_is_conserved"),
    "says nothing": (says_nothing, "every_job_has_a_verdict"),
}
"""Name -> (a broken scheduler, the law that must detect it)."""
