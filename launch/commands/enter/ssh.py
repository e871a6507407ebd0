"""`bastion ssh`: a shell on the machine of a running job, or one of its ports."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from typing import NoReturn

from launch import exits
from launch.commands.enter.place import add_place, place_of
from launch.errors import UsageError
from launch.grammar.parser import Verbs, switch, text
from launch.screen.notes import note
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "ssh",
        enter,
        text=(
            "Uses OpenSSH, gcloud or the AWS CLI, whichever the job's machine needs, with your own"
            " identity and keys. A command after -- runs on the machine instead of a shell. To run"
            " one in the job's environment, use bastion exec."
        ),
        example="""\
bastion ssh trainer
bastion ssh trainer/1 -- nvidia-smi
bastion ssh trainer --forward=6006""",
    )
    parser.behind = "COMMAND..."
    add_place(parser)
    text(
        parser,
        "--forward",
        "forward a port of the machine to this machine until Ctrl-C",
        metavar="THERE[:HERE]",
    )
    switch(parser, "--print", "print the command instead of running it")


def enter(args: argparse.Namespace) -> int:  # noqa: RET503 - it becomes another program
    """`bastion ssh JOB[/REPLICA]`."""
    name, replica = place_of(args.job)
    way = Session(args).client.way_in(
        name, replica=replica, host=args.host or 0, project=args.project_id
    )
    if args.forward and args.command:
        raise UsageError("--forward cannot be combined with a command after --; give only one")
    if args.forward:
        there, here = ports(args.forward)
        words = way.forwarding(here, there)
        if not words:
            note(f"{name} runs on this machine, so its port {there} needs no forwarding")
            return exits.OK
        note(f"port {there} of {name}'s machine is http://localhost:{here} until Ctrl-C")
    elif args.command:
        words = way.running(shlex.join(args.command))
    else:
        words = way.interactive
    if args.print:
        print(shlex.join(words))
        return exits.OK
    become(words)


def is_port(written: str) -> bool:
    """Whether it is the number of a port."""
    return written.isdecimal() and len(written) < 6 and 0 < int(written) < 65536


def ports(written: str) -> tuple[int, int]:
    """
    Return the port of the machine, and the local port for it.

    Raises:
        UsageError: It is not a port.
    """
    there, _, here = written.partition(":")
    here = here or there
    if not (is_port(there) and is_port(here)):
        raise UsageError(
            f"--forward: {written!r} is not a port; must be a number such as 6006, or 6006:16006"
        )
    return int(there), int(here)


def become(words: tuple[str, ...]) -> NoReturn:
    """
    Run another program in place of this one: signals and the terminal are its own.

    Raises:
        UsageError: The program is not installed.
    """
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"{words[0]} is not installed, and is needed to reach machines of this pool",
            hint=f"install it, or run this where it is installed: {shlex.join(words)}",
        )
    os.execvp(words[0], words)  # noqa: S606 - the user's own tool, for the user
