"""Which machine is likely to blame for the failures of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bastion.job import PastAttempt
from bastion.value import value

FAILURES_ON_ONE_MACHINE = 2
"""The same failure this often on one machine, and on no other, is not a coincidence."""


@value
class Suspect:
    """A machine on which a job failed repeatedly in the same way, and nowhere else."""

    machine: str
    times: int
    kind: str
    code: int | None
    others: int
    """Attempts of the job on other machines, none of which failed in that way."""


def suspect_of(past: Sequence[PastAttempt]) -> Suspect | None:
    """
    Return the machine to blame for failures among the ended attempts of one job, or None.

    The job failed there at least twice in the same way. It also ran without that machine at least
    once, and never failed in that way there. Otherwise the job itself is the likelier cause.
    """
    ways = Counter((each.kind, each.code, each.failed_on) for each in past if each.failed_on)
    for (kind, code, machine), times in ways.items():
        elsewhere = [each for each in past if not _was_on(each, machine) and each.started_at]
        is_alike = any((each.kind, each.code) == (kind, code) for each in elsewhere)
        if times >= FAILURES_ON_ONE_MACHINE and elsewhere and not is_alike:
            return Suspect(
                machine=machine, times=times, kind=kind.value, code=code, others=len(elsewhere)
            )
    return None


def _was_on(attempt: PastAttempt, machine: str) -> bool:
    return any(machine in hosts for hosts in attempt.machines)
