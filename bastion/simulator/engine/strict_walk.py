"""
`StrictWalk`: the round of published studies, which stops at the first job that does not fit.

All jobs stand in one line, by the scheduler's order policy. From its beginning
each job keeps its devices or takes free ones, else running jobs are suspended from the tail one by
one until it fits. The walk stops at the first job that does not fit even then; running jobs after
it stay suspended for that round. The scheduler itself goes on behind such a job (backfill), which
is better; this is for comparison with published figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bastion.job import HostPlace, JobClass, Placement, ReplicaPlace
from bastion.scheduler.policies.order import OrderPolicy
from bastion.simulator.engine.life import Life
from bastion.simulator.engine.rounds import Chosen
from bastion.simulator.engine.state import State


class StrictWalk:
    """
    Chooses the jobs of a round by one walk. Devices are counted, wherever they are.

    Args:
        order: The scheduler's.
        is_steady: The rank of a job does not change while it waits.
    """

    def __init__(self, order: OrderPolicy, *, is_steady: bool = True) -> None:
        self._order = order
        self._is_steady = is_steady
        self.is_lasting = order.is_lasting

    def choose(self, state: State, now: float) -> Chosen:
        """The jobs up to the first that does not fit."""
        free = free_devices(state)
        line = self._line(state, now)
        at, tail = 0, len(line)
        chosen: dict[str, JobClass] = {}
        for at, life in enumerate(line):
            asked, kind = life.job.devices, life.job.type
            if life.is_running and at < tail:
                chosen[life.record.id] = JobClass.GUARANTEED
                continue
            while free[kind] < asked and tail > at + 1:
                tail -= 1
                other = line[tail]
                if other.is_running:
                    free[other.job.type] += other.job.devices
            if free[kind] < asked:
                break
            free[kind] -= asked
            chosen[life.record.id] = JobClass.GUARANTEED
        return chosen

    def _line(self, state: State, now: float) -> Sequence[Life]:
        rank_of = self._order.rank(state.snapshot(now), now)
        keyed = []
        for life in state.lives.values():
            rank = life.rank
            if rank is None:
                rank = rank_of(life.gang)
                if self._is_steady and not life.is_running:
                    life.rank = rank
            keyed.append((rank, life.job.submit_s, life.record.id, life))
        keyed.sort()
        return [each[3] for each in keyed]

    def place(self, state: State, starting: Chosen, now: float) -> Mapping[str, Placement]:
        """Any free devices: which ones makes no difference here."""
        del now
        free = {
            name: machine.resources[state.cluster.named[machine.pool].type]
            for name, machine in state.machines.items()
            if machine.accepts
        }
        for life in state.holding:
            for name, units in life.taken.items():
                if name in free:
                    free[name] -= units
        left = [(name, units) for name, units in sorted(free.items()) if units > 0]
        return {name: _take(left, state, state.lives[name]) for name in starting}


def _take(left: list[tuple[str, int]], state: State, life: Life) -> Placement:
    """Devices of the first machines that have any, as one replica for each machine."""
    wanted, kind, places = life.job.devices, life.job.type, []
    for at, (name, units) in enumerate(left):
        if units and kind == state.cluster.named[state.machines[name].pool].type:
            taken = min(units, wanted)
            left[at] = name, units - taken
            host = HostPlace(machine=name, devices={kind: tuple(range(taken))})
            places.append(ReplicaPlace(hosts=(host,)))
            wanted -= taken
            if not wanted:
                break
    return tuple(places)


def free_devices(state: State) -> Counter[str]:
    """Devices that nothing holds, by type."""
    free: Counter[str] = Counter()
    for machine in state.machines.values():
        if machine.accepts:
            kind = state.cluster.named[machine.pool].type
            free[kind] += machine.resources[kind]
    for life in state.holding:
        free[life.job.type] -= life.job.devices
    return free
