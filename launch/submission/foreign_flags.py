"""
Flags of other systems with one clear meaning: accepted, and omitted from the help.

`--gpus 2`, `--gpus=h100:2`, `--accelerators=H100:8`, `--gres=gpu:a100:2`, `--mem=64G` and
`--cpus 8` are resources; `-N 2` is replicas, `--nnodes 2:8` a range of them; `--time 1:00:00` is a
limit; `--wrap TEXT` is a command of the shell; `-J`, `--workdir` and `--dependency=afterok:JOB`
have flags of ours as well. Numbers mean what they mean in Slurm; `--gpus 8 -N 2`, which is four a
node there and eight a node in sky, is refused.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from launch.errors import UsageError
from launch.grammar.parser import Parser
from quota.pattern import pattern

_GPUS = ("--gpus", "-G", "--gpu", "--num_gpus")
_OF_ALL_NODES = ("--gpus", "-G")
"""Flags of Slurm that count the devices of all nodes together."""
_GRES = pattern(r"gpu(?::([A-Za-z][\w-]*))?(?::(\d+))?")
_NODES = pattern(r"(\d{1,9})(?::(\d{1,9}))?", re.ASCII)
_DEVICE = pattern(r"(?:[abghltABGHLTvV]\d+|[mM][iI]\d+)[sSxX]?(?:[-_]\d+[gG][bB])?")
_DEVICES = pattern(r"(?:([A-Za-z][\w-]*)[:=])?(\d+)")


def add_foreign_flags(parser: Parser) -> None:
    """Add the flags to a verb that takes the flags of a job."""
    parser.set_defaults(asked=[], of_slurm={})
    for names, read in (
        ((*_GPUS, "--gpus_per_node", "--gpus_per_task", "--accelerators"), _devices),
        (("--gres",), _gres),
        (("--mem",), _memory),
        (("--memory",), _memory_of_sky),
        (("--cpus", "-c", "--cpus_per_task"), _cpus),
    ):
        parser.add_argument(*names, action=_Asked, type=read, dest="asked", help=argparse.SUPPRESS)
    for flags, dest in (
        (("--num_nodes", "--nnodes"), "replicas"),
        (("-t", "--time"), "max_runtime"),
        (("-J", "--job_name"), "name"),
        (("-D", "--chdir", "--workdir"), "code"),
    ):
        kind: Callable[[str], object] = {"replicas": _nodes, "max_runtime": minutes}.get(dest, str)
        parser.add_argument(
            *flags,
            type=kind,
            dest=dest,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    parser.add_argument(
        *("-N", "--nodes"),
        action=_Nodes,
        type=_nodes,
        dest="replicas",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )
    parser.add_argument("--wrap", default="", help=argparse.SUPPRESS)
    parser.add_argument(
        *("-d", "--dependency"),
        action=_Dependency,
        dest="after",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


class _Asked(argparse.Action):
    """Add one more resource."""

    def __call__(
        self, _: object, found: argparse.Namespace, value: object, flag: str | None = None
    ) -> None:
        found.asked = [*found.asked, value]
        if flag in _OF_ALL_NODES:
            found.of_slurm = {**found.of_slurm, "gpus": flag}


class _Nodes(argparse.Action):
    """Set the number of replicas, by a flag that only Slurm has."""

    def __call__(
        self, _: object, found: argparse.Namespace, value: object, flag: str | None = None
    ) -> None:
        found.replicas = value
        found.of_slurm = {**found.of_slurm, "nodes": flag}


class _Dependency(argparse.Action):
    """Add what a dependency of Slurm names: `afterok:12:13,afterany:14` are three jobs."""

    def __call__(self, _: object, found: argparse.Namespace, value: object, *__: object) -> None:
        try:
            after = [each for part in str(value).split(",") for each in _after(part)]
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        found.after = [*getattr(found, "after", ()), *after]


def refuse_gpus_of_all_nodes(args: argparse.Namespace) -> None:
    """
    See that `--gpus` does not stand beside Slurm's own flag for more than one node.

    Raises:
        UsageError: It does.
    """
    flags = args.of_slurm
    if args.replicas != 1 and "gpus" in flags and "nodes" in flags:
        raise UsageError(
            f"{flags['gpus']} beside {flags['nodes']}: in Slurm it counts the devices of all nodes"
            " together, elsewhere those of each",
            hint="--gpus_per_node=N says how many each has",
        )


def _devices(text: str) -> str:
    """Convert `2`, `h100:2` or `H100=2` to `gpu=2` or `h100=2`; `h100` alone is one, as in sky."""
    if _DEVICE.fullmatch(text):
        return f"{text}=1"
    match = _DEVICES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not N or TYPE:N, as 2 or h100:2")
    return f"{match[1] or 'gpu'}={match[2]}"


def _gres(text: str) -> str:
    match = _GRES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not gpu:N or gpu:TYPE:N, as gpu:h100:2")
    return f"{match[1] or 'gpu'}={match[2] or 1}"


def _nodes(text: str) -> int | str:
    """
    Parse `2`, or a range of torchrun, `2:8`: it may grow and shrink, as ours does.

    A range of Slurm, `2-8`, is another thing: once started, such a job keeps its nodes.
    """
    match = _NODES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not N, nor LEAST:MOST; --replicas=2-8 may grow and shrink"
        )
    return f"{match[1]}-{match[2]}" if match[2] else int(match[1])


def minutes(text: str) -> str:
    """Parse a limit; the default unit is minutes, as in Slurm."""
    return f"{text}m" if text.isdecimal() else text


def _memory(text: str) -> str:
    """Parse memory; the default unit is megabytes, as in Slurm."""
    return f"memory={text}MiB" if text.isdecimal() else f"memory={text}"


def _memory_of_sky(text: str) -> str:
    """Parse memory; the default unit is gigabytes, and `16+` is at least so many, as in sky."""
    text = text.removesuffix("+")
    return f"memory={text}GiB" if text.isdecimal() else f"memory={text}"


def _cpus(text: str) -> str:
    text = text.removesuffix("+")  # `4+` of sky is at least four
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number of processors; the name of a job is --name=NAME"
        )
    return f"cpu={text}"


def _after(text: str) -> list[str]:
    """Convert `afterok:JOB` to `JOB`, and `afterany:JOB:JOB` to two with `:any`."""
    kind, *jobs = text.split(":")
    when = {"afterok": "", "afterany": ":any", "afternotok": ":failed"}.get(kind)
    if when is None or not jobs or not all(jobs):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not afterok:JOB, afterany:JOB or afternotok:JOB; --after=JOB is the same"
        )
    return [f"{job}{when}" for job in jobs]


def wrapped(args: argparse.Namespace) -> list[str]:
    """
    Return the command that `--wrap` has the shell run, as `sbatch --wrap` does.

    Raises:
        UsageError: A command or a file is given too.
    """
    if args.command or args.source:
        other = args.source[0] if args.source else "the command after --"
        raise UsageError(f"--wrap: {other} is given too; which is to run?")
    return ["sh", "-c", args.wrap]


def limit_of(flag: str, text: str) -> str | float | None:
    """
    Parse a limit: our own form, or Slurm's `1:00:00` and `2-12`.

    Raises:
        UsageError: It is neither.
    """
    if not text or not re.search(r"[:-]", text):
        return text or None
    from bastion.compat.sbatch_values import seconds
    from bastion.errors import SpecError

    try:
        return seconds(text)
    except SpecError as error:
        raise UsageError(f"{flag}: {text!r} {error}; or as 90s, 8h, 1h30m") from None
