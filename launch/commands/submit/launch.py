"""Submitting: launch and run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.submit.submitted import tell_next, tell_submitted
from launch.errors import UsageError
from launch.grammar.parser import (
    Parser,
    Verbs,
    choice,
    many,
    number,
    number_or_range,
    several,
    switch,
    text,
)
from launch.screen.notes import note
from launch.screen.progress import bar
from launch.screen.render import write_lines
from launch.session import Session
from launch.submission.code import add_bundler_flags
from launch.submission.foreign_flags import add_foreign_flags, wrapped

if TYPE_CHECKING:
    from bastion.client import LaunchHandle
    from bastion.records.requests.origin import Origin
    from bastion.spec import Launch

_SOURCES = (
    "a command after --, a launch file (.toml), a script that submits launches itself (.py), a"
    " Slurm script (.sbatch, .slurm, .sh) or an AXLearn job spec (.json)"
)
_DRY_RUN = (
    "print the launch as a launch file and submit nothing; if it would be refused, say why on"
    " stderr and exit with 104"
)
_SHAPING = ("common", "the job", "where", "code")
"""Groups of flags that describe a job, as a file does."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    if verbs.wants("launch"):
        _add_launch(verbs)
    if verbs.wants("run"):
        _add_run(verbs)


def _add_launch(verbs: Verbs) -> None:
    launch = verbs.add(
        "launch",
        submit,
        prints=True,
        text=f"Takes {_SOURCES}.",
        example="""\
bastion launch --instance_type=tpu-v4-32 -- python3 train.py
bastion launch --resources=h100=2 --code=. -- python3 train.py --lr=0.1
bastion launch --array=0-99%10 -- sh -c 'echo task $BASTION_TASK_INDEX'
bastion launch --sweep=lr=0.1,0.01 --sweep=seed=1,2,3 -- python3 train.py --lr={lr} --seed={seed}
bastion launch spec.toml
bastion launch script.py --size=large
bastion launch job.sbatch -- arguments of the script""",
    )
    launch.behind = "COMMAND..."
    add_launch_flags(launch)
    switch(launch, "--watch", "follow the job's log, as run does")
    switch(launch, "--dry_run", _DRY_RUN)


def _add_run(verbs: Verbs) -> None:
    run = verbs.add(
        "run",
        submit_and_follow,
        prints=True,
        text=f"Takes {_SOURCES}.",
        example="bastion run --resources=h100=1 -- python3 train.py",
    )
    run.behind = "COMMAND..."
    add_launch_flags(run)
    switch(run, "--dry_run", _DRY_RUN)
    switch(run, "--stdin", "send piped input to the job: text of at most 64 KiB")


def add_launch_flags(parser: Parser, *, takes_file: bool = True) -> None:
    """Add the flags that describe a launch of one job."""
    meaning = "a job file, or a .py script and its arguments"
    parser.add_argument(
        "source",
        nargs="*",
        metavar="FILE",
        help=meaning if takes_file else argparse.SUPPRESS,
    )
    _common_flags(parser)
    _job_flags(parser)
    _where_flags(parser)
    _code_flags(parser)
    own = [each for title in _SHAPING for each in _group(parser, title)]
    parser.set_defaults(shaping={action.dest: action.default for action in own})
    parser.get_default("shaping")["asked"] = []
    add_foreign_flags(parser)
    group = parser.add_argument_group("submission")
    text(group, "--idempotency_key", "submitting again with the same key returns the same jobs")


def _common_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[0])
    amounts = "resources per replica, such as h100=2,cpu=4,memory=64GiB"
    text(group, "--resources", amounts, metavar="TYPE=N,...")
    whole = "whole machines of this type, such as tpu-v4-32 or a3-highgpu-8g"
    text(group, "--instance_type", whole, metavar="TYPE")
    copies = (
        "number of identical copies, started together; with a range such as 2-8 the job grows and"
        " shrinks"
    )
    number_or_range(group, "--replicas", copies, default=1)
    sent = "upload this folder and run in it (default: the profile's, or none)"
    text(group, "--code", sent, metavar="FOLDER")
    text(group, "--name", "name of the job (default: the name of the program)")
    many(group, "--env", "set an environment variable", metavar="NAME=TEXT")
    limit = "stop an attempt after this time, such as 90s or 8h"
    text(group, "--max_runtime", limit, metavar="TIME")
    tasks = "run once per index, such as 0-99, or 0-99%%10 for at most 10 at a time"
    text(group, "--array", tasks, metavar="TASKS")
    grid = "run once per combination of values, such as lr=0.1,0.01"
    many(group, "--sweep", grid, metavar="NAME=V,V")
    after = "start after this job succeeds; or JOB:any after it ends, JOB:failed after it fails"
    several(group, "--after", after, metavar="JOB")


