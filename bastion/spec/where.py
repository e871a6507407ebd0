"""Where a job may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bastion.errors import SpecError
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.value import field, replace

CONTAINERS = "containers"
"""
The label, with the value `YES`, of machines that can run images: pools carry it, and agents
withdraw it while no engine answers.
"""

MAX_FILTERS = 100
"""Hostnames or labels per request: root holds them with every job."""
MAX_FILTER_CHARACTERS = 255
"""Per filter: the longest host name. Source: RFC 1035, 2.3.4."""

YES = "true"


@value
class Where:
    """
    Filters on machines. An empty filter excludes nothing; all filters must match.

    `cluster` and `shard` are labels of pools with these names. `exclusive` takes whole machines,
    and they are charged whole.
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
        texts = [self.cluster, self.shard, self.pool, *self.hostnames]
        texts += [text for label in self.labels.items() for text in label]
        problems = [
            f"where.{name}: {count} is not allowed; at most {MAX_FILTERS}"
            for name, count in (("hostnames", len(self.hostnames)), ("labels", len(self.labels)))
            if count > MAX_FILTERS
        ]
        if any(len(text) > MAX_FILTER_CHARACTERS for text in texts):
            longest = max(map(len, texts))
            problems.append(f"where: {longest} characters; at most {MAX_FILTER_CHARACTERS} each")
        if problems:
            raise SpecError(*problems)

    @property
    def is_anywhere(self) -> bool:
        """Whether no filter is set: every machine passes."""
        names = self.pool or self.cluster or self.shard
        return not (names or self.hostnames or self.labels)

    def __hash__(self) -> int:
        labels = tuple(sorted(self.labels.items()))
        return hash((self.cluster, self.shard, self.pool, self.hostnames, labels, self.exclusive))

    def with_containers(self) -> Where:
        """Return these filters with the condition that images can run."""
        return replace(self, labels={**self.labels, CONTAINERS: YES})


ANYWHERE = Where()
"""No filters."""
