"""Help as a verb, as git and kubectl have it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from launch import exits
from launch.grammar.parser import Parser, Verbs
from launch.grammar.unknown_words import refuse_unknown_verb
from launch.grammar.vocabulary import ALIASES, SEVERAL_VERBS


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "help",
        partial(show, verbs.root, verbs.parsers),
        "print the help of a verb, or the list of verbs",
        connects=False,
        example="bastion help launch",
    )
    parser.add_argument("topic", nargs="?", default="", metavar="VERB", help="a verb")


def show(root: Parser, parsers: Mapping[str, Parser], args: argparse.Namespace) -> int:
    """`bastion help [VERB]`."""
    if args.topic:
        refuse_unknown_verb([args.topic], SEVERAL_VERBS)
        parsers[ALIASES.get(args.topic, args.topic)].print_help()
    else:
        root.print_help()
    return exits.OK
