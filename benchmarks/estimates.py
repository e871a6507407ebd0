"""
The accuracy of estimated starts: the first estimate of each job against its start.

    python -m benchmarks.estimates [--trace FILE.csv]

Jobs arrive at a small pool, wait, run and end on a virtual clock, under the same `decide` and the
same records of earlier runs that a bastion has. For every job that waited for a minute, the first
estimate is compared with its start. Without `--trace` the jobs are generated: 60 kinds, each with
lognormal lengths, steady ones (mostly a quarter longer or shorter) or erratic ones (three times).
Either no job has a limit, or every job has one of two to ten times its length.

A trace has the columns timestamp, duration, num_gpus and cluster, like that of Philly (Jeon et al.,
USENIX ATC 2019; CC BY 4.0): it names no users and no jobs, so all jobs of a project are one kind.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from bastion.job import Outcome, OutcomeKind
from bastion.scheduler.cycle import decide
from bastion.scheduler.forecast.confidence import Start, start_of
from bastion.scheduler.plan import Wait
from bastion.scheduler.runs import Runs, with_end
from bastion.scheduler.state.memory.memory import Memory
from benchmarks.table import show
from tests.bastion.scheduler.world import World, machines_of, quota_of

DEVICES = 8
WAITED_S = 60.0
"""A job that starts immediately needs no estimate."""


class Asked(NamedTuple):
    """One job of a load."""

    at: float
    runs_s: float
    devices: int
    project: str
    user: str
    name: str
    limit_s: float | None = None


class First(NamedTuple):
    """The first estimate of a job, and its start."""

    told_at: float
    start: Start
    started_at: float


class Replay:
    """A load on a pool of `machines`, and the estimates of its starts."""

    def __init__(self, load: Iterable[Asked], machines: int, *, remembers: bool = True) -> None:
        memory = Memory()
        self.remembers = remembers
        self.load = sorted(load)
        projects = sorted({each.project for each in self.load})
        share = math.floor(1e4 / len(projects)) / 1e4
        self.world = World(
            quota_of({"gpu": machines * DEVICES}, {name: {"gpu": share} for name in projects}),
            machines_of(machines, gpu=DEVICES),
            decide=lambda snapshot, now: decide(snapshot, now, memory),
        )
        self.runs: Mapping[str, Runs] = {}
        self.told: dict[str, tuple[float, Start]] = {}
        self.waited: set[str] = set()
        self.firsts: list[First] = []

    def run(self) -> None:
        """Run the whole load."""
        world = self.world
        times = [each.at for each in self.load]
        world.now = times[0]
        coming = list(enumerate(self.load))[::-1]
        while times:
            at = heappop(times)
            while times and times[0] - at < 1.0:
                at = heappop(times)
            self._pass(at - world.now)
            while coming and coming[-1][1].at <= at:
                self._ask(*coming.pop())
            for _ in range(2):
                self._cycle(times)

    def _pass(self, seconds: float) -> None:
        world = self.world
        before = dict(world.jobs)
        world.pass_time(seconds)
        ended = Outcome(kind=OutcomeKind.SUCCEEDED, text="")
        for name in sorted(before.keys() - world.jobs.keys()):
            self.runs = with_end(self.runs, replace(before[name], last=ended), world.now)
        world.extra["runs"] = self.runs if self.remembers else {}

    def _ask(self, number: int, asked: Asked) -> None:
        whole, rest = divmod(asked.devices, DEVICES)
        name = self.world.ask(
            asked.project,
            f"{asked.name}-{number}",
            user=asked.user,
            replicas=max(1, whole),
            gpu=DEVICES if whole else rest,
            max_runtime_s=asked.limit_s,
            runs_s=asked.runs_s,
        )
        self.world.jobs[name] = replace(self.world.jobs[name], name=asked.name)

    def _cycle(self, times: list[float]) -> None:
        world = self.world
        running = {name for name, job in world.jobs.items() if job.is_admitted}
        plan = world.cycle()
        if plan.wake_at is not None and (not times or plan.wake_at < times[0]):
            heappush(times, plan.wake_at)
        for name, job in world.jobs.items():
            verdict = plan.verdicts.get(name)
            if job.attempt is not None and name not in running:
                heappush(times, world.now + world.ends[name])
                self._started(name, job.queued_at)
            elif job.attempt is not None and job.attempt.stop is not None:
                heappush(times, job.attempt.stop.deadline)
            elif isinstance(verdict, Wait) and name not in self.told and not job.attempts:
                start = start_of(verdict)
                if start.sure in ("history", "limits"):
                    self.told[name] = world.now, start

    def _started(self, name: str, queued_at: float) -> None:
        now = self.world.now
        if name in self.waited or now - queued_at < WAITED_S or self.world.jobs[name].attempts > 1:
            return
        self.waited.add(name)
        if name in self.told:
            self.firsts.append(First(*self.told[name], started_at=now))


def made_up(spread: float, *, limits: bool = False, jobs: int = 600, seed: int = 1) -> list[Asked]:
    """Return jobs of 60 kinds with lognormal lengths of `spread`; slightly more than fit."""
    random = Random(seed)
    kinds = [
        (f"p{i % 4}", f"u-{i % 12}", f"kind-{chr(97 + i % 26)}{i // 26 * 'x'}", length, devices)
        for i in range(60)
        for length in [600 * 1.06 ** random.randrange(60)]
        for devices in [random.choice((1, 1, 2, 4, 8, 8, 16))]
    ]
    at, load = 1e6, []
    for _ in range(jobs):
        project, user, name, length, devices = random.choice(kinds)
        runs_s = length * random.lognormvariate(0.0, spread)
        limit_s = runs_s * random.uniform(2, 10) if limits else None
        load.append(Asked(at, runs_s, devices, project, user, name, limit_s))
        at += random.expovariate(1 / 330)
    return load


def traced(path: Path, jobs: int = 900, skip: int = 20_000) -> list[Asked]:
    """Return `jobs` of a trace, in order of arrival, without the first `skip`."""
    with path.open(newline="") as file:
        rows = sorted(
            (datetime.fromisoformat(row["timestamp"]).timestamp(), number, row)
            for number, row in enumerate(csv.DictReader(file))
            if row["timestamp"]
        )
    return [
        Asked(at, float(row["duration"]), int(row["num_gpus"]), row["cluster"], "u", "job")
        for at, _, row in rows[skip : skip + jobs]
        if int(row["num_gpus"]) < DEVICES or int(row["num_gpus"]) % DEVICES == 0
    ]


def row(
    name: str, load: list[Asked], machines: int, *, remembers: bool = True
) -> dict[str, object]:
    """Return the row of one load."""
    replay = Replay(load, machines, remembers=remembers)
    replay.run()
    firsts = replay.firsts
    off = [abs(each.started_at - (each.start.estimated_at or 0.0)) for each in firsts]
    waits = [each.started_at - each.told_at for each in firsts]
    ranged = [(o, each.start) for o, each in zip(off, firsts) if each.start.sure == "history"]
    held = [o <= start.off_by_s for o, start in ranged]
    early = [each.started_at < (each.start.estimated_at or 0.0) for each in firsts]
    return {
        "load": name,
        "jobs": len(load),
        "waited": len(replay.waited),
        "told": len(firsts),
        "waited_after_min": median(waits) / 60 if waits else 0.0,
        "median_error_min": median(off) / 60 if off else 0.0,
        "started_earlier": f"{sum(early) / max(1, len(early)):.0%}",
        "within_off_by": f"{sum(held) / len(held):.0%}" if held else "-",
    }


def main() -> None:
    """Print the table."""
    if "--trace" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--trace") + 1])
        show([row(path.stem, traced(path), 10)])
        return
    limited = made_up(0.25, limits=True)
    show(
        [
            row("steady", made_up(0.25), 16),
            row("erratic", made_up(1.1), 16),
            row("steady, limits", limited, 16),
            row("steady, limits, nothing remembered", limited, 16, remembers=False),
        ]
    )


if __name__ == "__main__":
    main()
