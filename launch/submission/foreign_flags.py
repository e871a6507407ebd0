"""
Flags of other systems with one clear meaning: accepted, but not listed in the help.

`--gpus 2`, `--gpus=h100:2`, `--accelerators=H100:8`, `--gres=gpu:a100:2`, `--mem=64G` and
`--cpus 8` are resources; `-N 2` is replicas, `--nnodes 2:8` a range of them; `--time 1:00:00` is a
limit; `--wrap TEXT` is a shell command; `-J`, `--workdir` and `--dependency=afterok:JOB` have
equivalent flags. Numbers have their Slurm meaning. `--gpus 8 -N 2` is refused, because it means
four GPUs per node in Slurm and eight in SkyPilot.
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
"""Slurm flags that count the devices of all nodes together."""
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
    """Set the number of replicas from a flag that only Slurm has."""

    def __call__(
        self, _: object, found: argparse.Namespace, value: object, flag: str | None = None
    ) -> None:
        found.replicas = value
        found.of_slurm = {**found.of_slurm, "nodes": flag}


class _Dependency(argparse.Action):
    """Add the jobs of a Slurm dependency: `afterok:12:13,afterany:14` are three jobs."""

    def __call__(self, _: object, found: argparse.Namespace, value: object, *__: object) -> None:
        try:
            after = [each for part in str(value).split(",") for each in _after(part)]
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        found.after = [*getattr(found, "after", ()), *after]


def refuse_gpus_of_all_nodes(args: argparse.Namespace) -> None:
    """
    Refuse `--gpus` together with Slurm's own flag for more than one node.

    Raises:
        UsageError: Both are given.
    """
    flags = args.of_slurm
    if args.replicas != 1 and "gpus" in flags and "nodes" in flags:
        raise UsageError(
            f"{flags['gpus']} with {flags['nodes']} is ambiguous: Slurm counts the devices of all"
            " nodes together, other systems those of each node",
            hint="give the devices of each node: --gpus_per_node=N",
        )


def _devices(text: str) -> str:
    """Convert `2`, `h100:2` or `H100=2` to `gpu=2` or `h100=2`; `h100` alone is one device."""
    if _DEVICE.fullmatch(text):
        return f"{text}=1"
    match = _DEVICES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not N or TYPE:N, such as 2 or h100:2")
    return f"{match[1] or 'gpu'}={match[2]}"


def _gres(text: str) -> str:
    match = _GRES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not gpu:N or gpu:TYPE:N, such as gpu:h100:2")
    return f"{match[1] or 'gpu'}={match[2] or 1}"


def _nodes(text: str) -> int | str:
    """
    Parse `2`, or a torchrun range such as `2:8`, which grows and shrinks as ours do.

    A Slurm range such as `2-8` is different: once started, the job keeps its nodes.
    """
    match = _NODES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not N or MIN:MAX; for a job that grows and shrinks: --replicas=2-8"
        )
    return f"{match[1]}-{match[2]}" if match[2] else int(match[1])


def minutes(text: str) -> str:
    """Parse a limit; the default unit is minutes, as in Slurm."""
    return f"{text}m" if text.isdecimal() else text


def _memory(text: str) -> str:
    """Parse memory; the default unit is megabytes, as in Slurm."""
    return f"memory={text}MiB" if text.isdecimal() else f"memory={text}"


def _memory_of_sky(text: str) -> str:
    """Parse memory; the default unit is gigabytes, and `16+` means at least 16, as in SkyPilot."""
    text = text.removesuffix("+")
    return f"memory={text}GiB" if text.isdecimal() else f"memory={text}"


def _cpus(text: str) -> str:
    text = text.removesuffix("+")  # `4+` in SkyPilot is at least four
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number of CPUs; to name a job: --name=NAME"
        )
    return f"cpu={text}"


def _after(text: str) -> list[str]:
    """Convert `afterok:JOB` to `JOB`, and `afterany:JOB:JOB` to two with `:any`."""
    kind, *jobs = text.split(":")
    when = {"afterok": "", "afterany": ":any", "afternotok": ":failed"}.get(kind)
    if when is None or not jobs or not all(jobs):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not afterok:JOB, afterany:JOB or afternotok:JOB; or use --after=JOB"
        )
    return [f"{job}{when}" for job in jobs]


def wrapped(args: argparse.Namespace) -> list[str]:
    """
    Return the command that runs the `--wrap` line in a shell, as `sbatch --wrap` does.

    Raises:
        UsageError: A command or a file is given too.
    """
    if args.command or args.source:
        other = args.source[0] if args.source else "the command after --"
        raise UsageError(f"--wrap cannot be combined with {other}; give only one")
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
        raise UsageError(f"{flag}: {text!r} {error}; or such as 90s, 8h, 1h30m") from None
