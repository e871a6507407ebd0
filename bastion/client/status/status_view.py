"""The bastion itself and the projects, as the bastion last described them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bastion.client.status.display import table, units_text
from bastion.value import field, replace, value
from quota.amounts import NOTHING, Amounts

if TYPE_CHECKING:
    from bastion.client.status.own_log import LogLine
    from quota.maintenance import Window

_SILENT_S = 10.0
"""The shortest silence that is reported: a busy leader publishes less often."""
_CONFIG = "config/bastion.toml"


@value
class ProjectView:
    """What one project may hold, and what it holds."""

    name: str
    nominal: Amounts = NOTHING
    usage: Amounts = NOTHING
    borrowed: Amounts = NOTHING
    lent: Amounts = NOTHING
    queued: int = 0
    waiting_since: float | None = None
    """When the first waiting job joined the queue; held jobs are not counted."""

    HEADS: ClassVar = ("project", "share", "holds", "borrowed", "lent", "queued")

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table, in the order of `HEADS`."""
        held = (self.nominal, self.usage, self.borrowed, self.lent)
        return (self.name, *map(units_text, held), str(self.queued))


@value
class BudgetView:
    """What one project or group may use of a type in its period, and has used."""

    of: str
    """The project or group."""
    kind: str
    """The type."""
    period: str
    """`day`, `week`, `month`, `quarter` or `year`, in UTC."""
    hours: int
    """Unit hours per period."""
    used: float
    """Unit hours used in this period; more than `hours` if running jobs continued."""
    renewed_at: float
    """When the next period begins."""


@value
class Signs:
    """What a leader that publishes nothing still does."""

    committed_at: float = 0.0
    """When root last changed, on the store's clock; 0: unknown."""
    last_warning: LogLine | None = None
    """What it has logged since it published."""


@value
class StatusView:
    """The bastion itself."""

    as_of: float
    leader: str = ""
    host: str = ""
    pid: int = 0
    ttl_s: float = 0.0
    """The length of the leader's lease, which is renewed after each third of it."""
    epoch: int = 0
    seq: int = 0
    bucket: str = ""
    """The bucket's own name, which its machines have on them at their providers."""
    since: float = 0.0
    version: str = ""
    build: str = ""
    """The digest of the program files of the bastion that leads."""
    poll_s: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Jobs by state."""
    projects: tuple[ProjectView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    """The budgets of projects and groups that have one, by name and type."""
    maintenance: tuple[Window, ...] = ()
    """The windows of the quota file in force that close machines now or later."""
    quota_version: str = ""
    has_quota: bool = False
    """Whether a quota file is in force: the newest or the last good one."""
    has_pools: bool = False
    """Whether a configuration with pools is in force."""
    quota_problem: str = ""
    """Why the newest quota file is not in force, or empty."""
    config_problem: str = ""
    problems: tuple[str, ...] = ()
    machines_dir: str = ""
    """The folder of local machines; empty where the bucket is not a folder."""
    machines_host: str = ""
    """The host that has this folder."""
    silent_s: float = 0.0
    """
    How long nothing has been published, by the bucket's clock; never below 0.

    It is by this machine's clock if the bucket gives no date, such as a folder that this user may
    only read.
    """
    is_behind: bool = False
    """Whether the leader commits, so jobs start and end, although nothing is published."""
    last_warning: LogLine | None = None
    """What a leader that publishes nothing has logged since; None for any other."""

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        return f"<{self.absence or f'{self.leader} leads on {self.host}'}; {counts or 'no jobs'}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(repr(self)[1:-1])}</p>" + table(
            ProjectView.HEADS, (project.cells for project in self.projects)
        )

    @property
    def is_given_up(self) -> bool:
        """Whether the last leader stopped in good order, and no bastion has led since."""
        return not self.leader

    @property
    def is_silent(self) -> bool:
        """Whether there is a leader that neither publishes nor commits for longer than allowed."""
        return bool(self.leader) and not self.is_behind and self.silent_s > self.patience_s

    @property
    def patience_s(self) -> float:
        """How long a leader may be silent."""
        return max(2 * self.ttl_s, _SILENT_S)

    @property
    def absence(self) -> str:
        """Why no bastion leads here, as far as readers can know; empty while one leads."""
        if self.is_given_up:
            return f"no bastion leads: the last one stopped {_span(self.silent_s)} ago"
        if self.is_silent:
            return (
                f"no bastion answers: {self.leader} on {self.host} has published nothing for"
                f" {_span(self.silent_s)}"
            )
        return ""

    @property
    def delay(self) -> str:
        """How old the views of a leader are that commits but does not publish; otherwise empty."""
        if not self.is_behind:
            return ""
        since = _span(self.silent_s)
        return f"{self.leader} on {self.host} leads, but has published nothing for {since}"

    @property
    def last_words(self) -> str:
        """What a leader that publishes nothing last warned of, and when; otherwise empty."""
        if (last := self.last_warning) is None:
            return ""
        from bastion.records.settings.notification import iso

        return f"{self.leader} logged at {iso(last.at)}: {last.text}"

    @property
    def refused_files(self) -> tuple[str, ...]:
        """The problems of the admins' newest files, and whether older ones stay in force."""
        found = []
        for name, problem, in_force in (
            ("the quota file", self.quota_problem, self.has_quota),
            (_CONFIG, self.config_problem, self.has_pools),
        ):
            if problem:
                kept = "; the last valid one stays in force" if in_force else ""
                found.append(f"{name}: {problem.removeprefix(f'{name}: ')}{kept}")
        return tuple(found)

    def judged_by(self, signs: Signs) -> StatusView:
        """Return the view of a silent leader with these `signs`; any other view unchanged."""
        if not self.is_silent:
            return self
        oldest = self.as_of + self.silent_s - self.patience_s
        is_behind = signs.committed_at >= oldest
        return replace(self, is_behind=is_behind, last_warning=signs.last_warning)


