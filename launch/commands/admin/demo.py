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
    switch(parser, "--web", "also serve a web page that shows the demo, until Ctrl-C")
    parser.add_argument("--root", default="", metavar="FOLDER", help="a new folder for the demo")


def show(args: argparse.Namespace) -> int:
    """`bastion demo`."""
    from launch.demo.play import play

    return play(args.root, Session(args).out, web=args.web)
