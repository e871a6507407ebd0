"""Where a job may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from bastion.spec.typed import check_types
from bastion.value import value


@value
class Where:
    """
    Filters on machines; an empty one excludes none, several must all hold.

    `cluster` and `shard` are labels that pools carry under these names. `exclusive` takes whole
    machines, and is charged for them.
    """

    cluster: str = ""
    shard: str = ""
    pool: str = ""
    hostnames: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False

    def __post_init__(self) -> None:
        check_types(self, prefix="where.")
        object.__setattr__(self, "hostnames", tuple(self.hostnames))
        object.__setattr__(self, "labels", dict(self.labels))

    def __hash__(self) -> int:
        labels = tuple(sorted(self.labels.items()))
        return hash((self.cluster, self.shard, self.pool, self.hostnames, labels, self.exclusive))


ANYWHERE = Where()
"""No filter at all."""
