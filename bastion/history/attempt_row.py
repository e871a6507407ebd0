"""
A row of the record: the columns of the table `attempts`, by name, type and meaning.

New columns are added at the end. None is removed, and none changes its meaning or type: files that
are years old are read together with today's, and a column that is missing in a file is null in all
its rows.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from functools import cache
from types import NoneType

from bastion.history.prices import list_price
from bastion.records.coding.codec import plain
from bastion.records.reports.history import EndedAttempt
from bastion.records.root import Event
from bastion.value import value

SCHEMA = 1
"""Of the table `attempts`; it is incremented with each new column."""


@value
class AttemptRow:
    """
    One attempt that ended, or a job that ended in the queue (`attempt` is then 0).

    Times are seconds since 1970 on the store's clock; in Parquet they are timestamps in UTC.
    """

    event: int
    """Number of its end's event; unique among rows."""
    project: str
    user: str
    launch: str
    job: str
    name: str
    task: int | None
    tasks: int | None
    """Only for an array, whose row represents its tasks that never started: the number of these."""
    gang: int
    """Number of jobs that are admitted together with it, including itself."""
    attempt: int
    nonce: str
    submitted_at: float
    queued_at: float
    admitted_at: float | None
    started_at: float | None
    freed_at: float | None
    """When its last devices were free."""
    ended_at: float
    """When its logs were complete."""
    outcome: str
    job_outcome: str | None
    """How the job ended; null if it continued."""
    text: str
    exit_code: int | None
    priority: int
    replicas: int
    """How many it had; for an elastic job that ended in the queue, its minimum."""
    job_class: str | None
    guaranteed_s: float
    borrowed_s: float
    device_type: str | None
    """The accelerator that it held; null if there was none."""
    devices: int
    """Units of it, for all replicas together, as the quota counts them."""
    guaranteed_device_s: float
    borrowed_device_s: float
    cpu: int
    memory_bytes: int
    tier: int | None
    pool: str | None
    zone: str | None
    machines: tuple[str, ...]
    instance_type: str | None
    terms: str | None
    """`reserved`, `on_demand` or `spot`; like `instance_type`, null if machines differ in it."""
    stop_reason: str | None
    stopped_by: str | None
    """The user, job or replica that caused its stop."""
    stopped_for: str | None
    """The project of the job that preempted it."""
    lost_s: float | None
    """Seconds for which it held devices after its last checkpoint, if it was not successful."""
    lost_device_s: float | None
    code: str | None = None
    """The digest of its bundle, its image, or its repository and commit."""
    code_commit: str | None = None
    """The commit of its code, or that its code is based on."""
    machine_s: float | None = None
    """Machine-seconds: half a machine counts half."""
    price_per_hour: float | None = None
    """Of one machine; the mean if they were from several pools."""
    cost: float | None = None
    """`machine_s` at that price."""
    utilisation_mean: float | None = None
    """Use of its devices while it ran, 0 to 1; null if nothing was sampled."""
    utilisation_p50: float | None = None
    utilisation_max: float | None = None
    idle_fraction: float | None = None
    """Fraction of its samples in which its devices were used less than 5 %."""
    request: str | None = None
    """Its request to the scheduler, as JSON."""


@value
class Column:
    """One column: its name, and its type in SQL."""

    name: str
    sql_type: str


def attempt_row(event: Event) -> AttemptRow | None:
    """Return the row in `event`, or None if it has none."""
    if not isinstance(event.record, EndedAttempt):
        return None
    return row_of(event.record, event)


def row_of(record: EndedAttempt, event: Event) -> AttemptRow:
    """Return `record` as a row, with the job, the number and the time from `event`."""
    used = record.utilisation
    has_devices = used is not None and used.samples > 0
    price = record.price_per_hour
    if price is None and record.instance_type:
        price = list_price(record.instance_type, record.terms, event.at)
    cost = None
    if record.machine_s is not None and price is not None:
        cost = record.machine_s / 3600.0 * price
    return AttemptRow(
        event=event.n,
        project=event.project,
        user=record.user,
        launch=record.launch,
        job=event.job,
        name=record.name,
        task=record.task,
        tasks=record.tasks,
        gang=record.gang,
        attempt=record.attempt,
        nonce=record.nonce,
        submitted_at=record.submitted_at,
        queued_at=record.queued_at,
        admitted_at=record.admitted_at,
        started_at=record.started_at,
        freed_at=record.freed_at,
        ended_at=event.at,
        outcome=record.outcome,
        job_outcome=record.job_outcome or None,
        text=record.text,
        exit_code=record.exit_code,
        priority=record.request.priority,
        replicas=record.replicas or record.request.replicas,
        job_class=record.job_class or None,
        guaranteed_s=record.guaranteed_s,
        borrowed_s=record.borrowed_s,
        device_type=record.device_type or None,
        devices=record.devices,
        guaranteed_device_s=record.guaranteed_device_s,
        borrowed_device_s=record.borrowed_device_s,
        cpu=record.cpu,
        memory_bytes=record.memory_bytes,
        tier=record.tier if record.attempt else None,
        pool=record.pool or None,
        zone=record.zone or None,
        machines=record.machines,
        instance_type=record.instance_type or None,
        terms=record.terms or None,
        stop_reason=record.stop_reason or None,
        stopped_by=record.stopped_by or None,
        stopped_for=record.stopped_for or None,
        lost_s=record.lost_s,
        lost_device_s=record.lost_device_s,
        machine_s=record.machine_s,
        price_per_hour=price,
        cost=cost,
        utilisation_mean=used.mean if used is not None and has_devices else None,
        utilisation_p50=used.p50 if used is not None and has_devices else None,
        utilisation_max=used.max if used is not None and has_devices else None,
        idle_fraction=used.idle if used is not None and has_devices else None,
        request=json.dumps(plain(record.request), separators=(",", ":"), ensure_ascii=False),
    )


def _sql_type(name: str, kind: object) -> str:
    kinds = set(typing.get_args(kind)) - {NoneType} or {kind}
    if name.endswith("_at"):
        return "TIMESTAMP"
    if kinds == {str}:
        return "VARCHAR"
    if kinds == {int}:
        return "BIGINT"
    if kinds == {float}:
        return "DOUBLE"
    return "VARCHAR[]"


@cache
def _columns() -> tuple[Column, ...]:
    kinds = typing.get_type_hints(AttemptRow)
    names = (each.name for each in dataclasses.fields(AttemptRow))
    return tuple(Column(name=name, sql_type=_sql_type(name, kinds[name])) for name in names)


COLUMNS = _columns()
"""The columns of the table `attempts`, in order."""
