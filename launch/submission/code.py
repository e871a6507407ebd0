"""Flags that describe code: a folder, a repository, an image."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch.grammar.parser import Group, many, text
from launch.settings import chosen

if TYPE_CHECKING:
    from bastion.spec import Code


def add_bundler_flags(group: Group) -> None:
    """Add the two flags for all kinds of code."""
    text(group, "--bundler_type", "local, git, docker, artifactregistry or image", metavar="TYPE")
    many(group, "--bundler_spec", "an option of that type", metavar="KEY=TEXT")


def code_of(args: argparse.Namespace) -> Code | None:
    """
    Return the code that the flags of a launch describe; None for no code.

    Raises:
        SpecError: They are wrong: every problem.
    """
    from bundler.code import LocalDir

    if args.bundler_type or args.bundler_spec:
        return bundler_code(args)
    folder = folder_of(args)
    return LocalDir(folder) if folder else None


def folder_of(args: argparse.Namespace) -> str:
    """Return the folder that a launch sends, by its flag or the profile; empty for none."""
    folder = (
        str(args.code) or chosen(root=args.root, bastion=args.bastion, user="", project="").code
    )
    return "" if folder == "none" else folder


def bundler_code(args: argparse.Namespace, *more: str) -> Code:
    """
    Return the code for the flags of `add_bundler_flags` with `more` options.

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
    """Replace the option in a problem of `parse_options` by its flag."""
    return f"--{problem}" if problem.startswith("bundler_") else f"--bundler_spec: {problem}"
