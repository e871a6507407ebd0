"""
Facts of a TPU VM, and the variables that libtpu and JAX expect for them.

A TPU VM describes itself in the metadata attribute `tpu-env`, in lines `KEY: 'text'`. libtpu reads
the metadata server itself, but it cannot from a container without its network, or if a job has only
some of the chips. So the agent passes on these facts.

Source: jax/_src/clusters/cloud_tpu_cluster.py and jax/_src/cloud_tpu_init.py; torch_xla,
_internal/tpu.py (`get_tpu_env`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bastion.agent.cloud.metadata import Metadata

_LINE = re.compile(r"([A-Z_]{1,64}): *'?([^']*?)'? *")
_HANDED = {
    "ACCELERATOR_TYPE": "TPU_ACCELERATOR_TYPE",
    "TOPOLOGY": "TPU_TOPOLOGY",
    "WRAP": "TPU_TOPOLOGY_WRAP",
    "ALT": "TPU_TOPOLOGY_ALT",
    "CHIPS_PER_HOST_BOUNDS": "TPU_CHIPS_PER_HOST_BOUNDS",
    "HOST_BOUNDS": "TPU_HOST_BOUNDS",
    "RUNTIME_METRICS_PORTS": "TPU_RUNTIME_METRICS_PORTS",
}
"""Keys of `tpu-env`, and the variables that they become; others already start with `TPU_`."""
_OWN = ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")
"""Variables for a host's position in its gang: the placement defines it, and may differ."""


def tpu_env(metadata: Metadata) -> dict[str, str]:
    """
    Return the facts in `tpu-env`; empty on a machine without TPUs.

    Raises:
        MetadataError: The metadata server did not answer.
    """
    return parse_tpu_env(metadata.read("instance/attributes/tpu-env"))


def parse_tpu_env(text: str) -> dict[str, str]:
    """Parse the text of `tpu-env`; skips lines that it cannot parse."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return {each[1]: each[2] for each in found if each is not None}


def tpu_variables(said: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of every process that uses all TPUs of the machine with these facts."""
    handed = {_HANDED[key]: text for key, text in said.items() if key in _HANDED and text}
    own = {key: text for key, text in said.items() if key.startswith("TPU_") and text}
    made = handed | {key: text for key, text in own.items() if key not in _OWN}
    if made:
        # Every fact is passed on, since libtpu cannot read them from every container.
        made["TPU_SKIP_MDS_QUERY"] = "true"
    return made
