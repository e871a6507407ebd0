"""The orders of one simulation: they know its jobs, and how fast each works on which machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bastion.scheduler.state.memory.policy_choice import Parts
from bastion.simulator.engine.speed import Speeds
from bastion.simulator.policies.effective import JobOf, effective_max_min, effective_optimus
from bastion.simulator.policies.own import order_of
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import Workload


def with_speeds(parts: Parts, order: str, setup: Setup, speeds: Speeds, job_of: JobOf) -> Parts:
    """
    Return `parts` with orders that know how fast each job works where, if they need that.

    Raises:
        SpecError: An order needs scipy, which is not installed.
    """
    if setup.policy and not setup.is_synthesis:
        return replace(parts, order=order_of(setup.policy, lambda name: job_of(name).name))
    if order == "max-min" and not speeds.are_even:
        return replace(parts, order=effective_max_min(speeds, job_of))
    if order == "optimus" and setup.throughputs is not None:
        return replace(parts, order=effective_optimus(setup.throughputs, job_of))
    return parts


def job_by_id(workload: Workload, names: Sequence[str]) -> JobOf:
    """Return a function that finds a job of `workload` by the ID that the engine gives it."""
    at = {name: index for index, name in enumerate(names)}
    return lambda name: workload.jobs[at[name] if at else int(name)]
