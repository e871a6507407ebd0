"""The process of a host whose variables and folder a command gets."""

from __future__ import annotations

from dataclasses import replace

import psutil

from bastion.agent.host.container_start import inside
from bastion.agent.keeper.port import AttemptStart, ProcessStart
from bastion.agent.machine.stray_processes import MARK
from bastion.errors import BastionError

_OURS = "BASTION_JOB_ID"
"""A variable of every process of a job."""


def beside(process: ProcessStart, argv: tuple[str, ...]) -> ProcessStart:
    """
    Return the start of `argv` with the variables, the folder and the container of `process`.

    It keeps the variables that distinguish the members of a gang, so a debugger finds its peers.
    """
    return inside(process, argv) or replace(process, argv=argv)


def in_container(process: ProcessStart) -> bool:
    """Whether `process` represents one in a container."""
    return inside(process, ("true",)) is not None


def started_as(attempt: AttemptStart | None, index: int, pid: int | None) -> ProcessStart:
    """
    Return how the process `index` of a host was started.

    Args:
        attempt: The host's start request; None if an earlier agent started it. The variables are
            then read from the running process, since they are on no disk.
        index: The index of the process in its host.
        pid: The process; None if it is not alive.

    Raises:
        BastionError: It is no longer known.
    """
    if attempt is not None:
        return attempt.processes[index]
    try:
        living = psutil.Process(pid or 0)
        argv, env, cwd = living.cmdline(), living.environ(), living.cwd()
    except (psutil.Error, OSError) as error:
        raise BastionError(f"process {index} of this host cannot be looked at: {error}") from error
    env = {name: text for name, text in env.items() if name != MARK}
    if not any(name.endswith(_OURS) for name in env):  # in a container, names have a prefix
        raise BastionError(
            f"process {index} of this host has overwritten its variables, and the agent of its"
            " machine was restarted since it started"
        )
    return ProcessStart(argv=tuple(argv), env=env, cwd=cwd)
