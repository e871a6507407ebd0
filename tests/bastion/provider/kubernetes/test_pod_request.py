"""A machine as a pod: the result of a pool's table, and errors in one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.errors import ProviderRefusedError
from bastion.machine import Machine, Pool
from bastion.provider.kubernetes.names import Names
from bastion.provider.kubernetes.pod_request import FINALIZER, pod, pod_script
from bastion.provider.kubernetes.pool_options import problems
from quota.amounts import Amounts
from tests.rigs.limits import PATIENCE_S, killed
from tests.servers.kubernetes.schema import problems as misfits

BUCKET = "0a1b2c3d4e5f"
POOL = Pool(
    name="here",
    provider="kubernetes",
    resources=Amounts({"h100": 8, "cpu": 96, "memory": 1 << 40}),
    max_machines=4,
    image="python:3.12",
    permit_s=600.0,
    options={"namespace": "ml"},
)
MACHINE = Machine(name="here-7-0", pool="here")


def made(*, zone: str = "", options: dict[str, str] | None = None, **changes: Any) -> Any:
    """Return the pod of a machine; it fits Kubernetes' schema."""
    pool = replace(POOL, options={**POOL.options, **(options or {})}, **changes)
    assert problems(pool) == ()
    said = pod(pool, replace(MACHINE, zone=zone), "exec sleep 1", bucket=BUCKET)
    assert misfits(said) == []
    return said


def test_a_machine_is_a_pod_that_asks_for_what_its_pool_has() -> None:
    """Its devices, CPUs and memory are its own, and its shared memory is that of a whole host."""
    said = made()
    assert said["metadata"]["name"] == f"bastion-{BUCKET}-here-7-0"
    assert said["metadata"]["namespace"] == "ml"
    assert said["metadata"]["finalizers"] == [FINALIZER]
    (container,) = said["spec"]["containers"]
    amounts = {"cpu": "96", "memory": str(1 << 40), "nvidia.com/gpu": "8"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert container["image"] == "python:3.12"
    volumes = {each["name"]: each["emptyDir"] for each in said["spec"]["volumes"]}
    assert volumes == {"machine": {}, "shm": {"medium": "Memory", "sizeLimit": str(1 << 39)}}
    assert said["spec"]["terminationGracePeriodSeconds"] == 120
    assert not said["spec"]["automountServiceAccountToken"]


def test_every_key_of_the_guide_becomes_a_field() -> None:
    """Each has Kubernetes' form; the zone is one more node label of the pool."""
    said = made(
        zone="us-east5-a",
        network="host",
        identity="trainer",
        disk_gib=100,
        options={
            "node_selector": "gpu=h100, team=vision",
            "tolerations": "nvidia.com/gpu:NoSchedule, team=vision, *:NoExecute",
            "priority_class": "high",
            "image_pull_secrets": "registry",
            "env_from": "bucket-keys, more",
            "device": "amd.com/gpu",
            "shm": "64GiB",
            "notice": "300",
            "folder": "/scratch/bastion",
        },
    )
    spec = said["spec"]
    (container,) = spec["containers"]
    assert spec["nodeSelector"] == {
        "gpu": "h100",
        "team": "vision",
        "topology.kubernetes.io/zone": "us-east5-a",
    }
    assert spec["tolerations"][2:] == [
        {"operator": "Exists", "key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"operator": "Equal", "key": "team", "value": "vision"},
        {"operator": "Exists", "effect": "NoExecute"},
    ]
    assert (spec["serviceAccountName"], spec["priorityClassName"]) == ("trainer", "high")
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert container["envFrom"] == [
        {"secretRef": {"name": "bucket-keys"}},
        {"secretRef": {"name": "more"}},
    ]
    assert container["resources"]["limits"]["amd.com/gpu"] == "8"
    assert container["resources"]["limits"]["ephemeral-storage"] == "100Gi"
    assert spec["volumes"][1]["emptyDir"]["sizeLimit"] == str(64 << 30)
    assert container["volumeMounts"][0]["mountPath"] == "/scratch/bastion"
    assert spec["terminationGracePeriodSeconds"] == 300


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ({"h100": 8}, {"nvidia.com/gpu": "8"}),
        ({"v4": 8}, {"google.com/tpu": "4"}),
        ({"v5e": 8}, {"google.com/tpu": "8"}),
        ({"trainium": 16}, {"aws.amazon.com/neuron": "16"}),
        ({"cpu": 4}, {"cpu": "4"}),
    ],
)
def test_devices_are_asked_for_by_the_name_of_their_maker(
    resources: dict[str, int], asked: dict[str, str]
) -> None:
    """Nodes count the chips of TPUs, not their cores."""
    said = made(resources=Amounts(resources))
    assert said["spec"]["containers"][0]["resources"]["limits"] == asked


