"""
Views: what the command line reads, even while no bastion runs.

They are not state: no decision depends on them, and they never cause a commit. Each is a function
of one committed root and the plan made for it, and they are published at their own pace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bastion.clock import Clock
from bastion.errors import ConflictError, NotFoundError, StoreRefusedError
from bastion.lifecycle.remark import SILENT_S
from bastion.machine import Machine, Pool
from bastion.metrics.meter import NO_METER, Meter
from bastion.records.coding.codec import plain
from bastion.records.keys import layout
from bastion.records.root import Root
from bastion.records.settings.notification import iso
from bastion.records.standing import NAMED_IN
from bastion.scheduler.plan import Plan
from bastion.service.act.shortages import Shortage
from bastion.service.config.admin_files import AdminFiles
from bastion.service.intake.requests import told
from bastion.service.publish.queue_view import JobRows, queue_bytes, queue_lines, queue_view
from bastion.service.publish.steady_machines import SteadyMachines
from bastion.service.publish.totals import RunningTotals, Totals
from bastion.service.publish.view_json import view_bytes
from bastion.spec.values.quantity import text_of_seconds
from bastion.store import ObjectStore, Version
from bastion.version import VERSION
from quota import NOTHING, Amounts, Quota

COST_SHARE = 10.0
"""A view that took t seconds to build is built again after this many times t."""
LONGEST_S = 10.0
"""But after at most this long, or twice t: on a busy machine t is mostly waiting."""
TIME_STEP_S = 20.0
"""How often rows are rebuilt only because they contain a time, such as that of a silent agent."""
STATUS_LONGEST_S = 2.0
"""The same for the status, whose age shows readers whether a bastion is alive."""

LOOK_S = 60.0
"""How often it checks that its views still exist: a person may have deleted one."""


class _Sources:
    """The inputs of a view: equal to others if the view would be the same."""

    def __init__(self, objects: tuple[object, ...], told: tuple[object, ...]) -> None:
        self._objects = objects
        """Large and never changed in place: compared by identity."""
        self._told = told

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Sources) or self._told != other._told:
            return False
        return all(a is b for a, b in zip(self._objects, other._objects, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Publisher:
    """
    Publishes the views of one bastion.

    Args:
        machines_place: The host and the folder of local machines, for readers that look for them.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        every_s: float,
        meter: Meter = NO_METER,
        machines_place: tuple[str, str] = ("", ""),
    ) -> None:
        self._machines_place = machines_place
        self._store = store
        self._clock = clock
        self._every_s = every_s
        self._meter = meter
        self._rows_at = 0.0
        self._status_at = 0.0
        self._published = -1
        self._made_of: dict[str, _Sources] = {}
        self._seqs: dict[str, int] = {}
        """By view: the commit that it names."""
        self._jobs = JobRows()
        self._lines: tuple[list[bytes], ...] = ()
        """The rows of the queue as last published."""
        self._steady = SteadyMachines()
        self._sums = RunningTotals()
        self._totals: tuple[tuple[object, ...], Totals] | None = None
        self._is_writing = False
        self._raised: BaseException | None = None
        """What the last failed write raised."""
        self._versions: dict[str, Version] = {}
        self._look_at = clock.monotonic() + LOOK_S

    def works(
        self,
        root: Root,
        plan: Plan | None,
        files: AdminFiles,
        problems: tuple[str, ...],
        shortages: tuple[Shortage, ...] = (),
    ) -> Callable[[], None] | None:
        """
        Return the work that publishes the views that have changed, or None if none is due.

        A commit that only renews the lease changes no row, and a machine that is heard again
        changes only the view of the pools. Then the status names the commits of the other views,
        whose contents are still true.
        """
        now = self._clock.monotonic()
        sources = self._sources(root, plan, files, shortages)
        stale = [name for name, made_of in sources.items() if made_of != self._made_of.get(name)]
        has_news = root.seq != self._published or bool(stale)
        if self._is_writing or now < self._status_at or not has_news:
            return None
        data: dict[str, bytes] = {}
        if stale and now >= self._rows_at:
            self._made_of = sources
            data = self._rows(stale, root, plan, files, shortages)
            self._seqs |= dict.fromkeys(data, root.seq)
            stale = []
            self._rows_at = self._after(now, longest_s=LONGEST_S)
        elif root.seq == self._published:
            return None
        self._published = root.seq
        began = self._clock.monotonic()
        totals_ = self._totals_of(root, files.quota)
        status = status_view(root, files, problems, totals=totals_)
        # Rows that are not published yet are those of this commit, which no view has.
        seqs = {name: root.seq if name in stale else seq for name, seq in self._seqs.items()}
        status |= {field: seqs.get(view, root.seq) for view, field in NAMED_IN.items()}
        host, folder = self._machines_place
        status |= {"machines_host": host, "machines_dir": folder} if folder else {}
        self._meter.published({"status": status})
        data["status"] = view_bytes(status)
        self._status_at = self._after(began, longest_s=STATUS_LONGEST_S)
        self._is_writing = True
        return lambda: self._write(data, root.seq)

    def _sources(
        self, root: Root, plan: Plan | None, files: AdminFiles, shortages: tuple[Shortage, ...]
    ) -> dict[str, _Sources]:
        """Return the inputs of each view."""
        # Texts that contain a time soon become outdated, although nothing else changes.
        tells_time = self._jobs.tells_time or bool(root.arrays)
        step = int(root.now // TIME_STEP_S) if tells_time else 0
        machines = self._steady.of(root.machines)
        return {
            "queue": _Sources(
                (root.jobs, root.arrays, machines, plan), (shortages, _silences(root), step)
            ),
            "pool": _Sources(
                (root.jobs, root.machines, root.warm, files.config.pools), (shortages,)
            ),
        }

    def _rows(
        self,
        stale: Sequence[str],
        root: Root,
        plan: Plan | None,
        files: AdminFiles,
        shortages: tuple[Shortage, ...],
    ) -> dict[str, bytes]:
        """Return the `stale` views whose rows have changed, encoded, by name."""
        data: dict[str, bytes] = {}
        if "queue" in stale:
            queue = queue_view(root, plan, shortages, jobs=self._jobs)
            self._meter.published({"queue": queue})
            lines = queue_lines(queue, self._jobs.line)
            if lines != self._lines:
                data["queue"] = queue_bytes(queue, lines)
                self._lines = lines
        if "pool" in stale:
            pool = pool_view(root, files.config.pools, shortages)
            self._meter.published({"pool": pool})
            data["pool"] = view_bytes(pool)
        return data

    def _after(self, began: float, *, longest_s: float) -> float:
        """Return when a view that was started at `began` and is built now is due again."""
        now = self._clock.monotonic()
        cost_s = now - began
        return now + max(self._every_s, min(COST_SHARE * cost_s, max(longest_s, 2 * cost_s)))

    def publish_last(
        self, root: Root, plan: Plan | None, files: AdminFiles, problems: tuple[str, ...]
    ) -> None:
        """
        Publish `root` immediately: readers learn that nothing leads any longer.

        Raises:
            StoreError: Out of reach.
        """
        self._forget()
        self._is_writing = False
        self._rows_at = self._status_at = 0.0
        if (work := self.works(root, plan, files, problems)) is not None:
            work()

    def _totals_of(self, root: Root, quota: Quota | None) -> Totals:
        """Sum up all jobs, or return the last sums if none of their inputs has changed."""
        of = (root.jobs, root.arrays, self._steady.of(root.machines), quota)
        if self._totals is None or any(a is not b for a, b in zip(of, self._totals[0])):
            self._totals = of, self._sums.of(root, quota)
        return self._totals[1]

    def _write(self, data: Mapping[str, bytes], seq: int) -> None:
        try:
            self._put_all(data, seq)
            if self._clock.monotonic() >= self._look_at and not self._stand():
                self._forget()
        except BaseException as error:
            self._raised = error
            self._forget()
            raise
        finally:
            self._is_writing = False

    def _put_all(self, data: Mapping[str, bytes], seq: int) -> None:
        """Publish every view, also if one is refused: the status then names the refusal."""
        refusals: list[StoreRefusedError] = []
        for name, body in data.items():
            try:
                self._put(layout.view(name), body, seq)
            except StoreRefusedError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]

    def failed(self, error: Exception) -> None:
        """Publish again after a write failed with `error`, also if it never began."""
        if error is not self._raised:
            self._forget()
            self._is_writing = False

    def _stand(self) -> bool:
        """Whether the bucket has every view as it was published."""
        self._look_at = self._clock.monotonic() + LOOK_S
        try:
            return all(
                self._store.read(key, unless=version) is None
                for key, version in self._versions.items()
            )
        except NotFoundError:
            return False

    def _forget(self) -> None:
        """Publish every view again, even if the bucket has it."""
        self._published, self._made_of, self._lines = -1, {}, ()

    def _put(self, key: str, body: bytes, seq: int) -> None:
        """Publish `body`, unless the bucket has a view of a later commit than `seq`."""
        version = self._versions.get(key)
        for _ in range(2):
            try:
                if version is None:
                    written = self._store.create(key, body)
                else:
                    written = self._store.swap(key, body, if_version=version)
            except ConflictError:
                version, published_seq = self._read(key)
                if published_seq > seq:
                    return
            else:
                self._versions[key] = written.version
                return

    def _read(self, key: str) -> tuple[Version | None, int]:
        """Return the version of the view in the bucket, and its commit; -1 if that is unknown."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None, -1
        assert found is not None
        try:
            return found.version, int(json.loads(found.data)["seq"])
        except (ValueError, KeyError, TypeError):
            return found.version, -1


def pool_view(
    root: Root, pools: Mapping[str, Pool], shortages: tuple[Shortage, ...] = ()
) -> dict[str, Any]:
    """
    Return every machine with its resources, which of them are used, and by which jobs.

    `held` names the devices of each job on it, by type and index. `shortages` are what providers
    lack or refuse now.
    """
    used: dict[str, Amounts] = {}
    jobs: dict[str, list[str]] = {}
    held: dict[str, dict[str, dict[str, list[int]]]] = {}
    for job in root.jobs.values():
        for host in (host for place in job.alive for host in place.hosts):
            name = host.machine
            jobs.setdefault(name, []).append(job.id)
            kinds = held.setdefault(name, {}).setdefault(job.id, {})
            for kind, indices in host.devices.items():
                kinds.setdefault(kind, []).extend(indices)
            if not job.request.takes_whole:
                used[name] = used.get(name, NOTHING) + job.request.per_replica
            elif name in root.machines:
                used[name] = root.machines[name].resources
    machines = [
        _machine_row(
            machine,
            used.get(machine.name, NOTHING),
            jobs.get(machine.name, []),
            held.get(machine.name, {}),
        )
        for machine in root.machines.values()
    ]
    return {
        "schema": 1,
        "now": root.now,
        "seq": root.seq,
        "bucket": root.bucket,
        "machines": machines,
        "pools": [plain(pool) for pool in pools.values()],
        "shortages": [plain(each) for each in shortages],
        "warm": {pool: plain(warm) for pool, warm in root.warm.items()},
    }


def _free_of(
    machine: Machine, used: Amounts, held: Mapping[str, Mapping[str, list[int]]]
) -> Amounts:
    """Return what new jobs can get of `machine`: nothing if it accepts none."""
    if not machine.accepts:
        return NOTHING
    bad = {kind: set(indices) for kind, indices in machine.bad_devices.items()}
    for kinds in held.values():
        for kind, indices in kinds.items():
            bad.get(kind, set()).difference_update(indices)
    left_alone = Amounts({kind: len(indices) for kind, indices in bad.items()})
    return (machine.resources - used - left_alone).positive()


def _machine_row(
    machine: Machine, used: Amounts, jobs: list[str], held: Mapping[str, Mapping[str, list[int]]]
) -> dict[str, Any]:
    return {
        "name": machine.name,
        "pool": machine.pool,
        "phase": machine.phase.value,
        "resources": dict(machine.resources.items()),
        "used": dict(used.items()),
        "free": dict(_free_of(machine, used, held).items()),
        "jobs": sorted(set(jobs)),
        "cordoned": machine.cordoned,
        "unwell": machine.unwell,
        "waits": machine.waits,
        "stuck": machine.stuck,
        "draining": machine.draining,
        "drain_by": machine.drain_by,
        "drained_at": machine.drained_at,
        "bad_devices": {kind: list(bad) for kind, bad in machine.bad_devices.items()},
        "bad_text": machine.bad_text,
        "tier": machine.tier,
        "zone": machine.zone,
        "hostname": machine.hostname,
        "address": machine.address,
        "life": machine.life,
        "heard_at": machine.heard_at,
        "heartbeat_s": machine.heartbeat_s,
        "idle_since": machine.idle_since,
        "slice": machine.slice,
        "held": held,
    }


def status_view(
    root: Root, files: AdminFiles, problems: tuple[str, ...], *, totals: Totals
) -> dict[str, Any]:
    """
    Return the leader, the files in force, the number of jobs by state, and the problems.

    A long list of problems is shortened: the log has all of them.
    """
    leader = root.leader
    return {
        "schema": 1,
        "now": root.now,
        "seq": root.seq,
        "epoch": root.epoch,
        "bucket": root.bucket,
        "version": VERSION,
        "build": root.build,
        "leader": leader.holder if leader else None,
        "host": leader.host if leader else None,
        "pid": leader.pid if leader else None,
        "since": leader.since if leader else None,
        "ttl_s": leader.ttl_s if leader else None,
        "quota": {"in_force": files.quota is not None, "problem": files.quota_problem},
        "config": {"pools": sorted(files.config.pools), "problem": files.config_problem},
        "counts": totals.counts,
        "projects": totals.projects,
        "budgets": dict(_budgets(root, files.quota)) if files.quota is not None else {},
        "maintenance": list(_windows(root, files.quota)) if files.quota is not None else [],
        "problems": list(told((*problems, *_overdue(root)))),
    }


def _budgets(root: Root, quota: Quota) -> Iterator[tuple[str, Any]]:
    """Yield what each project and group can use in its period, and what it has used of that."""
    for name, budget in sorted(quota.budgets.items()):
        used = budget.hours_spent(root.spent.get(name), root.now)
        yield (
            name,
            {
                "period": budget.period,
                "renewed_at": budget.period_at(root.now)[1],
                "hours": dict(budget.hours),
                "used": {kind: round(used.get(kind, 0.0), 2) for kind in budget.hours},
            },
        )


def _windows(root: Root, quota: Quota) -> Iterator[Any]:
    """Yield the maintenance windows that are not over."""
    return (plain(window) for window in quota.maintenance if window.ends_at > root.now)


def _overdue(root: Root) -> Iterator[str]:
    """Yield a sentence about each machine whose agent should have rung."""
    for machine in root.machines.values():
        if machine.is_overdue(root.now):
            every = text_of_seconds(machine.heartbeat_s)
            yield (
                f"machine {machine.name}: its agent reports every {every} and was last heard from"
                f" at {iso(machine.heard_at)}; bastion cordon {machine.name} keeps jobs away"
            )


def _silences(root: Root) -> dict[str, int]:
    """Return for how many steps machines have been silent: their jobs' rows show each step."""
    return {
        machine.name: int((root.now - machine.heard_at) // TIME_STEP_S)
        for machine in root.machines.values()
        if machine.heartbeat_s and root.now - machine.heard_at > SILENT_S
    }