def _job_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[1])
    on_machine = (
        "environment variable whose value is read on the machine (default source: the one that the"
        " admins configured)"
    )
    many(group, "--secret", on_machine, metavar="NAME[=SOURCE]")
    theirs = "also set the environment variables of this scheduler"
    several(group, "--alias", theirs, metavar="clusterfudge|blox")
    switch(group, "--shell", "run the command as a shell line")
    grace = "time between the notice to stop and the kill, such as 60s"
    text(group, "--grace", grace, metavar="TIME")
    number(group, "--priority", "priority, 1 (highest) to 5", default=3)
    within = "use only the project's own share, so that no other project preempts the job"
    switch(group, "--no_borrow", within)
    restarts = "number of restarts after failures; preemptions do not count"
    number(group, "--retries", restarts, default=0)
    backoff = "wait before the first retry, doubled each time up to 1h (default: 30s)"
    text(group, "--retry_backoff", backoff, metavar="TIME")
    words = ("stop_others", "continue")
    others = "what happens to the other replicas when one fails (default: they are stopped)"
    group.add_argument("--on_failure", choices=words, default="", help=others)
    first = "first: the job succeeds when its first replica does, such as a Ray head"
    choice(group, "--success", ("all", "first"), first)
    switch(group, "--no_resume", "end the job if it is preempted or loses its machine")
    choice(group, "--when_busy", ("queue", "fail"), "fail: refuse the job if it cannot start now")
    switch(group, "--hold", "do not start until bastion release")
    told = "notify this webhook when the job's state changes"
    several(group, "--notify", told, metavar="WEBHOOK")
    occasions = (
        "when to notify: started, idle, preempted, retried, ended or failed (default: all but"
        " started and failed)"
    )
    several(group, "--notify_on", occasions, metavar="WHEN")
    number(group, "--at_once", "run at most this many tasks of an array or sweep at a time")
    number(group, "--max_failures", "cancel the remaining tasks after this many failures")
    _end_flags(group)


def _end_flags(group: argparse._ArgumentGroup) -> None:
    text(
        group,
        "--idle_timeout",
        "treat the job as hung after this time without a sign of life",
        metavar="TIME",
    )
    choice(
        group,
        "--on_idle",
        ("fail", "report"),
        "what happens to a hung job; its stack traces are in its log",
    )
    signs = "the signs of life that count (default: output,devices,processor)"
    text(group, "--signs_of_life", signs, metavar="SIGN,...")
    held = "keep the devices and folder of a failed job for inspection for this time, such as 1h"
    text(group, "--hold_on_failure", held, metavar="TIME")
    end = "shell line to run on every host after the job's processes have ended"
    text(group, "--on_end", end, metavar="LINE")
    text(group, "--on_end_timeout", "time limit of --on_end (default: 60s)", metavar="TIME")


def _group(parser: Parser, title: str) -> list[argparse.Action]:
    (group,) = (each for each in parser._action_groups if each.title == title)
    return group._group_actions


def _where_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[2])
    text(group, "--pool", "run only in this pool", metavar="NAME")
    text(group, "--cluster", "run only in this cluster", metavar="NAME")
    text(group, "--shard", "run only in this shard", metavar="NAME")
    several(group, "--hostname", "run only on this machine", metavar="NAME")
    same = "place all replicas where this label is the same, such as cluster, rack or pool"
    text(group, "--same", same, metavar="LABEL")
    switch(group, "--exclusive", "take whole machines, and be charged for everything on them")


def _code_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[3])
    locked = "run in the Python environment of this lock file in the code, such as requirements.txt"
    text(group, "--python_env", locked, metavar="FILE")
    version = "Python version of that environment (default: the machine's)"
    text(group, "--python_version", version, metavar="3.N")
    add_bundler_flags(group)


def submit(args: argparse.Namespace) -> int:
    """`bastion launch`."""
    session = Session(args)
    if _is_script(args):
        from launch.commands.submit.script import run_script
        from launch.submission.foreign import shaping_of

        return run_script(session, given=shaping_of(args))
    if args.dry_run:
        return _foresee(session)
    if args.watch:
        _refuse_json(session, "launch --watch")
    handle = submitted(session)
    tell_submitted(session, handle, following=args.watch)
    if args.watch:
        from launch.commands.submit.followed import follow

        return follow(session, handle)
    tell_next(session, handle)
    return exits.OK


