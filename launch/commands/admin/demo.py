"""The demo."""

from __future__ import annotations

import argparse

from launch.grammar.parser import Verbs, switch
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "demo",
        show,
        connects=False,
        example="bastion demo\nbastion demo --web",
    )
    switch(parser, "--web", "with a page that shows it, until Ctrl-C")
    parser.add_argument("--root", default="", metavar="FOLDER", help="a new folder to keep it in")


def show(args: argparse.Namespace) -> int:
    """`bastion demo`."""
    from launch.demo.play import play

    return play(args.root, Session(args).out, web=args.web)
