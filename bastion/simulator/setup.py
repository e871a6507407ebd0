"""
`Setup`: everything of one simulation except its workload.

Without a quota file, one is created for the projects of the workload.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Literal, cast, get_args

from bastion.errors import SpecError
from bastion.scheduler.state.memory.policy_choice import Parts, chosen
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.engine.jobs.costs import IDEAL, Costs
from bastion.simulator.expectations import Limits
from bastion.simulator.policies.own import order_of
from bastion.simulator.policies.synthesis import SYNTHESIZE, Synthesis, candidates_of
from bastion.simulator.workload.job import Workload
from bastion.simulator.workload.throughput import Throughputs
from bastion.value import value
from quota import Quota, parse
from quota.choice import choose
from quota.options import (
    ADMISSIONS,
    ORDERS,
    PLACEMENTS,
    PREEMPTIONS,
    Admission,
    Order,
    Placement,
    Preemption,
    SchedulerOptions,
)

Shares = Literal["demand", "equal", "one"]
SHARES: tuple[Shares, ...] = get_args(Shares)
BY_SERVICE = ("srtf", "las", "tiresias", "max-min", "optimus")
"""Orders that have little effect unless running jobs yield to those before them."""
TURNS = ("las", "max-min", "optimus")
"""Orders under which equal jobs take turns."""
IN_ROUNDS = ("fifo", "priority")
"""Orders under which running jobs yield if named together with rounds, as in published studies."""


@value
class Setup:
    """
    One simulation, apart from its workload.

    If a policy is empty, the one of the quota file applies. Without a quota file, a share is
    created for every project of the workload.
    """

    cluster: Cluster
    quota: Quota | None = None
    is_replay: bool = False
    """Whether it replays a record: starts cost nothing, and grace periods are those of the file."""
    keeps_quota: bool = False
    """In a replay: its quota file stays in force, even if the record has other files."""
    shares: Shares = "demand"
    """Without a quota file: in proportion to demand, equal, or one project that has everything."""
    order: str = ""
    admission: str = ""
    """`all`, or `load-limit:1.2`."""
    placement: str = ""
    preemption: str = ""
    policy: str = ""
    """`FILE.py:CLASS`, an external order, or `synthesize:` and orders to choose among."""
    synthesis: Synthesis = field(default=Synthesis())
    """How it chooses among them."""
    throughputs: Throughputs | None = None
    """How fast kinds of jobs work on which devices; without it, the pools' speeds apply."""
    round_s: float = 0.0
    strict_walk: bool = False
    costs: Costs = field(default=IDEAL)
    seed: int = 1
    limits: Limits | None = None
    """The expectations to check at every cycle; None: none."""
    label: str = ""

    @property
    def name(self) -> str:
        """What distinguishes it from others of a study."""
        if self.label:
            return self.label
        own = self.policy if self.is_synthesis else self.policy.rpartition(":")[2]
        parts = [own or self.order or "default"]
        parts += [each for each in (self.admission, self.placement, self.preemption) if each]
        return " ".join(parts)

    @property
    def is_synthesis(self) -> bool:
        """Whether it chooses among orders while it runs."""
        return self.policy.startswith(SYNTHESIZE)


def quota_of(setup: Setup, workload: Workload) -> Quota:
    """
    Return the quota in force, with the policies of `setup`.

    Raises:
        SpecError: A policy is unknown, or the shares cannot be created.
    """
    quota = setup.quota or _made(setup, workload)
    return replace(quota, scheduler=_options(setup, quota.scheduler))


def parts_of(setup: Setup, quota: Quota) -> Parts:
    """
    Return the parts of the scheduler that `setup` names.

    Raises:
        SpecError: Its external policy cannot be loaded.
    """
    parts = chosen(quota.scheduler)
    _check_progress(setup, quota.scheduler)
    if setup.is_synthesis:
        candidates_of(setup.policy)
    elif setup.policy:
        return replace(parts, order=order_of(setup.policy))
    return parts


def turn_s(setup: Setup) -> float:
    """Return how long an attempt takes to its first checkpoint, on the slowest devices."""
    costs = setup.costs
    slowest = min(1.0, *(shape.speed for shape in setup.cluster.shapes))
    return costs.start_s + costs.restart_s + costs.checkpoint_s / slowest


