"""Pools and machines: what there is, what is free, which jobs run there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launch import exits
from launch.grammar.parser import Verbs
from launch.screen.notes import note
from launch.screen.render import Column, amounts, iso, span
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import MachineView
    from quota.amounts import Amounts


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    verbs.add(
        "pool",
        show_pools,
        "show what each pool has and what is free",
        prints=True,
        example="bastion pool",
    )
    verbs.add(
        "machines",
        show_machines,
        "show every machine and the jobs on it",
        prints=True,
        example="bastion machines -o wide",
    )


def show_pools(args: argparse.Namespace) -> int:
    """`bastion pool`."""
    session = Session(args)
    view = session.client.pool()
    by_pool: dict[str, list[MachineView]] = {}
    for machine in view.machines:
        by_pool.setdefault(machine.pool, []).append(machine)
    for pool in view.pools:
        by_pool.setdefault(str(pool.get("name", "")), [])
    columns: list[Column[str]] = [
        Column(title="POOL", text=str),
        Column(title="MACHINES", text=lambda name: str(len(by_pool[name]))),
        Column(title="HAS", text=lambda name: amounts(_sum(by_pool[name], "resources"))),
        Column(title="FREE", text=lambda name: amounts(_sum(by_pool[name], "free"))),
        Column(title="JOBS", text=lambda name: str(sum(len(m.jobs) for m in by_pool[name]))),
    ]
    if session.out.format == "json":
        session.out.json(
            {
                "as_of": iso(view.as_of),
                "pools": [dict(pool) for pool in view.pools],
                "shortages": [
                    {
                        "pool": lacks.pool,
                        "zone": lacks.zone,
                        "why": lacks.why,
                        "said": lacks.said,
                        "until": iso(lacks.until),
                    }
                    for lacks in view.shortages
                ],
            }
        )
        return exits.OK
    session.out.show("pools", sorted(by_pool), columns, name=str)
    for lacks in view.shortages:
        wait = span(max(0.0, lacks.until - view.as_of))
        where = f"{lacks.pool}, zone {lacks.zone}" if lacks.zone else lacks.pool
        note(f"{where}: {lacks.why}: {lacks.said}; asked again in {wait}")
    if not session.is_quiet:
        note(f"as of {session.out.time(view.as_of)}")
    session.note_absence()
    return exits.OK


def _sum(machines: list[MachineView], field: str) -> Amounts:
    from quota.amounts import Amounts

    return Amounts.sum(getattr(machine, field) for machine in machines)


def show_machines(args: argparse.Namespace) -> int:
    """`bastion machines`."""
    session = Session(args)
    view = session.client.pool()
    zoned = any(machine.zone for machine in view.machines)
    columns: list[Column[MachineView]] = [
        Column(title="MACHINE", text=lambda machine: machine.name),
        Column(title="POOL", text=lambda machine: machine.pool),
        Column(title="PHASE", text=_phase),
        Column(title="HAS", text=lambda machine: amounts(machine.resources)),
        Column(title="FREE", text=lambda machine: amounts(machine.free)),
        Column(title="ZONE", text=lambda machine: machine.zone, wide=not zoned),
        Column(title="HOST", text=lambda machine: machine.hostname, wide=True),
        Column(title="TIER", text=lambda machine: str(machine.tier), wide=True),
        Column(title="HEARD", text=lambda machine: session.out.time(machine.heard_at), wide=True),
        Column(title="JOBS", text=lambda machine: ", ".join(tasks_joined(machine.jobs))),
    ]
    session.out.show(
        "machines",
        view.machines,
        columns,
        name=lambda machine: machine.name,
        more={"as_of": iso(view.as_of)},
    )
    if not session.is_quiet:
        note(f"as of {session.out.time(view.as_of)}")
    session.note_absence()
    return exits.OK


def tasks_joined(jobs: Sequence[str]) -> list[str]:
    """Ids of jobs, tasks of one array as one: `sweep-tynyqdb38e.28-31,35`."""
    from bastion.spec import tasks_of_id
    from bastion.spec.indices import Indices

    arrays: dict[str, list[int]] = {}
    for job in jobs:
        tasks = tasks_of_id(job)
        arrays.setdefault(job if tasks is None else tasks[0], []).extend(tasks[1] if tasks else ())
    return [f"{name}.{Indices.of(each)}" if each else name for name, each in arrays.items()]


def _phase(machine: MachineView) -> str:
    if machine.cordoned:
        return f"{machine.phase}, cordoned: {machine.cordoned}"
    if machine.waits:
        return f"{machine.phase}, waits at its provider: {machine.waits}"
    return f"{machine.phase}, unwell: {machine.unwell}" if machine.unwell else machine.phase