def _foresee(session: Session) -> int:
    """Print the checked launch as a file, and what would happen, by the bastion's last state."""
    from bastion.client.submit.launch_file import launch_text
    from bastion.client.submit.outlook import outlook_lines
    from bastion.errors import NotFoundError
    from bastion.records.coding.codec import plain

    launch = session.client.checked(_launch_of(session))
    try:
        outlook = session.client.what_if(launch)
    except NotFoundError as error:  # no bastion has run here yet, so a launch would wait for one
        foreseen, code = [error.message], exits.OK
    else:
        foreseen = outlook_lines(outlook, session.out.now)
        code = exits.REFUSED if outlook.problems or outlook.refused else exits.OK
    match session.out.format:
        case "json":
            session.out.json({"launch": plain(launch), "outlook": foreseen})
        case "name":
            write_lines([launch.name])
        case _:
            write_lines([launch_text(launch).rstrip("\n")])
    if not session.is_quiet:
        for line in foreseen:
            note(line)
    return code


def _refuse_json(session: Session, verb: str) -> None:
    """
    Refuse JSON for a verb that prints the output of jobs to the same stdout.

    Raises:
        UsageError: JSON is the output format.
    """
    if session.out.format == "json":
        raise UsageError(
            f"{verb} prints the output of its jobs, which cannot be mixed with JSON",
            hint="bastion launch --json, then bastion logs JOB -f --exit",
        )


def submit_and_follow(args: argparse.Namespace) -> int:
    """`bastion run`."""
    from launch.commands.submit.followed import follow

    session = Session(args)
    if _is_script(args):
        from launch.commands.submit.script import not_followed

        raise not_followed(*args.source, *(args.command or ()))
    if args.dry_run:
        return _foresee(session)
    _refuse_json(session, "run")
    handle = submitted(session)
    tell_submitted(session, handle, following=True)
    return follow(session, handle)


def submitted(session: Session) -> LaunchHandle:
    """Submit the launch that the command line describes."""
    args = session.args
    with bar(shown=not session.is_quiet, is_bytes=True) as draw:
        return session.client.launch(
            _launch_of(session),
            idempotency_key=args.idempotency_key,
            origin=_origin(args),
            report=lambda now: draw(now.step, now.done, now.total),
        )


def _origin(args: argparse.Namespace) -> Origin:
    """Return the command line and the file that it names."""
    from bastion.client.submit.open_secrets import without_secrets
    from bastion.client.submit.provenance import files_at
    from bastion.records.requests.origin import Origin, origin_argv

    argv = origin_argv(without_secrets(args.typed))
    return Origin(argv=argv, files=files_at(*args.source[:1]))


def _launch_of(session: Session) -> Launch:
    """Return the launch that the command line describes."""
    args = session.args
    if args.wrap:
        args.command = wrapped(args)
    if args.source:
        from launch.submission.flags import beside
        from launch.submission.foreign import foreign_launch, is_foreign

        if is_foreign(args.source[0]):
            return beside(foreign_launch(session), args)
        return _launch_of_file(args)
    if not args.command:
        raise UsageError(
            f"nothing to run: give {_SOURCES}", hint=f"bastion {args.verb_name} --help"
        )
    from launch.submission.command import checked_command, with_stdin
    from launch.submission.flags import launch_of, name_from

    args.command, sends = checked_command(args), getattr(args, "stdin", False)
    if sends:
        args.name = args.name or name_from(args.command)
    if sends and args.shell:
        args.command, args.shell = ["/bin/sh", "-c", " ".join(args.command)], False
    args.command = with_stdin(args.command, sends=sends)
    return launch_of(args)


def _launch_of_file(args: argparse.Namespace) -> Launch:
    from pathlib import Path

    from bastion.client.submit.launch_file import read_launch
    from launch.submission.command import left_behind
    from launch.submission.foreign import shaping_of

    (source, *rest) = args.source
    if source.endswith(".toml") and (behind := [*rest, *(args.command or ())]):
        from shlex import join

        line = join(behind)
        raise UsageError(
            f"{source} has its own commands, and takes no words after it, but {line} was given",
            hint=f"change the command in the file, or omit the file: bastion {args.verb_name} --"
            f" {line}",
        )
    if not source.endswith(".toml"):
        words = " ".join(args.source)
        if source.endswith((".yaml", ".yml")):
            raise UsageError(
                f"{source!r} is a YAML file, which Bastion cannot read",
                hint=f"give a command after --: bastion {args.verb_name} --code=. -- COMMAND;"
                " more: bastion help come-from-another-system",
            )
        code = "--code=. " if left_behind(args.source, sends_code=False) else ""
        raise UsageError(
            f"{words!r} is not a .toml file, a .py or .sbatch script, or a .json job spec",
            hint=f"give a command after --: bastion {args.verb_name} {code}-- {words}",
        )
    if given := shaping_of(args):
        raise UsageError(f"{given}: {source} sets this", hint="change the file instead")
    return read_launch(Path(source))


def _is_script(args: argparse.Namespace) -> bool:
    return bool(args.source) and args.source[0].endswith(".py")
