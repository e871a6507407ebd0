"""Details of jobs: show, why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.job_verb import add_job_verb
from launch.commands.look.code import show_code
from launch.commands.look.use_text import size, used_text
from launch.errors import UsageError
from launch.grammar.parser import Verbs, switch, text
from launch.screen.job_spec import spec_fields, stored
from launch.screen.job_table import GONE, asks_of, id_of, parameters_of, why_of
from launch.screen.notes import note, note_remedy
from launch.screen.render import (
    Column,
    Output,
    counted,
    iso,
    local,
    span,
    write_lines,
)
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import JobView, Why
    from bastion.spec import Job, Launch


_FEW_NUMBERS = 4
"""Most reported numbers that a table of tasks shows unless it is wide."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    show = add_job_verb(verbs, "show", show_jobs, count="+")
    switch(show, "--code", "show the job's code, and what it was submitted from")
    text(show, "--checkout", "write the exact code of the job into a new folder", metavar="FOLDER")
    switch(show, "--tasks", "list the tasks of an array, one per line")
    add_job_verb(verbs, "why", show_why, count="+")


def show_jobs(args: argparse.Namespace) -> int:
    """`bastion show JOB...`."""
    session = Session(args)
    if args.code or args.checkout or args.tasks:
        return _show_part(session)
    found = (session.client.job(name, project=args.project_id) for name in args.job)
    jobs = list({job.id: job for job in found}.values())
    if session.out.format in ("json", "name"):
        specs = {job.id: spec for job in jobs if (spec := _spec_of(session, job)) is not None}
        told = {job: stored(*spec) for job, spec in specs.items()}
        more: dict[str, object] = {"spec": told[jobs[0].id]} if len(jobs) == 1 and told else {}
        session.out.show("jobs", jobs, [], name=id_of, more=more or {"specs": told})
        return exits.OK
    for number, job in enumerate(jobs):
        if number:
            write_lines([""])
        _show_fields(session, job)
    if not all(job.has_ended for job in jobs):
        session.note_absence()
    return exits.OK


def _show_part(session: Session) -> int:
    """Show the code of one job, or the tasks of one array."""
    args = session.args
    if len(args.job) > 1:
        raise UsageError(f"--code, --checkout and --tasks take one job; {len(args.job)} were given")
    (args.job,) = args.job
    return show_code(session) if args.code or args.checkout else show_tasks(session)


def _show_fields(session: Session, job: JobView) -> None:
    out, spec = session.out, _spec_of(session, job)
    out.fields(
        [
            ("job", job.id),
            ("state", out.state(job.state)),
            ("why", why_of(job, has_no_machines=session.has_ended_machines)),
            ("project", job.project),
            ("user", job.user),
            ("launch", job.launch),
            ("resources", asks_of(job)),
            *(() if spec is None else spec_fields(*spec)),
            *((state, f"tasks {indices}") for state, indices in job.ranges.items()),
            ("at a time", str(job.at_once or "")),
            ("parameters", parameters_of(job)),
            ("replicas", job.replicas_text),
            ("priority", str(job.priority)),
            ("class", job.job_class),
            ("machines", ", ".join(job.machines)),
            ("after", ", ".join(job.after)),
            ("submitted", out.moment(job.submitted_at)),
            ("queued since", _queued(job, out)),
            ("started", out.moment(job.started_at) if job.started_at else ""),
            ("waited", job.waited),
            ("expected start", _start(job, session)),
            ("ended", out.moment(job.ended_at) if job.ended_at else ""),
            ("reported", _reported(job.report)),
            ("uses now", _use_now(job, session)),
            ("used", used_text(job.utilisation)),
            ("exit code", "" if job.code is None else str(job.code)),
            ("attempt", str(job.attempt) if job.attempt else ""),
            ("preempted", counted(job.preemptions, "time") if job.preemptions else ""),
            ("as of", "" if job.has_ended else out.time(session.client.queue_as_of())),
        ]
    )


def _queued(job: JobView, out: Output) -> str:
    """Return when it last joined the queue, if it is queued and joined after its submission."""
    at = job.queued_at
    joined_later = job.phase == "queued" and at is not None and at > job.submitted_at
    return out.moment(at) if joined_later else ""


def _reported(numbers: Mapping[str, float]) -> str:
    from bastion.spec.values.quantity import text_of_number

    return " ".join(f"{name}={text_of_number(number)}" for name, number in numbers.items())


