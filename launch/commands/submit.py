"""Submitting: launch and run."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from launch import exits
from launch.code import add_bundler_flags
from launch.commands.logs import write
from launch.errors import UsageError, note
from launch.outlook import outlook_lines
from launch.parser import Parser, Verbs, choice, many, number, switch, text
from launch.printout import Printout
from launch.progress import bar
from launch.render import span
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import JobView, LaunchHandle
    from bastion.records.origin import Origin
    from bastion.spec import Launch

_SOURCES = (
    "a command after --, a launch in a .toml file, a .py script that submits one itself, a Slurm"
    " script (.sbatch .slurm .sh), or an AXLearn job spec (.json)"
)
_SHAPING = ("the job", "where", "code")
"""Groups of flags that say what a file says."""
_SPAN = re.compile(r"\d+(\.\d+)?[smhd]\b( \d+[smhd]\b)?")
"""How long something takes or is ago; that time goes by is no news."""
_LOOK_S = {True: 0.5, False: 4.0}
"""How long to look for the first reason after a submit, on a folder and on a cloud store."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    launch = verbs.add(
        "launch",
        submit,
        "submit jobs",
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
    _flags(launch)
    switch(launch, "--watch", "then follow, as run does")
    switch(launch, "--dry_run", "print the checked spec and submit nothing")
    run = verbs.add(
        "run",
        submit_and_follow,
        "submit, follow the log, exit with the job's own code",
        prints=True,
        text=f"From {_SOURCES}.",
        example="bastion run --resources=h100=1 -- python3 train.py",
    )
    _flags(run)


def _flags(parser: Parser) -> None:
    parser.add_argument(
        "source",
        nargs="*",
        metavar="FILE",
        help="a file, or a .py script and its arguments",
    )
    group = parser.add_argument_group(_SHAPING[0])
    text(group, "--name", "by default the program's")
    text(group, "--instance_type", "as tpu-v4-32, a3-highgpu-8g", metavar="TYPE")
    text(group, "--resources", "of one replica, as h100=2,cpu=4,memory=64GiB", metavar="TYPE=N,...")
    number(group, "--replicas", "equal copies, started together or not at all", default=1)
    many(group, "--env", "a variable of its processes", metavar="NAME=TEXT")
    on_machine = "a variable whose value is read on the machine, by default from where admins say"
    many(group, "--secret", on_machine, metavar="NAME[=SOURCE]")
    many(group, "--alias", "name variables as this scheduler too", metavar="clusterfudge|blox")
    switch(group, "--shell", "the command is one shell line")
    text(group, "--max_runtime", "stop an attempt after 90s, 8h, ...", metavar="TIME")
    text(group, "--grace", "from the notice to the kill, as 60s", metavar="TIME")
    number(group, "--priority", "1 (highest) to 5", default=3)
    number(group, "--retries", "after failures; resuming after a preemption is free", default=0)
    text(group, "--retry_backoff", "before the first retry, by default 30s", metavar="TIME")
    words = ("stop_others", "continue")
    others = "what becomes of other replicas when one fails; by default they are stopped"
    group.add_argument("--on_failure", choices=words, default="", help=others)
    switch(group, "--no_resume", "end when preempted, or when its machine is lost")
    choice(group, "--when_busy", ("queue", "fail"), "fail: start in this cycle or be refused")
    switch(group, "--hold", "do not start until released")
    many(group, "--after", "start once this job succeeded; or JOB:any, JOB:failed", metavar="JOB")
    many(group, "--notify", "tell this webhook when its state changes", metavar="WEBHOOK")
    occasions = (
        "started, preempted, retried, ended or failed; by default all but the first and last"
    )
    many(group, "--notify_on", occasions, metavar="WHEN")
    text(group, "--array", "run it once for every index, as 0-99, or 0-99%%10", metavar="TASKS")
    many(group, "--sweep", "run it once for every combination, as lr=0.1,0.01", metavar="NAME=V,V")
    number(group, "--at_once", "of the tasks of an array or a sweep, so many at a time")
    number(group, "--max_failures", "cancel the other tasks once so many have failed")
    _end_flags(group)
    _where_flags(parser)
    _code_flags(parser)
    own = [each for title in _SHAPING for each in _group(parser, title)]
    parser.set_defaults(shaping={action.dest: action.default for action in own})
    group = parser.add_argument_group("submission")
    text(group, "--idempotency_key", "submitting again with the same key gives the same jobs")


