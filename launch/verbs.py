"""The tree of all verbs, and the first page of help."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
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
"""The verbs that tell of all verbs."""


def build(word: str = "") -> tuple[Parser, Verbs]:
    """
    The grammar.

    Args:
        word: The verb that is asked for; then only the verbs of its file are built, because
            building all takes as long as many a verb. Any other word: all verbs.
    """
    parser = Parser(
        prog="bastion",
        allow_abbrev=False,
        usage="bastion VERB [flags] [-- COMMAND...]",
        description="Run machine-learning jobs on shared accelerators.",
        formatter_class=_FirstPage,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    asked = ALIASES.get(word, word)
    places = _places(asked)
    is_one = places is not _PLACES
    verbs = Verbs(parser, asked if is_one else "")
    for place in places:
        import_module(f"launch.commands.{place}").register(verbs)
    return parser, verbs


def _places(verb: str) -> Iterable[str]:
    if verb in _OF_ALL:
        return _PLACES
    return [place for place, verbs in _PLACES.items() if verb in verbs] or _PLACES


class _FirstPage(argparse.RawDescriptionHelpFormatter):
    """The verbs by family, not as argparse lists them."""

    def add_arguments(self, actions: object) -> None:
        for action in actions:  # type: ignore[attr-defined]
            if isinstance(action, argparse._SubParsersAction):
                summaries = {choice.dest: choice.help for choice in action._choices_actions}
                self.add_text(_by_family(summaries))
                self.add_text("bastion VERB --help tells more and shows an example")


def _by_family(summaries: Mapping[str, str | None]) -> str:
    lines: list[str] = []
    for family, verbs in FAMILIES.items():
        lines.append(f"{family}:")
        lines.extend(f"  {verb:<12}{_summary(summaries, verb)}" for verb in verbs)
    return "\n".join(lines)


def _summary(summaries: Mapping[str, str | None], verb: str) -> str:
    # argparse calls a verb with other names `list (ls, queue)`.
    return next(text or "" for name, text in summaries.items() if name.split(" ")[0] == verb)
