"""What admins run: the bastion, and the agent of a machine."""

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
    text(parser, "--name", "of this bastion; the host's by default")
    text(parser, "--quota", "a quota file elsewhere, as gs://PRIVATE/quota.toml", metavar="FILE")
    switch(parser, "--standby", "wait for another to stop leading")
    switch(parser, "--moved", "the bucket was moved here, and is no copy of one that is in use")
    text(parser, "--machines_dir", "where local machines live", metavar="FOLDER")
    switch(parser, "--once", "one turn, then stop")
    number(parser, "--metrics_port", "answer Prometheus there; 0: any that is free")
    text(parser, "--metrics_host", "the address for that; 127.0.0.1 by default", metavar="ADDRESS")
    choice(parser, "--log_level", ("info", "warning", "debug"), "which lines its log has")
    choice(parser, "--log_format", ("text", "json"), "json: one object a line")
    agent = verbs.add(
        "agent",
        run_agent,
        connects=False,
        text="A pool starts it on each machine that it makes; by hand one ends a local machine. Its"
        " flags are those of python -m bastion agent, and follow --.",
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
    from bastion.agent.main import main

    if not args.command:
        raise UsageError(
            "agent: its flags are missing, which follow --",
            hint="pools start it automatically; bastion agent -- --help lists its flags",
        )
    first = args.command[0]
    if first != "end" and not first.startswith("-"):
        raise UsageError(
            f"agent: {first!r} is not known; after -- stand end, or the flags of an agent",
            hint="bastion agent -- end --home=FOLDER ends one; bastion agent -- --help lists flags",
        )
    done: int = main(args.command)
    return done
