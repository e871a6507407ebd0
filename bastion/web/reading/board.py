"""
The board: everything that the bastion last published, as one value.

Rows stay as they were parsed, because a page shows fifty of twelve thousand: only the shown rows
become views of jobs. A row from a newer bastion may contain more; missing fields are empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import repeat
from typing import Any

from bastion.client.look.array_views import array_of_row
from bastion.client.look.rows import job_of_row, shortage_of_row
from bastion.client.look.told_reason import told_now
from bastion.client.look.views import JobView, ShortageView
from bastion.client.status.status_view import Signs, StatusView, status_of
from bastion.records.maintenance import closed_rows, windows_left
from bastion.records.standing import true_until
from bastion.value import value

Row = Mapping[str, Any]

ADMITTED = ("stopping", "running", "starting", "draining")
"""The phases of jobs that hold machines."""
COUNTED = frozenset({"cpu", "memory"})
"""Resources that are amounts; every other resource is a device with an index."""


@value
class Published:
    """The views of one bastion, parsed."""

    queue: Row = field(default_factory=dict)
    pool: Row = field(default_factory=dict)
    status: Row = field(default_factory=dict)
    signs: Signs = Signs()
    """What a leader that publishes nothing still does."""


class Board:
    """
    What one bastion last published.

    Args:
        published: Its views.
    """

    def __init__(self, published: Published) -> None:
        self.published = published
        queue = published.queue
        rows = [*(queue.get("jobs") or ()), *(queue.get("arrays") or ())]
        rows.sort(key=lambda row: not self.is_admitted(row))
        self.rows: Sequence[Row] = rows
        """Active jobs and arrays: admitted ones first, then in the order of the queue."""
        self._told_at = float(queue.get("now") or 0.0)
        """When these rows and their texts were created."""
        self.as_of = true_until(queue, published.status, "queue")
        """Until when they are known to be true, on the store's clock, in seconds."""
        self.pool_as_of = true_until(published.pool, published.status, "pool")
        """The same for the machines."""
        self.maintenance = windows_left(published.status, self.pool_as_of)
        """The windows that are not over."""
        self.machines: Sequence[Row] = closed_rows(
            published.pool.get("machines") or (), self.maintenance, self.pool_as_of
        )
        self.pools: Mapping[str, Row] = {
            row["name"]: row for row in published.pool.get("pools") or ()
        }

    @cached_property
    def by_id(self) -> Mapping[str, Row]:
        """The rows of active jobs, by ID."""
        return {row["id"]: row for row in self.rows}

    @cached_property
    def devices(self) -> frozenset[str]:
        """The types of devices that active jobs hold or ask for."""
        return frozenset(kind for row in self.rows for kind in row.get("units") or ()) - COUNTED

    @property
    def shortages(self) -> tuple[ShortageView, ...]:
        """What is sold out at providers or refused by them now."""
        return tuple(map(shortage_of_row, self.published.pool.get("shortages") or ()))

    def status(self, *, wall: float) -> StatusView | None:
        """The last published status of the bastion; None if there is none."""
        seen = self.published
        return status_of(seen.status, wall=wall).judged_by(seen.signs) if seen.status else None

    def job(self, row: Row) -> JobView:
        """Return the view of the job or array in `row`, with times relative to `as_of`."""
        made = array_of_row if "counts" in row else job_of_row
        return told_now(made(row, as_of=self._told_at), lambda: self.as_of)

    @staticmethod
    def is_admitted(row: Row) -> bool:
        """Whether the job in `row` holds machines."""
        return row.get("phase") in ADMITTED

    def holders(self, kinds: Collection[str]) -> Sequence[Row]:
        """Return the rows of jobs that hold any of these resources, those with the most first."""
        found = [
            (sum(row["units"].get(kind, 0) for kind in kinds), row)
            for row in self.rows
            if self.is_admitted(row) and "counts" not in row and row.get("units")
        ]
        found.sort(key=lambda each: -each[0])
        return [row for number, row in found if number]

    def chosen(
        self,
        *,
        project: str = "",
        user: str = "",
        state: str = "",
        device: str = "",
        search: str = "",
    ) -> Iterator[Row]:
        """
        Yield the rows that match every non-empty filter; `search` is a part of any text.

        An array is in each state that one of its tasks is in.
        """
        wanted = search.casefold()
        if not (project or user or state or device or wanted):
            yield from self.rows
            return
        texts = self._texts if wanted else repeat("", len(self.rows))
        for row, text in zip(self.rows, texts):
            if project not in ("", row["project"]) or user not in ("", row.get("user")):
                continue
            if state not in ("", row.get("state")) and not row.get("counts", {}).get(state):
                continue
            if device and device not in (row.get("units") or ()):
                continue
            if wanted in text:
                yield row

    @cached_property
    def _texts(self) -> Sequence[str]:
        """The searchable texts of each row; readers search repeatedly while they type."""
        return list(map(_text_of, self.rows))


def _text_of(row: Row) -> str:
    parts = (row["id"], row.get("user"), row["project"], row.get("state"), row.get("text"))
    return "\n".join(part for part in (*parts, *(row.get("machines") or ())) if part).casefold()
