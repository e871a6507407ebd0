"""
The row of an attempt: what it held, for how long, and why it stopped.

Pure: a function of the job before and after the event, and of its machines. The row of an attempt
that has not ended consists of the same parts, as of now.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.array import ArrayRecord
from bastion.history.prices import price_in_force
from bastion.job import (
    FAILURES,
    Attempt,
    HostState,
    JobRecord,
    Outcome,
    OutcomeKind,
    Phase,
    ReplicaPlace,
)
from bastion.machine import Machine, Pool
from bastion.machine_name import pool_of
from bastion.records.reports.history import EndedAttempt
from bastion.value import replace, value
from quota.amounts import NOTHING, Amounts

_WASTED = FAILURES | {OutcomeKind.PREEMPTED, OutcomeKind.STOPPED, OutcomeKind.LOST}
"""Outcomes after which work since the last checkpoint is repeated or was wasted."""
_NO_DEVICES = ("cpu", "memory")


@value
class Hardware:
    """The machines and pools that attempts ran on, as far as they are known."""

    machines: Mapping[str, Machine]
    pools: Mapping[str, Pool]

    def shape(self, machine: str) -> Amounts | None:
        """Return the resources of a machine; None if unknown."""
        if machine in self.machines:
            return self.machines[machine].resources
        pool = self.pools.get(pool_of(machine))
        return pool.resources if pool is not None else None


@value
class _Held:
    """What one replica held, and for how long."""

    units: Amounts
    machines: float | None
    """Of a machine; None if its shape is unknown."""
    total_s: float
    borrowed_s: float
    lost_s: float


def has_row(before: JobRecord, after: JobRecord) -> bool:
    """Whether the change from `before` to `after` ended an attempt, or a job in the queue."""
    if before.phase is Phase.DRAINING:
        return after.phase in (Phase.QUEUED, Phase.DONE)
    return before.phase is Phase.QUEUED and after.phase is Phase.DONE


def ended_attempt(
    before: JobRecord, after: JobRecord, now: float, hardware: Hardware, *, stopped_for: str = ""
) -> EndedAttempt:
    """
    Return the row of what ended between `before` and `after`, at `now`.

    `stopped_for` is the project of the job that preempted it, or empty.
    """
    attempt = before.attempt
    outcome = before.last if attempt is not None else after.outcome
    assert outcome is not None, f"{after.id} ended without an outcome"
    final = after.outcome.kind.value if after.outcome is not None else ""
    row = replace(
        queued_job(before),
        outcome=outcome.kind.value,
        job_outcome=final,
        text=outcome.text,
        exit_code=outcome.code,
    )
    if attempt is None:
        return row
    return _with_attempt(row, before, now, hardware, outcome, stopped_for=stopped_for)


def standing_attempt(job: JobRecord, now: float, hardware: Hardware) -> EndedAttempt:
    """Return the row of an attempt that has not ended, at time `now`; its outcome is its phase."""
    row = _with_attempt(queued_job(job), job, now, hardware, None)
    # The use of hosts that have ended says nothing about those that are running.
    return replace(row, utilisation=None)


def ended_array(array: ArrayRecord) -> EndedAttempt:
    """Return the row of an array that ended: it represents the tasks that never started."""
    outcome = array.outcome
    return replace(
        queued_job(array.each),
        tasks=len(array.tasks),
        outcome=outcome.kind.value,
        job_outcome=outcome.kind.value,
        text=outcome.text,
        exit_code=outcome.code,
    )


def queued_array(array: ArrayRecord) -> EndedAttempt:
    """Return the row of an array's waiting tasks that have no record of their own."""
    return replace(queued_job(array.each), tasks=len(array.waiting))


def queued_job(job: JobRecord) -> EndedAttempt:
    """Return the row of a job that waits in the queue; its outcome is its phase."""
    return EndedAttempt(
        user=job.user,
        launch=job.launch,
        name=job.name,
        task=job.task,
        gang=max(1, len(job.gang)),
        request=job.request,
        submitted_at=job.submitted_at,
        queued_at=job.queued_at,
        outcome=job.phase.value,
    )


def _with_attempt(
    row: EndedAttempt,
    job: JobRecord,
    now: float,
    hardware: Hardware,
    outcome: Outcome | None,
    *,
    stopped_for: str = "",
) -> EndedAttempt:
    attempt = job.attempt
    assert attempt is not None, f"{job.id} has no attempt"
    held = [_held(job, attempt, r, now, hardware) for r in range(len(attempt.placement))]
    freed_at = attempt.admitted_at + max(each.total_s for each in held)
    borrowed_s = max(each.borrowed_s for each in held)
    stop = attempt.stop
    row = _with_price(_with_machines(row, attempt, hardware), attempt, held, hardware, now)
    return replace(
        _with_devices(row, held, outcome),
        attempt=attempt.number,
        nonce=attempt.nonce,
        replicas=None if len(held) == job.request.replicas else len(held),
        # The store dates a request; the turn that admits its job may have begun just before.
        queued_at=min(row.queued_at, attempt.admitted_at),
        admitted_at=attempt.admitted_at,
        started_at=attempt.started_at,
        freed_at=freed_at,
        replica_s=_replica_s(held),
        job_class=attempt.job_class.value,
        guaranteed_s=freed_at - attempt.admitted_at - borrowed_s,
        borrowed_s=borrowed_s,
        stop_reason=stop.reason.value if stop is not None else "",
        stopped_by=stop.by if stop is not None else "",
        stopped_for=stopped_for,
        utilisation=attempt.utilisation,
    )