def _use_now(job: JobView, session: Session) -> str:
    """Return what a running job uses now; empty if unknown."""
    use = session.client.use(job) if job.machines and not job.has_ended else None
    if use is None:
        return ""
    parts = [f"{use.cores:.1f} cores", size(use.memory_bytes)]
    if use.used is not None and use.least is not None:
        devices = f"its {use.devices} devices" if use.devices > 1 else "its device"
        least = f", the least used {use.least:.0%}" if use.devices > 1 else ""
        parts.insert(
            0, f"{devices} {use.used:.0%}{least}, {size(use.device_memory_bytes)} of their memory"
        )
    return f"{'; '.join(parts)}; as of {session.out.time(use.at)}"


def _spec_of(session: Session, job: JobView) -> tuple[Job, Launch] | None:
    """Return the job as submitted, and its launch; None if deleted or unreadable."""
    from bastion.errors import BastionError

    try:
        launch = session.client.spec(job.id, project=job.project).launch
    except BastionError:
        return None
    is_alone = len(launch.jobs) == 1
    named = (each for each in launch.jobs if is_alone or each.name == job.name)
    return next(((each, launch) for each in named), None)


def show_tasks(session: Session) -> int:
    """`bastion show ARRAY --tasks`."""
    from bastion.client.reader import MAX_RECORDS

    out, client = session.out, session.client
    tasks = client.tasks(session.args.job, project=session.args.project_id)
    columns: list[Column[JobView]] = [
        Column(title="TASK", text=id_of),
        Column(title="STATE", text=lambda task: task.state, is_state=True),
        Column(title="ATTEMPT", text=lambda task: str(task.attempt or "")),
        Column(title="CODE", text=lambda task: "" if task.code is None else str(task.code)),
        Column(title="MACHINES", text=lambda task: ",".join(task.machines)),
        *(_parameter(name) for name in tasks[0].parameters),
        *_reports(tasks),
    ]
    out.show("jobs", tasks, columns, name=id_of)
    if sum(task.has_ended for task in tasks) > MAX_RECORDS and not session.is_quiet:
        note(f"for details of {MAX_RECORDS} tasks or fewer: bastion show {tasks[0].id}-99 --tasks")
    return exits.OK


def _start(of: JobView | Why, session: Session) -> str:
    """Return the expected start and its confidence; empty if unknown or in the past."""
    out, known_at = session.out, session.client.queue_as_of()
    if not of.estimated_at or of.estimated_at <= known_at:
        return ""
    told = f" ({of.confidence_text})" if of.confidence_text else ""
    if out.terminal:
        return f"{local(of.estimated_at)}, in {span(of.estimated_at - known_at)}{told}"
    return iso(of.estimated_at) + told


def _parameter(name: str) -> Column[JobView]:
    return Column(title=name, text=lambda task: str(task.parameters[name]))


def _reports(tasks: Sequence[JobView]) -> list[Column[JobView]]:
    """Return a column for each number that tasks reported; more than a few need `-o wide`."""
    names = sorted({name for task in tasks for name in task.report})
    is_much = len(names) > _FEW_NUMBERS
    return [Column(title=name, text=partial(_number, name), wide=is_much) for name in names]


def _number(name: str, task: JobView) -> str:
    from bastion.spec.values.quantity import text_of_number

    return text_of_number(task.report[name]) if name in task.report else ""


def show_why(args: argparse.Namespace) -> int:
    """`bastion why JOB...`."""
    from bastion.client.look.views import ENDED

    session = Session(args)
    found = (session.client.why(name, project=args.project_id) for name in args.job)
    every = list({why.job: why for why in found}.values())
    if session.out.format in ("json", "name"):
        session.out.show("why", every, [], name=lambda each: each.job)
        return exits.OK
    for why in every:
        _tell_why(session, why)
    waits = [why for why in every if why.state not in ENDED]
    if waits:
        note(f"as of {session.out.time(session.client.queue_as_of())}")
    for kind in dict.fromkeys(why.reason.get("kind") for why in every):
        if kind:
            note(f"more: bastion help {kind}")
    if waits:
        session.note_absence()
    return exits.OK


def _tell_why(session: Session, why: Why) -> None:
    from bastion.client.look.views import ENDED
    from bastion.phrases import after_phrase, state_phrase

    out = session.out
    rest = after_phrase(why.state, why.text)
    if why.state in ("starting", "running") and session.has_ended_machines:
        rest = f": {GONE}"
    lines = [f"{why.job} {out.state(why.state, state_phrase(why.state))}{rest}"]
    if why.quota_problem:
        newest = "the newest quota file is invalid; the last valid one is in force"
        in_force = newest if why.has_quota else "no quota file is in force"
        lines.append(f"{in_force}: {why.quota_problem}")
    if start := _start(why, session):
        lines.append(f"expected start: {start}")
    write_lines([part for line in lines for part in out.prose(line)])
    note_remedy(why.text)
    if why.state in ENDED:
        note(f"it ended {out.time(why.as_of)}; how long it waited: bastion events {why.job}")
