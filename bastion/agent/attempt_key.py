"""
The name of one host of one attempt, as the keeper and the machine's folders use it.

`<project>/<job>/a<k>-<nonce>/r<i>/h<j>`: everything an agent must know to finish what an earlier
one began (registers, logs, output) can be read off it.
"""

from __future__ import annotations

import re

from bastion.machine import SetLimit, Start, StopHost
from bastion.records.facts import HostFact

_KEY = re.compile(r"([^/]+)/([^/]+)/a(\d+)-([^/]+)/r(\d+)/h(\d+)")


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


def host_named(instruction: Start | StopHost | SetLimit) -> HostFact:
    """The host that an instruction is about."""
    return HostFact(
        project=instruction.project,
        job=instruction.job,
        attempt=instruction.attempt,
        nonce=instruction.nonce,
        replica=instruction.replica,
        host=instruction.host,
    )
