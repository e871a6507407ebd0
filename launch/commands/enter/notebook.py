"""`bastion notebook`: Jupyter as a job, with a tunnel to it."""

from __future__ import annotations

import argparse
import hashlib
import re
import secrets
import shlex
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.enter.ssh import become, is_port
from launch.commands.submit.launch import add_launch_flags, submitted
from launch.errors import UsageError
from launch.grammar.parser import Verbs, choice, text
from launch.screen.followed import Teller, tell_ended
from launch.screen.notes import note
from launch.screen.printout import Printout
from launch.session import Session
from launch.submission.code import folder_of

if TYPE_CHECKING:
    from bastion.client import LaunchHandle

_URL = re.compile(rb"http://[^\s/]+:(\d+)(/\S*)?")
"""The line in which Jupyter prints its URL. Source: jupyter_server, `ServerApp.display_url`."""
_LOG_BYTES = 1 << 20
"""Output of Jupyter before that line; more means that it is not Jupyter."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "notebook",
        open_notebook,
        prints=True,
        text=(
            "Jupyter must be installed in the job's Python: --python_env names a lock file in the"
            " code that includes it. Without --code, notebooks are kept in the job's output folder."
            " Ctrl-C closes the tunnel; the notebook keeps running until it is idle or cancelled."
        ),
        example="""\
bastion notebook --resources=h100=1
bastion notebook --instance_type=tpu-v4-8 --code=. --python_env=requirements.txt --idle=30m
bastion notebook --name=mine --app=server --port=8000""",
    )
    add_launch_flags(parser, takes_file=False)
    group = parser.add_argument_group("the notebook")
    choice(group, "--app", ("lab", "notebook", "server"), "which Jupyter program to run")
    text(
        group,
        "--idle",
        "stop the notebook after this time without activity (default: 1h)",
        metavar="TIME",
    )
    text(group, "--port", "local port (default: Jupyter's own port)", metavar="PORT")


def open_notebook(args: argparse.Namespace) -> int:
    """`bastion notebook`."""
    from bastion.spec import seconds_of

    if args.command or args.source:
        raise UsageError("notebook takes no command or file: it runs Jupyter", hint="bastion run")
    _refuse_several(args)
    if args.port and not is_port(args.port):
        raise UsageError(f"--port: {args.port!r} is not a port; must be a number such as 8888")
    password = secrets.token_urlsafe(12)
    idle_s = int(seconds_of("--idle", args.idle or "1h"))
    args.name = args.name or "notebook"
    args.command = [
        "sh",
        "-c",
        command_line(args.app, password, idle_s, has_code=bool(folder_of(args))),
    ]
    session = Session(args)
    handle = submitted(session)
    try:
        found = _wait_for_url(session, handle)
        if found is None:
            (ended,) = handle.wait().jobs
            tell_ended(session.out, ended)
            return exits.of_job(ended)
        return _enter(session, handle, *found, password)
    except KeyboardInterrupt:
        note(f"{handle.jobs[0]} continues; to end it: bastion cancel {handle.jobs[0]}")
        return exits.DETACHED


def _refuse_several(args: argparse.Namespace) -> None:
    """
    Refuse flags that would start several notebooks, or change the command.

    Raises:
        UsageError: One is given.
    """
    flags = {
        "--array": args.array,
        "--sweep": args.sweep,
        "--replicas": str(args.replicas) != "1",
        "--shell": args.shell,
    }
    wrong = [flag for flag, is_given in flags.items() if is_given]
    if wrong:
        raise UsageError(f"notebook does not take {', '.join(wrong)}: it runs one Jupyter")


def command_line(app: str, password: str, idle_s: int, *, has_code: bool) -> str:
    """
    Return the shell line that runs Jupyter; it contains only a digest of the password.

    Source: jupyter_server, `auth.security.passwd_check`: algorithm:salt:digest of password + salt.
    """
    salt = secrets.token_hex(6)
    digest = hashlib.sha256(f"{password}{salt}".encode()).hexdigest()
    flags = [
        "--no-browser",
        "--ip=127.0.0.1",
        "--allow-root",
        "--IdentityProvider.token=",
        f"--PasswordIdentityProvider.hashed_password=sha256:{salt}:{digest}",
        f"--ServerApp.shutdown_no_activity_timeout={idle_s}",
        f"--MappingKernelManager.cull_idle_timeout={idle_s}",
        "--MappingKernelManager.cull_connected=True",
    ]
    words = shlex.join(["python3", "-m", "jupyter", app, *flags])
    return f"exec {words}" + ("" if has_code else ' --ServerApp.root_dir="$BASTION_OUTPUT_DIR"')


def _wait_for_url(session: Session, handle: LaunchHandle) -> tuple[int, str] | None:
    """Return the port and path of Jupyter once it listens; None if its job ended before."""
    tell = Teller(Printout(session.client.clock), quiet=session.is_quiet)
    seen = b""
    places = dict.fromkeys(handle.jobs, handle.project)
    for chunk in session.client.following.of_new(places, tell=tell):
        seen += chunk.data
        found = _URL.search(seen)
        if found is not None and (found.end() < len(seen)):
            return int(found[1]), (found[2] or b"/").decode("ascii", "replace").partition("?")[0]
        if len(seen) > _LOG_BYTES:
            break
    note(seen[-2000:].decode("utf-8", "replace").strip())
    if b"No module named jupyter" in seen:
        note(
            "the job's Python has no Jupyter: name a lock file that includes it with --code=."
            " --python_env=FILE"
        )
    return None


def _enter(  # noqa: RET503 - it becomes another program
    session: Session, handle: LaunchHandle, there: int, path: str, password: str
) -> int:
    """Open the tunnel until Ctrl-C, if one is needed."""
    (job,) = handle.jobs
    here = int(session.args.port or there)
    way = session.client.way_in(job, project=handle.project).forwarding(here, there)
    url = f"http://localhost:{here if way else there}{path}"
    if session.out.format == "json":
        session.out.json({"job": job, "url": url, "password": password, "forward": list(way)})
        return exits.OK
    print(url, flush=True)
    note(f"password: {password}")
    if not way:
        if here != there:
            note(f"it runs on this machine, on port {there}; --port={here} is ignored")
        note(f"to end it: bastion cancel {job}")
        return exits.OK
    note(f"Ctrl-C closes the tunnel; to reopen it: bastion ssh {job} --forward={there}:{here}")
    note(f"the notebook keeps running until it is idle; to end it: bastion cancel {job}")
    become(way)
