"""The output of one cycle: a verdict for every job, with nothing left to choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bastion.job import JobClass, Placement
from bastion.machine import Machine
from bastion.scheduler.machine_report import MachineReport
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.queue.positions import Crowd, Row
from bastion.scheduler.reasons.reason import Reason
from bastion.value import value


class Admit(NamedTuple):
    """Start the job now, exactly here."""

    job_class: JobClass
    placement: Placement
    reason: Reason


@value
class Preempt:
    """Stop the job: `by` (a job's id) takes its devices; it is killed at `deadline`."""

    by: str
    deadline: float
    reason: Reason


@value
class Keep:
    """The job keeps what it holds; `job_class` is its class at the end of this cycle."""

    job_class: JobClass
    reason: Reason


@value
class Estimate:
    """A probable start."""

    at: float
    """In seconds of the store's clock."""
    rests_on: int = 0
    """Earlier runs of the job that must end last; 0: the estimate rests on time limits alone."""
    off_by_s: float = 0.0
    """How far from it the start is, more likely than not."""


@value
class Wait:
    """The job waits, and `reason` says for what."""

    reason: Reason
    start: Estimate | None = None
    """When it will probably start; `start_of` says how certain that is."""

    @property
    def estimated_at(self) -> float | None:
        """The time of that estimate, in seconds of the store's clock."""
        return self.start.at if self.start else None


@value
class Refuse:
    """The job asked to start now or not at all (`when_busy="fail"`), or can never run."""

    reason: Reason
    machines: tuple[MachineReport, ...] = ()
    """Why no machine takes it, for a job that may not wait."""


Verdict = Admit | Preempt | Keep | Wait | Refuse


class Verdicts(Mapping[str, Verdict]):
    """
    One verdict per job, in the order of job names; frozen.

    Args:
        decided: Verdicts on every job for which something is to be done, and on others, in any
            order.
        in_line: Waiting jobs for which nothing is done.
        starts: When gangs among those will probably start, by their first job.
        holding: Returns the verdicts on jobs that hold devices, as if nothing happened to them.
    """

    def __init__(
        self,
        decided: Mapping[str, Verdict],
        in_line: Sequence[Crowd | Row] = (),
        starts: Mapping[str, Estimate] | None = None,
        holding: Callable[[], Iterator[tuple[str, Verdict]]] | None = None,
    ) -> None:
        self.decided = decided
        """The verdicts to act on; every other job waits or continues unchanged."""
        self._holding = holding
        self.in_line = in_line
        self.starts = starts or {}
        self._all: Mapping[str, Verdict] | None = None

    def __getitem__(self, name: str) -> Verdict:
        known = self.decided.get(name)
        return self._complete()[name] if known is None else known

    def __iter__(self) -> Iterator[str]:
        return iter(self._complete())

    def __len__(self) -> int:
        return len(self._complete())

    def __repr__(self) -> str:
        return f"Verdicts({self._complete()!r})"

    def _complete(self) -> Mapping[str, Verdict]:
        if self._all is None:
            found = {} if self._holding is None else dict(self._holding())
            found.update(self.decided)
            for line in self.in_line:
                for gang, reason in line.reasons():
                    wait = Wait(reason=reason, start=self.starts.get(gang[0].id))
                    for job in gang:
                        found[job.id] = wait
            self._all = {name: found[name] for name in sorted(found)}
        return self._all


@value
class Plan:
    """The decisions of `decide`; every job that is queued or admitted has exactly one verdict."""

    verdicts: Verdicts
    promises: tuple[Promise, ...]
    planned: tuple[PlannedStart, ...]
    new_machines: tuple[Machine, ...]
    """To be created, with name, pool, zone and slice; placements may already refer to them."""
    considered: frozenset[tuple[str, bool]] = frozenset()
    """
    Searches made in this round of cycles; empty once every waiting gang was considered.

    The next snapshot takes it over, so that the next cycle continues where this one ended.
    """
    wake_at: float | None = None
    """When the same snapshot could first give another plan; None if only a change of it could."""
