"""
What machines are called at Google, and the labels by which they are found again.

A machine is `bastion-<bucket>-<machine>`. Where that is no name that Google takes, what stands
before the machine's two numbers is a digest of it. Either way the numbers end the name, and the
pool is in a label, so a machine is known by its name and labels alone.
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
"""What ends the name of a VM or slice, as a pattern of Python and of `sed -E`."""


@value
class Names:
    """Names and labels of the machines of one pool of one bucket."""

    bucket: str
    pool: str

    def cloud(self, name: str) -> str:
        """Return what Google calls the machine `name`, or the slice that it is a host of."""
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
        """Return the labels of the machine `name`: also of the commit that allocated it."""
        return {**self.labels, "commit": str(self.parse(name).seq)}

    def machine(self, cloud_name: str, labels: Mapping[str, str]) -> str | None:
        """Return the machine, or slice, that Google calls so; None if it is none of these."""
        numbers = re.search(NUMBERS, cloud_name)
        if numbers is None or not self.labels.items() <= labels.items():
            return None
        name = self.pool + numbers[0]
        if parse_machine(name, self.pool) is None or self.cloud(name) != cloud_name:
            return None
        return name


def _label(text: str) -> str:
    """`text`, or a digest of it where it is no value of a label."""
    return text if _LABEL.fullmatch(text) else f"x-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
