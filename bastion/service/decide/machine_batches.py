"""
Which of a plan's new machines are created together.

The new machines of one gang in one pool and zone are a batch, which its provider creates whole or
not at all: half a gang would cost money but could not start. A slice is in one batch with all of
its hosts. A machine that is alone in its batch needs none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bastion.job import JobRecord, Placement
from bastion.machine import Machine
from bastion.scheduler.plan import Admit, Plan


def batched(plan: Plan, jobs: Mapping[str, JobRecord]) -> tuple[Machine, ...]:
    """
    Return the new machines of `plan`, each with its batch and the number of hosts of its slice.

    A machine that two gangs share belongs to the batch of the first: gangs get machines in the
    order of the plan, and a later one fits in what an earlier one leaves.
    """
    leads = {machine.name: machine.slice or machine.name for machine in plan.new_machines}
    first = dict(_first_gangs(plan, jobs, leads))
    groups: dict[tuple[str, str, str], list[Machine]] = defaultdict(list)
    for machine in plan.new_machines:
        lead = leads[machine.name]
        groups[machine.pool, machine.zone, first.get(lead, lead)].append(machine)
    names = {
        machine.name: leads[group[0].name]
        for group in groups.values()
        for machine in group
        if len(group) > 1
    }
    hosts = Counter(machine.slice for machine in plan.new_machines)
    return tuple(
        replace(
            machine,
            batch=names.get(machine.name, ""),
            hosts=hosts[machine.slice] if machine.slice else 1,
        )
        for machine in plan.new_machines
    )


def _first_gangs(
    plan: Plan, jobs: Mapping[str, JobRecord], leads: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield (machine or slice, gang): the last pair for a machine has its first gang."""
    for gang, placement in reversed([*_placements(plan, jobs)]):
        for replica in placement:
            yield from ((leads[h.machine], gang) for h in replica.hosts if h.machine in leads)


def _placements(plan: Plan, jobs: Mapping[str, JobRecord]) -> Iterator[tuple[str, Placement]]:
    """Yield every placement that may name a new machine, with the name of its gang."""
    for job_id, verdict in sorted(plan.verdicts.decided.items()):
        if isinstance(verdict, Admit):
            job = jobs.get(job_id)
            yield (job.gang[0] if job is not None and job.gang else job_id), verdict.placement
    for promise in plan.promises:
        yield from ((promise.gang[0], placement) for placement in promise.placements)
    for start in plan.planned:
        yield from ((start.gang[0], placement) for placement in start.placements)
