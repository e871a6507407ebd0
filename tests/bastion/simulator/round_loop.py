"""
A plain round loop, as schedulers in published studies have it: the oracle of round-based runs.

It knows nothing of the scheduler. Each round: running jobs advance; those done finish now; arrivals
up to now enter; all stand in order; from its beginning each keeps its devices, takes free ones or
preempts from the tail; the walk stops at the first job that does not fit even so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bastion.simulator.workload.job import TraceJob


@dataclass
class Active:
    """A job between its arrival and its end."""

    job: TraceJob
    index: int
    left_s: float
    attained_s: float = 0.0
    runs: bool = False


Key = Callable[[Active], float]

KEYS: dict[str, Key] = {
    "fifo": lambda active: 0.0,
    "las": lambda active: active.attained_s * active.job.devices,
    "srtf": lambda active: active.left_s,
}


def completions(
    jobs: Sequence[TraceJob], devices: int, round_s: float, key: Key
) -> tuple[list[float], int]:
    """When every job is done, and how many preemptions there were."""
    done = [0.0] * len(jobs)
    active: list[Active] = []
    now, arrived, preemptions = 0.0, 0, 0
    while arrived < len(jobs) or active:
        for each in active:
            if each.runs:
                each.left_s -= round_s
                each.attained_s += round_s
        for each in [each for each in active if each.runs and each.left_s <= 0]:
            done[each.index] = now
            active.remove(each)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            active.append(Active(jobs[arrived], arrived, jobs[arrived].duration_s))
            arrived += 1
        active.sort(key=lambda each: (each.job.priority, key(each), each.job.submit_s, each.index))
        before = [each for each in active if each.runs]
        _walk(active, devices)
        preemptions += sum(not each.runs for each in before)
        now += round_s
    return done, preemptions


def _walk(line: list[Active], devices: int) -> None:
    free = devices - sum(each.job.devices for each in line if each.runs)
    for at, each in enumerate(line):
        if each.runs:
            continue
        for later in reversed(line[at + 1 :]):
            if free >= each.job.devices:
                break
            if later.runs:
                later.runs = False
                free += later.job.devices
        if free < each.job.devices:
            return
        each.runs = True
        free -= each.job.devices
