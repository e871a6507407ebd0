"""
Names of machines at Google and Azure, and the labels by which they are found again.

A machine is `bastion-<bucket>-<machine>`. If Google does not accept that name, a digest replaces
everything before the machine's two numbers. In both cases the numbers end the name, and the pool is
in a label, so the name and labels alone identify a machine. Azure accepts all names and labels that
Google accepts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from bastion.errors import ProviderRefusedError
from bastion.machine_name import MachineName, parse_machine
from bastion.value import value

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
"""Source: compute.v1.json, `Instance.name`, which is RFC 1035."""
_LABEL = re.compile(r"[a-z0-9_-]{0,63}", re.ASCII)
"""Source: cloud.google.com/compute/docs/labeling-resources."""
NUMBERS = r"-[0-9]+-[0-9]+$"
"""The end of the name of a VM or slice, as a pattern for Python and for `sed -E`."""


@value
class Names:
    """Names and labels of the machines of one pool of one bucket."""

    bucket: str
    pool: str

    def cloud(self, name: str) -> str:
        """Return the cloud's name for the machine `name`, or for the slice that contains it."""
        machine = self.parse(name)
        plain = f"bastion-{self.bucket}-{self.slice(name)}"
        if _NAME.fullmatch(plain):
            return plain
        return f"bastion-{_digest(f'{self.bucket}/{self.pool}')}-{machine.seq}-{machine.index}"

    def slice(self, name: str) -> str:
        """Return the name of a machine without the number of its host."""
        machine = self.parse(name)
        return str(MachineName(pool=self.pool, seq=machine.seq, index=machine.index))

    def parse(self, name: str) -> MachineName:
        """Return the parts of the name of a machine of this pool."""
        machine = parse_machine(name, self.pool)
        if machine is None:
            raise ProviderRefusedError(f"{name!r} is not a machine of pool {self.pool}")
        return machine

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that every machine has."""
        return {"bastion": _label(self.bucket), "pool": _label(self.pool)}

    def labels_of(self, name: str) -> Mapping[str, str]:
        """Return the labels of the machine `name`, including the commit that allocated it."""
        return {**self.labels, "commit": str(self.parse(name).seq)}

    def machine(self, cloud_name: str, labels: Mapping[str, str]) -> str | None:
        """Return the machine or slice of a name in the cloud; None if it is not one of these."""
        numbers = re.search(NUMBERS, cloud_name)
        if numbers is None or not self.labels.items() <= labels.items():
            return None
        name = self.pool + numbers[0]
        if parse_machine(name, self.pool) is None or self.cloud(name) != cloud_name:
            return None
        return name


def _label(text: str) -> str:
    """Return `text`, or a digest of it if it is not a valid label value."""
    return text if _LABEL.fullmatch(text) else f"x-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
