"""
The claim of one host of an attempt: won by this agent, or owned by another.

A claim is valid for one start by the keeper life that won it. An agent that finds its own claim
(because it died after winning it) reads `end` first. The keeper forgets hosts whose end is in the
bucket, so a host that it does not know may have run already; then its `end` exists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from bastion.agent.keeper.port import MachineFaultError
from bastion.agent.settings import AgentSettings
from bastion.errors import (
    BastionError,
    ForeignRecordError,
    NotFoundError,
    RecordError,
    SpecError,
)
from bastion.job import Claim, End
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.register import Lost, look, win
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import ClaimRegister, EndRegister
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec.launch import Launch
from bastion.store.port import ObjectStore
from bastion.value import value


@value
class Taken:
    """The claim is ours and nothing was started with it; `launch` is the spec, or a problem."""

    claim: Claim
    launch: Launch | BastionError


@value
class Over:
    """The claim was ours, and the host has ended."""

    end: End


@value
class OlderLife:
    """The claim belongs to an older life of this machine, whose processes are all dead."""


@value
class NotOurs:
    """Nothing may run here; `why` is for the log."""

    why: str
    is_settled: bool = True
    """Whether this is final: a newer agent may be able to decode the claim."""


Standing = Taken | Over | OlderLife | NotOurs


def claim_key(of: HostFact, machine: str) -> str:
    """Return the key of the claim of a host that `machine` was told to start."""
    return layout.claim(
        of.project, of.job, of.attempt, of.nonce,
        replica=of.replica, host=of.host, machine=machine,
    )  # fmt: skip


def end_key(of: HostFact, machine: str) -> str:
    """Return the key of the end of a host that `machine` was told to start."""
    return layout.end(
        of.project, of.job, of.attempt, of.nonce,
        replica=of.replica, host=of.host, machine=machine,
    )  # fmt: skip


def take(
    store: ObjectStore,
    of: HostFact,
    wanted: ClaimRegister,
    launch_of: Callable[[], Launch | BastionError],
) -> Standing:
    """
    Win the claim of a host with `wanted`, or return whose it is.

    Raises:
        StoreError: The result is in doubt; repeat the call with the same arguments.
    """
    mine = wanted.claim
    assert mine is not None
    try:
        outcome = win(store, claim_key(of, mine.machine), wanted)
    except ForeignRecordError as error:
        return NotOurs(why=error.in_a_line, is_settled=False)
    if isinstance(outcome, Lost):
        return standing(store, of, outcome.record, mine, launch_of)
    return Taken(claim=mine, launch=launch_of())


def standing(
    store: ObjectStore,
    of: HostFact,
    found: ClaimRegister | None,
    mine: Claim,
    launch_of: Callable[[], Launch | BastionError],
) -> Standing:
    """
    Return what the claim `found` means to an agent whose own claim would be `mine`.

    Raises:
        StoreError: The bucket is unreachable.
    """
    if found is None or found.claim is None:
        return NotOurs(why="it is revoked" if found else "it is not claimed")
    if found.claim.machine != mine.machine or found.claim.life > mine.life:
        return NotOurs(why=f"{found.claim.machine}, life {found.claim.life}, has claimed it")
    ended = look(store, end_key(of, mine.machine), EndRegister)
    if ended is not None:
        return Over(end=ended.end)
    if found.claim.life < mine.life:
        return OlderLife()
    return Taken(claim=found.claim, launch=launch_of())


_OLD_AGENT = (
    "the agent of this machine is older than the launch; drain the machine: its agent is upgraded"
    " once no job runs there"
)


class Launches:
    """The specs of launches; the latest few are cached, as the hosts of a gang start together."""

    _KEPT = 32

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: dict[str, Launch] = {}

    def launch(self, project: str, launch: str) -> Launch | BastionError:
        """
        Return the launch, or why it cannot be read: here, if a newer version wrote it, or anywhere.

        Raises:
            StoreError: The bucket is unreachable.
        """
        key = layout.spec(project, launch)
        with self._lock:
            known = self._read.get(key)
        if known is not None:
            return known
        try:
            found = self._store.read(key, limit_bytes=RECORD_BYTES)
            assert found is not None
            record = decode(SpecRecord, found.data, key=key)
        except NotFoundError:
            return SpecError(f"{key} is missing: there is nothing to start")
        except ForeignRecordError as error:
            return MachineFaultError(f"{error.message}; {_OLD_AGENT}")
        except RecordError as error:
            return error
        with self._lock:
            if len(self._read) >= self._KEPT:
                del self._read[next(iter(self._read))]
            self._read[key] = record.launch
        return record.launch


def mine(settings: AgentSettings, *, life: int, port: int) -> Claim:
    """Return this agent's claim."""
    return Claim(machine=settings.machine, life=life, address=settings.address, port=port)


def asked(store: ObjectStore, of: HostFact, claim: Claim) -> Standing:
    """Return the state of a host that a stop names and that this agent does not know."""
    try:
        found = look(store, claim_key(of, claim.machine), ClaimRegister)
    except ForeignRecordError as error:
        return NotOurs(why=error.in_a_line, is_settled=False)
    return standing(store, of, found, claim, lambda: SpecError("it was stopped"))
