"""How certain an estimated start is: a word for programs, and words for people."""

from __future__ import annotations

from bastion.scheduler.plan import Wait
from bastion.scheduler.reasons.reason import Planned, Promised
from bastion.scheduler.reasons.words import counted
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value

_WORDS = {
    "promised": "promised, at the latest then",
    "planned": "planned, unless a job within its share needs the devices first",
    "limits": "if running jobs use all of their time limits and grace periods, and no job is queued"
    " ahead of it",
}


@value
class Start:
    """When a waiting job will probably start, as it is published."""

    estimated_at: float | None = None
    """In seconds of the store's clock; None if unknown."""
    sure: str = ""
    """
    What it rests on; empty if there is none.

    `promised`: by then, while machines are healthy. `planned`: then, unless a job within its share
    needs the devices first. `limits`: then, if running jobs use all of their `max_runtime` and no
    job is queued ahead of it. `history`: then, if running jobs take as long as earlier runs of
    their kind did, and no job is queued ahead of it.
    """
    rests_on: int = 0
    """For `history`: the number of earlier runs."""
    off_by_s: float = 0.0
    """For `history`: the likely error."""
    sure_text: str = ""
    """All of this in words."""


NO_START = Start()


def start_of(wait: Wait) -> Start:
    """Return what is known of the start of a job whose verdict is `wait`."""
    start = wait.start
    if start is None:
        return NO_START
    at, runs, off_by_s = start.at, start.rests_on, start.off_by_s
    if not runs:
        sure = {Promised: "promised", Planned: "planned"}.get(type(wait.reason), "limits")
        return Start(estimated_at=at, sure=sure, sure_text=_WORDS[sure])
    text = f"rests on {counted(runs, 'earlier run')}"
    if off_by_s >= 1:
        text += f"; may be off by ~{text_of_seconds(off_by_s)}"
    return Start(estimated_at=at, sure="history", rests_on=runs, off_by_s=off_by_s, sure_text=text)
