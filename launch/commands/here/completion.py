"""Completion: a script for the user's shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from launch import exits
from launch.grammar.parser import Parser, Verbs
from launch.grammar.shells import script


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "completion",
        partial(show, verbs.parsers),
        connects=False,
        text="Completes verbs and flags without starting Python, and jobs with bastion list -q.",
        example='eval "$(bastion completion bash)"',
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def show(parsers: Mapping[str, Parser], args: argparse.Namespace) -> int:
    """`bastion completion SHELL`."""
    print(script(args.shell, parsers), end="")
    return exits.OK
