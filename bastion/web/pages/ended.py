"""Ended jobs of a period, newest first: of a project, of a user, in a state."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from bastion.client.status.status_view import StatusView
from bastion.endings import OutcomeKind
from bastion.value import replace, value
from bastion.web.drawing.paging import Part, page_number
from bastion.web.record.ended import ROWS
from bastion.web.record.question import Listed, Period
from bastion.web.record.reader import Known
from bastion.web.record.summary import Ended

FILTERS = ("project", "user", "state", "search", "tasks")
TASKS = "1"
"""The value of `tasks` in an address that lists the tasks of arrays."""
_OF_ATTEMPTS = (OutcomeKind.PREEMPTED, OutcomeKind.STOPPED)
STATES = tuple(kind.value for kind in OutcomeKind if kind not in _OF_ATTEMPTS)
"""How a job can end."""
_MOST_CHARACTERS = 200


@value
class EndedPage:
    """What the page of ended jobs shows."""

    days: str
    rows: Part[Ended]
    given: Mapping[str, str]
    """The requested filters."""
    projects: tuple[str, ...]
    known: Known

    def address(self, days: str) -> str:
        """Return the query of the same page over another period."""
        return urlencode({"days": days, **{k: text for k, text in self.given.items() if text}})

    @property
    def with_tasks(self) -> str:
        """The query of the same page with the tasks of arrays; empty if they are listed."""
        return "" if self.given["tasks"] else f"{self.address(self.days)}&tasks={TASKS}"


def listed_of(period: Period, query: Mapping[str, str]) -> Period:
    """Return the question about the jobs that ended in `period` and that an address asks for."""
    number = page_number(query.get("page", ""))
    given = _given(query)
    listed = Listed(
        number=number,
        project=given["project"],
        user=given["user"],
        state=given["state"],
        search=given["search"],
        has_tasks=bool(given["tasks"]),
    )
    return replace(period, listed=listed)


def ended_page(
    status: StatusView | None, known: Known, query: Mapping[str, str], *, days: str
) -> EndedPage:
    """Return the page for an address; a filter that matches nothing shows nothing."""
    given = _given(query)
    found = known.summary.ended if known.summary is not None else None
    names = {each.name for each in status.projects} if status else set()
    return EndedPage(
        days=days,
        rows=Part(
            rows=found.rows if found is not None else (),
            number=found.number if found is not None else 1,
            total=found.total if found is not None else 0,
            path="/ended",
            query={"days": days, **given},
            size=ROWS,
        ),
        given=given,
        projects=tuple(sorted(names | ({given["project"]} - {""}))),
        known=known,
    )


def _given(query: Mapping[str, str]) -> dict[str, str]:
    given = {name: query.get(name, "").strip()[:_MOST_CHARACTERS] for name in FILTERS}
    return given | {"tasks": TASKS if given["tasks"] == TASKS else ""}
