"""Where a job may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bastion.errors import SpecError
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.value import field, replace

CONTAINERS = "containers"
"""
The label, with the value `YES`, of machines that can run images: pools have it, and agents withdraw
it while no engine answers.
"""

MAX_FILTERS = 100
"""Hostnames or labels per request: root holds them with every job."""
MAX_FILTER_CHARACTERS = 255
"""Per filter: the longest host name. Source: RFC 1035, 2.3.4."""

YES = "true"

POOL = "pool"
"""The name of a machine's pool in `same`; every other word is a label."""


@value
class Where:
    """
    Filters on machines. An empty filter excludes nothing; all filters must match.

    `cluster` and `shard` are labels of pools with these names. `same` names a label, or `pool`: all
    replicas that start together are placed on machines with the same value of it. `exclusive` takes
    whole machines, which are charged whole.
    """

    cluster: str = ""
    shard: str = ""
    pool: str = ""
    hostnames: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False
    same: str = ""

    def __post_init__(self) -> None:
        check_types(self, prefix="where.")
        object.__setattr__(self, "hostnames", tuple(self.hostnames))
        object.__setattr__(self, "labels", dict(self.labels))
        texts = [self.cluster, self.shard, self.pool, self.same, *self.hostnames]
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
        """Whether no filter is set: every machine matches, and replicas may be placed anywhere."""
        names = self.pool or self.cluster or self.shard or self.same
        return not (names or self.hostnames or self.labels)

    def __hash__(self) -> int:
        labels = tuple(sorted(self.labels.items()))
        names = self.cluster, self.shard, self.pool, self.same
        return hash((*names, self.hostnames, labels, self.exclusive))

    @property
    def text(self) -> str:
        """Return the filters as text: `pool=a100, same=rack`; empty for none."""
        named = {"pool": self.pool, "cluster": self.cluster, "shard": self.shard, **self.labels}
        words = [f"{name}={text}" for name, text in named.items() if text]
        words += [f"hostname={name}" for name in self.hostnames]
        words += [f"same={self.same}"] if self.same else []
        return ", ".join([*words, *(["exclusive"] if self.exclusive else [])])

    def where_it_is(self, label: str, text: str) -> Where | None:
        """Return these filters plus the condition that `label`, or the pool, is `text`; or None."""
        if label in (POOL, "cluster", "shard"):
            named: dict[str, Any] = {label: text}
            return replace(self, **named) if getattr(self, label) in ("", text) else None
        if self.labels.get(label, text) != text:
            return None
        return replace(self, labels={**self.labels, label: text})

    def with_containers(self) -> Where:
        """Return these filters plus the condition that images can run."""
        return replace(self, labels={**self.labels, CONTAINERS: YES})


ANYWHERE = Where()
"""No filters."""
