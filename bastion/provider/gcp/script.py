"""
How a machine at Google learns its own name: shell commands for its start-up script. Pure.

VMs of one request share their script, and so do the hosts of a slice, so the name comes from the
metadata server. `GCE_METADATA_HOST` names another server, as for Google's own libraries. If the
server did not answer and the name is incomplete, the start-up script queries it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from bastion.machine import Pool
from bastion.provider.vm_names import NUMBERS

Script = Callable[[Pool, str], str]
"""Writes a pool's start-up script, given a shell command that prints a machine's name."""

_ASKED = (
    "curl -sS --fail --max-time 10 -H 'Metadata-Flavor: Google'"
    ' "http://${{GCE_METADATA_HOST:-metadata.google.internal}}/computeMetadata/v1/instance/{}"'
)
"""Source: cloud.google.com/compute/docs/metadata/querying-metadata."""


def vm_name(pool: str) -> str:
    """Return the command that prints the name of a VM of `pool`: its numbers end the VM's name."""
    numbers = f"$({_ASKED.format('name')} | sed -E 's/.*({NUMBERS[:-1]})$/\\1/')"
    return f'printf %s%s {shlex.quote(pool)} "{numbers}"'


def host_name(machine: str, *, hosts: int) -> str:
    """
    Return the command that prints the name of a host of the slice `machine`.

    Source: the attribute is the one that JAX reads, jax/_src/clusters/cloud_tpu_cluster.py.
    """
    if hosts == 1:
        return f"printf %s {shlex.quote(machine)}"
    number = f"$({_ASKED.format('attributes/agent-worker-number')})"
    return f'printf %s-h%s {shlex.quote(machine)} "{number}"'
