"""The output of one cycle: a verdict for every job, and nothing left to choose."""

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
class Estimate:
    """A probable start."""

    at: float
    """In store's seconds."""
    rests_on: int = 0
    """Earlier runs of the job that has to end last; 0: it rests on limits alone."""
    off_by_s: float = 0.0
    """How far from it the start may be, more likely than not."""


@value
class Wait:
    """It waits, and `reason` says what for."""

    reason: Reason
    start: Estimate | None = None
    """When it will probably start; `start_of` says how sure that is."""

    @property
    def estimated_at(self) -> float | None:
        """The time of that, in store's seconds."""
        return self.start.at if self.start else None


@value
class Refuse:
    """It asked to start now or not at all (`when_busy="fail"`), or can never run."""

    reason: Reason
    machines: tuple[MachineReport, ...] = ()
    """Why on none of them, where it may not wait."""


Verdict = Admit | Preempt | Keep | Wait | Refuse


class Verdicts(Mapping[str, Verdict]):
    """
    One verdict a job, in the order of their names; frozen.

    Args:
        decided: On every job for which something is to be done, and on others, in any order.
        in_line: Jobs for which nothing is done: they wait.
        starts: When gangs among those will probably start, by their first job.
        holding: Gives the verdicts on jobs that hold devices, as if nothing happened to them.
    """

    def __init__(
        self,
        decided: Mapping[str, Verdict],
        in_line: Sequence[Crowd | Row] = (),
        starts: Mapping[str, Estimate] | None = None,
        holding: Callable[[], Iterator[tuple[str, Verdict]]] | None = None,
    ) -> None:
        self.decided = decided
        """All that has to be acted on; a job that is not in it waits, or goes on as it is."""
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
    """What `decide` wants done; every job that is queued or admitted has exactly one verdict."""

    verdicts: Verdicts
    promises: tuple[Promise, ...]
    planned: tuple[PlannedStart, ...]
    new_machines: tuple[Machine, ...]
    """To be made, named, with pool, zone and slice; placements may already name them."""
    considered: frozenset[tuple[str, bool]] = frozenset()
    """
    Searches that this round of cycles has made; empty once all that wait were considered.

    The next snapshot takes it over, so that the next cycle goes on where this one ended.
    """
    wake_at: float | None = None
    """When the same snapshot could next give another plan; None when only a change of it could."""
