"""
The name of one host of one attempt, as the keeper and the machine's folders use it.

`<project>/<job>/a<k>-<nonce>/r<i>/h<j>`: everything an agent must know to finish what an earlier
one began (registers, logs, output) can be read off it. A command that a user runs beside its
processes is called `<key>/x<id>`.
"""

from __future__ import annotations

import re

from bastion.machine import Exec, SetLimit, Start, StopHost
from bastion.records.facts import HostFact

_KEY = re.compile(r"([^/]+)/([^/]+)/a(\d+)-([^/]+)/r(\d+)/h(\d+)")
_COMMAND = re.compile(r"(.+)/x([0-9A-Z]{26})")


def key_of(host: HostFact) -> str:
    """The key of `host`."""
    return f"{host.project}/{host.job}/a{host.attempt}-{host.nonce}/r{host.replica}/h{host.host}"


def host_of(key: str) -> HostFact | None:
    """What `key_of` was called with, or None when `key` is none of ours."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    project, job, attempt, nonce, replica, host = found.groups()
    return HostFact(
        project=project,
        job=job,
        attempt=int(attempt),
        nonce=nonce,
        replica=int(replica),
        host=int(host),
    )


def command_key(host_key: str, command: str) -> str:
    """The key of the command `command`, which runs beside the host called `host_key`."""
    return f"{host_key}/x{command}"


def command_of(key: str) -> tuple[HostFact, str] | None:
    """The host and the id that `key` was made of, or None when it is no command's."""
    found = _COMMAND.fullmatch(key)
    host = host_of(found[1]) if found is not None else None
    return None if found is None or host is None else (host, found[2])


def host_named(instruction: Start | StopHost | SetLimit | Exec) -> HostFact:
    """The host that an instruction is about."""
    return HostFact(
        project=instruction.project,
        job=instruction.job,
        attempt=instruction.attempt,
        nonce=instruction.nonce,
        replica=instruction.replica,
        host=instruction.host,
    )
