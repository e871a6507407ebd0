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
    "a command after --, a launch in a .toml file, a .py script that submits one itself, a Slurm"
    " script (.sbatch .slurm .sh), or an AXLearn job spec (.json)"
)
_DRY_RUN = (
    "print the launch as a file that launch takes, submit nothing; that it would be refused is told"
    " on stderr, with exit code 104"
)
_SHAPING = ("common", "the job", "where", "code")
"""Groups of flags that say what a file says."""


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
        text=f"From {_SOURCES}.",
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
    switch(launch, "--watch", "follow its log, as run does")
    switch(launch, "--dry_run", _DRY_RUN)


def _add_run(verbs: Verbs) -> None:
    run = verbs.add(
        "run",
        submit_and_follow,
        prints=True,
        text=f"From {_SOURCES}.",
        example="bastion run --resources=h100=1 -- python3 train.py",
    )
    run.behind = "COMMAND..."
    add_launch_flags(run)
    switch(run, "--dry_run", _DRY_RUN)
    switch(run, "--stdin", "send what is piped in, text of at most 64 KiB, as its input")


def add_launch_flags(parser: Parser, *, takes_file: bool = True) -> None:
    """Add the flags that describe a launch of one job."""
    meaning = "a file, or a .py script and its arguments"
    parser.add_argument(
        "source",
        nargs="*",
        metavar="FILE",
        help=meaning if takes_file else argparse.SUPPRESS,
    )
    group = parser.add_argument_group(_SHAPING[0])
    text(group, "--resources", "per replica, as h100=2,cpu=4,memory=64GiB", metavar="TYPE=N,...")
    text(group, "--instance_type", "whole machines, as tpu-v4-32, a3-highgpu-8g", metavar="TYPE")
    copies = "equal copies, started together; with a range, as 2-8, it grows and shrinks"
    number_or_range(group, "--replicas", copies, default=1)
    sent = "send this folder and run in it; by default the profile's, or none"
    text(group, "--code", sent, metavar="FOLDER")
    text(group, "--name", "of the job; by default that of the program")
    many(group, "--env", "a variable of its processes", metavar="NAME=TEXT")
    text(group, "--max_runtime", "stop an attempt after 90s, 8h, ...", metavar="TIME")
    text(group, "--array", "run it once for every index, as 0-99, or 0-99%%10", metavar="TASKS")
    many(group, "--sweep", "run it once for every combination, as lr=0.1,0.01", metavar="NAME=V,V")
    several(
        group, "--after", "start once this job succeeded; or JOB:any, JOB:failed", metavar="JOB"
    )
    group = parser.add_argument_group(_SHAPING[1])
    on_machine = "a variable whose value is read on the machine, by default from where admins say"
    many(group, "--secret", on_machine, metavar="NAME[=SOURCE]")
    several(
        group, "--alias", "set the variables of this scheduler too", metavar="clusterfudge|blox"
    )
    switch(group, "--shell", "the command is one shell line")
    text(group, "--grace", "between the notice to stop and the kill, as 60s", metavar="TIME")
    number(group, "--priority", "1 (highest) to 5", default=3)
    switch(group, "--no_borrow", "use the project's own share only: no other project preempts it")
    number(group, "--retries", "restarts after failures; a preemption is not counted", default=0)
    text(
        group,
        "--retry_backoff",
        "before the first retry, by default 30s; at most 1h",
        metavar="TIME",
    )
    words = ("stop_others", "continue")
    others = "what happens to other replicas when one fails; by default they are stopped"
    group.add_argument("--on_failure", choices=words, default="", help=others)
    choice(group, "--success", ("all", "first"), "first: its first replica ends it, as a Ray head")
    switch(group, "--no_resume", "end the job when it is preempted or loses its machine")
    choice(group, "--when_busy", ("queue", "fail"), "fail: refuse it if it cannot start now")
    switch(group, "--hold", "do not start until released")
    several(group, "--notify", "tell this webhook when its state changes", metavar="WEBHOOK")
    occasions = (
        "started, idle, preempted, retried, ended or failed; by default all but the first and last"
    )
    several(group, "--notify_on", occasions, metavar="WHEN")
    number(group, "--at_once", "run at most so many tasks of an array or a sweep at a time")
    number(group, "--max_failures", "cancel the other tasks once so many have failed")
    _end_flags(group)
    _where_flags(parser)
    _code_flags(parser)
    own = [each for title in _SHAPING for each in _group(parser, title)]
    parser.set_defaults(shaping={action.dest: action.default for action in own})
    parser.get_default("shaping")["asked"] = []
    add_foreign_flags(parser)
    group = parser.add_argument_group("submission")
    text(group, "--idempotency_key", "submitting again with the same key gives the same jobs")


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
        "what happens to a hung job; its stacks are in its log",
    )
    signs = "the signs of life that count; by default output,devices,processor"
    text(group, "--signs_of_life", signs, metavar="SIGN,...")
    held = "keep the devices and the folder of a failed job for inspection, as 1h"
    text(group, "--hold_on_failure", held, metavar="TIME")
    text(group, "--on_end", "a shell line, run on every host when it has ended", metavar="LINE")
    text(group, "--on_end_timeout", "how long that may take, by default 60s", metavar="TIME")


