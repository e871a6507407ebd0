"""
Synthetic workloads: arrivals, lengths, sizes, projects and users, all drawn from one seed.

Lengths follow the distribution of Microsoft's Philly cluster as scheduling studies use it: 80 % of
the jobs take 60 x 10^U(1.5, 3) seconds, 20 % take 60 x 10^U(3, 4). Source: Narayanan et al., Gavel,
OSDI 2020; sizes are those of the published trace (Jeon et al., USENIX ATC 2019).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, get_args

from bastion.errors import SpecError
from bastion.simulator.workload.job import TraceJob, Workload
from bastion.value import value

Arrivals = Literal["poisson", "bursty", "diurnal"]
ARRIVALS: tuple[Arrivals, ...] = get_args(Arrivals)
Sizes = Literal["one", "philly"]
SIZES: tuple[Sizes, ...] = get_args(Sizes)

_PHILLY_SIZES = ((1, 76627), (2, 1818), (4, 1870), (8, 1643), (16, 199), (32, 67))
"""(devices, jobs of that size among 82,247)"""
_DAY_S = 86400.0
_SWING = 0.8
"""Daily swing of arrivals above and below the mean, as a fraction of it."""
_BURST = 20
"""Jobs of one burst, on average: a sweep that one user submits."""
MEAN_LENGTH_S = 0.8 * 60 * (1e3 - 10**1.5) / (1.5 * math.log(10)) + 0.2 * 60 * 9e3 / math.log(10)
"""Of one job: the mean of the two ranges."""


@value
class Recipe:
    """The properties of a synthetic workload."""

    jobs: int = 1000
    per_hour: float = 0.0
    """Jobs per hour; 0: `load` decides."""
    load: float = 0.7
    """Arriving work, as a fraction of what all devices can do."""
    arrivals: Arrivals = "poisson"
    sizes: Sizes = "one"
    projects: int = 1
    users: int = 1
    """In each project."""
    skew: float = 1.0
    """How uneven demand is: the n-th project has a share of 1 / n^skew; 0: all equal."""
    tracked: tuple[int, int] | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        problems = []
        if not 1 <= self.jobs <= 10_000_000:
            problems.append(f"jobs: {self.jobs}; allowed: 1 to 10,000,000")
        if self.per_hour < 0 or self.load <= 0:
            problems.append(f"load: {self.per_hour or self.load}; allowed: above zero")
        if not 1 <= self.projects <= 1000 or not 1 <= self.users <= 1000:
            problems.append("projects, users: allowed: 1 to 1000")
        if not 0 <= self.skew <= 10:
            problems.append(f"skew: {self.skew}; allowed: 0 to 10")
        if problems:
            raise SpecError(*problems)


def generated(recipe: Recipe, devices: int, types: Mapping[str, int] | None = None) -> Workload:
    """
    Return the workload of `recipe` for a cluster of `devices`; equal seeds give equal jobs.

    Args:
        recipe: Its properties.
        devices: All of the cluster.
        types: How many of each type; jobs request them in proportion. By default all of the first.
    """
    random = Random(recipe.seed)  # noqa: S311 - a simulation, not a secret
    largest = max(types.values()) if types and len(types) > 1 else devices
    sizes = [1 for _ in range(recipe.jobs)]
    if recipe.sizes == "philly":
        units, weights = zip(*(pair for pair in _PHILLY_SIZES if pair[0] <= largest))
        sizes = random.choices(units, weights, k=recipe.jobs)
    lengths = [_length_s(random) for _ in range(recipe.jobs)]
    per_hour = recipe.per_hour
    if not per_hour:
        work = sum(size * length for size, length in zip(sizes, lengths)) / recipe.jobs
        per_hour = recipe.load * devices * 3600 / work
    times = _times(recipe, random, per_hour / 3600)
    owners = _owners(recipe, random)
    kinds = _types(random, sizes, types or {})
    jobs = [
        TraceJob(
            name=f"job-{index}",
            submit_s=time,
            duration_s=length,
            devices=size,
            project=project,
            user=user,
            type=kind,
        )
        for index, (time, length, size, (project, user), kind) in enumerate(
            zip(times, lengths, sizes, owners, kinds)
        )
    ]
    rate = f"{per_hour:.3g}"
    noun = "job" if rate == "1" else "jobs"
    source = f"synthetic, {recipe.arrivals}, {rate} {noun} an hour, seed {recipe.seed}"
    return Workload(jobs=jobs, source=source, tracked=recipe.tracked)


def _length_s(random: Random) -> float:
    power = random.uniform(1.5, 3) if random.random() < 0.8 else random.uniform(3, 4)
    return float(round(60 * 10**power))


def _times(recipe: Recipe, random: Random, rate: float) -> list[float]:
    """Return times of arrival; `rate` is jobs per second on average."""
    time, times = 0.0, list[float]()
    while len(times) < recipe.jobs:
        if recipe.arrivals == "bursty":
            time += random.expovariate(rate / _BURST)
            count = 1 + int(random.expovariate(1 / (_BURST - 0.5)))
            times += [time + second for second in range(count)]
            continue
        if recipe.arrivals == "diurnal":
            time += random.expovariate(rate * (1 + _SWING))
            level = 1 - _SWING * math.cos(2 * math.pi * time / _DAY_S)
            if random.random() * (1 + _SWING) > level:
                continue
        else:
            time += random.expovariate(rate)
        times.append(time)
    return sorted(times[: recipe.jobs])


def _owners(recipe: Recipe, random: Random) -> list[tuple[str, str]]:
    if recipe.projects == 1 and recipe.users == 1:
        return [("all", "user")] * recipe.jobs
    weights = [1 / (n + 1) ** recipe.skew for n in range(recipe.projects)]
    projects = random.choices(range(recipe.projects), weights, k=recipe.jobs)
    weights = [1 / (n + 1) ** recipe.skew for n in range(recipe.users)]
    users = random.choices(range(recipe.users), weights, k=recipe.jobs)
    return [(f"project-{p + 1}", f"user-{p + 1}-{u + 1}") for p, u in zip(projects, users)]


def _types(random: Random, sizes: Sequence[int], devices: Mapping[str, int]) -> list[str]:
    """Return the type of each job, one with enough devices; if there is one type, none is named."""
    if len(devices) < 2:
        return [""] * len(sizes)
    found = []
    for size in sizes:
        able = [kind for kind, count in devices.items() if count >= size]
        found += random.choices(able, [devices[kind] for kind in able])
    return found
