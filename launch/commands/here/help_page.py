"""Help as a verb, as in git and kubectl, and the documentation pages by name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Parser, Verbs
from launch.grammar.unknown_words import hint_instead_of
from launch.grammar.vocabulary import ALIASES, SEVERAL_VERBS
from launch.handbook import find_page, pages

_WIDEST = 100
"""The most columns of a page on a wide terminal: longer lines are hard to read."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "help",
        partial(show, verbs.root, verbs.parsers),
        text="A page has the name of an error, a reason or a guide. bastion help pages lists all"
        " pages; bastion help errors and bastion help reasons explain each in one line.",
        connects=False,
        example="bastion help launch\nbastion help Fragmented\nbastion help errors",
    )
    parser.add_argument(
        "topic", nargs="*", metavar="NAME", help="a verb, an error, a reason, a guide"
    )


def show(root: Parser, parsers: Mapping[str, Parser], args: argparse.Namespace) -> int:
    """`bastion help [NAME]`."""
    topic, *more = args.topic or [""]
    if not topic:
        root.print_help()
    elif more and topic not in SEVERAL_VERBS:
        _refuse(" ".join(args.topic))
    elif topic in SEVERAL_VERBS:  # the words after it belong to the verb, as in `quota show`
        parsers[ALIASES.get(topic, topic)].print_help()
    elif topic == "pages":
        print("\n".join(pages()))
    elif page := find_page(topic):
        _print_page(page.read_text(encoding="utf-8"))
    else:
        _refuse(topic)
    return exits.OK


def _print_page(text: str) -> None:
    """Print a page, rendered on a terminal and as Markdown elsewhere."""
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text, hyperlinks=False), width=min(console.width, _WIDEST))


def _refuse(topic: str) -> None:
    """
    Refuse a topic that is neither a verb nor a page, and suggest the nearest.

    Raises:
        UsageError: Always.
    """
    import difflib

    near = difflib.get_close_matches(topic, list(pages()), n=1)
    if near:
        raise UsageError(
            f"no page is named {topic!r}", hint=f"did you mean: bastion help {near[0]}"
        )
    nearest = hint_instead_of(topic.lower(), (), SEVERAL_VERBS)
    raise UsageError(
        f"no verb or page is named {topic!r}",
        hint=nearest or "bastion --help lists all verbs; bastion help pages lists all pages",
    )
