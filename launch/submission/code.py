"""Flags that say which code: a folder, a repository, an image."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch.grammar.parser import Group, many, text
from launch.settings import chosen

if TYPE_CHECKING:
    from bastion.spec import Code


def add_bundler_flags(group: Group) -> None:
    """The two flags that say any kind of code."""
    text(group, "--bundler_type", "local, git, docker, artifactregistry or image", metavar="TYPE")
    many(group, "--bundler_spec", "an option of that type", metavar="KEY=TEXT")


def code_of(args: argparse.Namespace) -> Code | None:
    """
    What the flags of a launch ask for; None for no code at all.

    Raises:
        SpecError: They are wrong: every problem.
    """
    from bundler.code import LocalDir

    if args.bundler_type or args.bundler_spec:
        return bundler_code(args)
    return None if args.code in ("", "none") else LocalDir(args.code)


def bundler_code(args: argparse.Namespace, *more: str) -> Code:
    """
    What the flags of `add_bundler_flags` ask for, with `more` options.

    Raises:
        SpecError: They are wrong: every problem.
    """
    from bastion.errors import SpecError
    from bundler.errors import InvalidCodeError
    from bundler.options import parse_options

    profile = chosen(root=args.root, bastion=args.bastion, user="", project="")
    options = [*args.bundler_spec, *more]
    try:
        return parse_options(args.bundler_type or "local", options, repo=profile.image_repo)
    except InvalidCodeError as error:
        raise SpecError(*map(_of_flag, error.problems), hint=error.hint) from None


def _of_flag(problem: str) -> str:
    """A problem of `parse_options` with the flag that it is about."""
    return f"--{problem}" if problem.startswith("bundler_") else f"--bundler_spec: {problem}"
