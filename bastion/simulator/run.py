"""`simulated`: one workload on one setup, from the first job to the last."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from bastion.clock import Clock, SystemClock
from bastion.errors import SpecError
from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.state.memory.policy_choice import Parts, chosen
from bastion.simulator.engine.driver import Carrying
from bastion.simulator.engine.engine import Engine, Watch
from bastion.simulator.engine.outside import Outside
from bastion.simulator.engine.result import Result
from bastion.simulator.engine.speed import Speeds
from bastion.simulator.engine.state import State
from bastion.simulator.expectations import Expectations, Limits
from bastion.simulator.fitting import fitted
from bastion.simulator.lone_arrival import LoneArrival
from bastion.simulator.parts import job_by_id, with_speeds
from bastion.simulator.policies.effective import JobOf
from bastion.simulator.policies.synthesis import candidates_of
from bastion.simulator.rounds.line import Line
from bastion.simulator.rounds.one_device import OneDeviceRound
from bastion.simulator.rounds.rounds import RoundEngine, RoundPlanner, WholeRound
from bastion.simulator.rounds.strict_walk import StrictWalk
from bastion.simulator.setup import Setup, parts_of, quota_of, with_projects
from bastion.simulator.synthesizer import Synthesizer
from bastion.simulator.workload.job import Workload
from quota import Quota
from quota.options import Order, SchedulerOptions

Progress = Callable[[int, int, float], None]
"""
Called now and then with the jobs that have ended, all jobs, and virtual seconds since the start.
"""

_STEPS = 200
"""Moments between two progress calls."""
_YOUNG = 200_000
"""Objects between two garbage collections: nearly all live until the end."""


def simulated(
    setup: Setup,
    workload: Workload,
    *,
    progress: Progress | None = None,
    watches: Sequence[Watch] = (),
    names: Sequence[str] = (),
    clock: Clock | None = None,
) -> Result:
    """
    Run `workload` on `setup` and return what happened.

    An interrupt (Ctrl-C) ends it early with a partial result.

    Args:
        setup: Cluster, quota, policies and costs.
        workload: As `fitted` returns it, or of jobs that fit.
        progress: Called with the progress.
        watches: Called with every plan.
        names: IDs of the jobs by index; ties of equal submission go by ID. Numbers by default.
        clock: Of this machine, for `took_s`.

    Raises:
        SpecError: A policy is unknown or cannot be loaded, or a job does not fit.
    """
    clock = clock or SystemClock()
    began = clock.monotonic()
    anywhere = setup.strict_walk
    workload = with_projects(setup, fitted(workload, setup.cluster, anywhere=anywhere))
    expectations = Expectations(setup.limits or Limits(), lambda: engine.driver)
    checks = (expectations,) if setup.limits is not None else ()
    engine, synthesizer = made(setup, workload, watches=(*watches, *checks), names=names)
    is_partial = False
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG, 20, 100)
    try:
        _go(engine, progress)
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        is_partial = True
    finally:
        gc.set_threshold(*before)
    took_s = clock.monotonic() - began
    settings = settings_of(setup, workload)
    if synthesizer is not None:
        settings["synthesized"] = synthesizer.told()
    result = engine.result(setup.name, settings, took_s=took_s, is_partial=is_partial)
    return replace(result, broken=tuple(expectations.broken))


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt ended it, even if another error followed from a half-done cycle."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def engine_of(
    setup: Setup,
    workload: Workload,
    *,
    watches: Sequence[Watch] = (),
    names: Sequence[str] = (),
    shows_all: bool = False,
    attained: Mapping[str, float] | None = None,
) -> Engine:
    """
    Return the engine of a simulation, at its beginning.

    Args:
        setup: Cluster, quota, policies and costs.
        workload: As `fitted` returns it.
        watches: Called with every plan.
        names: IDs of the jobs, by index.
        attained: The device time of jobs before the beginning, by ID, in seconds.
        shows_all: Show the scheduler every waiting job, including those that cannot start.
    """
    return made(
        setup, workload, watches=watches, names=names, shows_all=shows_all, attained=attained
    )[0]


def made(
    setup: Setup,
    workload: Workload,
    *,
    watches: Sequence[Watch] = (),
    names: Sequence[str] = (),
    shows_all: bool = False,
    attained: Mapping[str, float] | None = None,
) -> tuple[Engine, Synthesizer | None]:
    """Return the result of `engine_of`, and the policy that chooses others, if it has one."""
    quota = quota_of(setup, workload)
    speeds = Speeds(setup.cluster, setup.throughputs)
    job_of = job_by_id(workload, names)
    parts = with_speeds(parts_of(setup, quota), quota.scheduler.order, setup, speeds, job_of)
    synthesizer = _synthesizer(setup, quota, speeds, job_of) if setup.is_synthesis else None
    if synthesizer is not None:
        parts = replace(parts, order=synthesizer.order)
    in_rounds = _is_in_rounds(setup, parts)
    state = State(
        setup.cluster,
        quota,
        shows_all=shows_all or in_rounds or _shows_all(setup, workload, parts),
        reports=not parts.order.is_lasting,
        attained=attained,
    )
    is_alone = _is_alone(setup, workload) and LoneArrival.is_enough(setup.cluster, quota, parts)
    state.moved = {} if is_alone else None
    driver = Carrying(quota, parts, LoneArrival(quota, parts.placement) if is_alone else None)

    def driver_of(file: Quota) -> tuple[Quota, Carrying]:
        later = quota_of(replace(setup, quota=file), workload)
        made = with_speeds(parts_of(setup, later), later.scheduler.order, setup, speeds, job_of)
        return later, Carrying(later, made)

    kind = RoundEngine if in_rounds else Engine
    engine = kind(
        workload,
        state,
        driver,
        costs=setup.costs,
        round_s=setup.round_s,
        speeds=speeds,
        seed=setup.seed,
        watches=watches,
        names=names,
        outside=Outside(workload.script, None if setup.keeps_quota else driver_of),
    )
    if isinstance(engine, RoundEngine):
        engine.planner = _planner(setup, workload, quota, parts, driver)
    if synthesizer is not None:
        synthesizer.ended = lambda: [
            each.job.duration_s
            for each in engine.results
            if each is not None and each.outcome == "succeeded"
        ]
    return engine, synthesizer


def _is_alone(setup: Setup, workload: Workload) -> bool:
    """Whether only the scheduler says what starts: no external policy, quota file or record."""
    is_own = bool(setup.policy) or setup.is_replay
    return not is_own and not any(each.what == "quota" for each in workload.script)


def _planner(
    setup: Setup, workload: Workload, quota: Quota, parts: Parts, driver: Carrying
) -> RoundPlanner:
    """Return what chooses the jobs of a round: the scheduler, or a walk with the same result."""
    is_steady = not setup.policy and parts.order.ranks_of is None
    line = Line(parts.order, is_steady=is_steady)
    if setup.strict_walk:
        return StrictWalk(line)
    if OneDeviceRound.is_enough(setup.cluster, workload, quota, parts):
        return OneDeviceRound(line, quota, parts.placement)
    return WholeRound(driver)


def _is_in_rounds(setup: Setup, parts: Parts) -> bool:
    """Whether each round is planned from scratch, as running jobs yield to those before them."""
    if setup.strict_walk and not setup.round_s:
        raise SpecError("strict_walk: is a walk of rounds", hint="give --round as well")
    if not setup.strict_walk and not (setup.round_s and parts.preemption.follows_order):
        return False
    if any(shape.most > shape.count for shape in setup.cluster.shapes):
        raise SpecError(
            "machines: no pool makes machines in rounds where running jobs yield",
            hint="leave `most` out, or --round",
        )
    return True


def _synthesizer(setup: Setup, quota: Quota, speeds: Speeds, job_of: JobOf) -> Synthesizer:
    """Return the policy that chooses among those of `setup`, for one simulation."""
    candidates = {}
    for name in candidates_of(setup.policy):
        parts = chosen(replace(quota.scheduler, order=cast(Order, name)))
        candidates[name] = with_speeds(parts, name, setup, speeds, job_of).order
    return Synthesizer(candidates, setup, quota, job_of, engine_of)


def _shows_all(setup: Setup, workload: Workload, parts: Parts) -> bool:
    """Whether more jobs of a line could start than fit on all machines as they are."""
    is_steady = not setup.cluster.shrinks and not workload.script
    return not (is_steady and _shows_heads_only(parts))


def _shows_heads_only(parts: Parts) -> bool:
    """Whether no policy considers all waiting jobs: no demand counts, and no order changes."""
    return parts.order.is_lasting and parts.admission is admit_all


def _go(engine: Engine, progress: Progress | None) -> None:
    jobs = len(engine.workload.jobs)
    steps = 0
    while engine.step():
        steps += 1
        if progress is not None and steps % _STEPS == 0:
            progress(engine.ended, jobs, engine.now)
    if progress is not None:
        progress(engine.ended, jobs, engine.now)


def settings_of(setup: Setup, workload: Workload) -> dict[str, str]:
    """Return the settings of a simulation, in words for its report."""
    shapes = ", ".join(
        f"{shape.count} x {shape.devices} {shape.type}"
        + (f" at speed {shape.speed:g}" if shape.speed != 1 else "")
        for shape in setup.cluster.shapes
    )
    options = quota_of(setup, workload).scheduler
    admission: str = options.admission
    if admission == "load-limit":
        admission = f"load-limit:{options.load_limit:g}"
    return {
        "workload": workload.source or "jobs given",
        "jobs": f"{len(workload.jobs):,}",
        "machines": shapes,
        "order": _order_told(setup) or options.order,
        "admission": admission,
        "placement": options.placement,
        "preemption": options.preemption,
        "decided": _decided(setup, options),
        "costs": _priced(setup),
        "quota": "given" if setup.quota else f"one share a project, {setup.shares}",
    }


def _decided(setup: Setup, options: SchedulerOptions) -> str:
    """Return when it decides, and how long a job runs before it yields to the order, in words."""
    if setup.round_s:
        return f"every {setup.round_s:g} s" + (", strict walk" if setup.strict_walk else "")
    turn = f", turns of {options.min_runtime_s:,g} s or more"
    return "at every event" + (turn if options.preemption == "order" else "")


def _order_told(setup: Setup) -> str:
    """Return an external policy by its file name, without its folder."""
    return setup.policy if setup.is_synthesis else setup.policy.rpartition("/")[2]


def _priced(setup: Setup) -> str:
    """Return its costs, and what fails, in words."""
    costs = setup.costs
    if costs.are_none:
        return "none"
    told = [
        f"start {costs.start_s:g} s",
        f"restart {costs.restart_s:g} s",
        f"leave {costs.leave_s:g} s",
        f"checkpoint every {costs.checkpoint_s:g} s" if costs.checkpoint_s else "nothing is lost",
    ]
    if costs.mtbf_s:
        told.append(f"a machine fails every {costs.mtbf_s:g} s, repair {costs.repair_s:g} s")
    if costs.stockout:
        told.append(f"stock-outs {100 * costs.stockout:g} % for {costs.stockout_s:g} s")
    if costs.mtbf_s or costs.stockout:
        told.append(f"seed {setup.seed}")
    return ", ".join(told)
