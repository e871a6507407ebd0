"""A bucket with running jobs and no bastion, and a client that plans on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.client import Client
from bastion.job import Attempt, HostPlace, HostState, JobClass, JobRecord, Phase, ReplicaPlace
from bastion.machine import Machine, MachinePhase, Pool
from bastion.records.coding.codec import encode, plain
from bastion.records.keys import layout
from bastion.records.root import Root
from bastion.spec import Job, Launch, Process, Resources
from bastion.spec.request import Request
from quota.amounts import Amounts
from tests.rigs.scripted_bastion import NOW, publish, world

QUOTA = """\
[toml-schema]
version = "1"
[total_resources]
h100 = 8
[project_membership]
blue = ["ada"]
green = ["lin"]
[project_resources.blue]
h100 = 0.5
[project_resources.green]
h100 = 0.5
[scheduler]
min_runtime_s = 0
"""
CONFIG = """\
[pools.own]
provider = "local"
count = 1
resources = { h100 = 8 }
[secrets.HF_TOKEN]
source = "env:HF_TOKEN"
projects = ["green"]
"""
EIGHT = Amounts({"h100": 8})
POOL = Pool(name="own", provider="local", resources=EIGHT, max_machines=1)
MACHINE = Machine(name="own-1-0", pool="own", phase=MachinePhase.READY, resources=EIGHT, life=1)


def running(job: str, *, devices: tuple[int, ...], job_class: JobClass) -> JobRecord:
    """Return a job of project blue that runs on these devices."""
    place = ReplicaPlace(hosts=(HostPlace(machine="own-1-0", devices={"h100": devices}),))
    return JobRecord(
        id=job,
        project="blue",
        user="ada",
        launch=job,
        ulid="0" * 26,
        submitted_at=NOW,
        request=Request(per_replica=Amounts({"h100": len(devices)})),
        phase=Phase.RUNNING,
        attempts=1,
        attempt=Attempt(
            number=1,
            nonce="n",
            admitted_at=NOW,
            started_at=NOW,
            placement=(place,),
            job_class=job_class,
            hosts=((HostState(),),),
        ),
    )


def client_of(jobs: Mapping[str, JobRecord], *, user: str = "lin") -> Client:
    """Return a client of a bucket whose bastion is gone, with these jobs left running."""
    store, clock = world()
    root = Root(
        epoch=1,
        seq=5,
        now=NOW + 100,
        write_id="w",
        quota_text=QUOTA,
        config_text=CONFIG,
        jobs=jobs,
        machines={MACHINE.name: MACHINE},
    )
    store.create(layout.ROOT, encode(root))
    store.delete(layout.QUOTA)
    store.create(layout.QUOTA, QUOTA.encode())
    publish(store, "pool", {"machines": [], "pools": [plain(POOL)]})
    return Client("memory:", user=user, store=store, clock=clock)


def asking(units: int, **launch: Any) -> Launch:
    """Return a launch of one job."""
    process = Process(["true"], resources=Resources(h100=units))
    return Launch(name="new", jobs=(Job(processes=(process,)),), **launch)
