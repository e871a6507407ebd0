"""
A bucket as a busy bastion leaves it: its views and files, with any number of jobs.

The views are the ones that the bastion derives from a root, with the reasons of its own scheduler,
so the pages read here are those that it publishes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

from bastion.job import Attempt, HostPlace, HostState, JobClass, JobRecord, Phase, ReplicaPlace
from bastion.machine import Machine, MachinePhase, Pool
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.outlook import snapshot_of
from bastion.records.reports.history import EndedAttempt
from bastion.records.reports.usage import (
    DeviceUse,
    ForeignProcess,
    GroupUse,
    HostUse,
    MachineUse,
    UsageSegment,
    packed,
)
from bastion.records.root import Event, Leader, Root
from bastion.scheduler.cycle import decide
from bastion.service.config.admin_files import AdminFiles
from bastion.service.publish.queue_view import queue_view
from bastion.service.publish.totals import totals
from bastion.service.publish.view_json import view_bytes
from bastion.service.publish.views import pool_view, status_view
from bastion.spec.request import Request
from bastion.store.port import ObjectStore
from quota import Amounts, parse

NOW = 1_795_000_000.0
PROJECTS = ("vision", "language", "audio", "robotics", "safety")
PEOPLE = ("ada", "lin", "max", "noor", "sam", "yuki")
DEVICES = 8
POOL = Pool(
    name="h100-west",
    provider="fake",
    resources=Amounts({"h100": DEVICES, "cpu": 208}),
    max_machines=1000,
    price_per_hour=31.5,
)


def quota_text(machines: int) -> str:
    """Return a quota file that gives each project a fifth of all devices."""
    shares = "".join(f"[project_resources.{name}]\nh100 = 0.2\n" for name in PROJECTS)
    members = "".join(f"{name} = {json.dumps(list(PEOPLE))}\n" for name in PROJECTS)
    return (
        f'[toml-schema]\nversion = "1"\n\n[total_resources]\nh100 = {machines * DEVICES}\n\n'
        f"[project_membership]\n{members}\n{shares}"
    )


def busy_root(*, machines: int, running: int, queued: int) -> Root:
    """Return a root with `running` jobs on its machines and `queued` ones behind them."""
    hosts = {f"h100-west-{n}-0": _machine(n, queued) for n in range(machines)}
    places = cycle((name, index) for name in hosts for index in range(DEVICES))
    wide = max(1, machines * DEVICES * 9 // 10 // max(running, 1))
    used: Counter[str] = Counter()
    jobs = []
    for number in range(running):
        project = _names(number)[1]
        used[project] += wide
        is_own = used[project] <= machines * DEVICES // len(PROJECTS)
        job_class = JobClass.GUARANTEED if is_own else JobClass.BORROWED
        jobs.append(_running(number, [next(places) for _ in range(wide)], job_class))
    jobs += [_queued(running + n) for n in range(queued)]
    return Root(
        bucket="e314f71267",
        epoch=7,
        seq=1000,
        now=NOW,
        write_id="w",
        leader=Leader(
            holder="west",
            host="vm-1",
            boot="b",
            pid=1,
            pid_started=0.0,
            since=NOW - 90_000,
            ttl_s=30.0,
        ),
        quota_text=quota_text(machines),
        jobs={job.id: job for job in jobs},
        machines=hosts,
    )


def write_bucket(store: ObjectStore, root: Root) -> None:
    """Write the views and files of `root`, replacing earlier ones."""
    quota = parse(root.quota_text)
    pools = {POOL.name: POOL}
    plan = decide(snapshot_of(root, quota, now=root.now, pools=pools), root.now)
    files = AdminFiles(store, store, _Still(), quota_key=layout.QUOTA, every_s=0.0)
    files.adopt(root)
    bodies = {
        "queue": queue_view(root, plan),
        "pool": pool_view(root, pools),
        "status": status_view(root, files, (), totals=totals(root, quota))
        | {"views_seq": root.seq, "pool_seq": root.seq},
    }
    for name, body in bodies.items():
        put(store, layout.view(name), view_bytes(body))
    put(store, layout.QUOTA, root.quota_text.encode())


def put(store: ObjectStore, key: str, data: bytes) -> None:
    """Write an object, replacing any."""
    entries = store.list(key, limit=1)
    if entries and entries[0].key == key:
        store.swap(key, data, if_version=entries[0].version)
    else:
        store.create(key, data)


class _Still:
    """A clock that stands still."""

    def wall(self) -> float:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


def _machine(number: int, queued: int) -> Machine:
    made = Machine(
        name=f"h100-west-{number}-0",
        pool=POOL.name,
        phase=MachinePhase.READY,
        resources=POOL.resources,
        zone="us-west1-a",
        hostname=f"host-{number}",
        heard_at=NOW - 3.0,
        idle_since=NOW - 700.0,
        life=1,
    )
    if number % 17 == 5:
        return replace(made, cordoned="ECC errors on device 3", bad_devices={"h100": (3,)})
    return made


def _names(number: int) -> tuple[str, str, str]:
    project = PROJECTS[(0, 2, 0, 1, 4, 0, 1, 3, 0, 1)[number % 10]]
    return f"train-{number:010d}", project, PEOPLE[number % len(PEOPLE)]


def _running(number: int, places: list[tuple[str, int]], job_class: JobClass) -> JobRecord:
    job = _queued(number)
    by_machine: dict[str, list[int]] = {}
    for name, index in places:
        by_machine.setdefault(name, []).append(index)
    placement = tuple(
        ReplicaPlace(hosts=(HostPlace(machine=name, devices={"h100": tuple(indices)}),))
        for name, indices in by_machine.items()
    )
    attempt = Attempt(
        number=1,
        nonce="n",
        admitted_at=NOW - 500.0,
        placement=placement,
        job_class=job_class,
        started_at=NOW - 480.0 - number % 300,
        hosts=tuple((HostState(),) for _ in placement),
    )
    size = max(len(each.hosts[0].devices["h100"]) for each in placement)
    request = replace(
        job.request, replicas=len(placement), per_replica=Amounts({"h100": size, "cpu": 8 * size})
    )
    return replace(job, phase=Phase.RUNNING, attempt=attempt, attempts=1, request=request)


def _queued(number: int) -> JobRecord:
    name, project, user = _names(number)
    size = (1, 2, 4, 8)[number % 4]
    return JobRecord(
        id=name,
        name="train",
        project=project,
        user=user,
        launch=name,
        ulid=f"{number:026d}",
        submitted_at=NOW - 40_000.0 + number,
        queued_at=NOW - 40_000.0 + number,
        request=Request(
            replicas=1, per_replica=Amounts({"h100": size, "cpu": 8 * size}), max_runtime_s=7200.0
        ),
    )


def write_use(store: ObjectStore, root: Root, *, segments: int = 6) -> None:
    """
    Write the current usage of machines, with a foreign process on the first, and samples of each
    host.
    """
    hosts: dict[str, list[HostUse]] = {}
    for job in root.jobs.values():
        for replica, place in enumerate(job.attempt.placement if job.attempt else ()):
            held = place.hosts[0]
            devices = tuple(held.devices["h100"])
            use = GroupUse(cores=6.5 * len(devices), memory_bytes=len(devices) * 40 << 30)
            told = HostUse(
                project=job.project,
                job=job.id,
                attempt=1,
                replica=replica,
                devices=devices,
                use=use,
            )
            hosts.setdefault(held.machine, []).append(told)
            prefix = layout.usage(job.project, job.id, 1, replica=replica, host=0)
            for number in range(segments):
                key = layout.usage_segment(prefix, number)
                store.create(key, packed(_samples(devices, number)))
    for n, name in enumerate(root.machines):
        told_of = hosts.get(name, [])
        in_use = {index for each in told_of for index in each.devices}
        devices_used = tuple(
            DeviceUse(
                index=i,
                used=round(0.97 - 0.11 * ((n + i) % 8), 2) if i in in_use else 0.0,
                memory_bytes=(60 << 30) if i in in_use else 0,
                memory_total_bytes=80 << 30,
            )
            for i in range(DEVICES)
        )
        foreign = ForeignProcess(
            pid=4711, name="python3", user="eve", devices=(DEVICES - 1,), memory_bytes=3 << 30
        )
        use_now = MachineUse(
            machine=name,
            devices=devices_used,
            hosts=tuple(told_of),
            foreign=(foreign,) if not n else (),
            cores=6.5 * len(in_use),
            memory_bytes=(8 + 40 * len(in_use)) << 30,
        )
        put(store, layout.machine_use(name), encode(use_now))


def _samples(devices: tuple[int, ...], number: int) -> UsageSegment:
    """Return ten minutes of samples: the devices work, with a pause after every third segment."""
    n = 60
    each = {
        str(i): tuple(
            0 if number % 3 == 2 and at > 40 else 96 - 4 * (i % 4) - at % 7 for at in range(n)
        )
        for i in devices
    }
    return UsageSegment(
        at=tuple(int(NOW) - 3600 + 600 * number + 10 * at for at in range(n)),
        used=each,
        device_memory_mib={str(i): (61_440,) * n for i in devices},
        cores=tuple(6.0 * len(devices) + at % 5 / 10 for at in range(n)),
        memory_mib=tuple(40_960 * len(devices) + 64 * at for at in range(n)),
        disk_kib_s=tuple(20_480 if at % 20 < 3 else 200 for at in range(n)),
        network_kib_s=(3_500,) * n,
    )


def names(root: Root) -> Iterator[str]:
    """Yield the ids of its jobs."""
    yield from root.jobs


def write_history(store: ObjectStore, root: Root, *, days: int, a_day: int) -> None:
    """Write sealed events of attempts that ended on the machines of `root` in the last `days`."""
    machines = list(root.machines)
    events = []
    for number in range(days * a_day):
        _, project, user = _names(number)
        back_s = (days - number / a_day) * 86400.0
        took_s = 3600.0 * (1 + number % 5)
        outcome = ("succeeded", "succeeded", "preempted", "succeeded", "failed")[number % 5]
        size, borrows = (2, 4, 8)[number % 3], number % 4 == 3
        ended_at = root.now - back_s + took_s / 2
        borrowed_s = took_s if borrows else 0.0
        guaranteed_s = took_s - borrowed_s
        record = EndedAttempt(
            user=user,
            launch=f"past-{number:010d}",
            name="past",
            attempt=1,
            request=Request(per_replica=Amounts({"h100": size})),
            submitted_at=ended_at - took_s - 900.0,
            queued_at=ended_at - took_s - 60.0 * (number % 30),
            admitted_at=ended_at - took_s,
            started_at=ended_at - took_s + 20.0,
            freed_at=ended_at,
            outcome=outcome,
            job_outcome="" if outcome == "preempted" else outcome,
            job_class="borrowed" if borrows else "guaranteed",
            device_type="h100",
            devices=size,
            pool=POOL.name,
            machines=(machines[number % len(machines)],),
            lost_s=300.0 if outcome == "preempted" else None,
            lost_device_s=300.0 * size if outcome == "preempted" else None,
            machine_s=took_s * size / DEVICES,
            price_per_hour=POOL.price_per_hour,
            guaranteed_s=guaranteed_s,
            borrowed_s=borrowed_s,
            guaranteed_device_s=guaranteed_s * size,
            borrowed_device_s=borrowed_s * size,
        )
        events.append(
            Event(
                n=number,
                at=ended_at,
                job=f"past-{number:010d}",
                project=project,
                what=outcome,
                record=record,
            )
        )
    for first in range(0, len(events), 400):
        part = events[first : first + 400]
        data = b"\n".join(encode(event) for event in part)
        store.create(layout.events(part[0].n), data)
