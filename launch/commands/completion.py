"""Completion: a script for the user's shell."""

from __future__ import annotations

import argparse

from launch import exits
from launch.parser import Verbs


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "completion",
        show,
        "print the completion script of a shell",
        connects=False,
        text="Verbs and flags complete without starting Python; jobs through bastion list -q.",
        example='eval "$(bastion completion bash)"',
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def show(args: argparse.Namespace) -> int:
    """`bastion completion SHELL`."""
    from launch.shells import script

    print(script(args.shell), end="")
    return exits.OK
