"""
The values of the views as gauges: computed on request, from the last views alone.

Names of projects, pools and reasons are labels. Names of jobs and users are not, because each would
create a time series. Names of machines are labels of only one gauge, that of their use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bastion.job import Phase
from bastion.metrics.use_gauges import Uses, use_gauges
from bastion.records.maintenance import closed_rows, windows_left
from bastion.records.standing import true_until

Views = Mapping[str, Mapping[str, Any]]
COUNTED = frozenset({"cpu", "memory"})
"""Resources that are amounts; every other resource is a device."""
_NOT_OF_SHARE = ("NeverFits", "AtOnce", "OverUserLimit", "BudgetSpent", "Backoff")
"""Kinds of reasons for which a job waits even if its project's share has room."""


class ViewGauges(Collector):
    """
    The gauges of one bucket.

    Args:
        views: The last views by name: `queue`, `pool`, `status`; empty if there are none.
        uses: What machines use, if it is read.
    """

    def __init__(self, views: Callable[[], Views], uses: Callable[[], Uses]) -> None:
        self._views = views
        self._uses = uses
        self._made: tuple[Views, Uses, tuple[Metric, ...]] | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the gauges are known only once there are views."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge of the last views; they are computed once for all requests."""
        views, uses = self._views(), self._uses()
        if self._made is None or self._made[0] is not views or self._made[1] is not uses:
            self._made = views, uses, tuple(self._gauges(views, uses))
        yield from self._made[2]

    @staticmethod
    def _gauges(views: Views, uses: Uses) -> Iterator[Metric]:
        queue, status = views.get("queue", {}), views.get("status", {})
        yield from _status(status)
        yield from _jobs(queue, status)
        yield from _machines(views.get("pool", {}), status)
        yield from _shares(queue, status)
        yield from _budgets(status)
        if uses:
            yield from use_gauges(queue, views.get("pool", {}), uses)


