"""The tree of all verbs, and the first page of help."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module

from launch.grammar.parser import Parser, Verbs
from launch.grammar.vocabulary import ALIASES, FAMILIES

_PLACES = {
    "submit.launch": ("launch", "run"),
    "submit.rerun": ("rerun",),
    "submit.imports": ("import",),
    "submit.bundle": ("bundle",),
    "look.jobs": ("list",),
    "look.job": ("show", "why"),
    "look.events": ("events",),
    "look.logs": ("logs",),
    "look.fetch": ("fetch",),
    "look.wait": ("wait",),
    "look.pool": ("pool", "machines"),
    "look.top": ("top",),
    "look.history": ("history", "usage", "query"),
    "look.status": ("status",),
    "change.jobs": ("cancel", "hold", "release", "prioritize", "update"),
    "enter.exec": ("exec",),
    "enter.ssh": ("ssh",),
    "enter.notebook": ("notebook",),
    "admin.local": ("up", "down"),
    "admin.service": ("serve", "agent"),
    "admin.vm": ("create", "upgrade", "start", "stop", "delete"),
    "change.machines": ("cordon", "uncordon", "drain", "machine"),
    "admin.quota": ("quota",),
    "admin.simulate": ("simulate",),
    "admin.doctor": ("doctor",),
    "admin.bucket": ("fsck", "restore"),
    "admin.web": ("web",),
    "admin.demo": ("demo",),
    "admin.setup": ("setup",),
    "here.config": ("config",),
    "here.auth": ("auth",),
    "here.completion": ("completion",),
    "here.help_page": ("help",),
}
"""The files below `launch.commands`, and the verbs that each adds."""
_OF_ALL = frozenset({"completion", "help"})
"""The verbs that need the parsers of all verbs."""


def build(word: str = "") -> tuple[Parser, Verbs]:
    """
    The grammar.

    Args:
        word: The requested verb. Then only the verbs of its file are built, because building
            all of them takes as long as running many a verb. Any other word: all verbs.
    """
    parser = first_page()
    asked = ALIASES.get(word, word)
    places = _places(asked)
    is_one = places is not _PLACES
    verbs = Verbs(parser, asked if is_one else "")
    for place in places:
        import_module(f"launch.commands.{place}").register(verbs)
    return parser, verbs


def first_page() -> Parser:
    """The root of the grammar, without its verbs: its help is the first page, which lists them."""
    parser = Parser(
        prog="bastion",
        allow_abbrev=False,
        usage="bastion VERB [flags] [-- COMMAND...]",
        description="Run machine-learning jobs on shared accelerators.",
        epilog=f"{_by_family()}\n\nbastion VERB --help shows details and an example",
        formatter_class=_FirstPage,
    )
    parser.add_argument("--version", action="store_true", help="print the version and the build")
    return parser


def _places(verb: str) -> Iterable[str]:
    if verb in _OF_ALL:
        return _PLACES
    return [place for place, verbs in _PLACES.items() if verb in verbs] or _PLACES


class _FirstPage(argparse.RawDescriptionHelpFormatter):
    """Lists no flags, only a line about each verb."""

    def add_arguments(self, actions: object) -> None:
        """Nothing."""


def _by_family() -> str:
    lines: list[str] = []
    for family, verbs in FAMILIES.items():
        lines.append(f"{family}:")
        lines.extend(f"  {verb:<12}{does}" for verb, does in verbs.items())
    return "\n".join(lines)