def _check_progress(setup: Setup, options: SchedulerOptions) -> None:
    """
    Check that jobs that take turns by rounds make progress; otherwise a study would never end.

    Raises:
        SpecError: All that a job does in a round is lost when the next round stops it.
    """
    takes_turns = setup.strict_walk or options.preemption == "order"
    if not (setup.round_s and takes_turns and options.order in TURNS) or setup.policy:
        return
    costs, round_s = setup.costs, setup.round_s
    overhead_s = costs.start_s + costs.restart_s
    if overhead_s < round_s and overhead_s + costs.checkpoint_s <= round_s:
        return
    saves = (
        f"its first checkpoint comes after {costs.checkpoint_s:g} s of work"
        if costs.checkpoint_s
        else "no second is left for work"
    )
    ways = [f"--round={math.floor(overhead_s + costs.checkpoint_s) + 1} or longer", "--ideal"]
    if costs.checkpoint_s and overhead_s < round_s:
        ways.insert(0, f"--cost=checkpoint={math.floor(round_s - overhead_s)} or less")
        ways.insert(0, "--cost=checkpoint=0 for jobs that save when they are stopped")
    raise SpecError(
        f"costs: under {options.order} jobs take turns of one round of {round_s:g} s;"
        f" {overhead_s:g} s of it are start and restart, and {saves}: each turn is lost",
        hint=" | ".join(ways),
    )


def _options(setup: Setup, options: SchedulerOptions) -> SchedulerOptions:
    problems: list[str] = []

    def picked(name: str, written: str, allowed: tuple[str, ...], default: str) -> str:
        if written and written not in allowed:
            problems.append(f"{name}: {written!r} is unknown, {choose(written, allowed)}")
        return written or default

    order = picked("order", setup.order, ORDERS, options.order)
    word, _, limit = setup.admission.partition(":")
    admission = picked("admission", word, ADMISSIONS, options.admission)
    placement = picked("placement", setup.placement, PLACEMENTS, options.placement)
    is_round = setup.round_s > 0 and setup.order in IN_ROUNDS
    yields = setup.policy or setup.strict_walk or is_round or order in BY_SERVICE
    default = "order" if yields and (setup.quota is None or setup.order) else options.preemption
    preemption = picked("preemption", setup.preemption, PREEMPTIONS, default)
    load_limit = options.load_limit
    if limit:
        try:
            load_limit = float(limit)
        except ValueError:
            problems.append(f"admission: {limit!r} is not a number; allowed: load-limit:1.2")
    if problems:
        raise SpecError(*problems)
    least_s = options.min_runtime_s
    if setup.quota is None and preemption == "order" and (setup.policy or order in TURNS):
        least_s = max(least_s, turn_s(setup))
    return replace(
        options,
        order=cast(Order, order),
        admission=cast(Admission, admission),
        placement=cast(Placement, placement),
        preemption=cast(Preemption, preemption),
        min_runtime_s=least_s,
        load_limit=load_limit,
        grace_s=0.0 if setup.costs.are_none and not setup.is_replay else options.grace_s,
    )


def _made(setup: Setup, workload: Workload) -> Quota:
    """Return a quota file for the projects of `workload`, which anyone may charge."""
    demand: dict[str, dict[str, float]] = {}
    for job in workload.jobs:
        kinds = demand.setdefault(job.project, {})
        kind = job.type or setup.cluster.types[0]
        kinds[kind] = kinds.get(kind, 0.0) + job.device_s
    totals = setup.cluster.totals
    lines = ["[toml-schema]", 'version = "1"', "[total_resources]"]
    lines += [f"{kind} = {totals[kind]}" for kind in setup.cluster.types]
    names = sorted(demand)
    lines += ["[project_membership]", *(f'{_quoted(name)} = [".*"]' for name in names)]
    for name in names:
        lines.append(f"[project_resources.{_quoted(name)}]")
        for kind in setup.cluster.types:
            lines.append(f"{kind} = {_fraction(setup.shares, demand, name, kind):.6f}")
    return parse("\n".join(lines) + "\n")


def _fraction(shares: Shares, demand: dict[str, dict[str, float]], name: str, kind: str) -> float:
    total = sum(kinds.get(kind, 0.0) for kinds in demand.values())
    if shares == "equal" or not total:
        share = 1 / len(demand)
    else:
        share = demand[name].get(kind, 0.0) / total
    return int(share * 1e6) / 1e6


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def with_projects(setup: Setup, workload: Workload) -> Workload:
    """Return `workload` as `setup` charges it: with `shares="one"`, all jobs are of one project."""
    if setup.shares != "one" or setup.quota is not None:
        return workload
    jobs = [job._replace(project="all") for job in workload.jobs]
    return replace(workload, jobs=jobs)
