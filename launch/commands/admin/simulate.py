"""simulate: run the scheduler on a virtual clock, with one or several policies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.admin.study_input import (
    COSTS,
    check_not_drawn,
    check_places,
    more_machines,
    points_of,
    setup_of,
    ways_of,
)
from launch.errors import UsageError, named
from launch.grammar.parser import Parser, Verbs, choice, many, number, switch, text
from launch.screen.notes import note
from launch.screen.render import Column, counted
from launch.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bastion.simulator.engine.result import Result
    from bastion.simulator.expectations import Broken
    from bastion.simulator.metrics.measures import Measures
    from bastion.simulator.study.on_pool.run import Pool
    from bastion.simulator.study.point import Point, Runs
    from bastion.simulator.study.study import Study
    from bastion.simulator.workload.job import Workload

BY = ("mean_jct", "p90_jct", "p99_jct", "mean_slowdown", "makespan")
_NOT_DONE = {
    "timed_out": "timed out at max_runtime",
    "refused": "refused",
    "cancelled": "cancelled",
    "running": "still running at the end",
    "waiting": "still waiting at the end (--jobs_json says why)",
}
"""Outcome of a job -> its description."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "simulate",
        simulate,
        prints=True,
        text="TRACE is a CSV or JSON file of jobs. Without one, --load generates random jobs. Flags"
        " with several values separated by commas compare them, in parallel on all cores.",
        example="bastion simulate trace.csv --machines=64x8 --order=fair,srtf --report=study.html\n"
        "bastion simulate --machines=32x4 --load=1..9 --order=fifo,las --round=300 --ideal\n"
        "bastion simulate --replay=30d --more=h100-pod=1 --quota=new.toml",
    )
    parser.add_argument(
        "trace", nargs="?", default="", metavar="TRACE", help="a CSV or JSON file of jobs"
    )
    _add_input(parser)
    _add_policies(parser)
    _add_runs(parser)


def _add_input(parser: Parser) -> None:
    """Add the flags for jobs and machines."""
    group = parser.add_argument_group("jobs and machines")
    shapes = "such as 64x8 or 32x4:a100,16x8:h100@2, or a TOML file"
    text(group, "--machines", shapes, metavar="SHAPES")
    text(
        group,
        "--quota",
        "a quota file (default: each project gets a share, see --shares)",
        metavar="FILE",
    )
    choice(group, "--shares", ("demand", "equal", "one"), "shares of projects without a quota file")
    number(group, "--first", "only the first N jobs of the trace")
    switch(group, "--skip_bad", "skip and count invalid rows")
    text(
        group,
        "--replay",
        "replay this last period of your bucket's record, such as 30d or 12h",
        metavar="TIME",
    )
    text(group, "--more", "with --replay: add machines, such as h100-pod=2", metavar="POOL=N,...")
    group = parser.add_argument_group("generated jobs")
    text(
        group,
        "--load",
        "jobs per hour, such as 4, 1,2,8 or 1..9; or load, such as 70%% or 50..90%%:10",
        metavar="LOAD",
    )
    number(group, "--jobs", "number of jobs", default=1000)
    choice(group, "--arrivals", ("poisson", "bursty", "diurnal"), "arrival process")
    choice(group, "--sizes", ("one", "philly"), "devices per job: one, or as in the Philly trace")
    number(group, "--projects", "number of projects", default=1)
    number(group, "--users", "number of users per project", default=1)
    text(
        group,
        "--skew",
        "the n-th project and user ask for 1 / n^SKEW (default: 1); 0: all alike",
        metavar="SKEW",
    )
    text(group, "--track", "measure only jobs A to B", metavar="A..B")


def _add_policies(parser: Parser) -> None:
    """Add the flags for policies."""
    group = parser.add_argument_group("policies, with commas between values to compare")
    text(group, "--order", "fair, fifo, srtf, las, tiresias, max-min, ...", metavar="ORDERS")
    text(group, "--admission", "all, load-limit:1.2", metavar="ADMISSIONS")
    text(group, "--placement", "best-fit, spread, first-fit, consolidated", metavar="PLACEMENTS")
    text(group, "--preemption", "reclaim, order, none", metavar="PREEMPTIONS")
    own = "your own FILE.py:CLASS, or synthesize:fifo,las"
    many(group, "--policy", own, metavar="POLICY")
    number(group, "--every", "synthesize: seconds between two choices", default=3600)
    number(group, "--ahead", "synthesize: seconds to simulate for each choice", default=86400)
    choice(group, "--by", BY, "synthesize: the measure to minimize")
    switch(group, "--knows_lengths", "synthesize: job lengths are known in advance")
    text(
        group,
        "--throughput",
        "throughput of each kind of job on each type of device",
        metavar="FILE",
    )


