"""
`StrictWalk`: the round of published studies, which stops at the first job that does not fit.

All jobs are in one line, by the scheduler's order policy. From its beginning, each job keeps its
devices or takes free ones; otherwise running jobs are suspended from the tail one by one until it
fits. The walk stops at the first job that still does not fit; running jobs behind it stay suspended
for that round. The scheduler itself continues behind such a job (backfill), which is better. This
walk is for comparison with published figures.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.job import HostPlace, JobClass, Placement, ReplicaPlace
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State
from bastion.simulator.rounds.line import Line
from bastion.simulator.rounds.rounds import Moves
from bastion.simulator.rounds.standing import Standing


class StrictWalk:
    """
    Chooses the jobs of a round by one walk. Devices are counted on any machine.

    Args:
        line: The jobs, in order.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._standing = Standing()
        self.is_lasting = line.is_lasting

    def waits(self, life: Life) -> None:
        """Add a job that waits from now on."""
        self._line.add(life)

    def waits_no_more(self, life: Life) -> None:
        """Remove a job that starts or is taken out."""
        self._line.remove(life)

    def choose(self, state: State, now: float) -> Moves:
        """Return the jobs up to the first that does not fit."""
        running, waiting = self._line.ranked(state, now)
        free = self._standing.free(state)
        tail, last, at = len(running), len(waiting), 0
        stops: dict[Life, None] = {}
        starts: dict[str, JobClass] = {}
        here = 0
        while here < len(running) or at < last:
            is_first = at == last or (here < len(running) and running[here] < waiting[at])
            life = running[here][3] if is_first else waiting[at][3]
            if is_first:
                here += 1
                if here <= tail:
                    continue
            else:
                at += 1
            asked, kind = life.job.devices, life.job.type
            while free[kind] < asked and tail > here:
                tail -= 1
                other = running[tail][3]
                stops[other] = None
                free[other.job.type] += other.job.devices
            if free[kind] < asked:
                break
            free[kind] -= asked
            if is_first:
                del stops[life]
            else:
                starts[life.record.id] = JobClass.GUARANTEED
        else:
            return Moves(stops=tuple(stops), starts=starts)
        for *_, life in running[here:]:
            stops[life] = None
        return Moves(stops=tuple(stops), starts=starts)

    def place(
        self, state: State, starting: Mapping[str, JobClass], now: float
    ) -> Mapping[str, Placement]:
        """Return any free devices: which ones makes no difference here."""
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
    """Take devices of the first machines that have any, as one replica per machine."""
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