def _replica_s(held: list[_Held]) -> tuple[float, ...]:
    each = tuple(one.total_s for one in held)
    return each if len(set(each)) > 1 else ()


def _with_machines(row: EndedAttempt, attempt: Attempt, hardware: Hardware) -> EndedAttempt:
    names = tuple(dict.fromkeys(place.machine for _, _, place, _ in attempt.each_host()))
    first = names[0]
    machine = hardware.machines.get(first)
    return replace(
        row,
        machines=names,
        pool=pool_of(first),
        zone=machine.zone if machine is not None else "",
        tier=attempt.placement[0].tier,
    )


def _with_price(
    row: EndedAttempt, attempt: Attempt, held: list[_Held], hardware: Hardware, now: float
) -> EndedAttempt:
    """
    Add type and price of its machines: for several pools the common values and the mean price.

    The reader of the row looks up a list price only for a single pool.
    """
    pools = [hardware.pools.get(pool_of(each.hosts[0].machine)) for each in attempt.placement]
    known = [pool for pool in pools if pool is not None]
    if not known:
        return row
    kinds = {pool.instance_type if pool is not None else "" for pool in pools}
    terms = {pool.terms for pool in known}
    price: float | None = known[0].price_per_hour
    if len({pool_of(name) for name in row.machines}) > 1:
        prices = [_price(pool, now) for pool in pools]
        shares = [each.total_s * (each.machines or 0.0) for each in held]
        total = sum(price * share for price, share in zip(prices, shares))
        price = total / (sum(shares) or 1.0) if all(prices) else None
    return replace(
        row,
        instance_type=kinds.pop() if len(kinds) == 1 else "",
        terms=terms.pop() if len(terms) == 1 else "",
        price_per_hour=price or None,
    )


def _price(pool: Pool | None, now: float) -> float:
    if pool is None:
        return 0.0
    return price_in_force(pool.price_per_hour, pool.instance_type, pool.terms, now)


def _with_devices(row: EndedAttempt, held: list[_Held], outcome: Outcome | None) -> EndedAttempt:
    total = Amounts.sum(each.units for each in held)
    device = device_of(total)
    units = [each.units[device] if device else 0 for each in held]
    own_s = [each.total_s - each.borrowed_s for each in held]
    shares = [each.machines for each in held]
    is_waste = outcome is not None and outcome.kind in _WASTED
    return replace(
        row,
        device_type=device,
        devices=sum(units),
        cpu=total["cpu"],
        memory_bytes=total["memory"],
        guaranteed_device_s=sum(n * s for n, s in zip(units, own_s)),
        borrowed_device_s=sum(n * each.borrowed_s for n, each in zip(units, held)),
        machine_s=_machine_s(held) if None not in shares else None,
        lost_s=max(each.lost_s for each in held) if is_waste else None,
        lost_device_s=sum(n * each.lost_s for n, each in zip(units, held)) if is_waste else None,
    )


def _held(job: JobRecord, attempt: Attempt, replica: int, now: float, hardware: Hardware) -> _Held:
    place = attempt.placement[replica]
    last = max(attempt.hosts[replica], key=lambda host: _ended_at(host, now))
    ended_at = max(_ended_at(last, now), attempt.admitted_at)
    shapes = [hardware.shape(host.machine) for host in place.hosts]
    units = job.request.per_replica
    if job.request.takes_whole:
        units = Amounts.sum(shape or NOTHING for shape in shapes)
    total_s = ended_at - attempt.admitted_at
    since = attempt.admitted_at if attempt.checkpoint_at is None else attempt.checkpoint_at
    return _Held(
        units=units,
        machines=_share(job, place, shapes),
        total_s=total_s,
        borrowed_s=min(total_s, _borrowed_s(attempt, last, now)),
        lost_s=max(0.0, ended_at - since),
    )


def _ended_at(host: HostState, now: float) -> float:
    """Return when the host's devices were free; an older Bastion did not record it."""
    return now if host.ended_at is None else host.ended_at


def _borrowed_s(attempt: Attempt, last: HostState, now: float) -> float:
    return attempt.borrowed_until(now) if last.ended_at is None else last.borrowed_s


def _share(job: JobRecord, place: ReplicaPlace, shapes: list[Amounts | None]) -> float | None:
    """Return how many machines a replica held: a part of one, unless it takes whole machines."""
    if job.request.takes_whole:
        return float(len(place.hosts))
    shape = shapes[0]
    if shape is None:
        return None
    asked = job.request.per_replica
    device = device_of(asked)
    kinds = (device,) if device else _NO_DEVICES
    return min(1.0, max(asked[kind] / shape[kind] if shape[kind] else 0.0 for kind in kinds))


def _machine_s(held: list[_Held]) -> float:
    return sum(each.total_s * each.machines for each in held if each.machines is not None)


def device_of(units: Amounts) -> str:
    """Return the accelerator with the most units; empty if there is none."""
    kinds = [kind for kind in units.types() if kind not in _NO_DEVICES]
    return max(sorted(kinds), key=lambda kind: units[kind], default="")
