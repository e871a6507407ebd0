"""
Borrowers that may be stopped for a gang within its share, in the order in which to try them.

This module must not know how many are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from bastion.scheduler.preemption.harm import borrowers_of, excess_of
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from quota.amounts import Amounts
from quota.ledger import apart


def borrowers_for(draft: Draft, project: str, asked: Amounts) -> Iterator[Running]:
    """
    Yield borrowers that may be stopped for a gang of `project`, in the order to try them.

    Those of its own group come first, then those of the group around that, as far as `asked` is
    within the share there. Among equals, the project furthest above its share goes first, recounted
    after each; then by `least_lost`.
    """
    others = [name for name in draft.borrowers if name != project]
    quota, shares = draft.snapshot.quota, draft.shares
    if not quota.groups:
        yield from _furthest_above(draft, others)
        return
    departing, gone = draft.departing(firm=True), list[Running]()
    for node in quota.chain(project):
        near = [name for name in others if apart(quota, project, name)[-1] is node]
        if not near:
            continue
        with shares.without(gone, standing=departing.sums):
            is_within = not asked or node.name in shares.holding(project, asked)
        for running in _furthest_above_first(draft, project, near) if is_within else ():
            gone.append(running)
            yield running


def _furthest_above(draft: Draft, others: Iterable[str]) -> Iterator[Running]:
    """The case without groups; see `borrowers_for`."""
    lines = {name: excess_of(draft, name) for name in others}
    heap = [(-excess.before, name, 0) for name, excess in lines.items()]
    heapify(heap)
    while heap:
        _, name, at = heap[0]
        excess = lines[name]
        if at == len(excess.running):
            heappop(heap)
            continue
        yield excess.running[at]
        heapreplace(heap, (-excess.after(at + 1), name, at + 1))


def _furthest_above_first(draft: Draft, project: str, others: Iterable[str]) -> Iterator[Running]:
    """The case with groups, which are above their shares themselves."""
    quota, shares = draft.snapshot.quota, draft.shares
    lines = {name: _least_lost_first(draft, name, project) for name in others}
    nodes = {name: [n.name for n in reversed(apart(quota, name, project))] for name in lines}
    above: dict[str, Amounts] = {}
    """What the groups hold above their shares whose borrowers are tried."""
    depths: dict[str, float] = {}

    def depth(node: str) -> float:
        known = depths.get(node)
        if known is None:
            known = depths[node] = -shares.excess(node)
        return known

    def order(name: str) -> tuple[tuple[float, ...], str]:
        return tuple(map(depth, nodes[name])), name

    heap = [order(name) for name in lines]
    heapify(heap)
    while heap:
        known, name = heap[0]
        if order(name)[0] != known:  # its group is less far above its share than before
            heapreplace(heap, order(name))
            continue
        running = next(lines[name], None)
        if running is None:
            heappop(heap)
            continue
        yield running
        for node in nodes[name]:
            before = above[node] if node in above else shares.above_share(node)
            above[node] = before - running.held
            depths[node] = -shares.dominant_share(above[node])
        heapreplace(heap, order(name))


def _least_lost_first(draft: Draft, project: str, asking: str) -> Iterator[Running]:
    """Yield borrowers of `project` that `asking` may stop, and that nothing else stops."""
    for running in borrowers_of(draft, project):
        if draft.is_open_to(running, asking):
            yield running
