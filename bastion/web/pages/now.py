"""The first page: which job is on which device, who uses what share, and what waits for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bastion.client.look.views import JobView, StatusView
from bastion.value import value
from bastion.web.pages.paging import Part, page_number, part_of
from bastion.web.pages.palette import Palette
from bastion.web.pages.shares import Share, shares
from bastion.web.reading.board import Board, Row

FILTERS = ("search", "project", "user", "state")


@value
class NowPage:
    """What the first page shows."""

    shares: tuple[Share, ...]
    counts: Mapping[str, int]
    """Jobs by state; every task counts."""
    jobs: Part[JobView]
    given: Mapping[str, str]
    """The filters as they were asked for."""
    projects: tuple[str, ...]
    as_of: float


def now_page(
    board: Board, status: StatusView | None, palette: Palette, query: Mapping[str, str]
) -> NowPage:
    """The page for what the address asks for; a filter that nothing fits shows nothing."""
    given = {name: query.get(name, "").strip()[:200] for name in FILTERS}
    rows = board.chosen(**given)
    part: Part[Row] = part_of(rows, page_number(query.get("page", "")), path="/", query=given)
    jobs = Part(
        rows=tuple(map(board.job, part.rows)),
        number=part.number,
        total=part.total,
        path=part.path,
        query=part.query,
    )
    projects = {project.name for project in status.projects} if status else set()
    counts = status.counts if status else Counter(row["state"] for row in board.rows)
    return NowPage(
        shares=shares(status.projects, palette) if status else (),
        counts=counts,
        jobs=jobs,
        given=given,
        projects=tuple(sorted(projects)),
        as_of=board.as_of,
    )
