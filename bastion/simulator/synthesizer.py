"""
`Synthesizer`: a policy that simulates others ahead, and follows the best one until its next choice.

At the first cycle of each interval, the waiting and running jobs are simulated under every
candidate, with the current machines and no further arrivals. The candidate with the best outcome
orders the jobs until the next choice. The choice depends only on the workload: equal studies switch
equally.

Lengths are estimated from what a scheduler could know. A job with a time limit is assumed to need
the rest of its limit. Any other job is assumed to need as long as ended jobs still needed that had
come as far, on average; without any, as much as it has had. Candidates that use the remaining time
get the same estimate. Only with `knows_lengths` is the truth used.

Source: the automatic synthesis of policies in Blox (Agarwal et al., EuroSys 2024).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from bastion.job import JobRecord
from bastion.scheduler.policies.order import OrderPolicy
from bastion.scheduler.policies.time_share import Ranks
from bastion.scheduler.snapshot import Snapshot
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.engine.engine import Engine
from bastion.simulator.metrics.distribution import spread_of
from bastion.simulator.policies.effective import JobOf
from bastion.simulator.policies.synthesis import By, Synthesis
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import TraceJob, Workload
from quota import Quota

_LEAST_S = 1.0
"""The shortest time that a job is assumed to need."""
_AFTER_S = 1e-3
"""Waiting jobs arrive this much later than running ones, which then have their devices."""


class EngineOf(Protocol):
    """Creates the engine of a simulation; `engine_of` of `run.py`."""

    def __call__(
        self,
        setup: Setup,
        workload: Workload,
        *,
        names: Sequence[str] = (),
        attained: Mapping[str, float],
    ) -> Engine:
        """Return it at its beginning; `attained` is the earlier device time of jobs, by ID."""
        ...


class Synthesizer:
    """
    One simulation's policy.

    Args:
        candidates: Orders and their policies.
        setup: Of the simulation; the candidates are simulated with its costs and rounds.
        quota: In force, with the policies of `setup`.
        job_of: Returns the job of the workload for a record.
        engine_of: Creates the simulations ahead.
    """

    def __init__(
        self,
        candidates: Mapping[str, OrderPolicy],
        setup: Setup,
        quota: Quota,
        job_of: JobOf,
        engine_of: EngineOf,
    ) -> None:
        self.synthesis: Synthesis = setup.synthesis
        self.choices: list[tuple[float, str]] = []
        """The time and name of each choice."""
        self.ended: Callable[[], Sequence[float]] = tuple
        """Lengths of the jobs that have ended."""
        self._candidates, self._quota = candidates, quota
        self._setup, self._job_of, self._engine_of = setup, job_of, engine_of
        self._next = float("-inf")
        self._lengths: list[float] = []

    @property
    def order(self) -> OrderPolicy:
        """Return the policy, in the scheduler's format."""
        return OrderPolicy(ranks_of=self.ranks)

    def told(self) -> str:
        """Return how often it chose each order, and how often it switched."""
        counts = Counter(name for _, name in self.choices)
        switches = sum(old[1] != new[1] for old, new in pairwise(self.choices))
        chose = ", ".join(f"{name} {counts[name]:,} times" for name in self._candidates)
        return f"{chose}; {switches:,} switches"

    def ranks(self, snapshot: Snapshot, now: float) -> Ranks:
        """Return the ranks of the candidate that is best now, among jobs of equal priority."""
        seen = self._seen(snapshot, now)
        if now >= self._next:
            self._lengths = sorted(self.ended())
            seen = self._seen(snapshot, now)
            self.choices.append((now, self._best(seen, now)))
            every = self.synthesis.every_s
            self._next = (now // every + 1) * every
        rank = self._candidates[self.choices[-1][1]].rank(seen, now)
        return lambda gang: rank(gang)[1]

    def _seen(self, snapshot: Snapshot, now: float) -> Snapshot:
        """Return `snapshot` as candidates may see it: with estimates of the remaining work."""
        if self.synthesis.knows_lengths:
            return snapshot
        reports = {}
        for name, job in snapshot.jobs.items():
            had = _attained(job, snapshot, now)
            attained_s = snapshot.reports.get(name, {}).get("attained_s", 0.0)
            reports[name] = {"attained_s": attained_s, "remaining_s": self._left(job, had)}
        return replace(snapshot, reports=reports)

    def _left(self, job: JobRecord, had_s: float) -> float:
        """Return how much longer a job is assumed to need after `had_s` with its devices."""
        limit = job.request.max_runtime_s
        if limit is not None:
            return max(_LEAST_S, limit - had_s)
        longer = self._lengths[bisect_right(self._lengths, had_s) :]
        if longer:
            return max(_LEAST_S, sum(longer) / len(longer) - had_s)
        return max(_LEAST_S, had_s)

    def _best(self, seen: Snapshot, now: float) -> str:
        """Return the candidate with the best outcome; the current one if none can be simulated."""
        standing = Counter(m.pool for m in seen.machines.values() if m.accepts)
        cluster = Cluster(
            shapes=[
                replace(shape, name=name, count=standing[name], most=0)
                for name, shape in self._setup.cluster.named.items()
                if standing[name]
            ]
        )
        work, attained, had = self._workload(seen, now, cluster)
        held = self.choices[-1][1] if self.choices else next(iter(self._candidates))
        if not work.jobs:
            return held
        outcomes = {
            name: self._outcome(name, cluster, work, attained, had, now)
            for name in self._candidates
        }
        return min(outcomes, key=lambda name: outcomes[name])

    def _workload(
        self, seen: Snapshot, now: float, cluster: Cluster
    ) -> tuple[Workload, dict[str, float], list[float]]:
        """Return the present jobs, by ID what each has had, and when each was submitted."""
        found: list[tuple[float, str, TraceJob, float]] = []
        for name, record in seen.jobs.items():
            # In rounds all are seen at the next boundary, which plans everything from scratch.
            is_running = record.attempt is not None or self._setup.round_s
            job = self._job_of(name)._replace(
                name=name,
                submit_s=now if is_running else now + _AFTER_S,
                duration_s=max(_LEAST_S, seen.reports[name]["remaining_s"]),
                max_runtime_s=None,
            )
            if not isinstance(cluster.fitted(job), str):
                had = _attained(record, seen, now)
                found.append((job.submit_s, name, job, had))
        found.sort(key=lambda each: each[:2])
        attained = {name: had for _, name, _, had in found}
        submitted = [seen.jobs[name].submitted_at for _, name, _, _ in found]
        return Workload(jobs=[job for _, _, job, _ in found]), attained, submitted

    def _outcome(
        self,
        name: str,
        cluster: Cluster,
        work: Workload,
        attained: Mapping[str, float],
        submitted: Sequence[float],
        now: float,
    ) -> float:
        """Return the metric after `ahead_s` under a candidate; the rest then runs immediately."""
        setup = replace(
            self._setup,
            cluster=cluster,
            quota=self._quota,
            policy="",
            order=name,
            preemption=self._quota.scheduler.preemption,
            limits=None,
            costs=replace(self._setup.costs, mtbf_s=0.0, stockout=0.0),
        )
        names = [job.name for job in work.jobs]
        engine = self._engine_of(setup, work, names=names, attained=attained)
        until = now + self.synthesis.ahead_s
        while engine.now < until and engine.step():
            pass
        ends = []
        for at, job in enumerate(work.jobs):
            result, life = engine.results[at], engine.state.lives.get(job.name)
            if result is not None and result.ended_at is not None:
                ends.append(result.ended_at)
            else:
                left = life.left_by(engine.now) if life is not None else job.duration_s
                ends.append(max(until, engine.now) + left)
        lengths = [attained[job.name] + job.duration_s for job in work.jobs]
        return metric(self.synthesis.by, submitted, ends, lengths)


def metric(
    by: By, submitted: Sequence[float], ends: Sequence[float], lengths: Sequence[float]
) -> float:
    """Return a metric of jobs from their submission, their end, and how long they take alone."""
    times = [end - began for began, end in zip(submitted, ends)]
    match by:
        case "mean_jct":
            return spread_of(times)["mean"]
        case "p90_jct":
            return spread_of(times)["p90"]
        case "p99_jct":
            return spread_of(times)["p99"]
        case "mean_slowdown":
            return sum(time / length for time, length in zip(times, lengths)) / len(times)
        case "makespan":
            return max(ends)


def _attained(job: JobRecord, snapshot: Snapshot, now: float) -> float:
    """Return the seconds for which it has held its devices, over all attempts."""
    had = snapshot.reports.get(job.id, {}).get("attained_s", 0.0)
    if job.attempt is not None and job.attempt.started_at is not None:
        had += max(0.0, now - job.attempt.started_at)
    return had