def _end_flags(group: argparse._ArgumentGroup) -> None:
    text(group, "--idle_timeout", "taken for hung after that long without a sign", metavar="TIME")
    choice(group, "--on_idle", ("fail", "report"), "what becomes of it; its stacks are in its log")
    signs = "what shows that it lives; by default any of output,devices,processor"
    text(group, "--signs_of_life", signs, metavar="SIGN,...")
    held = "keep devices and folder of a job that failed for good, to look at, as 1h"
    text(group, "--hold_on_failure", held, metavar="TIME")
    text(group, "--on_end", "a shell line, run on every host when it has ended", metavar="LINE")
    text(group, "--on_end_timeout", "how long that may take, by default 60s", metavar="TIME")


def _group(parser: Parser, title: str) -> list[argparse.Action]:
    (group,) = (each for each in parser._action_groups if each.title == title)
    return group._group_actions


def _where_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[1])
    text(group, "--pool", "only in this pool", metavar="NAME")
    text(group, "--cluster", "only in this cluster", metavar="NAME")
    text(group, "--shard", "only in this shard", metavar="NAME")
    many(group, "--hostname", "only on this machine", metavar="NAME")
    switch(group, "--exclusive", "take, and pay for, whole machines")


def _code_flags(parser: Parser) -> None:
    group = parser.add_argument_group(_SHAPING[2])
    locked = "run in the environment that this lock file of the code names, as requirements.txt"
    text(group, "--python_env", locked, metavar="FILE")
    text(group, "--python_version", "of that environment; by default the machine's", metavar="3.N")
    none = "bundle and send it; by default none: the machine must have what the command runs"
    text(group, "--code", none, metavar="FOLDER")
    add_bundler_flags(group)


def submit(args: argparse.Namespace) -> int:
    """`bastion launch`."""
    session = Session(args)
    if _is_script(args):
        return _run_script(session)
    if args.dry_run:
        return _foresee(session)
    handle = _submitted(session)
    if args.watch:
        return _follow(session, handle)
    tell_next(session, handle)
    return exits.OK


def _foresee(session: Session) -> int:
    """Print the checked spec, and what would happen where a bastion has left its state."""
    from bastion.errors import NotFoundError
    from bastion.records.codec import plain

    launch = session.client.checked(_launch_of(session))
    try:
        foreseen = outlook_lines(session.client.what_if(launch), session.out.now)
    except NotFoundError as error:
        foreseen = [error.message]
    session.out.json({"launch": plain(launch), "outlook": foreseen})
    if not session.is_quiet:
        for line in foreseen:
            note(line)
    return exits.OK


def submit_and_follow(args: argparse.Namespace) -> int:
    """`bastion run`."""
    session = Session(args)
    if _is_script(args):
        raise UsageError("run: a script submits for itself", hint="bastion launch SCRIPT")
    return _follow(session, _submitted(session))


def _submitted(session: Session) -> LaunchHandle:
    args = session.args
    with bar(shown=not session.is_quiet, is_bytes=True) as draw:
        handle = session.client.launch(
            _launch_of(session),
            idempotency_key=args.idempotency_key,
            origin=_origin(args),
            report=lambda now: draw(now.step, now.done, now.total),
        )
    following = args.verb_name == "run" or args.watch
    tell_submitted(session, handle, following=following)
    return handle


def _origin(args: argparse.Namespace) -> Origin:
    """The command line, and the file that it names."""
    from bastion.client.submit.provenance import files_at
    from bastion.records.origin import Origin, origin_argv

    return Origin(argv=origin_argv(args.typed), files=files_at(*args.source[:1]))


