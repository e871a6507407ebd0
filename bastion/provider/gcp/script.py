"""
How a machine of Google's learns its own name: shell commands for its start-up script. Pure.

VMs of one request share their script, and so do the hosts of a slice, so the metadata server is
asked. `GCE_METADATA_HOST` names another one, as for Google's own libraries. Half a name, from one
that did not answer, is asked for again by the start-up script.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from bastion.machine import Pool
from bastion.provider.gcp.names import NUMBERS

Script = Callable[[Pool, str], str]
"""The start-up script of a pool's machines, from a shell command that prints a machine's name."""

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
