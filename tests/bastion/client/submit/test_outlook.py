"""The effects of a dry run and of another quota file, as shown to people."""

from __future__ import annotations

from bastion.client.submit.outlook import outlook_lines
from bastion.job import JobClass
from bastion.scheduler.plan import Admit, Estimate, Preempt, Refuse, Verdict, Wait
from bastion.scheduler.reasons.holding import MaintenanceStop, Vacated
from bastion.scheduler.reasons.reason import NeverFits, WaitingForCapacity, WithinShare
from bastion.scheduler.whatif import Outlook
from quota import Amounts

NOW = 1_700_000_000.0
TWO, FOUR = Amounts({"h100": 2}), Amounts({"h100": 4})


def test_everything_that_would_happen_has_a_line() -> None:
    """It says what would start, wait until when, be refused or preempted; new jobs by name."""
    within = WithinShare(project="blue", held=TWO, nominal=FOUR)
    leaves = Vacated(window="everything", at=NOW + 30)
    verdicts: tuple[tuple[str, Verdict], ...] = (
        ("a-0000000000", Admit(job_class=JobClass.GUARANTEED, placement=(), reason=within)),
        (
            "b",
            Wait(
                reason=WaitingForCapacity(asked=FOUR, short=TWO),
                start=Estimate(at=NOW + 60, rests_on=12, off_by_s=300.0),
            ),
        ),
        ("big", Preempt(by="", deadline=NOW + 30, reason=leaves)),
        ("c", Refuse(reason=NeverFits(asked=FOUR, most=TWO, of="total"))),
    )
    outlook = Outlook(
        starts=("a-0000000000",),
        waits=("b",),
        refused=("c",),
        stops=(("old", "b"), ("big", "")),
        vacated=(
            ("long", MaintenanceStop(at=NOW + 3600, window="gpu from 8 to 9: drivers")),
            ("stays", MaintenanceStop(at=NOW + 3600, window="gpu from 8 to 9", is_left=True)),
        ),
        demoted=("low",),
        promoted=("high",),
        verdicts=verdicts,
    )
    first, second, third, *rest = outlook_lines(outlook, NOW)
    assert first.startswith("a would start now: ")
    assert second == (
        "b would be queued: waits for 2 h100 (it asks for 4 h100); starts when running jobs free"
        " 2 h100; expected 2023-11-14T22:14:20.000Z"
        " (rests on 12 earlier runs; may be off by ~5m)"
    )
    assert third.startswith("c would be refused: ")
    assert rest == [
        "old would be preempted for b",
        "big would be preempted: maintenance begins in 30s: everything",
        "long would be stopped in 1h for maintenance: gpu from 8 to 9: drivers",
        "stays may still run when maintenance begins, because it cannot resume: gpu from 8 to 9",
        "low would borrow, and would no longer be within its project's share",
        "high would be within its project's share",
    ]
