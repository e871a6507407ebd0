"""
A job in a list: its row of the published queue, of which only requested fields are read.

A list of ten thousand jobs shows seven fields of each; a `JobView` would have forty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from bastion.client.look.rows import amounts_of_row, job_of_row, range_of_row
from bastion.client.look.views import ENDED, UNREADABLE, JobView
from bastion.errors import SpecError
from bastion.value import replace
from quota.amounts import Amounts


class JobLine:
    """
    One job of the queue; every field has the name and the meaning that it has in `JobView`.

    Args:
        row: A row of `view/queue.json`.
        as_of: When the view was published, in Unix seconds by the store's clock.
    """

    __slots__ = ("_row", "as_of", "id", "project", "state", "task")

    parameters: Mapping[str, object] = {}
    is_array = False

    def __init__(self, row: Mapping[str, Any], as_of: float) -> None:
        self._row = row
        self.as_of = as_of
        self.id: str = row["id"]
        self.project: str = row["project"]
        self.state: str = row["state"]
        self.task: int | None = row.get("task")

    def whole(self) -> JobView:
        """Return all that is known of it."""
        return job_of_row(self._row, as_of=self.as_of)

    @property
    def user(self) -> str:
        """Its user."""
        told: str = self._row.get("user", "")
        return told

    @property
    def phase(self) -> str:
        """Its phase."""
        told: str = self._row.get("phase", "")
        return told

    @property
    def units(self) -> Amounts:
        """What it asks for, or has."""
        return amounts_of_row(self._row)

    @property
    def replica_range(self) -> tuple[int, int] | None:
        """The fewest and the most replicas, if it can grow and shrink."""
        return range_of_row(self._row)

    @property
    def replicas_text(self) -> str:
        """How many replicas it has."""
        return self.whole().replicas_text

    @property
    def submitted_at(self) -> float:
        """When it was submitted."""
        at: float = self._row.get("submitted_at", 0.0)
        return at

    @property
    def ended_at(self) -> float | None:
        """When it ended."""
        return self._row.get("ended_at")

    @property
    def priority(self) -> int:
        """Its priority."""
        number: int = self._row.get("priority", 3)
        return number

    @property
    def job_class(self) -> str:
        """Its class."""
        return self._row.get("class") or ""

    @property
    def attempt(self) -> int:
        """Its attempt."""
        number: int = self._row.get("attempt", 0)
        return number

    @property
    def machines(self) -> tuple[str, ...]:
        """Its machines."""
        return tuple(self._row.get("machines") or ())

    @property
    def text(self) -> str:
        """Why it is in its state."""
        told: str = self._row.get("text", "")
        return told

    @property
    def reason(self) -> Mapping[str, object]:
        """The same as numbers and names."""
        told: Mapping[str, object] = self._row.get("reason") or {}
        return told


def tells_time(row: JobView | JobLine) -> bool:
    """Whether its reason contains a time relative to now."""
    return " in " in row.text and row.phase != "done" and bool(row.reason)


def with_text(row: JobView | JobLine, text: str, *, as_of: float) -> JobView | JobLine:
    """Return `row` with `text` as its reason, as of a later moment."""
    if isinstance(row, JobLine):
        return JobLine({**row._row, "text": text}, as_of)
    return replace(row, text=text, as_of=as_of)


def whole(row: JobView | JobLine) -> JobView:
    """Return all that is known of the job of `row`."""
    return row.whole() if isinstance(row, JobLine) else row


_ACTIVE = ("queued", "held", "preempted", "starting", "running", "stopping", "draining")


def check_states(states: Collection[str]) -> Collection[str]:
    """
    Return states as a collection, even if a single one is given.

    Raises:
        SpecError: There is no such state.
    """
    given = (states,) if isinstance(states, str) else states
    known = (*_ACTIVE, *sorted(ENDED), UNREADABLE)
    for state in given:
        if state not in known:
            from quota.choice import choose

            raise SpecError(f"states: {state!r} is unknown, {choose(state, known, most=20)}")
    return given


def chosen(
    rows: Iterable[JobView | JobLine],
    *,
    project: str,
    user: str,
    states: Collection[str],
    tasks: bool,
) -> Iterator[JobView | JobLine]:
    """Yield the `rows` that match a filter; an empty field of the filter matches all."""
    return (
        row
        for row in rows
        if project in ("", row.project)
        and user in ("", row.user)
        and (not states or row.state in states)
        and (tasks or row.task is None)
    )