def _add_runs(parser: Parser) -> None:
    """Add the flags for costs, places and results."""
    group = parser.add_argument_group("time and costs")
    number(group, "--round", "decide in rounds of this many seconds (default: at every event)")
    switch(group, "--strict_walk", "a round stops at the first job that does not fit")
    switch(
        group,
        "--ideal",
        "no costs: starts, restarts and checkpoints take no time, and nothing fails",
    )
    costs = f"seconds, such as start=20,mtbf=1e6; keys: {', '.join(COSTS)}"
    text(group, "--cost", costs, metavar="COSTS")
    number(group, "--seed", "random seed", default=1)
    number(group, "--cores", "number of parallel simulations (default: all cores)")
    group = parser.add_argument_group("on the machines of a pool")
    text(group, "--on", "run each simulation as a task of an array in this bucket", metavar="URL")
    text(
        group, "--resources", "resources of each simulation (default: cpu=1)", metavar="TYPE=N,..."
    )
    text(group, "--pool", "pool to run in", metavar="POOL")
    group = parser.add_argument_group("results")
    text(group, "--report", "write an HTML page with charts", metavar="FILE")
    text(group, "--jobs_json", "write one row per job, and the CDFs, as JSON", metavar="FILE")
    checks = "list every unmet expectation: shares, idle devices, long waits"
    switch(group, "--check", checks)
    text(group, "--max_wait", "with --check: the longest allowed wait, such as 24h", metavar="TIME")
    text(group, "--export", "write the charts into a folder", metavar="FOLDER")
    choice(group, "--format", ("png", "svg", "pdf"), "file format of these charts")


def simulate(args: argparse.Namespace) -> int:
    """`bastion simulate [TRACE]`."""
    from bastion.simulator.study.study import Study

    session = Session(args)
    check_places(args)
    if args.replay:
        if args.on:
            raise UsageError(
                "--on cannot be combined with --replay, which runs on this machine",
                hint="give only one of them",
            )
        return _replay(session)
    if args.more:
        raise UsageError("--more needs --replay", hint="without --replay, use --machines")
    points = points_of(args)
    _tell_workload(points[0].workload, quiet=session.is_quiet)
    runs = _run(session, points)
    if not runs.results:
        note("interrupted before any simulation had a result")
        return exits.DETACHED
    study = Study(runs)
    if args.check:
        found = _show_broken(session, study)
    else:
        _show(session, study)
        found = exits.OK
    _write(args, study, quiet=session.is_quiet)
    return _tell_missing(study) or found


def _run(session: Session, points: Sequence[Point]) -> Runs:
    """Run `points` here, or on a pool."""
    from bastion.simulator.study.compare import run_points
    from launch.screen.study_progress import StudyProgress

    args = session.args
    pool = _pool(args)
    with StudyProgress(quiet=session.out.format == "name") as progress:
        if pool is None:
            return run_points(points, cores=args.cores or 0, told=progress.tell)
        from bastion.simulator.study.on_pool.run import run_on_pool

        tell = (lambda _: None) if session.is_quiet else note
        return run_on_pool(points, pool, told=progress.tell, note=tell)


def _pool(args: argparse.Namespace) -> Pool | None:
    """Return where `--on` sends the simulations; None: they run here."""
    if not args.on:
        for name in ("resources", "pool"):
            if getattr(args, name):
                raise UsageError(f"--{name} needs --on", hint="add --on=URL")
        return None
    if args.cores:
        raise UsageError(
            "--cores cannot be combined with --on; it is for this machine",
            hint="give only one of them",
        )
    from bastion.client import Client
    from bastion.simulator.study.on_pool.run import Pool
    from bastion.spec import Resources, Where
    from launch.settings import chosen
    from launch.submission.flags import resources_of

    profile = chosen(root=args.on, bastion="", user=args.user_id, project=args.project_id)
    client = Client(profile.root, user=profile.user or None, project=profile.project or None)
    asked = resources_of((args.resources or "cpu=1").split(","))
    return Pool(client=client, resources=Resources(**asked), where=Where(pool=args.pool))


def _tell_missing(study: Study) -> int:
    """Note what the numbers do not include; return the exit code for it."""
    for label, why in study.failed.items():
        note(f"{label} is not included in the numbers: {why}")
    if study.left_out:
        note(f"not included, because it was interrupted: {', '.join(study.left_out)}")
    if any(result.is_partial for result in study.results):
        note("partial: interrupted, so jobs that had not ended are not included in the numbers")
    for result in study.results:
        if not result.is_partial and (told := _not_done(result)):
            note(f"{result.label}: not included in the times: {told}")
    if study.is_partial:
        return exits.DETACHED
    return exits.FAILED if study.failed else exits.OK


def _not_done(result: Result) -> str:
    """Return how many jobs did not finish their work, and why; empty if all did."""
    from collections import Counter

    found = Counter(each.outcome for each in result.jobs if each.is_tracked)
    return ", ".join(
        f"{counted(found[outcome], 'job')} {words}"
        for outcome, words in _NOT_DONE.items()
        if found[outcome]
    )


