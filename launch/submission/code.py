"""Flags that describe code: a folder, a repository, an image."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch.errors import UsageError
from launch.grammar.parser import Group, many, text
from launch.settings import chosen
from quota.pattern import pattern

if TYPE_CHECKING:
    from bastion.spec import Code

_ROOT = pattern(r"(?:^|[\s'\"])root=")


def add_bundler_flags(group: Group) -> None:
    """Add the two flags for all kinds of code."""
    text(
        group,
        "--bundler_type",
        "type of code: local, git, docker, artifactregistry or image",
        metavar="TYPE",
    )
    many(group, "--bundler_spec", "an option of that type", metavar="KEY=TEXT")


def code_of(args: argparse.Namespace) -> Code | None:
    """
    Return the code that the flags of a launch describe; None for no code.

    Raises:
        SpecError: They are wrong: every problem.
    """
    from bundler.code import LocalDir

    if args.bundler_type or args.bundler_spec:
        return bundler_code(args, *_root_of(args))
    folder = folder_of(args)
    return LocalDir(folder) if folder else None


def _root_of(args: argparse.Namespace) -> list[str]:
    """
    Return the option that names the folder of `--code`, or of the profile; none for no folder.

    Raises:
        UsageError: `--code` and the other flags name two things to run.
    """
    other = args.bundler_type if args.bundler_type not in ("", "local") else ""
    if not other and any(_ROOT.search(text) for text in args.bundler_spec):
        other = "root"
    if args.code and other:
        flag = "--bundler_spec=root=..." if other == "root" else f"--bundler_type={other}"
        raise UsageError(
            f"--code={args.code} and {flag} each name the code", hint="give only one of them"
        )
    import shlex  # few command lines need it

    folder = "" if other else folder_of(args)
    return [shlex.quote(f"root={folder}")] if folder else []


def folder_of(args: argparse.Namespace) -> str:
    """Return the folder that a launch uploads, from its flag or the profile; empty for none."""
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
