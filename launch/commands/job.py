"""Jobs: list show why events wait, cancel hold release prioritize update."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.code import show_code
from launch.commands.submit import tell_ended
from launch.errors import UsageError, note
from launch.parser import Parser, Run, Verbs, many, number, switch, text
from launch.progress import bar
from launch.render import (
    STATE_COLORS,
    Column,
    Output,
    amounts,
    clip,
    counted,
    iso,
    span,
    write_lines,
)
from launch.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bastion.client import EventView, JobView, Why


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    jobs = verbs.add(
        "list",
        show_list,
        "list active jobs: running first, then the queue",
        aliases=("ls", "queue"),
        prints=True,
        text="Where --project_id or --user_id is given, only theirs.",
        example="bastion list --state=running\nbastion list -q | xargs bastion cancel",
    )
    many(jobs, "--state", "only in this state", metavar="STATE", words=list(STATE_COLORS))
    switch(jobs, "--mine", "only my own")
    switch(jobs, "-a --all", "finished jobs too")
    switch(jobs, "--tasks", "tasks of arrays too that were admitted, each on a line of its own")
    number(jobs, "--limit", "at most so many finished jobs", default=50)
    show = _add(verbs, "show", show_one, "show everything known of a job")
    switch(show, "--code", "what code it runs, and what it was submitted from")
    text(show, "--checkout", "write its exact code into a new folder", metavar="FOLDER")
    switch(show, "--tasks", "of an array: every task on a line of its own")
    _add(verbs, "why", show_why, "say why a job is in its state, and what would change it")
    _add(verbs, "events", show_events, "show what happened to a job, oldest first", count="?")
    wait = _add(verbs, "wait", wait_for, "wait until jobs have ended; exit as they did", count="+")
    text(wait, "--timeout", "as 90s or 2h; then exit 124", metavar="TIME")
    _add(verbs, "cancel", cancel, "end jobs, or all jobs of a launch", count="+")
    _add(verbs, "hold", hold, "keep waiting jobs from starting", count="+")
    _add(
        verbs,
        "release",
        release,
        "let held jobs start, and what is held of a failure go",
        count="+",
    )
    prioritize = _add(
        verbs,
        "prioritize",
        set_priority,
        "give jobs another priority",
        count="+",
        flags=" --priority=1",
    )
    prioritize.add_argument(
        "--priority", type=int, required=True, metavar="N", help="1 (highest) to 5"
    )
    update = _add(
        verbs,
        "update",
        change,
        "change jobs that wait or run",
        count="+",
        flags=" --max_runtime=8h",
    )
    update.add_argument("--priority", type=int, metavar="N", help="1 (highest) to 5")
    update.add_argument("--max_runtime", metavar="TIME", help="of an attempt, as 90s, 8h")


def _add(
    verbs: Verbs, name: str, run: Run, summary: str, *, count: str | None = None, flags: str = ""
) -> Parser:
    """A verb about one job, or as many as `count` says."""
    example = f"bastion {name} trainer{flags}"
    parser = verbs.add(name, run, summary, prints=True, example=example)
    parser.add_argument(
        "job", nargs=count, metavar="JOB", help="an id, its unique beginning, or a name"
    )
    return parser


def show_list(args: argparse.Namespace) -> int:
    """`bastion list`."""
    session = Session(args)
    client = session.client
    finished = args.limit if args.all else 0
    jobs = client.jobs(
        project=args.project_id,
        user=client.user if args.mine else args.user_id,
        states=args.state,
        finished=finished,
        tasks=args.tasks,
    )
    as_of = client.queue_as_of()
    session.out.show(
        "jobs", jobs, _columns(session.out, as_of, jobs), name=_id, more={"as_of": iso(as_of)}
    )
    if not session.is_quiet:
        note(f"{counted(len(jobs), 'job')} as of {session.out.time(as_of)}")
    return exits.OK


def _columns(out: Output, as_of: float, jobs: Sequence[JobView]) -> list[Column[JobView]]:
    parameters = Column(title="PARAMETERS", text=_parameters)
    return [
        Column(title="JOB", text=_id),
        Column(title="STATE", text=lambda job: job.state, is_state=True),
        Column(title="PROJECT", text=lambda job: job.project),
        Column(title="USER", text=lambda job: job.user),
        Column(title="ASKS", text=_asks),
        *([parameters] if any(job.parameters for job in jobs) else ()),
        Column(title="AGE", text=lambda job: span((job.ended_at or as_of) - job.submitted_at)),
        Column(title="PRIORITY", text=lambda job: str(job.priority), wide=True),
        Column(title="CLASS", text=lambda job: job.job_class, wide=True),
        Column(title="ATTEMPT", text=lambda job: str(job.attempt), wide=True),
        Column(title="MACHINES", text=lambda job: ",".join(job.machines), wide=True),
        Column(title="WHY", text=lambda job: job.text if out.format == "wide" else clip(job.text)),
    ]


def _id(job: JobView) -> str:
    return job.id


def _asks(job: JobView) -> str:
    asked = amounts(job.units)
    return f"{asked} a task" if job.is_array and asked else asked


def show_one(args: argparse.Namespace) -> int:
    """`bastion show JOB`."""
    session = Session(args)
    if args.code or args.checkout:
        return show_code(session)
    if args.tasks:
        return show_tasks(session)
    job = session.client.job(args.job, project=args.project_id)
    if session.out.format in ("json", "name"):
        session.out.show("jobs", [job], [], name=_id)
        return exits.OK
    out = session.out
    out.fields(
        [
            ("job", job.id),
            ("state", out.state(job.state)),
            ("why", job.text),
            ("project", job.project),
            ("user", job.user),
            ("launch", job.launch),
            ("asks", _asks(job)),
            *((state, f"tasks {indices}") for state, indices in job.ranges.items()),
            ("at once", str(job.at_once or "")),
            ("parameters", _parameters(job)),
            ("replicas", str(job.replicas)),
            ("priority", str(job.priority)),
            ("class", job.job_class),
            ("machines", ", ".join(job.machines)),
            ("after", ", ".join(job.after)),
            ("submitted", out.time(job.submitted_at)),
            ("started", out.time(job.started_at) if job.started_at else ""),
            ("starts about", _start(job)),
            ("ended", out.time(job.ended_at) if job.ended_at else ""),
            ("reported", " ".join(f"{name}={number:g}" for name, number in job.report.items())),
            ("exit code", "" if job.code is None else str(job.code)),
            ("attempt", str(job.attempt) if job.attempt else ""),
            ("preempted", f"{job.preemptions} times" if job.preemptions else ""),
            ("as of", out.time(job.as_of)),
        ]
    )
    return exits.OK


def _parameters(job: JobView) -> str:
    return " ".join(f"{name}={setting}" for name, setting in job.parameters.items())


def show_tasks(session: Session) -> int:
    """`bastion show ARRAY --tasks`."""
    from bastion.client.reader import MAX_RECORDS

    out, client = session.out, session.client
    tasks = client.tasks(session.args.job, project=session.args.project_id)
    columns: list[Column[JobView]] = [
        Column(title="TASK", text=_id),
        Column(title="STATE", text=lambda task: task.state, is_state=True),
        Column(title="ATTEMPT", text=lambda task: str(task.attempt or "")),
        Column(title="CODE", text=lambda task: "" if task.code is None else str(task.code)),
        Column(title="MACHINES", text=lambda task: ",".join(task.machines)),
        *(_parameter(name) for name in tasks[0].parameters),
    ]
    out.show("jobs", tasks, columns, name=_id)
    if sum(task.has_ended for task in tasks) > MAX_RECORDS and not session.is_quiet:
        note(f"more is told of {MAX_RECORDS} tasks or fewer: bastion show {tasks[0].id}-99 --tasks")
    return exits.OK


def _start(of: JobView | Why) -> str:
    """When it will probably start, and how sure that is; empty where nobody knows."""
    if not of.estimated_at:
        return ""
    return iso(of.estimated_at) + (f" ({of.sure_text})" if of.sure_text else "")


def _parameter(name: str) -> Column[JobView]:
    return Column(title=name, text=lambda task: str(task.parameters[name]))


def show_why(args: argparse.Namespace) -> int:
    """`bastion why JOB`."""
    from bastion.job import state_phrase

    session = Session(args)
    why = session.client.why(args.job, project=args.project_id)
    out = session.out
    if out.format == "json":
        out.show("why", [why], [], name=lambda each: each.job)
        return exits.OK
    lines = [f"{why.job} {out.state(why.state, state_phrase(why.state))}: {why.text}"]
    if why.quota_problem:
        lines.append(
            f"the newest quota file is not in force, the last good one is: {why.quota_problem}"
        )
    if why.estimated_at:
        lines.append(f"starts about {_start(why)}")
    write_lines(lines)
    note(f"as of {out.time(why.as_of)}")
    return exits.OK


def show_events(args: argparse.Namespace) -> int:
    """`bastion events [JOB]`."""
    session = Session(args)
    out = session.out
    columns: list[Column[EventView]] = [
        Column(title="AT", text=lambda event: iso(event.at)),
        Column(title="JOB", text=lambda event: event.job),
        Column(title="WHAT", text=lambda event: event.what),
        Column(title="TEXT", text=lambda event: event.text),
    ]
    events = session.client.events(args.job or "", project=args.project_id)
    out.show("events", events, columns, name=lambda event: str(event.number))
    return exits.OK


def wait_for(args: argparse.Namespace) -> int:
    """`bastion wait JOB...`."""
    from bastion.spec import seconds_of

    session = Session(args)
    timeout_s = None if not args.timeout else seconds_of("--timeout", args.timeout)
    try:
        with bar(shown=not session.is_quiet) as draw:
            jobs = session.client.wait(
                args.job,
                timeout_s=timeout_s,
                project=args.project_id,
                report=lambda done, total: draw("waiting", done, total),
            )
    except KeyboardInterrupt:
        note("stopped waiting; the jobs go on")
        return exits.DETACHED
    out = session.out
    out.show("jobs", jobs, _columns(out, out.now, jobs), name=_id)
    for job in jobs:
        if not job.has_ended and not session.is_quiet:
            tell_ended(session, job)
    return exits.of_jobs(jobs)


def cancel(args: argparse.Namespace) -> int:
    """`bastion cancel JOB...`."""
    session = Session(args)
    return _changed(session, session.client.cancel(*args.job, project=args.project_id), "cancelled")


def hold(args: argparse.Namespace) -> int:
    """`bastion hold JOB...`."""
    session = Session(args)
    return _changed(session, session.client.hold(*args.job, project=args.project_id), "held")


def release(args: argparse.Namespace) -> int:
    """`bastion release JOB...`."""
    session = Session(args)
    return _changed(session, session.client.release(*args.job, project=args.project_id), "released")


def set_priority(args: argparse.Namespace) -> int:
    """`bastion prioritize JOB... --priority=N`."""
    session = Session(args)
    jobs = session.client.prioritize(*args.job, priority=args.priority, project=args.project_id)
    return _changed(session, jobs, f"given priority {args.priority}")


def change(args: argparse.Namespace) -> int:
    """`bastion update JOB... --priority=N --max_runtime=TIME`."""
    if args.priority is None and args.max_runtime is None:
        raise UsageError("nothing to change: give --priority or --max_runtime")
    session = Session(args)
    jobs = session.client.update(
        *args.job,
        priority=args.priority,
        max_runtime=args.max_runtime,
        project=args.project_id,
    )
    return _changed(session, jobs, "updated")


def _changed(session: Session, jobs: tuple[str, ...], what: str) -> int:
    out = session.out
    if not jobs:
        note("nothing to do: all of them have ended")
    columns: list[Column[str]] = [
        Column(title="JOB", text=str),
        Column(title="DONE", text=lambda _: what),
    ]
    if out.format == "json":
        out.json({"jobs": list(jobs), "done": what})
    elif jobs:
        out.show("jobs", jobs, columns, name=str)
    return exits.OK
