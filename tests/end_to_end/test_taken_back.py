"""Machines that are taken back while a job runs there: notices, and sudden ends."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bastion.client.follow.log_filter import Wanted
from bastion.clock import SystemClock
from bastion.records.keys import layout
from bastion.records.reports.facts import reclaimed_by
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.grounds import show_boot_logs
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.aws.ec2 import PROFILE, Ec2World, ec2_server
from tests.servers.aws.hosts import Hosts
from tests.servers.aws.region_time import ticking
from tests.servers.google import Compute
from tests.servers.google.hosts import hosts
from tests.servers.kubernetes.kubelet import IMAGE
from tests.servers.kubernetes.server import NAMESPACE, kubernetes, needs_kubectl
from tests.servers.metadata import MetadataServer
from tests.servers.s3 import KEYS

pytestmark = pytest.mark.end_to_end

EC2_POOL = """
provider = "ec2"
terms = "spot"
zones = ["us-east-1a", "us-east-1b"]
image = "{image}"
identity = "{identity}"
options = {{ machine_type = "m7i.large", python = "{python}" }}
"""
GCE_POOL = """
provider = "gce"
terms = "spot"
zones = ["us-central1-a"]
options = {{ project = "acme", machine_type = "n2-standard-2", python = "{python}"{more} }}
"""
POD_POOL = """
provider = "kubernetes"
image = "{image}"
options = {{ namespace = "{namespace}", kubeconfig = "{kubeconfig}", python = "{python}" }}
"""
STEPS = """
trap 'trap "" TERM; cat "$BASTION_NOTICE_FILE"; exit 1' TERM
if [ "$BASTION_ATTEMPT" = 1 ]; then echo up; while :; do sleep 0.05; done; fi
echo attempt $BASTION_ATTEMPT
"""
"""Runs until it is stopped, and prints the notice; its second attempt ends immediately."""
PREEMPTED = "/computeMetadata/v1/instance/preempted"


@contextmanager
def serving(folder: Path, pool: str, env: dict[str, str]) -> Iterator[Programs]:
    """Run a bastion whose only pool has machines that can be taken back."""
    common = 'resources = { cpu = 2 }\nmax_machines = 2\nidle_timeout = "1h"'
    with folder_root(folder) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, f"[pools.rented]\n{common}{pool}".encode())
        on = Programs(folder, place)
        try:
            on.serve(env=env)
            yield on
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)
            show_boot_logs(folder)


@dataclass(frozen=True)
class Amazon:
    """A bastion on a test region."""

    on: Programs
    world: Ec2World
    hosts: Hosts


@pytest.fixture
def amazon(tmp_path: Path) -> Iterator[Amazon]:
    """Run a bastion whose machines are instances; each is a host of processes here."""
    with ec2_server() as world, ticking(world):
        image = world.image("ours", owner="self")
        pool = EC2_POOL.format(image=image, identity=PROFILE, python=sys.executable)
        made = Hosts(world, tmp_path / "instances")
        env = {**KEYS, "AWS_ENDPOINT_URL_EC2": world.endpoint}
        try:
            with serving(tmp_path, pool, env) as on:
                yield Amazon(on, world, made)
        finally:
            made.close()


@dataclass(frozen=True)
class Google:
    """A bastion on a test zone."""

    on: Programs
    server: Compute
    told: Callable[[str], MetadataServer]


@contextmanager
def google(folder: Path, more: str = "") -> Iterator[Google]:
    """Run a bastion whose machines are VMs; `more` are options of its pool."""
    with Compute.at(SystemClock()) as server:
        server.operation_s, server.boot_s, server.delete_s = 0.2, 0.5, 0.5
        with hosts(server, folder / "vms") as told:
            pool = GCE_POOL.format(python=sys.executable, more=more)
            env = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": server.url}
            with serving(folder, pool, env) as on:
                yield Google(on, server, told.__getitem__)
        assert server.problems == []


def start(on: Programs, line: str = STEPS) -> str:
    """Launch a job that takes half a machine, wait until it has printed something."""
    words = ("launch", "-q", "--resources=cpu=1", "--project_id=red", "--shell", "--", line)
    job = on.run(*words).stdout.strip()
    until(lambda: on.printed(job), f"{job} runs")
    return job


def ended(on: Programs, job: str) -> dict[str, object]:
    """Return the notice to a job of `STEPS` that has resumed elsewhere and succeeded."""
    view = on.wait(job)
    assert (view.state, view.attempt, view.preemptions) == ("succeeded", 2, 1)
    first = b"".join(chunk.data for chunk in on.client.logs(job, Wanted(attempt=1)))
    (said,) = (line for line in first.splitlines() if line.startswith(b"{"))
    notice: dict[str, object] = json.loads(said)
    assert notice["reason"] == "preempt"
    assert re.fullmatch(reclaimed_by(r"rented-\d+-0"), str(notice["by"]))
    return notice


def unwell(on: Programs) -> list[str]:
    """Return why machines cannot start anything."""
    return [each["unwell"] for each in on.json("machines")["machines"] if each["unwell"]]


def test_a_job_outlives_its_spot_instance(amazon: Amazon) -> None:
    """A job whose instance disappears without notice restarts on another one."""
    on, world = amazon.on, amazon.world
    job = start(on)
    (first,) = world.alive()
    world.interrupt(first)
    assert on.wait(job).state == "succeeded"
    assert on.printed(job).endswith("attempt 2\n")
    assert len(world.instances()) == 2


def test_a_notice_of_ec2_is_the_jobs_with_the_time_that_is_left(amazon: Amazon) -> None:
    """
    A rebalance recommendation keeps new jobs away; an interruption notice preempts running ones.

    Both are read from the instance's metadata, with a token. The process has until shortly before
    the time that EC2 names, and the job continues while the first instance still runs.
    """
    on, world = amazon.on, amazon.world
    job = start(on)
    (first,) = world.alive()
    metadata = amazon.hosts.metadata[first.id]
    metadata.rebalance("2026-11-24T08:22:00Z")
    until(lambda: unwell(on), "the recommendation is told")
    (said,) = unwell(on)
    assert said == "its cloud reclaims it perhaps soon: EC2 recommends to rebalance"
    other = start(on, "echo up; sleep 1000")
    assert len(world.alive()) == 2, "half of the first instance is free, and is left free"
    assert on.printed(job) == "up\n", "a recommendation stops nothing"
    on.run("cancel", other)
    at = int(time.time()) + 120
    metadata.notice(datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    notice = ended(on, job)
    assert at - 20 < float(str(notice["deadline"])) < at
    assert (first in world.alive(), len(world.instances())) == (True, 2)
    world.interrupt(first)
    until(lambda: not unwell(on), "it leaves the records")


@pytest.mark.parametrize(
    ("more", "in_s"),
    [pytest.param("", 30, id="30s"), pytest.param(', preemption_notice = "120s"', 120, id="120s")],
)
def test_a_notice_of_compute_engine_is_the_jobs(tmp_path: Path, more: str, in_s: int) -> None:
    """A preemption is announced 30 s ahead, or the 120 s that the pool requests from Google."""
    (tmp_path / "provider").mkdir()
    with google(tmp_path, more) as place:
        on, server = place.on, place.server
        job = start(on)
        (first,) = server.names()
        at = time.time()
        place.told(first).says[PREEMPTED] = "TRUE"
        until(lambda: unwell(on), "the notice is told")
        assert unwell(on) == [f"its cloud reclaims it in {in_s} s: the spot VM is preempted"]
        notice = ended(on, job)
        assert float(str(notice["deadline"])) > at + in_s * 0.8
        assert (first in server.names(), server.made) == (True, 2)
        server.preempt(first)
        until(lambda: not unwell(on), "it leaves the records")


@needs_kubectl
def test_a_pod_that_others_delete_gives_its_jobs_their_notice(tmp_path: Path) -> None:
    """
    This is so if its node is drained, or a pod of higher priority preempts it.

    The job continues in another pod. The first one ends as soon as nothing of it is needed, long
    before its time is over, and its end is seen although Kubernetes would have forgotten it.
    """
    (tmp_path / "provider").mkdir()
    with kubernetes(tmp_path / "provider") as cluster:
        given = {"image": IMAGE, "namespace": NAMESPACE, "kubeconfig": cluster.config()}
        pool = POD_POOL.format(**given, python=sys.executable)
        with serving(tmp_path, pool, {}) as on:
            job = start(on)
            ((_, first),) = cluster.pods.of
            at = time.time()
            with cluster.pods.lock:
                cluster.pods.delete(NAMESPACE, first, {})
            notice = ended(on, job)
            assert at + 60 < float(str(notice["deadline"])) < at + 125
            pod = cluster.pods.get(NAMESPACE, first)
            until(lambda: pod["status"]["phase"] == "Succeeded", "the first pod ends")
            until(lambda: not unwell(on), "it leaves the records")
            assert time.time() < at + 120
        assert cluster.misfits == []
