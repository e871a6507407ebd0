"""
The key of one host of one attempt, used by the keeper and in the machine's folders.

`<project>/<job>/a<k>-<nonce>/r<i>/h<j>` has everything that an agent needs to finish the work of an
earlier one: registers, logs, output. The key of a command beside its processes is `<key>/x<id>`.
"""

from __future__ import annotations

import re

from bastion.machine import Exec, SetLimit, Start, StopHost
from bastion.records.reports.facts import HostFact

_KEY = re.compile(r"([^/]+)/([^/]+)/a(\d+)-([^/]+)/r(\d+)/h(\d+)")
_COMMAND = re.compile(r"(.+)/x([0-9A-Z]{26})")


def key_of(host: HostFact) -> str:
    """Return the key of `host`."""
    return f"{host.project}/{host.job}/a{host.attempt}-{host.nonce}/r{host.replica}/h{host.host}"


def host_of(key: str) -> HostFact | None:
    """Return the host with this key, or None if `key` is not one of ours."""
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
    """Return the key of the command `command` beside the host `host_key`."""
    return f"{host_key}/x{command}"


def command_of(key: str) -> tuple[HostFact, str] | None:
    """Return the host and the id of a command's key, or None if it is not one."""
    found = _COMMAND.fullmatch(key)
    host = host_of(found[1]) if found is not None else None
    return None if found is None or host is None else (host, found[2])


def host_named(instruction: Start | StopHost | SetLimit | Exec) -> HostFact:
    """Return the host that an instruction is about."""
    return HostFact(
        project=instruction.project,
        job=instruction.job,
        attempt=instruction.attempt,
        nonce=instruction.nonce,
        replica=instruction.replica,
        host=instruction.host,
    )