def status_of(view: Mapping[str, Any], *, wall: float) -> StatusView:
    """Return the view of `view/status.json`."""
    quota, config = view.get("quota") or {}, view.get("config") or {}
    return StatusView(
        as_of=view["now"],
        leader=str(view.get("leader") or ""),
        host=view.get("host") or "",
        pid=view.get("pid") or 0,
        ttl_s=view.get("ttl_s") or 0.0,
        epoch=view.get("epoch", 0),
        seq=view.get("seq", 0),
        bucket=str(view.get("bucket") or ""),
        since=view.get("since") or 0.0,
        version=view.get("version", ""),
        build=str(view.get("build") or ""),
        poll_s=view.get("poll_s", 0.0),
        counts=dict(view.get("counts") or {}),
        projects=tuple(
            _project_of(name, row) for name, row in sorted((view.get("projects") or {}).items())
        ),
        budgets=tuple(
            each
            for name, row in sorted((view.get("budgets") or {}).items())
            for each in _budgets_of(name, row)
        ),
        maintenance=_windows_of(view),
        quota_version=quota.get("version") or "",
        has_quota=bool(quota.get("in_force")),
        has_pools=bool(config.get("pools")),
        quota_problem=quota.get("problem") or "",
        config_problem=config.get("problem") or "",
        problems=tuple(view.get("problems") or ()),
        machines_dir=view.get("machines_dir") or "",
        machines_host=view.get("machines_host") or "",
        silent_s=max(0.0, wall - view["now"]),
    )


def _project_of(name: str, row: Mapping[str, Any]) -> ProjectView:
    return ProjectView(
        name=name,
        nominal=Amounts(row.get("nominal") or {}),
        usage=Amounts(row.get("usage") or {}),
        borrowed=Amounts(row.get("borrowed") or {}),
        lent=Amounts(row.get("lent") or {}),
        queued=row.get("queued", 0),
        waiting_since=row.get("waiting_since"),
    )


def _windows_of(view: Mapping[str, Any]) -> tuple[Window, ...]:
    if not view.get("maintenance"):
        return ()
    from bastion.records.maintenance import windows_left  # a look without windows is spared it

    return windows_left(view, view["now"])


def _budgets_of(name: str, row: Mapping[str, Any]) -> Iterator[BudgetView]:
    for kind, hours in sorted(row["hours"].items()):
        yield BudgetView(
            of=name,
            kind=kind,
            period=row["period"],
            hours=hours,
            used=row["used"][kind],
            renewed_at=row["renewed_at"],
        )


def _span(seconds: float) -> str:
    from bastion.spec.values.quantity import text_of_seconds

    return text_of_seconds(float(int(seconds)))
