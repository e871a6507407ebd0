"""The first page: jobs on devices, how projects use their shares, and what jobs wait for."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Mapping
from urllib.parse import urlencode

from bastion.client.look.views import JobView
from bastion.client.status.status_view import BudgetView, StatusView
from bastion.value import value
from bastion.web.drawing.paging import Part, Tab, page_number, part_of, tabs_of
from bastion.web.drawing.palette import Palette
from bastion.web.drawing.shares import Share, shares
from bastion.web.reading.board import Board, Row

FILTERS = ("search", "project", "user", "device", "state")
TABS = {"": "All", "running": "Running", "queued": "Queued"}
"""Tabs of the table of jobs: those that hold machines, and those that wait."""


@value
class NowPage:
    """What the first page shows."""

    shares: tuple[Share, ...]
    budgets: tuple[BudgetView, ...]
    counts: Mapping[str, int]
    """Jobs by state; every task counts."""
    jobs: Part[JobView]
    tabs: tuple[Tab, ...]
    show: str
    """The name of the tab in the address."""
    given: Mapping[str, str]
    """The requested filters."""
    projects: tuple[str, ...]
    devices: tuple[str, ...]
    """The types that active jobs ask for."""
    as_of: float

    @property
    def ended(self) -> str:
        """The query that asks for the ended jobs of the same project and user, and search."""
        asked = {name: self.given[name] for name in ("project", "user", "search")}
        return urlencode({"days": "7", **{name: text for name, text in asked.items() if text}})


def now_page(
    board: Board, status: StatusView | None, palette: Palette, query: Mapping[str, str]
) -> NowPage:
    """Return the page for an address; a filter that matches nothing shows nothing."""
    given = {name: query.get(name, "").strip()[:200] for name in FILTERS}
    show = query.get("show", "") if query.get("show") in TABS else ""
    every = list(board.chosen(**given))
    admitted = bisect(every, False, key=lambda row: not board.is_admitted(row))
    parts = {"": every, "running": every[:admitted], "queued": every[admitted:]}
    asked = {**given, "show": show}
    number = page_number(query.get("page", ""))
    part: Part[Row] = part_of(parts[show], number, path="/", query=asked)
    projects = {project.name for project in status.projects} if status else set()
    counts = status.counts if status else Counter(row["state"] for row in board.rows)
    return NowPage(
        shares=shares(status.projects, palette) if status else (),
        budgets=status.budgets if status else (),
        counts=counts,
        jobs=part.showing(tuple(map(board.job, part.rows))),
        tabs=tabs_of(
            TABS,
            {name: len(rows) for name, rows in parts.items()},
            show,
            path="/",
            query=given,
            anchor="#queue",
        ),
        show=show,
        given=given,
        projects=tuple(sorted(projects)),
        devices=tuple(sorted(board.devices)),
        as_of=board.as_of,
    )
