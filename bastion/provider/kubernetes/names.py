"""
Names of machines in a Kubernetes cluster, and the labels by which they are found again.

A machine is the pod `bastion-<bucket>-<machine>`. If that is not a valid pod name, a digest
replaces everything before the machine's numbers. The machine's own name is in an annotation, which
is trusted if it produces the name of the pod.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from bastion.errors import ProviderRefusedError
from bastion.machine_name import parse_machine
from bastion.value import value

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
"""A pod whose name is a DNS label also has it as its host name."""
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
BUCKET, POOL = "bastion/bucket", "bastion/pool"
"""Keys of labels."""
MACHINE, ZONE = "bastion/machine", "bastion/zone"
"""Keys of annotations."""


@value
class Names:
    """Names and labels of the machines of one pool of one bucket."""

    bucket: str
    pool: str

    def pod(self, machine: str) -> str:
        """
        Return the name of the pod that is `machine`.

        Raises:
            ProviderRefusedError: It is not a machine of this pool.
        """
        named = parse_machine(machine, self.pool)
        if named is None:
            raise ProviderRefusedError(f"{machine!r} is not a machine of pool {self.pool}")
        plain = f"bastion-{self.bucket}-{machine}"
        if _NAME.fullmatch(plain):
            return plain
        numbers = machine.removeprefix(self.pool)
        return f"bastion-{_digest(f'{self.bucket}/{self.pool}')}{numbers}"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that every machine has."""
        return {BUCKET: _label(self.bucket), POOL: _label(self.pool)}

    def machine(self, metadata: Mapping[str, Any]) -> str | None:
        """
        Return the machine that the pod with this metadata is; None if it is not one of these.

        Its labels do not matter: anyone can edit them.
        """
        machine = (metadata.get("annotations") or {}).get(MACHINE, "")
        if parse_machine(machine, self.pool) is None:
            return None
        return machine if self.pod(machine) == metadata.get("name") else None


def _label(text: str) -> str:
    """Return `text`, or a digest of it if it is not a valid label value."""
    return text if _LABEL.fullmatch(text) else f"x-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