def test_a_zone_may_be_any_label_of_nodes() -> None:
    """For example, the label of spot nodes, which have no zone of their own."""
    said = made(zone="cloud.google.com/gke-spot=true,pool=a")
    assert said["spec"]["nodeSelector"] == {"cloud.google.com/gke-spot": "true", "pool": "a"}


def test_overrides_are_merged_into_each_pod() -> None:
    """Objects are merged and lists are concatenated, so a volume or a capability is one line."""
    container = {
        "resources": {"limits": {"rdma/hca": 1}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }
    more = {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "vision"}},
        "spec": {
            "runtimeClassName": "nvidia",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [container],
        },
    }
    said = made(options={"overrides": json.dumps(more)})
    plain = made()
    (got,), (ours,) = said["spec"]["containers"], plain["spec"]["containers"]
    assert said["spec"]["runtimeClassName"] == "nvidia"
    assert [each["name"] for each in said["spec"]["volumes"]] == ["machine", "shm", "data"]
    assert got["resources"]["limits"] == {**ours["resources"]["limits"], "rdma/hca": 1}
    assert len(got["volumeMounts"]) == 3
    assert got["args"] == ours["args"]
    assert said["metadata"]["labels"].items() > plain["metadata"]["labels"].items()


def test_labels_of_ours_cannot_be_overridden() -> None:
    """A machine that is not found again would be created twice."""
    more = {"metadata": {"labels": {"bastion/pool": "x"}, "annotations": {"bastion/machine": "x"}}}
    said = made(options={"overrides": json.dumps(more)})
    names = Names(bucket=BUCKET, pool="here")
    assert names.machine(said["metadata"]) == MACHINE.name
    assert names.labels.items() <= said["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"image": ""}, "image: missing; name one that has a shell"),
        ({"reservation": "lab"}, "reservation: a pod has none"),
        ({"tags": ("a",)}, "tags: a pod has none"),
        ({"terms": "spot"}, "terms: a pod has none; name the nodes"),
        ({"hosts": 4}, "instance_type: a slice of several hosts is not made"),
        ({"network": "vpc"}, "network: 'vpc' must be host, or be left out"),
        ({"identity": "a/b"}, "identity: 'a/b' is not the name of a service account"),
        ({"labels": {"containers": "true"}}, "containers: a pod runs no images"),
        ({"zones": ("a b!",)}, "zones: 'b!' is not a label that a node can have"),
        ({"options": {}}, "options.namespace: missing; name the namespace"),
        ({"namespace": "ML"}, "options.namespace: 'ML' is not the name of a namespace"),
        (
            {"service_account": "a"},
            "options.service_account: unknown; the service account of a pod is identity of",
        ),
        ({"nodes": "a"}, "options.nodes: unknown; a pool of provider kubernetes takes namespace"),
        ({"node_selector": "h100"}, "options.node_selector: 'h100' must be a label of nodes"),
        ({"node_selector": "a=b=c"}, "options.node_selector: 'a=b=c' is not a label"),
        ({"tolerations": "a:Never"}, "options.tolerations: 'Never' in 'a:Never' must be one of"),
        ({"tolerations": "=x"}, "options.tolerations: '=x' is not a taint"),
        ({"priority_class": "a b"}, "options.priority_class: a pod has one"),
        ({"env_from": "A_B"}, "options.env_from: 'A_B' is not a name of Kubernetes's"),
        ({"device": "gpu"}, "options.device: 'gpu' is not a resource of nodes"),
        ({"shm": "much"}, "options.shm: 'much' is not a size"),
        ({"notice": "1"}, "options.notice: '1' must be seconds from 3 to 3600"),
        ({"overrides": "{"}, "options.overrides: not JSON"),
        ({"overrides": "[]"}, "options.overrides: must be a JSON object"),
        ({"overrides": '{"spec": []}'}, "options.overrides: metadata and spec must be JSON"),
        ({"overrides": '{"spec": {"containers": []}}'}, "options.overrides: spec.containers must"),
        (
            {"overrides": '{"spec": {"restartPolicy": "Always"}}'},
            "options.overrides: spec.restartPolicy is set by Bastion",
        ),
        (
            {"overrides": '{"spec": {"containers": [{"image": "x"}]}}'},
            "options.overrides: spec.containers.image is set by Bastion",
        ),
    ],
)
def test_a_mistake_in_a_pool_is_named(changes: dict[str, Any], problem: str) -> None:
    """An error names the field that a pod lacks, or that would change its identity."""
    fields = {key: said for key, said in changes.items() if hasattr(POOL, key)}
    options = {key: said for key, said in changes.items() if key not in fields}
    fields.setdefault("options", {**POOL.options, **options})
    (found, *_) = problems(replace(POOL, **fields))
    assert found.startswith(problem)


