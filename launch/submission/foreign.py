"""Job files of other systems on the command line, and notes about them."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import TYPE_CHECKING

from launch.errors import UsageError
from launch.grammar.parser import Parser, text
from launch.screen.notes import note
from launch.session import Session
from launch.submission.code import add_bundler_flags, code_of

if TYPE_CHECKING:
    from bastion.spec import Code, Launch

SUFFIXES = (".sbatch", ".slurm", ".sh", ".bash", ".json")
_CODE_FLAGS = ("code", "bundler_type", "bundler_spec")
_BESIDE = (
    *_CODE_FLAGS,
    *("notify", "notify_on", "secret", "retries", "when_busy", "python_env", "python_version"),
    *("max_failures", "no_borrow"),
    *("idle_timeout", "on_idle", "signs_of_life", "hold_on_failure"),
)
"""Flags for which such files have no option, so they can be given with a file."""
_OVER = (
    *("name", "after", "array", "max_runtime", "priority", "hold", "env"),
    *("pool", "cluster", "shard", "hostname", "exclusive", "same"),
)
"""Flags that take precedence over the file, as `sbatch` flags do over the script's."""
_COUNTED = ("cpu", "memory")


def add_code_flags(parser: Parser) -> None:
    """Add the flags of a verb that takes only such a file."""
    group = parser.add_argument_group("code")
    text(
        group,
        "--code",
        "folder to run in (default for a Slurm script: the current folder)",
        metavar="FOLDER",
    )
    add_bundler_flags(group)
    parser.set_defaults(shaping={"code": "", "bundler_type": "", "bundler_spec": []})


def is_foreign(source: str) -> bool:
    """Whether `source` is named like a job file of another system."""
    return source.endswith(SUFFIXES)


def foreign_launch(session: Session) -> Launch:
    """
    Return the launch for the file on the command line; print its notes.

    A Slurm script runs in the folder that it is submitted from, so that folder is its code unless
    a flag names another.

    Raises:
        UsageError: A flag repeats what the file sets.
        SpecError: It is invalid, or has options without a counterpart: every problem.
    """
    from bastion.compat.files import read

    args = session.args
    source, *rest = args.source
    _refuse_shaping(args)
    found = read(
        source,
        arguments=(*rest, *(args.command or ())),
        code=_code(args, is_script=not source.endswith(".json")),
        device=lambda: _only_device(session),
        user=session.client.user,
    )
    for line in found.notes:
        note(f"note: {line}")
    return found.launch


def shaping_of(args: argparse.Namespace, *, but: Container[str] = ()) -> str:
    """Return the given flags that set what a file sets, except those named in `but`."""
    given = (
        "--resources" if name == "asked" else f"--{name}"
        for name, default in args.shaping.items()
        if name not in but and getattr(args, name) != default
    )
    return ", ".join(dict.fromkeys(given))


def _refuse_shaping(args: argparse.Namespace) -> None:
    if given := shaping_of(args, but=(*_BESIDE, *_OVER)):
        raise UsageError(
            f"{given}: {args.source[0]} sets this",
            hint="change the file, or change the output of: bastion import FILE > spec.toml",
        )


def _code(args: argparse.Namespace, *, is_script: bool) -> Code | None:
    from bundler.code import LocalDir

    if is_script and all(getattr(args, name) == args.shaping[name] for name in _CODE_FLAGS):
        return LocalDir(".")
    return code_of(args)


def _only_device(session: Session) -> str:
    """Return the only type of device in the pools; empty if there are several."""
    from bastion.errors import NotFoundError

    try:
        view = session.client.pool()
    except NotFoundError:
        return ""
    types = {kind for machine in view.machines for kind in machine.resources.types()}
    for pool in view.pools:
        resources = pool.get("resources")
        types.update(resources if isinstance(resources, dict) else ())
    types.difference_update(_COUNTED)
    return types.pop() if len(types) == 1 else ""
