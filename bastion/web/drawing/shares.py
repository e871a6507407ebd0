"""The bars of shares: what each project owns, uses, borrows and lends."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.client.status.status_view import ProjectView
from bastion.value import value
from bastion.web.drawing.palette import Palette
from quota.amounts import Amounts

WIDTH = 1000.0
"""Of a bar, in its own units."""


@value
class Bar:
    """One resource of one project; lengths are in `WIDTH`."""

    kind: str
    owned: int
    used: int
    borrowed: int
    lent: int
    owned_x: float
    own_used_x: float
    borrowed_x: float
    lent_x: float

    @property
    def text(self) -> str:
        """The same in words."""
        said = [f"uses {self.used:,} of {self.owned:,} {self.kind}"]
        said += [f"borrows {self.borrowed:,}"] if self.borrowed else []
        said += [f"lends {self.lent:,}"] if self.lent else []
        return ", ".join(said)


@value
class Share:
    """One project."""

    project: str
    color: int
    queued: int
    waiting_since: float | None
    """When the first waiting job joined the queue."""
    bars: tuple[Bar, ...]


def shares(projects: Sequence[ProjectView], palette: Palette) -> tuple[Share, ...]:
    """Return the bars of `projects`; one scale per resource; no bars for what no project owns."""
    owned = Amounts.sum(project.nominal for project in projects)
    longest = {
        kind: max(max(project.nominal[kind], project.usage[kind]) for project in projects)
        for kind in owned
    }
    return tuple(
        Share(
            project=project.name,
            color=palette(project.name),
            queued=project.queued,
            waiting_since=project.waiting_since,
            bars=tuple(
                _bar(project, kind, WIDTH / longest[kind])
                for kind in sorted(longest)
                if project.nominal[kind] or project.usage[kind]
            ),
        )
        for project in projects
    )


def _bar(project: ProjectView, kind: str, scale: float) -> Bar:
    owned, used = project.nominal[kind], project.usage[kind]
    borrowed, lent = project.borrowed[kind], project.lent[kind]
    return Bar(
        kind=kind,
        owned=owned,
        used=used,
        borrowed=borrowed,
        lent=lent,
        owned_x=owned * scale,
        own_used_x=(used - borrowed) * scale,
        borrowed_x=borrowed * scale,
        lent_x=lent * scale,
    )