@pytest.mark.parametrize("pool", ["here", "Big_Pool", "a" * 60, "h100@eu+x"])
def test_a_machine_is_known_by_its_pod_alone(pool: str) -> None:
    """Any pool gives a valid Kubernetes name; no other pool finds the pod."""
    named = replace(POOL, name=pool)
    machine = Machine(name=f"{pool}-7-0", pool=pool)
    said = pod(named, machine, "exec sleep 1", bucket=BUCKET)
    assert misfits(said) == []
    assert len(said["metadata"]["name"]) <= 63
    names = Names(bucket=BUCKET, pool=pool)
    assert names.machine(said["metadata"]) == machine.name
    assert Names(bucket="other", pool=pool).machine(said["metadata"]) is None
    forged = {**said["metadata"], "annotations": {"bastion/machine": f"{pool}-8-0"}}
    assert names.machine(forged) is None
    with pytest.raises(ProviderRefusedError, match="is not a machine of pool"):
        names.pod("other-7-0")


def test_the_script_comes_through_kubernetes_as_it_is() -> None:
    """Kubernetes expands $(NAME) and replaces $$ by $: every dollar is doubled before."""
    start = 'echo "$$ $(PATH) $HOME $$$$"'
    said = pod(POOL, MACHINE, start, bucket=BUCKET)
    (argument,) = said["spec"]["containers"][0]["args"]
    assert argument.replace("$$", "$") == pod_script("/var/lib/bastion", start, notice=120)
    assert "$" not in argument.replace("$$", "")


class Script:
    """The first process of a pod, while it runs."""

    def __init__(self, folder: Path, start: str, *, notice: int = 120) -> None:
        self.home = folder / "machine"
        line = pod_script(str(self.home), start, notice=notice)
        self.process = subprocess.Popen(["/bin/sh", "-c", line], start_new_session=True)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Any]:
    begun: list[Script] = []

    def run(start: str, **given: Any) -> Script:
        begun.append(Script(tmp_path, start, **given))
        return begun[-1]

    yield run
    for each in begun:
        with suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        killed(each.process)


def test_a_pod_ends_as_its_machine_does(begin: Any) -> None:
    """The start-up script runs in the folder of the machine, and its code is that of the pod."""
    script = begin('pwd >here; echo "$BASTION_POD_SCRIPT" >pid; exit 7')
    assert script.process.wait(PATIENCE_S) == 7
    assert (script.home / "here").read_text().strip() == str(script.home)
    assert int((script.home / "pid").read_text()) == script.process.pid


def test_a_machine_that_ends_at_once_tells_its_code_too(tmp_path: Path) -> None:
    """Of many that start together, some end before the first process waits for them."""
    scripts = [Script(tmp_path / str(number), "exit 7") for number in range(200)]
    assert {script.process.wait(PATIENCE_S) for script in scripts} == {7}


def test_the_end_of_a_pod_is_noted_ahead(begin: Any) -> None:
    """Kubernetes tells the first process in advance; the agent reads the time."""
    script = begin("touch here; exec sleep 1000", notice=300)
    until(lambda: (script.home / "here").exists())
    before = int(time.time())
    script.process.send_signal(signal.SIGTERM)
    until(lambda: (script.home / "notice").exists())
    assert before + 300 <= int((script.home / "notice").read_text()) <= time.time() + 301
    assert script.process.poll() is None


def test_a_notice_of_an_earlier_life_is_not_kept(begin: Any) -> None:
    """A restarted container is not about to end."""
    first = begin("touch here; exec sleep 1000")
    until(lambda: (first.home / "here").exists())
    first.process.send_signal(signal.SIGTERM)
    until(lambda: (first.home / "notice").exists())
    assert begin("[ ! -e notice ]").process.wait(PATIENCE_S) == 0


def test_an_orphan_ends_its_pod_for_good(begin: Any) -> None:
    """Kubernetes does not restart a container that succeeded."""
    script = begin("touch here; exec sleep 1000")
    until(lambda: (script.home / "here").exists())
    os.kill(script.process.pid, signal.SIGUSR2)
    assert script.process.wait(PATIENCE_S) == 0


def until(is_so: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
