"""The output of one cycle: a verdict for every job, and nothing left to choose."""

from __future__ import annotations

from bastion.job import JobClass, Placement
from bastion.machine import Machine
from bastion.scheduler.census import MachineReport
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.reason import Reason
from bastion.value import value


@value
class Admit:
    """Start it now, exactly here."""

    job_class: JobClass
    placement: Placement
    reason: Reason


@value
class Preempt:
    """Stop it: `by` (a job's id) may have its devices; killed at `deadline`."""

    by: str
    deadline: float
    reason: Reason


@value
class Keep:
    """It holds what it holds; `job_class` as derived at the end of this cycle."""

    job_class: JobClass
    reason: Reason


@value
class Wait:
    """It waits, and `reason` says what for."""

    reason: Reason
    estimated_at: float | None = None
    """When it will probably start, in store's seconds; `start_of` says how sure that is."""
    rests_on: int = 0
    """How many earlier runs the estimate rests on; 0 where it follows from limits alone."""
    off_by_s: float = 0.0
    """How far off it may be, where it rests on earlier runs."""


@value
class Refuse:
    """It asked to start now or not at all (`when_busy="fail"`), or can never run."""

    reason: Reason
    machines: tuple[MachineReport, ...] = ()
    """Why on none of them, where it may not wait."""


Verdict = Admit | Preempt | Keep | Wait | Refuse


@value
class Plan:
    """What `decide` wants done; every job of the snapshot has exactly one verdict."""

    verdicts: dict[str, Verdict]
    promises: tuple[Promise, ...]
    planned: tuple[PlannedStart, ...]
    new_machines: tuple[Machine, ...]
    """To be made, named, with pool, zone and slice; placements may already name them."""
    wake_at: float | None = None
    """When the same snapshot could next give another plan; None when only a change of it could."""