def _show_broken(session: Session, study: Study) -> int:
    """Show the unmet expectations; return the exit code."""
    from bastion.simulator.report.words import duration

    rows = [(result.label, each) for result in study.results for each in result.broken]
    began = study.results[0].began_at
    columns: list[Column[tuple[str, Broken]]] = [
        Column(title="AT", text=lambda row: moment(row[1].at_s - began)),
        Column(title="POLICY", text=lambda row: row[0]),
        Column(title="JOB", text=lambda row: row[1].job),
        Column(title="PROJECT", text=lambda row: row[1].project),
        Column(title="LASTED", text=lambda row: duration(row[1].lasted_s)),
        Column(title="WHAT", text=lambda row: row[1].text),
        Column(title="REASON", text=lambda row: row[1].reason or "unknown"),
    ]
    if session.out.format == "json":
        from dataclasses import asdict

        session.out.json({"broken": [{"policy": label, **asdict(each)} for label, each in rows]})
    elif rows or session.out.format == "name":
        session.out.show("broken", rows, columns, name=lambda row: row[1].job)
    if not session.is_quiet:
        note(f"{counted(len(rows), 'expectation')} not met" if rows else "all expectations met")
    return exits.FAILED if rows else exits.OK


def moment(seconds: float) -> str:
    """Return a time since the first submission, to the second: `9 d 22:53:00`."""
    days, rest = divmod(int(seconds), 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _replay(session: Session) -> int:
    """Replay the record of the bucket under the file in force and the given setups."""
    from bastion.simulator.cluster.cluster import Cluster
    from launch.commands.admin.replay import replayed, show_difference

    args = session.args
    given = {"trace": "the trace", "load": "--load", "machines": "--machines", "first": "--first"}
    given |= {"track": "--track"}
    for name, said in given.items():
        if getattr(args, name):
            raise UsageError(f"--replay has its own jobs and machines; omit {said}")
    check_not_drawn(args, "--replay")
    args.ideal = True  # starts and stops are in the recorded lengths
    base = setup_of(args, Cluster(shapes=()))
    setups = ways_of(args, base)
    more = more_machines(args.more)
    is_other = " and ".join(filter(None, (args.more, args.quota)))
    ways = {each.name: each for each in setups if each != base or is_other}
    if is_other and base in setups:
        ways = {is_other: base}
    study, found = replayed(session, args.replay, {}, ways=ways, more=more)
    if found is not None and len(study.results) == 2:
        show_difference(session, found)
    else:
        _show(session, study)
    _write(args, study, quiet=session.is_quiet)
    return _tell_missing(study)


def _tell_workload(workload: Workload, *, quiet: bool) -> None:
    if quiet:
        return
    note(f"{counted(len(workload.jobs), 'job')}: {workload.source}")
    for line in workload.notes:
        note(line)
    if workload.skipped:
        note(f"skipped: {counted(len(workload.skipped), 'row')}; the first: {workload.skipped[0]}")


def _if_any(text: Callable[[Measures], str]) -> Callable[[Measures], str]:
    """Return `text` for results in which jobs completed their work; others have no such times."""
    return lambda each: text(each) if each.ended else "-"


def _show(session: Session, study: Study) -> None:
    from bastion.simulator.report.words import duration, percent

    if session.out.format == "json":
        session.out.json(study.as_json())
        return
    columns: list[Column[Measures]] = [
        Column(title="POLICY", text=lambda each: each.label),
        Column(title="JOBS", text=lambda each: f"{each.ended:,}"),
        Column(title="COMPLETION", text=_if_any(lambda each: duration(each.jct_s["mean"]))),
        Column(title="MEDIAN", text=_if_any(lambda each: duration(each.jct_s["p50"]))),
        Column(title="P99", text=_if_any(lambda each: duration(each.jct_s["p99"]))),
        Column(title="WAITING", text=_if_any(lambda each: duration(each.wait_s["mean"]))),
        Column(title="SLOWDOWN", text=_if_any(lambda each: f"{each.slowdown['mean']:.2f}")),
        Column(title="IN USE", text=lambda each: percent(each.utilisation)),
        Column(title="GOODPUT", text=lambda each: percent(each.goodput)),
        Column(title="PREEMPTED", text=lambda each: f"{each.preemptions:,}"),
        Column(title="MAKESPAN", text=lambda each: duration(each.makespan_s), wide=True),
        Column(title="FAIRNESS", text=lambda each: f"{each.fairness:.3f}", wide=True),
        Column(title="LATE", text=lambda each: f"{each.violations:,}", wide=True),
        Column(title="TOOK", text=lambda each: duration(each.took_s), wide=True),
    ]
    session.out.show("simulations", study.measures, columns, name=lambda each: each.label)


def _write(args: argparse.Namespace, study: Study, *, quiet: bool) -> None:
    told = []
    if args.report:
        with named(Path(args.report)):
            study.report(args.report)
        told.append(f"the report is in {args.report}")
    if args.jobs_json:
        import json

        path = Path(args.jobs_json)
        with named(path):
            path.write_text(json.dumps(study.jobs_json()), encoding="utf-8")
        told.append(f"the jobs are in {args.jobs_json}")
    if args.export:
        with named(Path(args.export)):
            files = study.export(args.export, args.format)
        told.append(f"{counted(len(files), 'chart')} in {Path(args.export)}")
    for line in () if quiet else told:
        note(line)
