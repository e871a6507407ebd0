"""
A tiny world around `decide`: jobs, machines and a virtual clock.

It carries out a plan as the service does, in the simplest way: it admits jobs, tells victims to
stop, ends them after their grace period, and passes promises and planned starts on to the next
cycle. Nothing else happens unless a test says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from bastion.job import Attempt, Dependency, JobRecord, Phase, Stop, StopReason, initial_hosts
from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse, Verdict, Verdicts
from bastion.scheduler.reasons.reason import Resized, text
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.request import Request
from bastion.spec.where import ANYWHERE, Where
from quota import Amounts, Quota, parse

MOST_TURNS = 8
"""The most consecutive turns, even if things still move."""

Decide = Callable[[Snapshot, float], Plan]


def quota_of(
    totals: Mapping[str, int] | Sequence[Mapping[str, int]],
    shares: Mapping[str, Mapping[str, float]],
    *,
    options: Mapping[str, str] | None = None,
    groups: Mapping[str, str] | None = None,
    **scheduler: object,
) -> Quota:
    """Return a quota file with users `u` and `v` in each project; `options`, `groups` are TOML."""
    tiers = [totals] if isinstance(totals, Mapping) else totals
    head = "[total_resources]" if isinstance(totals, Mapping) else "[[total_resources]]"
    lines = ['[toml-schema]\nversion = "1"']
    for tier in tiers:
        lines += [head, *(f"{t} = {n}" for t, n in tier.items())]
    lines += ["[project_membership]", *(f'{p} = ["u", "v", "u-.*"]' for p in shares)]
    for project, fractions in shares.items():
        lines += [f"[project_resources.{project}]", *(f"{t} = {x}" for t, x in fractions.items())]
    for project, written in (options or {}).items():
        lines += [f"[project_options.{project}]", written]
    for group, written in (groups or {}).items():
        lines += [f"[project_groups.{group}]", written]
    lines.append("[scheduler]")
    for key, setting in scheduler.items():
        lines.append(
            f"{key} = {setting!r}" if not isinstance(setting, str) else f'{key} = "{setting}"'
        )
    return parse("\n".join(lines) + "\n")


def machines_of(count: int, pool: str = "p", **resources: int) -> dict[str, Machine]:
    """Return `count` ready machines of a pool, each with `resources`."""
    return {
        f"{pool}-{i:03}": Machine(
            name=f"{pool}-{i:03}",
            pool=pool,
            phase=MachinePhase.READY,
            resources=Amounts(resources),
        )
        for i in range(count)
    }


def pool_of(
    count: int, name: str = "p", *, tier: int = 0, hosts: int = 1, **resources: int
) -> Pool:
    """Return a pool of at most `count` machines."""
    return Pool(
        name=name,
        provider="fake",
        resources=Amounts(resources),
        max_machines=count,
        tier=tier,
        hosts=hosts,
    )


class World:
    """The jobs and machines of one bastion."""

    def __init__(
        self,
        quota: Quota,
        machines: Mapping[str, Machine] | None = None,
        pools: Mapping[str, Pool] | None = None,
        *,
        decide: Decide = decide,
    ) -> None:
        self.quota = quota
        self.machines = dict(machines or {})
        if pools is None:
            pools = {m.pool: pool_of(0, m.pool, tier=m.tier) for m in self.machines.values()}
        self.pools = dict(pools)
        self.jobs: dict[str, JobRecord] = {}
        self.now = 1_000_000.0
        self.seq = 0
        self.plan = Plan(verdicts=Verdicts({}), promises=(), planned=(), new_machines=())
        self.turns: list[Plan] = []
        """The plans of the turns of the last cycle."""
        self.preemptions: list[tuple[str, str]] = []
        self.ends: dict[str, float] = {}
        self.decayed: dict[str, float] = {}
        self.extra: dict[str, object] = {}
        self.written: Callable[[Quota], Quota] = lambda quota: quota
        """What the quota file contains besides its shares."""
        self.is_mixed = False
        """Whether its jobs ask for several types."""
        self.is_grouped = False
        """Whether its projects are in groups."""
        self.streams: dict[str, tuple[int, float | None]] = {}
        """
        Projects whose one-device jobs keep arriving: how many at the same time, and their limit.
        """
        self.is_wide = False
        """Whether its jobs filter machines."""
        self._decide = decide

    def copy(self) -> World:
        """Return an independent copy of this world."""
        twin = copy(self)
        twin.jobs, twin.machines = dict(self.jobs), dict(self.machines)
        twin.pools = dict(self.pools)
        twin.ends, twin.extra = dict(self.ends), dict(self.extra)
        twin.preemptions = list(self.preemptions)
        return twin

    def ask(
        self,
        project: str,
        name: str = "",
        *,
        replicas: int = 1,
        most: int = 0,
        user: str = "u",
        priority: int = 3,
        max_runtime_s: float | None = None,
        grace_s: float | None = None,
        where: Where = ANYWHERE,
        hosts: int = 1,
        gang: tuple[str, ...] = (),
        runs_s: float | None = None,
        fail_when_busy: bool = False,
        after: tuple[Dependency, ...] = (),
        **units: int,
    ) -> str:
        """Queue a job that asks for `units` per replica; it ends `runs_s` after its start."""
        name = name or f"{project}-{len(self.jobs):04}"
        self.jobs[name] = JobRecord(
            id=name,
            name=name,
            project=project,
            user=user,
            launch=name,
            ulid=name,
            submitted_at=self.now,
            queued_at=self.now,
            gang=gang,
            index=gang.index(name) if gang else 0,
            fail_when_busy=fail_when_busy,
            after=after,
            request=Request(
                replicas=replicas,
                max_replicas=most,
                per_replica=Amounts(units),
                hosts=hosts,
                where=where,
                priority=priority,
                max_runtime_s=max_runtime_s,
                grace_s=grace_s,
            ),
        )
        if runs_s is not None:
            self.ends[name] = runs_s
        return name

    def snapshot(self) -> Snapshot:
        """Return what `decide` sees now."""
        return Snapshot(
            quota=self.quota,
            jobs=self.jobs,
            machines=self.machines,
            pools=self.pools,
            promises=self.plan.promises,
            planned=self.plan.planned,
            considered=self.plan.considered,
            seq=self.seq,
            decayed=self.decayed,
            **self.extra,  # type: ignore[arg-type]
        )

    def cycle(self) -> Plan:
        """
        Take turns until nothing moves, as the service does; no job ends in the meantime.

        A plan that starts, stops, promises or plans anything is followed immediately by another
        turn.
        """
        self.turns = []
        for _ in range(MOST_TURNS):
            before = self.plan
            plan = self.turn()
            self.turns.append(plan)
            if not self._is_moved(before, plan):
                break
        return self.plan

    def _is_moved(self, before: Plan, plan: Plan) -> bool:
        if plan.considered or before.promises != plan.promises or _starts(before) != _starts(plan):
            return True
        verdicts = plan.verdicts.decided.values()
        return any(isinstance(each, Admit | Preempt) for each in verdicts)

    def turn(self) -> Plan:
        """Decide once and carry the plan out; no job ends."""
        self.plan = self._decide(self.snapshot(), self.now)
        self.seq += 1
        for machine in self.plan.new_machines:
            self.machines[machine.name] = replace(machine, phase=MachinePhase.READY)
        for job, verdict in self.plan.verdicts.items():
            self._perform(job, verdict)
        return self.plan

    def _perform(self, name: str, verdict: Verdict) -> None:
        job = self.jobs[name]
        match verdict:
            case Admit():
                attempt = Attempt(
                    number=job.attempts + 1,
                    nonce="n",
                    admitted_at=self.now,
                    started_at=self.now,
                    placement=verdict.placement,
                    job_class=verdict.job_class,
                    hosts=initial_hosts(verdict.placement),
                )
                self.jobs[name] = replace(
                    job, phase=Phase.RUNNING, attempt=attempt, attempts=job.attempts + 1
                )
            case Keep() if job.attempt is not None:
                self.jobs[name] = replace(
                    job, attempt=replace(job.attempt, job_class=verdict.job_class)
                )
            case Preempt() if job.attempt is not None:
                grows = isinstance(verdict.reason, Resized)
                why = StopReason.RESIZE if grows else StopReason.PREEMPT
                stop = Stop(reason=why, at=self.now, deadline=verdict.deadline)
                self.preemptions.append((name, verdict.by))
                self.jobs[name] = replace(
                    job, phase=Phase.STOPPING, attempt=replace(job.attempt, stop=stop)
                )
            case Refuse():
                del self.jobs[name]
            case _:
                pass

    def pass_time(self, seconds: float) -> None:
        """Let time pass: jobs that are due end, and victims are queued again."""
        self.now += seconds
        for name, job in list(self.jobs.items()):
            if job.attempt is None or not job.is_admitted:
                continue
            started = job.attempt.started_at or self.now
            if name in self.ends and started + self.ends[name] <= self.now:
                self.end(name)
            elif job.attempt.stop is not None and job.attempt.stop.deadline <= self.now:
                self.requeue(name)

    def live(self, seconds: float) -> None:
        """Let time pass, with a cycle whenever the plan asks for one or something ends."""
        until = self.now + seconds
        while (at := min((at for at in self._due() if at > self.now), default=math.inf)) <= until:
            self.pass_time(at - self.now)
            self.cycle()
        self.pass_time(until - self.now)

    def _due(self) -> Iterator[float]:
        """Yield when running jobs end, and when the plan asks for the next cycle."""
        for name, job in self.jobs.items():
            if job.attempt is None or not job.is_admitted:
                continue
            if name in self.ends:
                yield (job.attempt.started_at or self.now) + self.ends[name]
            if job.attempt.stop is not None:
                yield job.attempt.stop.deadline
        if self.plan.wake_at is not None:
            yield self.plan.wake_at

    def run(self, seconds: float, step_s: float = 10.0) -> None:
        """Run a cycle every `step_s` for `seconds`."""
        until = self.now + seconds
        self.cycle()
        while self.now < until:
            self.pass_time(min(step_s, until - self.now))
            self.cycle()

    def end(self, name: str) -> None:
        """End and remove the job; jobs that waited for it no longer do."""
        del self.jobs[name]
        for job in [job for job in self.jobs.values() if job.after]:
            left = tuple(each for each in job.after if each.on != name)
            self.jobs[job.id] = replace(job, after=left)

    def requeue(self, name: str) -> None:
        """Queue the preempted job again."""
        job = self.jobs[name]
        stop = job.attempt.stop if job.attempt is not None else None
        job = replace(job, phase=Phase.QUEUED, attempt=None, queued_at=self.now)
        if stop is None or stop.reason is StopReason.PREEMPT:
            job = replace(job, preempted_at=self.now, preemptions=job.preemptions + 1)
        self.jobs[name] = job

    def runs(self, name: str) -> bool:
        """Whether the job holds devices and is not being stopped."""
        return name in self.jobs and self.jobs[name].phase is Phase.RUNNING

    def running(self, project: str) -> list[str]:
        """Return the running jobs of a project, by name."""
        return sorted(n for n, job in self.jobs.items() if job.project == project and self.runs(n))

    def units(self, project: str, resource: str = "gpu") -> int:
        """Return the units that a project holds."""
        return sum(
            job.replicas * job.request.per_replica[resource]
            for job in self.jobs.values()
            if job.project == project and job.is_admitted
        )

    def verdict(self, name: str) -> Verdict:
        """Return what the last cycle decided for the job, or else its verdict in the last turn."""
        for plan in self.turns:
            verdict = plan.verdicts.decided.get(name)
            if isinstance(verdict, Admit | Preempt | Refuse):
                return verdict
        return self.plan.verdicts[name]

    def why(self, name: str) -> str:
        """Return the reason in words, as of the last cycle."""
        return text(self.verdict(name).reason, self.now)

    def reason(self, name: str) -> str:
        """Return the reason's code, as of the last cycle."""
        return self.plan.verdicts[name].reason.kind


def _starts(plan: Plan) -> list[tuple[tuple[str, ...], float | None]]:
    """Return the planned starts; machines that do not exist yet have a new name in every plan."""
    return [(each.gang, each.at) for each in plan.planned]
