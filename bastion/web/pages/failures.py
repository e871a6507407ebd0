"""Recent failures: why, whose job it is, where it ran, and whether it is retried."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from bastion.client.status.status_view import StatusView
from bastion.value import value
from bastion.web.drawing.paging import Part, page_number, part_of
from bastion.web.record.reader import Known
from bastion.web.record.summary import Failure

FILTERS = ("project", "search")


@value
class FailuresPage:
    """What the page of failures shows."""

    days: str
    rows: Part[Failure]
    given: Mapping[str, str]
    """The requested filters."""
    projects: tuple[str, ...]
    left_out: int
    """Older failures of the period, of these projects, that are on no part."""
    known: Known

    def address(self, days: str) -> str:
        """Return the query of the same page over another period."""
        return urlencode({"days": days, **{k: text for k, text in self.given.items() if text}})


def failures_page(
    status: StatusView | None, known: Known, query: Mapping[str, str], *, days: str
) -> FailuresPage:
    """Return the page for an address; a filter that matches nothing shows nothing."""
    given = {name: query.get(name, "").strip()[:200] for name in FILTERS}
    summary, project = known.summary, given["project"]
    own = [each for each in (summary.failures if summary else ()) if project in ("", each.project)]
    failed = summary.failed if summary else {}
    total = failed.get(project, 0) if project else sum(failed.values())
    names = {each.name for each in status.projects} if status else set()
    return FailuresPage(
        days=days,
        rows=part_of(
            [each for each in own if _fits(each, given["search"])],
            page_number(query.get("page", "")),
            path="/failures",
            query={"days": days, **given},
        ),
        given=given,
        projects=tuple(sorted(names | failed.keys())),
        left_out=max(0, total - len(own)),
        known=known,
    )


def _fits(each: Failure, search: str) -> bool:
    texts = (each.job, each.project, each.user, each.outcome, each.text, *each.machines)
    return search.casefold() in "\n".join(texts).casefold()