def _gauge(name: str, meaning: str, labels: tuple[str, ...], found: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(f"bastion_{name}", meaning, labels=labels)
    for values, number in sorted(found.items()):
        family.add_metric([str(each) for each in values], number)
    return family


def _status(status: Mapping[str, Any]) -> Iterator[Metric]:
    if not status:
        return
    leads = 1.0 if status.get("leader") else 0.0
    quota, config = status.get("quota") or {}, status.get("config") or {}
    yield _gauge(
        "leads", "Whether a bastion led when the views were published: 1 or 0", (), {(): leads}
    )
    yield _gauge("commit_seq", "Number of the last commit", (), {(): status.get("seq", 0)})
    yield _gauge(
        "published_timestamp_seconds",
        "When the views were last published, by the store's clock",
        (),
        {(): status.get("now", 0.0)},
    )
    bad = {("quota",): bool(quota.get("problem")), ("config",): bool(config.get("problem"))}
    yield _gauge("file_refused", "Whether the newest file of the admins is refused", ("file",), bad)
    problems = len(status.get("problems") or ())
    yield _gauge("problems", "Problems of the last minute", (), {(): problems})


def _jobs(queue: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Metric]:
    rows = queue.get("jobs") or ()
    states = {(state,): number for state, number in (status.get("counts") or {}).items()}
    yield _gauge("jobs", "Active jobs by state; every task of an array counts", ("state",), states)
    waiting: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.get("phase") == Phase.QUEUED.value:
            waiting[row["project"], _reason(row)] += 1
    for row in queue.get("arrays") or ():
        counts = row.get("counts") or {}
        waiting[row["project"], _reason(row)] += counts.get("queued", 0) + counts.get("held", 0)
    yield _gauge(
        "queued_jobs",
        "Jobs that wait, by project and by the kind of their reason",
        ("project", "reason"),
        +waiting,
    )


def _reason(row: Mapping[str, Any]) -> str:
    return str((row.get("reason") or {}).get("kind") or row.get("state") or "unknown")


def _machines(pool: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Metric]:
    phases: Counter[tuple[str, str]] = Counter()
    troubles: Counter[tuple[str, str]] = Counter()
    devices: Counter[tuple[str, str, str]] = Counter()
    now = true_until(pool, status, "pool")
    for row in closed_rows(pool.get("machines") or (), windows_left(status, now), now):
        name = row.get("pool", "")
        phases[name, row.get("phase", "")] += 1
        for trouble in ("cordoned", "unwell", "waits", "draining"):
            troubles[name, trouble] += bool(row.get(trouble))
        troubles[name, "maintenance"] += bool(row.get("closed"))
        for kind, state, number in _devices(row):
            devices[name, kind, state] += number
    yield _gauge("machines", "Machines by phase", ("pool", "phase"), phases)
    yield _gauge("machines_troubled", "Machines with a trouble", ("pool", "trouble"), troubles)
    yield _gauge("devices", "Devices by state", ("pool", "device", "state"), devices)
    short = Counter((each["pool"], each.get("why") or "") for each in pool.get("shortages") or ())
    yield _gauge("shortages", "What providers lack or refuse now", ("pool", "why"), short)


def _devices(row: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    used, bad = row.get("used") or {}, row.get("bad_devices") or {}
    is_open = row.get("phase") == "ready" and not (
        row.get("cordoned") or row.get("unwell") or row.get("draining") or row.get("closed")
    )
    for kind, number in (row.get("resources") or {}).items():
        if kind in COUNTED:
            continue
        held = min(used.get(kind, 0), number)
        broken = min(len(bad.get(kind) or ()), number - held)
        yield kind, "used", held
        yield kind, "bad", broken
        yield kind, "idle" if is_open else "closed", number - held - broken


def _shares(queue: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Metric]:
    projects: Mapping[str, Mapping[str, Any]] = status.get("projects") or {}
    for name, field, meaning in (
        ("share_units", "nominal", "What each project owns"),
        ("used_units", "usage", "What each project uses, borrowed units included"),
        ("borrowed_units", "borrowed", "What each project uses beyond its share"),
        ("lent_units", "lent", "What of each project's share others use"),
    ):
        found = {
            (project, kind): number
            for project, row in projects.items()
            for kind, number in (row.get(field) or {}).items()
        }
        yield _gauge(name, meaning, ("project", "resource"), found)
    now = true_until(queue, status, "queue")
    oldest: dict[tuple[str], float] = {}
    within: dict[tuple[str], float] = {}
    for row in (*(queue.get("jobs") or ()), *(queue.get("arrays") or ())):
        if not _waits(row):
            continue
        project, age = row["project"], max(0.0, now - (queued_at(row) or now))
        oldest[(project,)] = max(oldest.get((project,), 0.0), age)
        if _is_within_share(row, projects.get(project, {})):
            within[(project,)] = max(within.get((project,), 0.0), age)
    yield _gauge(
        "oldest_wait_seconds",
        "How long the job that joined the queue first has waited since",
        ("project",),
        oldest,
    )
    yield _gauge(
        "share_wait_seconds",
        "The same, of jobs that wait although their project's own share has room for them",
        ("project",),
        within,
    )


def _budgets(status: Mapping[str, Any]) -> Iterator[Metric]:
    budgets: Mapping[str, Mapping[str, Any]] = status.get("budgets") or {}
    for name, field, meaning in (
        ("budget_hours", "hours", "Unit hours that a project or group may use in its period"),
        ("budget_used_hours", "used", "Unit hours that it has used in this period"),
    ):
        found = {
            (of, kind): number for of, row in budgets.items() for kind, number in row[field].items()
        }
        yield _gauge(name, meaning, ("of", "resource"), found)


def queued_at(row: Mapping[str, Any]) -> float | None:
    """Return when the job in `row` joined the queue; from an older bastion, its submission."""
    at: float | None = row.get("queued_at", row.get("submitted_at"))
    return at


def _waits(row: Mapping[str, Any]) -> bool:
    """Whether the job in `row`, or a task of the array in it, waits and is not held."""
    if "counts" in row:
        return bool(row["counts"].get("queued"))
    return row.get("state") in ("queued", "preempted")


def _is_within_share(row: Mapping[str, Any], project: Mapping[str, Any]) -> bool:
    """Whether the project would still be within its share with the job in `row`."""
    nominal, usage = project.get("nominal") or {}, project.get("usage") or {}
    asked = {kind: n for kind, n in (row.get("units") or {}).items() if kind in nominal}
    if not asked or row.get("after") or (row.get("reason") or {}).get("kind") in _NOT_OF_SHARE:
        return False
    return all(usage.get(kind, 0) + number <= nominal[kind] for kind, number in asked.items())