def _group(parser: Parser, title: str) -> list[argparse.Action]:
    (group,) = (each for each in parser._action_groups if each.title == title)
    return group._group_actions


def _where_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[2])
    text(group, "--pool", "only in this pool", metavar="NAME")
    text(group, "--cluster", "only in this cluster", metavar="NAME")
    text(group, "--shard", "only in this shard", metavar="NAME")
    several(group, "--hostname", "only on this machine", metavar="NAME")
    same = "all replicas where this label is the same, as cluster or rack; or in one pool"
    text(group, "--same", same, metavar="LABEL")
    switch(group, "--exclusive", "take whole machines, and be charged for all that they have")


def _code_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[3])
    locked = "run in the environment that this lock file of the code names, as requirements.txt"
    text(group, "--python_env", locked, metavar="FILE")
    text(group, "--python_version", "the Python of it; by default the machine's", metavar="3.N")
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
    """Print the checked launch as a file, and what would happen by the bastion's last state."""
    from bastion.client.submit.launch_file import launch_text
    from bastion.client.submit.outlook import outlook_lines
    from bastion.errors import NotFoundError
    from bastion.records.coding.codec import plain

    launch = session.client.checked(_launch_of(session))
    try:
        outlook = session.client.what_if(launch)
    except NotFoundError as error:  # no bastion was ever here, and a launch would wait for one
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
    Return unless JSON is asked for, which would share stdout with what the jobs print.

    Raises:
        UsageError: It is.
    """
    if session.out.format == "json":
        raise UsageError(
            f"{verb} prints what its jobs print, and JSON would be mixed with that",
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
    """The command line, and the file that it names."""
    from bastion.client.submit.provenance import files_at
    from bastion.records.requests.origin import Origin, origin_argv

    return Origin(argv=origin_argv(args.typed), files=files_at(*args.source[:1]))


def _launch_of(session: Session) -> Launch:
    """The launch that the command line describes."""
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
        raise UsageError(f"nothing to run: give {_SOURCES}", hint="bastion launch --help")
    from launch.submission.command import checked_command, with_stdin
    from launch.submission.flags import launch_of

    args.command = with_stdin(checked_command(args), sends=getattr(args, "stdin", False))
    return launch_of(args)


def _launch_of_file(args: argparse.Namespace) -> Launch:
    from pathlib import Path

    from bastion.client.submit.launch_file import read_launch
    from launch.submission.command import left_behind
    from launch.submission.foreign import shaping_of

    (source, *rest) = args.source
    if not source.endswith(".toml") or rest or args.command:
        words = " ".join(args.source)
        if source.endswith((".yaml", ".yml")):
            raise UsageError(
                f"{source!r} is YAML, which nothing here is written in",
                hint=f"a command stands after --: bastion {args.verb_name} --code=. -- COMMAND;"
                " more: bastion help come-from-another-system",
            )
        code = "--code=. " if left_behind(args.source, sends_code=False) else ""
        raise UsageError(
            f"{words!r} is not a .toml file, a .py or .sbatch script, or a .json job spec",
            hint=f"a command stands after --: bastion {args.verb_name} {code}-- {words}",
        )
    if given := shaping_of(args):
        raise UsageError(f"{given}: {source} says that", hint="change the file")
    return read_launch(Path(source))


def _is_script(args: argparse.Namespace) -> bool:
    return bool(args.source) and args.source[0].endswith(".py")
