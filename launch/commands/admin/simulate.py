"""simulate: the scheduler on a virtual clock, one or several policies side by side."""

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
from launch.grammar.parser import Verbs, choice, many, number, switch, text
from launch.screen.notes import note
from launch.screen.render import Column, counted
from launch.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bastion.simulator.engine.result import Result
    from bastion.simulator.expectations import Broken
    from bastion.simulator.metrics.measures import Measures
    from bastion.simulator.study.on_pool.run import Pool
    from bastion.simulator.study.point import Point, Runs
    from bastion.simulator.study.study import Study
    from bastion.simulator.workload.job import Workload

BY = ("mean_jct", "p90_jct", "p99_jct", "mean_slowdown", "makespan")
_NOT_DONE = {
    "timed_out": "beyond max_runtime",
    "refused": "refused",
    "cancelled": "cancelled",
    "running": "running to the end",
    "waiting": "waiting to the end (--jobs_json says why)",
}
"""Outcome of a job -> how it is told."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "simulate",
        simulate,
        prints=True,
        text="TRACE is a CSV or JSON file of jobs; without one, jobs are drawn as --load says."
        " Lists with commas are compared, side by side on all cores.",
        example="bastion simulate trace.csv --machines=64x8 --order=fair,srtf --report=study.html\n"
        "bastion simulate --machines=32x4 --load=1..9 --order=fifo,las --round=300 --ideal\n"
        "bastion simulate --replay=30d --more=h100-pod=1 --quota=new.toml",
    )
    parser.add_argument("trace", nargs="?", default="", metavar="TRACE", help="a CSV or JSON file")
    group = parser.add_argument_group("what runs where")
    text(group, "--machines", "64x8, 32x4:a100,16x8:h100@2 or a TOML file", metavar="SHAPES")
    text(group, "--quota", "a quota file; without one each project gets a share", metavar="FILE")
    choice(group, "--shares", ("demand", "equal", "one"), "the shares without a quota file")
    number(group, "--first", "only so many jobs of the trace")
    switch(group, "--skip_bad", "leave out rows with problems, and count them")
    text(group, "--replay", "the record of your bucket of the last 30d, 12h, ...", metavar="TIME")
    text(group, "--more", "replay: so many more machines, as h100-pod=2", metavar="POOL=N,...")
    group = parser.add_argument_group("jobs that are drawn")
    text(
        group,
        "--load",
        "jobs an hour: 4, 1,2,8 or 1..9; or parts: 70%%, 50..90%%:10",
        metavar="LOAD",
    )
    number(group, "--jobs", "how many", default=1000)
    choice(group, "--arrivals", ("poisson", "bursty", "diurnal"), "how they come")
    choice(group, "--sizes", ("one", "philly"), "devices of a job: one, or as in the Philly trace")
    number(group, "--projects", "of how many projects", default=1)
    number(group, "--users", "of how many users in each", default=1)
    text(
        group,
        "--skew",
        "the n-th project and user ask for 1 / n^SKEW (1 by default); 0: alike",
        metavar="SKEW",
    )
    text(group, "--track", "only jobs A to B are measured", metavar="A..B")
    group = parser.add_argument_group("policies, each a list with commas to compare")
    text(group, "--order", "fair, fifo, srtf, las, tiresias, max-min, ...", metavar="ORDERS")
    text(group, "--admission", "all, load-limit:1.2", metavar="ADMISSIONS")
    text(group, "--placement", "best-fit, spread, first-fit, consolidated", metavar="PLACEMENTS")
    text(group, "--preemption", "reclaim, order, none", metavar="PREEMPTIONS")
    many(group, "--policy", "FILE.py:CLASS of your own, or synthesize:fifo,las", metavar="POLICY")
    number(group, "--every", "synthesize: seconds from one choice to the next", default=3600)
    number(group, "--ahead", "synthesize: seconds that are simulated for it", default=86400)
    choice(group, "--by", BY, "synthesize: what is to be small")
    switch(group, "--knows_lengths", "synthesize: it is told how long jobs take")
    text(group, "--throughput", "how fast kinds of jobs work on which devices", metavar="FILE")
    group = parser.add_argument_group("time and costs")
    number(group, "--round", "seconds of a round; without it every event is decided")
    switch(group, "--strict_walk", "a round stops at the first job that does not fit")
    switch(group, "--ideal", "nothing costs anything: no start, restart, checkpoint, failure")
    text(group, "--cost", f"such as start=20,mtbf=1e6: {', '.join(COSTS)}", metavar="COSTS")
    number(group, "--seed", "of everything that is drawn", default=1)
    number(group, "--cores", "simulations at once; all cores by default")
    group = parser.add_argument_group("on the machines of a pool")
    text(group, "--on", "each simulation is a task of an array in this bucket", metavar="URL")
    text(group, "--resources", "what each asks for; cpu=1 by default", metavar="TYPE=N,...")
    text(group, "--pool", "in which pool", metavar="POOL")
    group = parser.add_argument_group("results")
    text(group, "--report", "write one HTML page with charts", metavar="FILE")
    text(group, "--jobs_json", "write a row for each job, and the CDFs, as JSON", metavar="FILE")
    switch(group, "--check", "tell every broken expectation: a share, idle devices, a long wait")
    text(group, "--max_wait", "with --check: the longest wait, such as 24h", metavar="TIME")
    text(group, "--export", "write the charts into a folder", metavar="FOLDER")
    choice(group, "--format", ("png", "svg", "pdf"), "of these charts")


def simulate(args: argparse.Namespace) -> int:
    """`bastion simulate [TRACE]`."""
    from bastion.simulator.study.study import Study

    session = Session(args)
    check_places(args)
    if args.replay:
        if args.on:
            raise UsageError("--on: a replay runs on this machine", hint="leave one out")
        return _replay(session)
    if args.more:
        raise UsageError("--more is of --replay", hint="--machines says it for other jobs")
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
    """Where `--on` sends the simulations; None: they run here."""
    if not args.on:
        for name in ("resources", "pool"):
            if getattr(args, name):
                raise UsageError(f"--{name} is of --on", hint="give --on=URL as well")
        return None
    if args.cores:
        raise UsageError("--cores is of this machine", hint="leave it out, or --on")
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
    """What is not in the numbers; the exit code says it too."""
    for label, why in study.failed.items():
        note(f"{label} is not in the numbers: {why}")
    if study.left_out:
        note(f"left out, as it was interrupted: {', '.join(study.left_out)}")
    if any(result.is_partial for result in study.results):
        note("partial: it was interrupted, and jobs that had not ended are not in the numbers")
    for result in study.results:
        if not result.is_partial and (told := _not_done(result)):
            note(f"{result.label}: not in the times: {told}")
    if study.is_partial:
        return exits.DETACHED
    return exits.FAILED if study.failed else exits.OK


def _not_done(result: Result) -> str:
    """How many of the jobs did not end with their work done, and why; nothing where all did."""
    from collections import Counter

    found = Counter(each.outcome for each in result.jobs if each.is_tracked)
    return ", ".join(
        f"{counted(found[outcome], 'job')} {words}"
        for outcome, words in _NOT_DONE.items()
        if found[outcome]
    )


def _show_broken(session: Session, study: Study) -> int:
    """The expectations that were not met; the exit code says whether there is any."""
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
        Column(title="REASON", text=lambda row: row[1].reason or "none is known"),
    ]
    if session.out.format == "json":
        from dataclasses import asdict

        session.out.json({"broken": [{"policy": label, **asdict(each)} for label, each in rows]})
    elif rows or session.out.format == "name":
        session.out.show("broken", rows, columns, name=lambda row: row[1].job)
    if not session.is_quiet:
        note(f"{counted(len(rows), 'expectation')} not met" if rows else "every expectation is met")
    return exits.FAILED if rows else exits.OK


def moment(seconds: float) -> str:
    """A time of a simulation to the second, from its first submission: `9 d 22:53:00`."""
    days, rest = divmod(int(seconds), 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _replay(session: Session) -> int:
    """The record of the bucket, under the file in force and whatever is given beside it."""
    from bastion.simulator.cluster.cluster import Cluster
    from launch.commands.admin.replay import replayed, show_difference

    args = session.args
    given = {"trace": "the trace", "load": "--load", "machines": "--machines", "first": "--first"}
    given |= {"track": "--track"}
    for name, said in given.items():
        if getattr(args, name):
            raise UsageError(f"--replay has its own jobs and machines: leave {said} out")
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
        note(f"left out: {counted(len(workload.skipped), 'row')}; the first: {workload.skipped[0]}")


def _show(session: Session, study: Study) -> None:
    from bastion.simulator.report.words import duration, percent

    if session.out.format == "json":
        session.out.json(study.as_json())
        return
    columns: list[Column[Measures]] = [
        Column(title="POLICY", text=lambda each: each.label),
        Column(title="JOBS", text=lambda each: f"{each.ended:,}"),
        Column(title="COMPLETION", text=lambda each: duration(each.jct_s["mean"])),
        Column(title="MEDIAN", text=lambda each: duration(each.jct_s["p50"])),
        Column(title="P99", text=lambda each: duration(each.jct_s["p99"])),
        Column(title="WAITING", text=lambda each: duration(each.wait_s["mean"])),
        Column(title="SLOWDOWN", text=lambda each: f"{each.slowdown['mean']:.2f}"),
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
