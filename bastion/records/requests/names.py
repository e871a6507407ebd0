"""
Find unknown names in a launch's `where`: a pool, cluster, shard, machine, label or its value.

A name is known to be wrong only once every machine has sent its hello: until then, a machine may
still add it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from bastion.machine import Machine, Pool
from bastion.spec.where import CONTAINERS, POOL, Where

_SHOWN = 5
_NONE = {
    "pool": "no pool is defined",
    "cluster": "no machine is in a cluster, which is a label of a pool",
    "shard": "no machine is in a shard, which is a label of a pool",
    "hostnames": "there is no machine",
}
"""What a problem says of a name if there are none of its kind."""
_UNLABELLED: Mapping[str, str] = {}


def unknown_names(
    where: Where, pools: Mapping[str, Pool], machines: Collection[Machine]
) -> Iterator[str]:
    """Yield the problems of `where`, one per unknown name; none while that cannot be known."""
    if where.pool and where.pool not in pools:
        yield _unknown("pool", where.pool, pools)
    if not pools or any(not machine.life for machine in machines):
        return
    labelled = [*(pool.labels for pool in pools.values()), *(each.labels for each in machines)]
    asked = {"cluster": where.cluster, "shard": where.shard, **where.labels}
    for label, text in asked.items():
        known = {labels[label] for labels in labelled if label in labels}
        if text and text not in known and label != CONTAINERS:
            path = label if label in ("cluster", "shard") else f"labels.{label}"
            yield _unknown(path, text, known)
    words = {POOL, *(label for labels in labelled for label in labels)} - {CONTAINERS}
    if where.same and where.same not in words:
        yield _unknown("same", where.same, words)
    known = {name for each in machines for name in (each.hostname, each.name) if name}
    for hostname in where.hostnames:
        if hostname not in known:
            labels = _labels(machines)
            yield _unknown("hostnames", hostname, labels, labels)


def _labels(machines: Collection[Machine]) -> dict[str, str]:
    """Return the labels of each machine, by host name; by machine name if a host has several."""
    times = Counter(each.hostname for each in machines)
    return {
        each.hostname if each.hostname and times[each.hostname] == 1 else each.name: " ".join(
            f"{label}={text}" for label, text in sorted(each.labels.items())
        )
        for each in machines
    }


def _unknown(
    path: str, written: str, known: Collection[str], labels: Mapping[str, str] = _UNLABELLED
) -> str:
    words = sorted(known)
    if not words:
        none = _NONE.get(path) or f"no machine has the label {path.removeprefix('labels.')}"
        return f"where.{path}: {written!r} is unknown; {none}"
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    shown = (f"{word} ({labels[word]})" if labels.get(word) else word for word in words[:_SHOWN])
    there = f"{'the only one is' if len(words) == 1 else 'there are'} {', '.join(shown)}{more}"
    near = difflib.get_close_matches(written, words, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"where.{path}: {written!r} is unknown; {there}{meant}"
