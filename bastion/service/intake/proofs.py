"""
Proofs: the objects in the bucket that confirm the facts of a bell.

A bell is only a hint, because every program on a machine can send one. The end of a host counts
only if its register `end` exists, and a new keeper life only if its register exists. Both are read
together with the bells of a turn, so a true bell takes effect in the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from bastion.errors import ForeignRecordError, RecordError
from bastion.job import End, HostState, JobRecord
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.facts import Bell, Drained, Ended, Heartbeat, Hello, HostFact
from bastion.records.reports.registers import LifeRegister
from bastion.records.requests.inbox import Ringing
from bastion.records.root import Root
from bastion.service.intake.registers import Seat, seat_of, standing_end
from bastion.store import ObjectStore
from bastion.value import value

NEW_LIVES = 1_000
"""
The most by which the number of a keeper life can exceed the last known one. A machine starts one at
each reboot. Without a limit, one bell could use up all numbers.
"""


@value
class Proof:
    """Which facts of one bell the bucket confirms."""

    ends: Mapping[HostFact, End] = field(default_factory=dict)
    """How hosts ended that have not ended according to root."""
    missing: frozenset[HostFact] = frozenset()
    """Hosts that are over according to the bell, but whose ends are not in the bucket."""
    is_life: bool = False
    """Whether the keeper life of a hello or a heartbeat exists, if it is newer than root's."""


class Proofs:
    """
    The proofs of one turn, relative to the last committed `root`; thread-safe.

    Nothing is read twice. For one machine at most as many registers are read as it has running
    hosts, even if its bells name more.
    """

    def __init__(self, store: ObjectStore, root: Root) -> None:
        self._store = store
        self._root = root
        self._ends: dict[HostFact, End | None] = {}
        self._missing: set[HostFact] = set()
        self._lives: dict[str, bool] = {}

    def of(self, ringing: Ringing, bell: Bell) -> Proof:
        """
        Return which facts of `bell` the bucket confirms.

        Raises:
            StoreError: Out of reach; nothing is confirmed or refuted.
        """
        machine = self._root.machines.get(ringing.machine)
        if machine is None or ringing.life < machine.life:
            return Proof()
        ends: dict[HostFact, End] = {}
        missing: set[HostFact] = set()
        for fact in bell.facts:
            if isinstance(fact, Ended | Drained):
                end = self._end(machine.name, fact.of)
                if isinstance(fact, Ended) and end is not None:
                    ends[fact.of] = end
                elif isinstance(fact, Drained) and fact.of in self._missing:
                    missing.add(fact.of)
        lives = any(isinstance(fact, Hello | Heartbeat) for fact in bell.facts)
        is_new = machine.life < ringing.life <= machine.life + NEW_LIVES
        is_life = lives and is_new and self._is_life(machine.name, ringing.life)
        return Proof(ends=ends, missing=frozenset(missing), is_life=is_life)

    def _end(self, machine: str, of: HostFact) -> End | None:
        if of not in self._ends:
            job = self._root.jobs.get(of.job)
            seat = placed(job, of, machine)
            if job is None or job.attempt is None or seat is None:
                return None
            if job.attempt.hosts[of.replica][of.host].end is not None:
                return None
            try:
                self._ends[of] = standing_end(self._store, seat)
            except ForeignRecordError:
                self._ends[of] = None  # another version wrote it, and must apply it
            else:
                if self._ends[of] is None:
                    self._missing.add(of)
        return self._ends[of]

    def _is_life(self, machine: str, number: int) -> bool:
        key = layout.life(machine, number)
        if key not in self._lives:
            try:
                self._lives[key] = look(self._store, key, LifeRegister) is not None
            except ForeignRecordError:
                self._lives[key] = True
            except RecordError:
                self._lives[key] = False  # an unreadable register is not a keeper life
        return self._lives[key]


def placed(job: JobRecord | None, of: HostFact, machine: str) -> Seat | None:
    """Return the seat that `of` names, if the current attempt of `job` has it on `machine`."""
    if job is None or job.project != of.project or job.attempt is None:
        return None
    if not has_host(job.attempt.hosts, of):
        return None
    seat = seat_of(job, of.replica, of.host)
    return seat if seat.of == of and seat.machine == machine else None


def has_host(hosts: tuple[tuple[HostState, ...], ...], of: HostFact) -> bool:
    """Whether the host that `of` names exists in `hosts`; a negative index never does."""
    return 0 <= of.replica < len(hosts) and 0 <= of.host < len(hosts[of.replica])
