"""
The registers of hosts, as the bastion reads them: whose they are, and what they hold.

A register that nobody can read is nobody's. One that another version of Bastion wrote has been won:
reading it fails, and it is read again.
"""

from __future__ import annotations

from bastion.errors import ForeignRecordError, RecordError
from bastion.job import End, JobRecord
from bastion.records import layout
from bastion.records.facts import HostFact
from bastion.records.register import look
from bastion.records.registers import EndRegister
from bastion.store import ObjectStore
from bastion.value import value


@value
class Seat:
    """One host of an attempt, and the machine that it is placed on."""

    of: HostFact
    machine: str

    @property
    def claim_key(self) -> str:
        """The register that says who may start it."""
        of = self.of
        return layout.claim(
            of.project, of.job, of.attempt, of.nonce,
            replica=of.replica, host=of.host, machine=self.machine,
        )  # fmt: skip

    @property
    def end_key(self) -> str:
        """The register that says how it ended."""
        of = self.of
        return layout.end(
            of.project, of.job, of.attempt, of.nonce,
            replica=of.replica, host=of.host, machine=self.machine,
        )  # fmt: skip


def seat_of(job: JobRecord, replica: int, host: int) -> Seat:
    """The seat of one host of the attempt that `job` makes now."""
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
    How a host ended, or None while nobody has written it.

    What cannot be read was written once and for all, when nothing of the host lived any more: how
    it ended is lost, its devices are not.

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
