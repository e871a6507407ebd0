"""What a leader carries from one commit to the next, compared with what follows from root alone."""

from __future__ import annotations

from bastion.clock import VirtualClock
from bastion.job import Phase
from bastion.records.root import RootWriter
from bastion.service.draft.root_draft import queued_by_user
from bastion.service.leader import Leader
from bastion.store.memory import MemoryStore


def wrongly_carried(leader: Leader) -> str:
    """Return the first fact in which `leader` differs from its root; empty if there is none."""
    root = leader.held.root
    every = [*root.jobs.values(), *(each.each for each in root.arrays.values() if each.waiting)]
    dependents = {job.id for job in every if job.after and job.phase is Phase.QUEUED}
    working = {job.id for job in root.jobs.values() if job.phase is not Phase.QUEUED}
    pairs = {
        "working": (set(leader._working), working),
        "dependents": (set(leader._dependents), dependents),
        "queued": (leader._queued, queued_by_user(root)),
        "bytes": (leader._writer.encoded(root), _encoded_anew(leader)),
    }
    return next((f"{name}: {a!r}, not {b!r}" for name, (a, b) in pairs.items() if a != b), "")


def _encoded_anew(leader: Leader) -> bytes:
    clock = VirtualClock()
    writer = RootWriter(MemoryStore(clock.wall), clock, compress=leader._writer._compress)
    return writer.encoded(leader.held.root)
