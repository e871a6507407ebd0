"""The tree of all verbs, and the first page of help."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from launch.commands.admin import bucket, demo, doctor, local, quota, service, setup, vm
from launch.commands.change import jobs as change
from launch.commands.enter import exec as execute
from launch.commands.enter import notebook, ssh
from launch.commands.here import completion, config, help_page
from launch.commands.look import fetch, job, jobs, logs, pool, status, wait
from launch.commands.submit import bundle, imports, launch, rerun
from launch.grammar.parser import Parser, Verbs
from launch.grammar.vocabulary import FAMILIES

_NOUNS = (
    *(launch, rerun, imports, bundle),
    *(jobs, job, logs, fetch, wait, pool, status),
    *(change, execute, ssh, notebook),
    *(local, service, vm, quota, doctor, bucket, demo, setup),
    *(config, completion, help_page),
)


def build() -> tuple[Parser, Verbs]:
    """The whole grammar."""
    parser = Parser(
        prog="bastion",
        allow_abbrev=False,
        usage="bastion VERB [flags] [-- COMMAND...]",
        description="Run machine-learning jobs on shared accelerators.",
        formatter_class=_FirstPage,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = Verbs(parser)
    for noun in _NOUNS:
        noun.register(verbs)
    return parser, verbs


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
