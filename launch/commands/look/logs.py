"""Logs: the output of a job's processes, byte for byte."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError, named
from launch.grammar.parser import Verbs, choice, number, switch, text
from launch.screen.followed import Attempts, Teller, write
from launch.screen.notes import note
from launch.screen.printout import Printout
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import Chunk, JobView, Wanted


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    logs = verbs.add(
        "logs",
        show,
        text="Output is printed byte for byte; that of several jobs or tasks line by line. A launch"
        " stands for all of its jobs.",
        example="""\
bastion logs trainer -f
bastion logs trainer --replica=2 --tail=100
bastion logs sweep.17 -f
bastion logs sweep --grep=Error
bastion logs base wide deep -f""",
    )
    logs.add_argument(
        "job", nargs="+", metavar="JOB", help="a job id or name, or the beginning of an id"
    )
    switch(logs, "-f --follow", "keep printing new output until the job ends")
    number(logs, "--replica", "print only this replica")
    number(logs, "--process", "print only this process of each replica")
    text(logs, "--attempt", "a number, or all (default: the newest attempt)", metavar="N")
    number(logs, "-n --tail", "print only the last N lines of each process")
    text(
        logs, "--since", "print only output of this last period, such as 90s or 2h", metavar="TIME"
    )
    text(logs, "--grep", "print only lines that match", metavar="REGEX")
    prefix = "prefix each line with its replica and process"
    choice(logs, "--prefix", ("auto", "always", "never"), prefix)
    text(logs, "--download", "write one file per process into this folder", metavar="FOLDER")
    switch(logs, "--exit", "wait until the job ends, and exit with its exit code")
    switch(logs, "--raw", "print control characters to a terminal unchanged")


def show(args: argparse.Namespace) -> int:
    """`bastion logs JOB...`."""
    session = Session(args)
    client = session.client
    jobs, is_one = _named(session)
    if not is_one:
        return _show_several(session, jobs)
    (job,) = jobs
    follows = args.follow or args.exit  # its exit code comes after all of its output
    out, wanted = Printout(client.clock, raw=args.raw), wanted_of(session)
    tell = Teller(out, quiet=False, waits_only=True)
    client.check_log(jobs, wanted)
    chunks = client.following.of(job, wanted, follow=follows, tell=tell)
    if args.download:
        _download(chunks, Path(args.download))
        return _exit_code(session, job) if args.exit else exits.OK
    several = (job.replicas > 1 or job.replica_range is not None) and args.replica is None
    prefix = args.prefix == "always" or (args.prefix == "auto" and several and sys.stdout.isatty())
    tells = sys.stdout.isatty()
    if tells and not follows and not job.attempt and not job.has_ended:
        told = f"{job.id} is {job.state} and has no output before it starts{_because(job)}"
        note(told, is_prose=True)
        tells = False
    try:
        attempts = Attempts(out, all_of=wanted.attempt == 0)
        write(chunks, out, prefix=prefix, several=several, attempts=attempts)
    except KeyboardInterrupt:
        out.end_line()
        note(f"detached; {job.id} continues; to follow it again: bastion logs {job.id} -f")
        return exits.DETACHED
    if tells and out.is_empty:
        picks = args.grep or args.since
        why = _because(job, "; ") if not picks else ""
        told = f"nothing {'matches' if picks else 'was printed'}{why if job.has_ended else ' yet'}"
        note(told, is_prose=True)
    return _exit_code(session, job) if args.exit else exits.OK


def _exit_code(session: Session, job: JobView) -> int:
    """Return the exit code of a job once it has ended."""
    return exits.of_jobs(session.client.watch.wait({job.id: job.project}))


def _because(job: JobView, between: str = ": ") -> str:
    return f"{between}{job.text}" if job.text else ""


def _named(session: Session) -> tuple[Sequence[JobView], bool]:
    """Return the jobs and tasks that were named, and whether a single job was."""
    client, names = session.client, session.args.job
    found: dict[str, JobView] = {}
    is_one = len(names) == 1
    for name in names:
        for job in _jobs(session, name):
            tasks: Sequence[JobView] = ()
            if job.is_array:
                tasks = client.tasks(job.id, project=job.project, needed=False)
            is_one = is_one and not tasks
            found |= {each.id: each for each in tasks or (job,)}
    return tuple(found.values()), is_one and len(found) == 1


def _jobs(session: Session, name: str) -> Sequence[JobView]:
    """Return the job with this name, or the named tasks, or all jobs of the launch."""
    from bastion.errors import NotFoundError, SpecError
    from bastion.spec.arrays.task import tasks_named

    client, project = session.client, session.args.project_id
    part = tasks_named(name)
    if part is not None and len(part[1]) > 1:
        tasks = client.tasks(name, project=project, needed=False)
        if tasks:
            return tasks
    try:
        return (client.job(name, project=project),)
    except (NotFoundError, SpecError):
        return client.all_named(name, project=project)


def _show_several(session: Session, jobs: Sequence[JobView]) -> int:
    """Print the logs of several jobs or tasks one after the other, each line with its origin."""
    args = session.args
    named = " ".join(args.job)
    if args.download or args.exit:
        raise UsageError(
            f"--download and --exit take one job; {named} names {len(jobs)}",
            hint=f"bastion logs {jobs[0].id} --exit",
        )
    wanted = wanted_of(session)
    session.client.check_log(jobs, wanted)
    out = Printout(session.client.clock, raw=args.raw)
    names, prefix = _origins(jobs), args.prefix != "never"
    tell = Teller(out, quiet=any(job.task is not None for job in jobs), waits_only=True)
    attempts = Attempts(out, all_of=wanted.attempt == 0)
    read = session.client.following.of_tasks(jobs, wanted, follow=args.follow, tell=tell)
    try:
        for chunks in read:
            write(chunks, out, prefix=prefix, several=True, of=names, attempts=attempts)
    except KeyboardInterrupt:
        out.end_line()
        they = "they continue" if len(args.job) > 1 else f"{named} continues"
        note(f"detached; {they}; to follow again: bastion logs {named} -f")
        return exits.DETACHED
    return exits.OK


def _origins(jobs: Sequence[JobView]) -> dict[str, str]:
    """Return what precedes each line: the task of an array, else the name, or the id if shared."""
    if len({job.launch for job in jobs}) == 1 and jobs[0].task is not None:
        return {job.id: f"{job.task}/" for job in jobs}
    named = Counter(job.name for job in jobs)
    return {job.id: f"{job.name if named[job.name] == 1 else job.id}/" for job in jobs}


def wanted_of(session: Session) -> Wanted:
    """
    Return the log filter that the flags describe; `--since` counts back on the store's clock.

    Raises:
        UsageError: `--attempt` is not an attempt's number.
        SpecError: Another flag is wrong.
    """
    from bastion.client import Wanted
    from bastion.spec import seconds_of

    args, words = session.args, {"": None, "all": 0}
    if args.attempt not in words and not args.attempt.isdecimal():
        raise UsageError(f"--attempt: {args.attempt!r} is not an attempt; must be a number or all")
    since = None
    if args.since:
        since = session.client.store_now() - seconds_of("--since", args.since)
    return Wanted(
        replica=args.replica,
        process=args.process,
        attempt=words[args.attempt] if args.attempt in words else int(args.attempt),
        tail=args.tail,
        since=since,
        grep=args.grep,
    )


def _download(chunks: Iterator[Chunk], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sizes: dict[Path, int] = {}
    for chunk in chunks:
        at = chunk.stream
        path = folder / f"a{at.attempt}-r{at.replica}-h{at.host}-p{at.process}.log"
        with named(path), path.open("ab" if path in sizes else "wb") as file:
            sizes[path] = sizes.get(path, 0) + file.write(chunk.data)
    for path, size in sizes.items():
        print(path)
        note(f"{path}: {size} bytes")
