"""Programs that admins run: the bastion, and the agent of a machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from launch.errors import UsageError
from launch.grammar.parser import Verbs, choice, number, switch, text
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    parser = verbs.add(
        "serve",
        serve,
        example="""\
bastion serve --root=file:///srv/bastion
bastion serve --root=gs://bucket/shared-bastion --standby""",
    )
    text(parser, "--name", "name of this bastion (default: the host's name)")
    text(
        parser,
        "--quota",
        "a quota file outside the bucket, such as gs://PRIVATE/quota.toml",
        metavar="FILE",
    )
    switch(parser, "--standby", "wait until the leading bastion stops leading")
    switch(
        parser, "--moved", "confirm that the bucket was moved here and is not a copy of one in use"
    )
    text(parser, "--machines_dir", "folder for local machines", metavar="FOLDER")
    switch(parser, "--once", "run one turn, then stop")
    number(parser, "--metrics_port", "serve Prometheus metrics on this port; 0: any free port")
    host = "address to serve metrics on (default: 127.0.0.1)"
    text(parser, "--metrics_host", host, metavar="ADDRESS")
    choice(parser, "--log_level", ("info", "warning", "debug"), "log level")
    choice(parser, "--log_format", ("text", "json"), "log format; json: one object per line")
    agent = verbs.add(
        "agent",
        run_agent,
        connects=False,
        text="A pool starts it on each of its machines. Run it manually only to end a local"
        " machine. Its flags are those of python -m bastion agent, and follow --.",
        example="bastion agent -- end --home=machines/b1/pool/machine/home",
    )
    agent.behind = "FLAGS..."


def serve(args: argparse.Namespace) -> int:
    """`bastion serve`."""
    from bastion.__main__ import serve as run

    session = Session(args)
    done: int = run(
        root=session.profile.root,
        name=args.name,
        quota=args.quota,
        standby=args.standby,
        moved=args.moved,
        machines_dir=Path(args.machines_dir) if args.machines_dir else None,
        once=args.once,
        log_level=args.log_level,
        log_as_json=args.log_format == "json",
        metrics_port=args.metrics_port,
        metrics_host=args.metrics_host,
    )
    return done


def run_agent(args: argparse.Namespace) -> int:
    """`bastion agent -- ...`."""
    from bastion.__main__ import agent

    if not args.command:
        raise UsageError(
            "agent: no flags given; they follow --",
            hint="pools start it automatically; for its flags: bastion agent -- --help",
        )
    first = args.command[0]
    if first != "end" and not first.startswith("-"):
        raise UsageError(
            f"agent: {first!r} is unknown; must be end, or a flag of the agent",
            hint="to end a machine: bastion agent -- end --home=FOLDER;"
            " for flags: bastion agent -- --help",
        )
    done: int = agent(args.command)
    return done
