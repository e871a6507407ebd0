"""
The claim and end registers of hosts, as the bastion reads them.

A register that cannot be decoded counts as unclaimed. A register that another version of Bastion
wrote counts as claimed: reading it fails, and is retried.
"""

from __future__ import annotations

from bastion.errors import ForeignRecordError, RecordError
from bastion.job import End, JobRecord
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import EndRegister
from bastion.store import ObjectStore
from bastion.value import value


@value
class Seat:
    """One host of an attempt, and the machine that it is placed on."""

    of: HostFact
    machine: str

    @property
    def claim_key(self) -> str:
        """The key of the register that decides which machine can start it."""
        of = self.of
        return layout.claim(
            of.project, of.job, of.attempt, of.nonce,
            replica=of.replica, host=of.host, machine=self.machine,
        )  # fmt: skip

    @property
    def end_key(self) -> str:
        """The key of the register that says how it ended."""
        of = self.of
        return layout.end(
            of.project, of.job, of.attempt, of.nonce,
            replica=of.replica, host=of.host, machine=self.machine,
        )  # fmt: skip


def seat_of(job: JobRecord, replica: int, host: int) -> Seat:
    """Return the seat of one host of the current attempt of `job`."""
    assert job.attempt is not None
    of = HostFact(
        project=job.project,
        job=job.id,
        attempt=job.attempt.number,
        nonce=job.attempt.nonce,
        replica=replica,
        host=host,
    )
    return Seat(of=of, machine=job.attempt.placement[replica].hosts[host].machine)


def standing_end(store: ObjectStore, seat: Seat) -> End | None:
    """
    Return how a host ended, or None while its `end` is not written.

    An `end` that cannot be decoded was written after every process of the host was dead. How the
    host ended is lost, but its devices are free.

    Raises:
        StoreError: Out of reach.
        ForeignRecordError: Another version of Bastion wrote it.
    """
    try:
        found = look(store, seat.end_key, EndRegister)
    except ForeignRecordError:
        raise
    except RecordError as error:
        return End(kind="lost", detail=error.message)
    return None if found is None else found.end
