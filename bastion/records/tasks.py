"""
The tasks of arrays that the scheduler sees.

The scheduler must not process ten thousand equal jobs when only some can start. So it sees all
admitted tasks of an array, and only as many of the waiting ones as one cycle can use: at most as
many as can run at the same time, and at most as many as would fit on all machines that exist or
could be created, if only the array's own tasks used them. No cycle can start, promise or plan more,
so it would decide the same if it saw all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from bastion.array import ArrayRecord, given_up
from bastion.job import JobRecord, Phase, state_of
from bastion.lifecycle import DependenciesEnded, step
from bastion.lifecycle.dependencies import Ended
from bastion.machine import Machine, Pool
from bastion.scheduler.queue.shape import MOST_BEST_EFFORT
from bastion.spec.arrays.task import tasks_of_id
from bastion.spec.request import Request
from bastion.value import replace, value
from quota.amounts import Amounts


@value
class Extent:
    """All machines that exist or could be created."""

    units: Amounts
    machines: int

    def copies(self, request: Request) -> int:
        """Return an upper bound of the number of gangs of `request` that fit."""
        bounds = [self.units[kind] // n for kind, n in request.units.items()]
        if request.where.exclusive or not bounds:
            places = self.machines if request.where.exclusive else self.machines * MOST_BEST_EFFORT
            bounds.append(places // (request.replicas * request.hosts))
        return min(bounds)


def extent_of(machines: Iterable[Machine], pools: Iterable[Pool]) -> Extent:
    """Return the extent of the existing machines and of those that `pools` can add."""
    amounts: list[Amounts] = []
    standing: dict[str, int] = defaultdict(int)
    count = 0
    for machine in machines:
        amounts.append(machine.resources)
        standing[machine.pool] += 1
        count += 1
    for pool in pools:
        more = max(0, pool.max_machines - standing[pool.name])
        amounts.append(more * pool.resources)
        count += more
    return Extent(units=Amounts.sum(amounts), machines=count)


def with_tasks(
    jobs: Mapping[str, JobRecord],
    arrays: Mapping[str, ArrayRecord],
    extent_of_all: Callable[[], Extent],
    *,
    now: float,
    promised: Collection[str] = (),
    most: int,
) -> Mapping[str, JobRecord]:
    """
    Return `jobs` with the waiting tasks of `arrays` that the scheduler must see.

    Tasks that must wait for a sibling are left out.

    Args:
        jobs: All job records.
        arrays: All active arrays.
        extent_of_all: Returns what the machines could hold; called only if there is an array.
        now: Store's seconds.
        promised: Jobs with a promise or a planned start: they are included first.
        most: Maximum number of records.
    """
    if not arrays:
        return jobs
    extent = extent_of_all()
    admitted: dict[str, int] = defaultdict(int)
    again: dict[str, list[JobRecord]] = defaultdict(list)
    for job in jobs.values():
        if job.task is not None:
            admitted[job.launch] += job.is_admitted
            if job.phase is Phase.QUEUED:
                again[job.launch].append(job)
    named = _by_array(promised)
    shown = dict(jobs)
    left = most - len(jobs)
    for array in arrays.values():
        at_most = max(1, extent.copies(array.each.request) - admitted[array.id])
        if array.at_once is not None:
            at_most = min(at_most, array.at_once - admitted[array.id])
        if array.each.after:
            at_most = min(at_most, 1)
        first = named.get(array.id, set())
        back = [job for job in again[array.id] if not job.held and job.not_before <= now]
        for job in sorted(back, key=lambda job: (job.task not in first, job.task)):
            if array.at_once is not None and at_most <= 0:
                del shown[job.id]
            at_most -= 1
        for index in _next(array, min(at_most, left), first):
            task = array.task(index)
            shown[task.id] = task
            left -= 1
    return shown


def array_told(array: ArrayRecord, event: DependenciesEnded, now: float) -> ArrayRecord:
    """Return `array` after the ends of jobs or launches that it waits for."""
    each = step(array.each, event, now)
    if each.outcome is not None:
        array = replace(array, each=replace(array.each, after=()))
        return given_up(array, each.outcome, now)
    return replace(array, each=each)


def ended_of_arrays(arrays: Iterable[ArrayRecord]) -> Iterator[Ended]:
    """Yield those of `arrays` whose tasks have all ended."""
    for array in arrays:
        if array.ended_at is not None:
            yield Ended(job=array.id, launch=array.id, outcome=array.outcome)


def unended(jobs: Iterable[JobRecord], arrays: Iterable[ArrayRecord]) -> Counter[str]:
    """Return how many jobs of each unfinished launch have not ended; an array counts as one."""
    names = [job.launch for job in jobs if job.phase is not Phase.DONE and job.task is None]
    return Counter([*names, *(array.id for array in arrays if array.ended_at is None)])


def states_of(jobs: Mapping[str, JobRecord], arrays: Mapping[str, ArrayRecord]) -> dict[str, str]:
    """Return the states of the tasks of each array with their counts, as text."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in arrays}
    for job in jobs.values():
        if job.task is not None and job.launch in counts:
            counts[job.launch][state_of(job)] += 1
    for name, array in arrays.items():
        counts[name] += Counter(queued=len(array.ready), held=len(array.held))
        counts[name] += Counter({kind: len(over) for kind, over in array.ended.items()})
    return {
        name: ", ".join(f"{n} {state}" for state, n in sorted(found.items()))
        for name, found in counts.items()
    }


def _next(array: ArrayRecord, count: int, first: Collection[int]) -> Iterator[int]:
    """Yield the next `count` waiting tasks: those in `first`, then by number."""
    if count <= 0:
        return
    ready = array.ready
    chosen = sorted(index for index in first if index in ready)[:count]
    yield from chosen
    taken = set(chosen)
    rest = (index for index in ready.lowest(count + len(taken)) if index not in taken)
    for index, _ in zip(rest, range(count - len(taken))):
        yield index


def _by_array(names: Iterable[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for name in names:
        task = tasks_of_id(name)
        if task is not None:
            found[task[0]].add(task[1].first)
    return found
