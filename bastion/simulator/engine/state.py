"""
`State`: jobs and machines of a simulation, and what a plan of the scheduler does to them.

The scheduler sees ordinary records. Of the waiting jobs, those that could start are shown; see
`engine/jobs/waiting.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from bastion.job import (
    UNTOUCHED,
    Attempt,
    End,
    JobClass,
    JobRecord,
    Phase,
    Placement,
    Stop,
    StopReason,
)
from bastion.machine import Machine, Pool
from bastion.scheduler.plan import Plan
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.queue.shape import grace_of
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.scheduler.snapshot import Snapshot
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.engine.books import Books, Holding
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.jobs.report import Moment, Report
from bastion.simulator.engine.jobs.waiting import WaitingLines
from bastion.simulator.workload.job import TraceJob
from bastion.spec.request import Request
from quota import Amounts, Quota

_GONE = End(kind="exited")


class State:
    """
    Everything at one moment of a simulation.

    Args:
        cluster: The machines.
        quota: Shares and policies.
        shows_all: Show the scheduler every waiting job.
        attained: The device time of jobs before the beginning, by ID, in seconds.
        reports: Give policies for every job `attained_s`, the time for which it has held devices,
            if its record does not say it, `remaining_s` of work, and `progress`.
    """

    def __init__(
        self,
        cluster: Cluster,
        quota: Quota,
        *,
        shows_all: bool = False,
        reports: bool = True,
        attained: Mapping[str, float] | None = None,
    ) -> None:
        self.cluster = cluster
        self.quota = quota
        self.machines: dict[str, Machine] = cluster.machines()
        self.stood: dict[str, int] = {
            name: cluster.named[machine.pool].devices for name, machine in self.machines.items()
        }
        """Devices of each machine that existed at any time."""
        self.pools: dict[str, Pool] = cluster.pools()
        self.shown: dict[str, JobRecord] = {}
        """Jobs as the scheduler sees them: those that hold devices, and those that could start."""
        self.lives: dict[str, Life] = {}
        """Jobs that have been submitted and have not ended, by ID."""
        self.waiting = WaitingLines(self.shown, shows_all=shows_all)
        self.books = Books(quota)
        self.reports: dict[str, Report] = {}
        self.is_reporting = reports
        self._moment = Moment()
        self._attained = attained or {}
        self.promises: tuple[Promise, ...] = ()
        self.planned: tuple[PlannedStart, ...] = ()
        self.considered: frozenset[tuple[str, bool]] = frozenset()
        self.stockouts: dict[str, ProviderStockout] = {}
        self.seq = 0
        self.last_arrival_s = -math.inf
        self.holding: dict[Life, None] = {}
        """Jobs that hold devices, in the order in which they got them."""
        self.borrowers: Counter[str] = Counter()
        """Running jobs on borrowed devices, by project."""
        self._gave_back: set[str] = set()
        """Projects in which a job has left since the last cycle."""
        self.stopping = 0
        """Running jobs that have received their notice."""
        self.moved: dict[Life, None] | None = None
        """Jobs whose devices or class changed since the last shortcut; None without one."""
        self.used = 0
        """Held devices."""
        self.capacity = cluster.device_count
        """Devices of healthy machines."""
        self.held_by: dict[str, int] = dict.fromkeys(quota.projects, 0)
        self.on: dict[str, set[Life]] = {}
        """Running jobs, by machine."""
        self._requests: dict[tuple[object, ...], tuple[Request, int]] = {}

    def snapshot(self, now: float) -> Snapshot:
        """Return what the scheduler sees."""
        self.books.advance(now)
        self._moment.now = now
        return Snapshot(
            quota=self.quota,
            jobs=self.shown,
            machines=self.machines,
            pools=self.pools,
            promises=self.promises,
            planned=self.planned,
            considered=self.considered,
            seq=self.seq,
            decayed=self.books.decayed,
            decayed_by_user=self.books.decayed_by_user,
            spent=self.books.spent,
            stockouts=self.stockouts,
            reports=self.reports,
        )

    @property
    def running(self) -> int:
        """How many jobs hold devices."""
        return len(self.holding)

    @property
    def is_uncommitted(self) -> bool:
        """Whether nothing was promised or planned, and no search continues."""
        return not (self.promises or self.planned or self.considered)

    @property
    def has_unsettled_classes(self) -> bool:
        """Whether a borrower may now be within its own share, as others of its project left."""
        borrowers = self.borrowers
        if not borrowers:
            return False
        return bool(self.quota.groups) or any(borrowers[name] for name in self._gave_back)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to decide until an arrival: no job waits or may change."""
        return not self.waiting.count and self.is_uncommitted and not self.has_unsettled_classes

    # Jobs

    def submit(self, job: TraceJob, index: int, name: str) -> Life:
        """Add an arriving job, which waits."""
        life = self.enter(job, index, name)
        self.waiting.add(life, self._request_of(job)[1])
        return life

    def rejoin(self, life: Life, now: float) -> None:
        """Let a job that was set aside join the queue again, as of `now`."""
        life.record = replace(life.record, queued_at=now)
        self.waiting.add(life, self._request_of(life.job)[1])

    def govern(self, quota: Quota) -> None:
        """Apply another quota file from now on."""
        self.quota = quota
        self.books.govern(quota, map(_holding, self.holding))

    def enter(self, job: TraceJob, index: int, name: str) -> Life:
        """Add an arriving job; the caller makes it wait."""
        request, _ = self._request_of(job)
        record = JobRecord(
            id=name,
            name=name,
            project=job.project,
            user=job.user,
            launch=name,
            ulid=name,
            submitted_at=job.submit_s,
            queued_at=job.submit_s,
            request=request,
        )
        self.last_arrival_s = job.submit_s
        life = Life(job, record, index)
        life.attained_s = self._attained.get(name, 0.0)
        self.lives[name] = life
        if self.is_reporting:
            self.reports[name] = Report(life, self._moment)
        return life

    def _request_of(self, job: TraceJob) -> tuple[Request, int]:
        key = (
            job.replicas,
            job.devices,
            job.type,
            job.priority,
            job.max_runtime_s,
            job.grace_s,
            job.borrow,
        )
        known = self._requests.get(key)
        if known is None:
            each = Amounts({job.type: job.devices // job.replicas})
            request = Request(
                replicas=job.replicas,
                per_replica=each,
                priority=job.priority,
                max_runtime_s=job.max_runtime_s,
                grace_s=job.grace_s,
                borrow=job.borrow,
            )
            most = max(1, self.cluster.totals[job.type] // job.devices)
            known = self._requests[key] = request, most
        return known

    def start(
        self,
        life: Life,
        placement: Placement,
        job_class: JobClass,
        now: float,
        *,
        started_at: float | None,
    ) -> None:
        """Give a waiting job its devices; the caller calls `life.begin`."""
        life.gone = 0
        self.waiting.remove(life)
        record = life.record
        attempt = Attempt(
            number=record.attempts + 1,
            nonce="",
            admitted_at=now,
            started_at=started_at,
            placement=placement,
            job_class=job_class,
            hosts=tuple((UNTOUCHED,) * len(replica.hosts) for replica in placement),
        )
        life.record = replace(
            record, phase=Phase.RUNNING, attempt=attempt, attempts=record.attempts + 1
        )
        self.shown[record.id] = life.record
        self.hold(life, job_class, 1)
        for replica in placement:
            for host in replica.hosts:
                self.on.setdefault(host.machine, set()).add(life)

    def started(self, life: Life, now: float) -> None:
        """Record that the processes of an admitted job are now running."""
        assert life.record.attempt is not None
        attempt = replace(life.record.attempt, started_at=now)
        life.record = self.shown[life.record.id] = replace(life.record, attempt=attempt)

    def preempt(self, life: Life, deadline: float, by: str, now: float) -> None:
        """Give a running job its notice: it makes room for `by`."""
        self._stop(life, Stop(reason=StopReason.PREEMPT, at=now, deadline=deadline, by=by))

    def cancel(self, life: Life, now: float) -> None:
        """Give a running job its notice: its user cancelled it."""
        deadline = now + grace_of(life.record.request, self.quota.scheduler)
        self._stop(life, Stop(reason=StopReason.CANCEL, at=now, deadline=deadline))

    def _stop(self, life: Life, stop: Stop) -> None:
        assert life.record.attempt is not None
        attempt = replace(life.record.attempt, stop=stop)
        life.record = replace(life.record, phase=Phase.STOPPING, attempt=attempt)
        self.stopping += 1
        self.shown[life.record.id] = life.record

    def reclass(self, life: Life, job_class: JobClass) -> None:
        """Record that a running job is now within its project's own share, or no longer."""
        attempt = life.record.attempt
        assert attempt is not None
        if attempt.job_class is job_class:
            return
        sign = 1 if job_class is JobClass.BORROWED else -1
        self._borrows(life.job.project, sign)
        if self.moved is not None:
            self.moved[life] = None
        self.books.reclass(life.job.project, _units_of(life), sign)
        life.record = replace(life.record, attempt=replace(attempt, job_class=job_class))
        self.shown[life.record.id] = life.record

    def leave(self, life: Life) -> None:
        """Free the devices of a job; the caller decides what happens to it."""
        attempt = life.record.attempt
        assert attempt is not None
        self.stopping -= life.record.phase is Phase.STOPPING
        self.hold(life, attempt.job_class, -1)
        for replica in attempt.placement:
            for host in replica.hosts:
                self.on[host.machine].discard(life)
        del self.shown[life.record.id]

    def end_part(self, life: Life, replica: int) -> None:
        """Free the devices of a replica; the others of its job continue."""
        record, attempt = life.record, life.record.attempt
        assert attempt is not None
        ended = tuple(replace(host, end=_GONE) for host in attempt.hosts[replica])
        hosts = (*attempt.hosts[:replica], ended, *attempt.hosts[replica + 1 :])
        life.record = replace(record, attempt=replace(attempt, hosts=hosts))
        self.shown[record.id] = life.record
        life.gone += 1
        units, devices = record.request.per_replica, life.job.devices // life.job.replicas
        self._count(life, attempt.job_class, units, devices, -1)
        held = {host.machine for place in life.record.alive for host in place.hosts}
        for host in attempt.placement[replica].hosts:
            if host.machine not in held:
                self.on[host.machine].discard(life)

    def requeue(self, life: Life, now: float) -> None:
        """Requeue a job that was stopped or lost its machine."""
        self.leave(life)
        life.record = replace(
            life.record,
            phase=Phase.QUEUED,
            attempt=None,
            queued_at=now,
            preempted_at=now,
            preemptions=life.record.preemptions + 1,
        )
        self.waiting.add(life, self._request_of(life.job)[1])

    def forget(self, life: Life) -> None:
        """Remove a job that has ended permanently."""
        del self.lives[life.record.id]
        self.reports.pop(life.record.id, None)

    def hold(self, life: Life, job_class: JobClass, sign: int) -> None:
        """Count what a job takes, or with `sign` -1 what it frees."""
        job = life.job
        if self.moved is not None:
            self.moved[life] = None
        if sign > 0:
            self.holding[life] = None
        else:
            del self.holding[life]
            self._gave_back.add(job.project)
        if job_class is JobClass.BORROWED:
            self._borrows(job.project, sign)
        gone = life.gone * (job.devices // job.replicas) if life.gone else 0
        self._count(life, job_class, _units_of(life), job.devices - gone, sign)

    def _count(
        self, life: Life, job_class: JobClass, units: Amounts, devices: int, sign: int
    ) -> None:
        job = life.job
        self.used += sign * devices
        self.held_by[job.project] = self.held_by.get(job.project, 0) + sign * devices
        self.books.hold(job.project, job.user, units, job_class, sign)

    def _borrows(self, project: str, sign: int) -> None:
        self.borrowers[project] += sign
        if not self.borrowers[project]:
            del self.borrowers[project]

    def take(self, plan: Plan) -> None:
        """Keep the scheduler's commitments until the next cycle."""
        self._gave_back.clear()
        self.promises, self.planned = plan.promises, plan.planned
        gangs = [promise.gang for promise in plan.promises]
        gangs += [planned.gang for planned in plan.planned]
        self.waiting.keep({name: self.lives[name] for gang in gangs for name in gang})
        self.considered = plan.considered
        self.seq += bool(plan.new_machines)


def _holding(life: Life) -> Holding:
    record, attempt = life.record, life.record.attempt
    job_class = attempt.job_class if attempt is not None else life.job_class
    return record.project, record.user, _units_of(life), job_class


def _units_of(life: Life) -> Amounts:
    """Return what the replicas that have not ended hold."""
    request = life.record.request
    return (request.replicas - life.gone) * request.per_replica if life.gone else request.units