def tell_submitted(session: Session, handle: LaunchHandle, *, following: bool) -> None:
    """Print what was submitted, and what one should look at in its code."""
    for warning in handle.warnings:
        note(f"warning: {warning}")
    if session.out.format == "json":
        session.out.json({"launch": handle.id, "project": handle.project, "jobs": handle.jobs})
    elif not following:
        print("\n".join(handle.jobs), flush=True)


def tell_next(session: Session, handle: LaunchHandle) -> None:
    """Why the first job waits or where it runs, and what one types next."""
    from bastion.job import state_phrase

    if session.is_quiet:
        return
    client = session.client
    until = client.clock.monotonic() + _LOOK_S[client.is_local]
    first = handle.status().jobs[0]
    while not first.text and client.clock.monotonic() < until:
        client.clock.sleep(client.poll_s)
        first = handle.status().jobs[0]
    why = first.text or "taken; bastion why will say more soon"
    note(f"{first.id} {state_phrase(first.state)}: {why}")
    printed = f"{first.id}.{_some_task(handle)}" if handle.is_array else first.id
    for verb, meaning in (
        (f"why {first.id}", "why it waits, or where it runs"),
        (f"logs {printed} -f", "what it prints"),
        (f"cancel {first.id}", "end it"),
    ):
        note(f"  bastion {verb:<40} # {meaning}")


def _some_task(handle: LaunchHandle) -> int:
    """The index of its first task."""
    return next((task.task for task in handle.tasks if task.task is not None), 0)


def _wait_for_tasks(session: Session, handle: LaunchHandle) -> int:
    """Tell how far the tasks of an array are until all have ended; Ctrl-C detaches."""
    from bastion.client.look.views import ENDED
    from bastion.errors import StoreError

    if not session.is_quiet:
        note(f"waiting for the tasks of {handle.id}; Ctrl-C detaches and does not stop them")
    tell = Teller(Printout(session.client.clock), quiet=session.is_quiet, states_only=True)
    try:
        with bar(shown=not session.is_quiet) as draw:

            def look(_: int, __: int) -> None:
                with suppress(StoreError):
                    array = handle.status().jobs[0]
                    tell(array)
                    ended = sum(n for state, n in array.counts.items() if state in ENDED)
                    draw("tasks", ended, sum(array.counts.values()))

            places = {handle.id: handle.project}
            (array,) = session.client.watch.wait(places, report=look)
    except KeyboardInterrupt:
        note(f"detached; {handle.id} goes on, bastion wait {handle.id} comes back to it")
        return exits.DETACHED
    tell_ended(session, array)
    return exits.of_job(array)


def _follow(session: Session, handle: LaunchHandle) -> int:
    """Follow the logs of all jobs, then wait for all; Ctrl-C detaches."""
    if handle.is_array:
        return _wait_for_tasks(session, handle)
    client, args, out = session.client, session.args, Printout(session.client.clock)
    several = len(handle.jobs) > 1
    if not session.is_quiet:
        jobs = f"the {len(handle.jobs)} jobs of {handle.id}" if several else handle.id
        them = "them" if several else "it"
        note(f"following {jobs}; Ctrl-C detaches and does not stop {them}")
    try:
        names = {job: f"{name}/" for job, name in zip(handle.jobs, handle.names) if several}
        prefix = several or (args.replicas > 1 and sys.stdout.isatty())
        tell = Teller(out, quiet=session.is_quiet)
        places = dict.fromkeys(handle.jobs, handle.project)
        write(client.following.of_new(places, tell=tell), out, prefix=prefix, of=names)
        ended = handle.wait().jobs
    except KeyboardInterrupt:
        out.end_line()
        back = f"wait {handle.id}" if several else f"logs {handle.id} -f"
        note(f"detached; {handle.id} goes on, bastion {back} comes back to it")
        return exits.DETACHED
    if not session.is_quiet:
        out.end_line()
    for job in ended:
        tell_ended(session, job)
    return exits.of_jobs(ended)


