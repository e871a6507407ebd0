"""A refused launch that must not wait: why it fits on no machine, as data and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.errors import RefusedError
from bastion.scheduler.machine_report import MachineReport
from bastion.spec.values.quantity import text_of_bytes
from quota.amounts import Amounts


class BusyError(RefusedError):
    """
    A launch with `when_busy="fail"` could not start now.

    Args:
        message: The bastion's answer.
        machines: Each machine as seen by each job, closest fits first.
    """

    def __init__(self, message: str, machines: Sequence[MachineReport]) -> None:
        from bastion.scheduler.reasons.never_fits import NEVER

        hint = "" if NEVER in message else "without when_busy=fail it would wait in the queue"
        super().__init__(message, hint=hint, output=tuple(table(machines)))
        self.machines = tuple(machines)


def _amounts(amounts: Amounts) -> str:
    parts = (
        f"{text_of_bytes(n)} memory" if kind == "memory" else f"{n} {kind}"
        for kind, n in amounts.items()
    )
    return " + ".join(parts) or "-"


def table(machines: Sequence[MachineReport]) -> list[str]:
    """Return the reports in columns with a heading; names the job if there are several."""
    several = len({each.job for each in machines}) > 1
    rows = [["JOB", "MACHINE", "ASKED", "FREE", "FITS", "WHY NOT"]]
    rows += [
        [
            each.job,
            each.machine,
            _amounts(each.asked),
            _amounts(each.free),
            str(each.fits),
            each.why_not or "-",
        ]
        for each in machines
    ]
    shown = [row if several else row[1:] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in shown
    ]
