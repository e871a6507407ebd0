"""`Speeds`: how much work a job does per second on its machines."""

from __future__ import annotations

from collections.abc import Collection

from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.engine.state import State
from bastion.simulator.workload.job import TraceJob
from bastion.simulator.workload.throughput import Throughputs


class Speeds:
    """
    The speed of the slowest machine of a job.

    Args:
        cluster: Its pools have speeds.
        throughputs: Those of kinds of jobs, which take precedence over the speeds of pools.
    """

    def __init__(self, cluster: Cluster, throughputs: Throughputs | None = None) -> None:
        self._shapes = cluster.named
        self._throughputs = throughputs
        self._known: dict[tuple[str, str, int], float] = {}
        self.are_even = throughputs is None and {s.speed for s in cluster.shapes} <= {1.0}
        """Whether every job does one second of work per second, on any machine."""

    def rate(self, job: TraceJob, machines: Collection[str], state: State) -> float:
        """Return the work per second of a job on `machines`."""
        if self.are_even:
            return 1.0
        return min(self.on(job, state.machines[machine].pool) for machine in machines)

    def on(self, job: TraceJob, pool: str) -> float:
        """Return the work per second of a job on machines of one pool."""
        key = job.kind, pool, job.devices
        known = self._known.get(key)
        if known is None:
            shape, found = self._shapes[pool], None
            if self._throughputs is not None:
                found = self._throughputs.speed(job.kind, pool, shape.type, job.devices)
            known = self._known[key] = shape.speed if found is None else found
        return known