def tell_ended(session: Session, job: JobView) -> None:
    """Say how a job ended, and after how long; its exit code says enough to who wants it quiet."""
    from bastion.job import state_phrase

    if session.is_quiet:
        return
    state = job.outcome or job.state
    took = span((job.ended_at or session.client.clock.wall()) - job.submitted_at)
    note(f"{job.id} {session.out.state(state, state_phrase(state))} after {took}: {job.text}")


class Teller:
    """Says on stderr when a followed job is in another state, or for another reason."""

    def __init__(self, out: Printout, *, quiet: bool, states_only: bool = False) -> None:
        self._out = out
        self._quiet = quiet
        self._states_only = states_only
        self._said: dict[str, str] = {}

    def __call__(self, job: JobView) -> None:
        """Say it, unless it was the last thing said of it or has to wait for the end of a line."""
        said = f"{job.id} is {job.state}: {job.text}"
        news = job.state if self._states_only else _SPAN.sub("", said)
        if news == self._said.get(job.id) or self._quiet or job.is_decided:
            return
        if self._out.note(said):
            self._said[job.id] = news


def _launch_of(session: Session) -> Launch:
    """The launch that the command line describes."""
    args = session.args
    if args.source:
        from launch.flags import beside
        from launch.foreign import foreign_launch, is_foreign

        if is_foreign(args.source[0]):
            return beside(foreign_launch(session), args)
        return _launch_of_file(args)
    if not args.command:
        raise UsageError(f"nothing to run: give {_SOURCES}", hint="bastion launch --help")
    from launch.flags import launch_of, quoted_twice

    if len(args.command) == 1 and args.command[0].split()[1:] and not args.shell:
        raise UsageError(
            f"{args.command[0]!r} is one word, and no program is called so",
            hint="leave out the quotes, or give --shell for a line of a shell",
        )
    for word in quoted_twice(args.command):
        note(f"warning: {word} keeps its inner quotes; no shell comes between, one pair is enough")
    return launch_of(args)


def _launch_of_file(args: argparse.Namespace) -> Launch:
    from pathlib import Path

    from bastion.client.submit.launch_file import read_launch

    (source, *rest) = args.source
    if not source.endswith(".toml") or rest or args.command:
        words = " ".join(args.source)
        raise UsageError(
            f"{words!r} is no .toml file, no .py or .sbatch script and no .json job spec",
            hint=f"a command stands after --: bastion {args.verb_name} -- {words}",
        )
    if given := _shaping(args):
        raise UsageError(f"{given}: {source} says that", hint="change the file")
    return read_launch(Path(source))


def _shaping(args: argparse.Namespace) -> str:
    """The flags that were given and say what a file says."""
    said = args.shaping.items()
    return ", ".join(f"--{name}" for name, default in said if getattr(args, name) != default)


def _is_script(args: argparse.Namespace) -> bool:
    return bool(args.source) and args.source[0].endswith(".py")


def _run_script(session: Session) -> int:
    """Run the user's own program as python would, told where the bastion is."""
    import subprocess

    from bastion.profile import ENVIRONMENT

    script = session.args.source[0]
    if not os.path.isfile(script):  # noqa: PTH113  (pathlib would be one more import to wait for)
        hint = f"a command stands after --: bastion launch -- {script}"
        raise UsageError(f"no file {script!r}", hint=hint)
    if given := _shaping(session.args):
        raise UsageError(
            f"{given}: {script} submits for itself, and says that",
            hint=f"change the script; as a job it runs with bastion launch -- python3 {script}",
        )
    profile = session.profile
    told = {ENVIRONMENT[key]: getattr(profile, key) for key in ENVIRONMENT if getattr(profile, key)}
    words = [sys.executable, *session.args.source, *(session.args.command or ())]
    return subprocess.run(words, env=dict(os.environ) | told, check=False).returncode
