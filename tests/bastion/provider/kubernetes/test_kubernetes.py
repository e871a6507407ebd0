"""The `kubernetes` provider: what it believes of the cluster, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.clock import Clock, SystemClock
from bastion.errors import (
    NoCapacityError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.machine import Machine, Pool
from bastion.provider.kubernetes.kubectl import ChangedError, Json, Kubectl, MissingError
from bastion.provider.kubernetes.kubernetes import (
    KEEP_DELETED_S,
    KEEP_ENDED_S,
    UNCONFIRMED_S,
    KubernetesProvider,
)
from bastion.provider.kubernetes.names import BUCKET as BUCKET_KEY
from bastion.provider.kubernetes.names import MACHINE as MACHINE_KEY
from bastion.provider.kubernetes.names import POOL as POOL_KEY
from bastion.provider.kubernetes.names import Names
from bastion.provider.kubernetes.pod_request import FINALIZER
from bastion.provider.port import Listed
from quota.amounts import Amounts
from tests.rigs.limits import PATIENCE_S
from tests.servers.kubernetes.kubelet import IMAGE, expanded
from tests.servers.kubernetes.server import NAMESPACE, Kubernetes, kubernetes, needs_kubectl

BUCKET = "0a1b2c3d4e5f"
POD = f"bastion-{BUCKET}-here-7-0"
MACHINE = Machine(name="here-7-0", pool="here", zone="main")
SLEEP = "exec sleep 1000"


class LateClock(SystemClock):
    """A clock that can be moved forward."""

    late_s = 0.0

    def monotonic(self) -> float:
        """See `Clock`."""
        return super().monotonic() + self.late_s


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Kubernetes]:
    with kubernetes(tmp_path) as made:
        yield made
        assert made.misfits == []


def pool_of(cluster: Kubernetes, **options: str) -> Pool:
    return Pool(
        name="here",
        provider="kubernetes",
        resources=Amounts({"h100": 4, "cpu": 2, "memory": 64 << 30}),
        max_machines=4,
        zones=("main", "more"),
        image=IMAGE,
        permit_s=600.0,
        options={"namespace": NAMESPACE, "kubeconfig": str(cluster.config()), **options},
    )


def provider_of(
    cluster: Kubernetes,
    *,
    script: str = SLEEP,
    clock: Clock | None = None,
    bucket: str = BUCKET,
    **changes: Any,
) -> KubernetesProvider:
    return KubernetesProvider(
        replace(pool_of(cluster), **changes),
        bucket=bucket,
        script=lambda pool, name: script,
        clock=clock or SystemClock(),
    )


@pytest.fixture
def provider(cluster: Kubernetes) -> KubernetesProvider:
    return provider_of(cluster)


def create(provider: KubernetesProvider, cluster: Kubernetes, *machines: Machine) -> None:
    provider.create(machines or (MACHINE,), pool_of(cluster))


def only(provider: KubernetesProvider) -> Listed:
    (listed,) = provider.list()
    return listed


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_state(provider: KubernetesProvider, state: str) -> Listed:
    deadline = time.monotonic() + PATIENCE_S
    while (listed := only(provider)).state != state:
        assert time.monotonic() < deadline, listed
        time.sleep(0.02)
    return listed


pytestmark = needs_kubectl


def test_what_finds_no_node_waits_in_the_words_of_the_scheduler(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """The third pod of a zone of two nodes waits, and runs when one is free."""
    made = [replace(MACHINE, name=f"here-7-{index}") for index in range(3)]
    create(provider, cluster, *made)

    def states() -> list[str]:
        return [each.state for each in provider.list()]

    until(lambda: states() == ["running", "running", "waiting"])
    told = "0/3 nodes are available: 2 Insufficient nvidia.com/gpu, 1 node(s) didn't match"
    assert provider.list()[2].text.startswith(f"Kubernetes: Unschedulable: {told}")
    provider.delete("here-7-0")
    until(lambda: states() == ["gone", "running", "running"])


def test_a_zone_is_a_label_of_nodes(cluster: Kubernetes, provider: KubernetesProvider) -> None:
    """The machine runs on a node with the label, and is listed with it."""
    create(provider, cluster, replace(MACHINE, zone="more"))
    assert until_state(provider, "running").zone == "more"
    assert cluster.kubelet.node_of(POD).name == "node-3"


def test_a_pod_that_waited_and_is_deleted_is_gone(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """It never ran, and its name is used up as long as it is listed."""
    create(provider, cluster, replace(MACHINE, zone="gpu=b200"))
    assert until_state(provider, "waiting").text.startswith("Kubernetes: Unschedulable: ")
    provider.delete(MACHINE.name)
    assert only(provider).state == "gone"
    create(provider, cluster)
    assert only(provider).state == "gone"


def test_a_lost_answer_makes_no_second_machine(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """When the create is repeated, the existing pod is found by its name and annotation."""
    cluster.lost = 1
    with pytest.raises(ProviderUnavailableError):
        create(provider, cluster)
    create(provider, cluster)
    until_state(provider, "running")
    assert cluster.pods.made == 1


def test_a_pod_of_that_name_that_is_not_ours_is_not_believed(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """By its annotation, it is neither considered the machine nor deleted."""
    theirs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {"containers": [{"name": "a", "image": "none", "command": ["a"], "args": []}]},
    }
    cluster.pods.create(NAMESPACE, theirs, is_dry=False)
    with pytest.raises(ProviderRefusedError, match="already exists, and is no machine of this"):
        create(provider, cluster)
    provider.delete(MACHINE.name)
    assert provider.list() == ()
    assert "deletionTimestamp" not in cluster.pods.get(NAMESPACE, POD)["metadata"]


def test_pods_of_others_are_left_alone(cluster: Kubernetes, provider: KubernetesProvider) -> None:
    """Those of another bucket in the same namespace are neither listed nor deleted."""
    other = provider_of(cluster, bucket="000000000000")
    create(provider, cluster)
    create(other, cluster, replace(MACHINE, zone="more"))
    until_state(provider, "running")
    provider.delete(MACHINE.name)
    until_state(provider, "gone")
    assert until_state(other, "running")


@pytest.mark.parametrize("label", [BUCKET_KEY, POOL_KEY])
def test_a_pod_whose_labels_were_edited_is_deleted_all_the_same(
    cluster: Kubernetes, label: str
) -> None:
    """It gets its labels back, so its end is seen; until then, its absence proves nothing."""
    clock = LateClock()
    provider = provider_of(cluster, clock=clock)
    create(provider, cluster)
    until_state(provider, "running")
    pod = cluster.pods.get(NAMESPACE, POD)
    pod["metadata"]["labels"].update({label: "else", "team": "vision"})
    assert provider.list() == ()
    create(provider, cluster)
    provider.delete(MACHINE.name)
    until_state(provider, "gone")
    assert pod["metadata"]["labels"]["team"] == "vision"
    clock.late_s += KEEP_DELETED_S
    provider.list()
    assert (provider.list(), cluster.pods.made) == ((), 1)


def test_a_list_is_whole_however_many_pages(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """Each page names the next one."""
    made = [replace(MACHINE, name=f"here-7-{index}") for index in range(5)]
    create(provider, cluster, *made)
    cluster.pods.page = 2
    assert [each.name for each in provider.list()] == [each.name for each in made]


def test_a_pod_that_another_deletes_is_seen_to_its_end(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """After any eviction or preemption its end is proved, so its job need not wait for a permit."""
    create(provider, cluster)
    until_state(provider, "running")
    cluster.pods.delete(NAMESPACE, POD, {"gracePeriodSeconds": 0})
    assert until_state(provider, "gone").text == "Kubernetes: Error, exit code 137"
    assert not provider.vouches


def test_a_node_that_does_not_answer_proves_nothing(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """Its processes may continue: only the permit of the keeper proves that they do not."""
    create(provider, cluster)
    until_state(provider, "running")
    cluster.kubelet.node_of(POD).is_silent = True
    assert only(provider).state == "running"
    cluster.pods.delete(NAMESPACE, POD, {"gracePeriodSeconds": 0})
    provider.delete(MACHINE.name)
    for _ in range(3):
        assert only(provider).state == "deleting"
    cluster.kubelet.node_of(POD).is_silent = False
    until_state(provider, "gone")


def test_a_pod_on_a_dead_node_is_told_with_what_to_do(cluster: Kubernetes) -> None:
    """It stays Terminating until an admin removes the node; then nothing of it is left."""
    clock = LateClock()
    provider = provider_of(cluster, clock=clock)
    create(provider, cluster)
    until_state(provider, "running")
    cluster.kubelet.node_of(POD).is_silent = True
    provider.delete(MACHINE.name)
    assert (only(provider).stuck, only(provider).odd) == ("", "")
    clock.late_s += UNCONFIRMED_S + 10.0
    (pod,) = cluster.pods.of.values()
    node = pod["spec"]["nodeName"]
    told = only(provider)
    assert told.state == "deleting"
    assert told.odd == (
        f"its pod {POD} is Terminating, and its node {node} has not confirmed its end; if that node"
        f" is off permanently, run: kubectl delete node {node} (the bastion forces nothing: the"
        " pod's processes may still run)"
    )
    assert told.stuck == f"Kubernetes: {told.odd}"
    cluster.kubelet.lose(POD)
    assert only(provider).odd == ""
    provider.delete(MACHINE.name)
    assert provider.list() == ()


def test_a_node_that_was_deleted_proves_nothing(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """The pod collector says that they failed; they are removed when no record needs them."""
    create(provider, cluster)
    until_state(provider, "running")
    cluster.kubelet.lose(POD)
    assert only(provider).state == "deleting"
    assert only(provider).text == "Kubernetes: DeletionByPodGC: PodGC: node no longer exists"
    provider.delete(MACHINE.name)
    assert provider.list() == ()


def test_a_container_that_dies_comes_back_in_its_pod(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """It is listed as stopped, with the cause, until its kubelet has restarted it."""
    create(provider, cluster)
    until_state(provider, "running")
    cluster.kubelet.kill(POD, reason="OOMKilled")
    stopped = until_state(provider, "stopped")
    assert stopped.text == (
        "Kubernetes: CrashLoopBackOff: back-off 10s restarting failed container; before,"
        " OOMKilled, exit code 137"
    )
    until_state(provider, "running")
    assert cluster.pods.made == 1


def test_an_agent_that_left_ends_its_pod(cluster: Kubernetes) -> None:
    """Kubernetes does not restart a container that succeeded."""
    provider = provider_of(cluster, script="exit 0")
    create(provider, cluster)
    assert until_state(provider, "gone").text == "Kubernetes: Completed, exit code 0"


def test_an_eviction_is_told(cluster: Kubernetes, provider: KubernetesProvider) -> None:
    """The message is that of the node."""
    create(provider, cluster)
    until_state(provider, "running")
    cluster.kubelet.evict(POD)
    told = "Kubernetes: Evicted: The node was low on resource: disk"
    assert (only(provider).state, only(provider).text) == ("gone", told)


def test_what_keeps_a_pod_from_beginning_is_told(cluster: Kubernetes) -> None:
    """A missing image or secret is reported immediately, long before the boot is overdue."""
    provider = provider_of(cluster)
    for changes, stuck in (
        ({"image": "pyhton:3.12"}, 'ImagePullBackOff: Back-off pulling image "pyhton:3.12"'),
        (
            {"options": {**pool_of(cluster).options, "env_from": "keys"}},
            'CreateContainerConfigError: secret "keys" not found',
        ),
    ):
        provider.create([MACHINE], replace(pool_of(cluster), **changes))
        until(lambda: only(provider).stuck)
        assert (only(provider).state, only(provider).stuck) == ("creating", f"Kubernetes: {stuck}")
        provider.delete(MACHINE.name)
        until_state(provider, "gone")
        cluster.pods.of.clear()


def test_a_slow_pull_is_told_and_no_boot(cluster: Kubernetes, provider: KubernetesProvider) -> None:
    """What is pulled and where is in the events of a pod; its status says nothing of it."""
    cluster.kubelet.pulling.add(IMAGE)
    create(provider, cluster)
    until(lambda: only(provider).prepares)
    assert (only(provider).state, only(provider).stuck) == ("creating", "")
    assert only(provider).prepares == f'Kubernetes: Pulling image "{IMAGE}" on node node-1'
    cluster.kubelet.pulling.clear()
    assert until_state(provider, "running").prepares == ""


def test_a_volume_that_cannot_be_mounted_is_told(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """Kubernetes says only that the container is being created, for ever."""
    cluster.kubelet.unmounted = 'MountVolume.SetUp failed for volume "data": not found'
    create(provider, cluster)
    until(lambda: only(provider).stuck)
    assert only(provider).stuck == f"Kubernetes: FailedMount: {cluster.kubelet.unmounted}"


def test_without_the_right_to_events_pods_are_listed_and_doctor_says_so(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """A Role of an older guide goes on to work."""
    cluster.may_list_events = False
    cluster.kubelet.pulling.add(IMAGE)
    create(provider, cluster)
    until(lambda: cluster.pods.events)
    assert (only(provider).state, only(provider).prepares) == ("creating", "")
    (lacking,) = provider.lacking()
    assert "may not list events in namespace ml" in lacking


def test_a_pod_has_the_variables_of_its_secrets(cluster: Kubernetes, tmp_path: Path) -> None:
    """They can be credentials for the bucket."""
    cluster.kubelet.secrets["keys"] = {"AWS_ACCESS_KEY_ID": "k"}
    script = f'echo "$AWS_ACCESS_KEY_ID $$ $(echo a)" >{tmp_path}/said; exec sleep 1000'
    provider = provider_of(cluster, script=script)
    options = {**pool_of(cluster).options, "env_from": "keys"}
    provider.create([MACHINE], replace(pool_of(cluster), options=options))
    until(lambda: (tmp_path / "said").exists() and (tmp_path / "said").read_text().endswith("a\n"))
    assert (tmp_path / "said").read_text().split()[0] == "k"


def test_what_is_left_goes_after_a_while(cluster: Kubernetes) -> None:
    """A finalizer keeps deleted pods until the bastion has seen their end."""
    clock = LateClock()
    provider = provider_of(cluster, clock=clock)
    create(provider, cluster)
    until_state(provider, "running")
    provider.delete(MACHINE.name)
    until_state(provider, "gone")
    clock.late_s += KEEP_DELETED_S / 2
    assert only(provider).state == "gone"
    clock.late_s += KEEP_DELETED_S
    assert only(provider).state == "gone"
    assert provider.list() == ()
    assert cluster.pods.of == {}


def test_a_look_from_elsewhere_removes_nothing(cluster: Kubernetes) -> None:
    """One provider must see an end for a minute: `doctor` removes no proof."""
    provider = provider_of(cluster)
    create(provider, cluster)
    until_state(provider, "running")
    provider.delete(MACHINE.name)
    until_state(provider, "gone")
    for _ in range(3):
        assert only(provider_of(cluster)).state == "gone"


def test_what_ended_by_itself_stays_longer_for_its_logs(cluster: Kubernetes) -> None:
    """Then it is deleted, and forgotten."""
    clock = LateClock()
    provider = provider_of(cluster, clock=clock, script="exit 0")
    create(provider, cluster)
    until_state(provider, "gone")
    clock.late_s += KEEP_DELETED_S * 2
    provider.list()
    assert "deletionTimestamp" not in cluster.pods.get(NAMESPACE, POD)["metadata"]
    clock.late_s += KEEP_ENDED_S
    provider.list()
    provider.list()
    assert provider.list() == ()


def test_a_finalizer_of_others_is_kept(cluster: Kubernetes) -> None:
    """Only our finalizer is removed."""
    clock = LateClock()
    provider = provider_of(cluster, clock=clock)
    create(provider, cluster)
    until_state(provider, "running")
    cluster.pods.get(NAMESPACE, POD)["metadata"]["finalizers"] = ["a.b/c", FINALIZER]
    provider.delete(MACHINE.name)
    until_state(provider, "gone")
    clock.late_s += KEEP_DELETED_S
    provider.list()
    assert cluster.pods.get(NAMESPACE, POD)["metadata"]["finalizers"] == ["a.b/c"]


def test_a_pod_that_cannot_be_removed_stops_no_list(cluster: Kubernetes) -> None:
    """The missing permission is shown with the machine, and by `doctor`."""
    clock = LateClock()
    provider = provider_of(cluster, clock=clock)
    create(provider, cluster)
    provider.delete(MACHINE.name)
    until_state(provider, "gone")
    cluster.may.discard("update")
    clock.late_s += KEEP_DELETED_S
    assert 'cannot update resource "pods"' in only(provider).odd
    assert provider.lacking() == (
        f"the bastion's account may not update pods in namespace {NAMESPACE}",
    )


def test_only_the_pod_that_was_seen_is_deleted(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """A request names the exact pod, so one with the same name is not deleted instead."""
    create(provider, cluster)
    seen = cluster.pods.get(NAMESPACE, POD)
    listed = json.loads(json.dumps(seen))
    seen["metadata"]["uid"] = "another"
    with pytest.raises(ChangedError, match="Precondition failed: UID"):
        provider._delete(listed, "delete it")
    assert "deletionTimestamp" not in seen["metadata"]


def test_refusals_limits_and_outages_are_told_apart(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """A refused machine is created once it is allowed."""
    cluster.may.discard("create")
    with pytest.raises(ProviderRefusedError) as refused:
        create(provider, cluster)
    assert 'cannot create resource "pods" in API group "" in the namespace "ml"' in (
        refused.value.message
    )
    assert "Role" in refused.value.hint
    assert provider.lacking() == ("the bastion's account may not create pods in namespace ml",)
    cluster.may.add("create")
    cluster.pods.quota = 0
    with pytest.raises(NoCapacityError, match="exceeded quota: compute") as limited:
        create(provider, cluster)
    assert limited.value.is_limit
    cluster.pods.quota = None
    cluster.pods.webhook = "no team label"
    with pytest.raises(ProviderRefusedError, match=r"webhook .* denied the request: no team"):
        create(provider, cluster)
    assert len(provider.lacking()) == 2
    cluster.pods.webhook = ""
    assert provider.lacking() == ()
    assert cluster.pods.made == 0
    cluster.is_down = True
    for call in (provider.list, provider.lacking, lambda: provider.delete(MACHINE.name)):
        with pytest.raises(ProviderUnavailableError):
            call()
    cluster.is_down = False
    cluster.is_pacing = True
    with pytest.raises(ProviderUnavailableError, match="too many requests"):
        provider.list()
    cluster.is_pacing = False
    cluster.is_expired = True
    with pytest.raises(ProviderRefusedError, match="You must be logged in"):
        provider.list()
    cluster.is_expired = False
    create(provider, cluster)
    until_state(provider, "running")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"identity": "trainer"}, 'serviceaccount "trainer" not found'),
        ({"options": {"priority_class": "high"}}, "no PriorityClass with name high was found"),
        ({"options": {"namespace": "default"}}, "may not create pods in namespace default"),
        ({"options": {"context": "lab"}}, 'context "lab" does not exist'),
        ({"options": {"kubeconfig": "/none"}}, "stat /none: no such file"),
        (
            {"options": {"overrides": '{"spec": {"hostIpc": true}}'}},
            "strict decoding error: spec: Additional properties are not allowed",
        ),
    ],
)
def test_a_wrong_setting_is_told_before_any_machine(
    cluster: Kubernetes, changes: dict[str, Any], why: str
) -> None:
    """Doctor lets the cluster check a pod without creating one."""
    options = {**pool_of(cluster).options, **changes.pop("options", {})}
    provider = provider_of(cluster, options=options, **changes)
    try:
        (found, *_) = provider.lacking()
    except ProviderRefusedError as error:
        found = error.message
    assert why in found
    assert cluster.pods.made == 0


def test_a_quota_that_the_pool_itself_uses_up_is_no_fault(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """Doctor reports a quota without room for any machine, and not a pool at its limit."""
    cluster.pods.quota = 0
    assert "exceeded quota: compute" in provider.lacking()[0]
    cluster.pods.quota = 1
    create(provider, cluster)
    assert provider.lacking() == ()


def test_a_namespace_that_does_not_exist_is_told(
    cluster: Kubernetes, provider: KubernetesProvider
) -> None:
    """A list of it is empty and no error, so the create reports it."""
    cluster.pods.namespaces = ()
    with pytest.raises(MissingError, match='namespaces "ml" not found'):
        create(provider, cluster)
    assert provider.lacking() == (
        'create a pod in zone main in namespace ml: namespaces "ml" not found',
        'create a pod in zone more in namespace ml: namespaces "ml" not found',
    )


def test_the_server_expands_as_kubernetes_does() -> None:
    """Otherwise the test of our dollar signs would be meaningless."""
    env = {"A": "b"}
    assert expanded("$(A) $(B) $$(A) $$ $A", env) == "b $(B) $(A) $ $A"


@pytest.mark.parametrize("verb", ["get", "describe", "delete"])
def test_kubectl_of_an_admin_works_on_the_server(cluster: Kubernetes, verb: str) -> None:
    """The server does not only match our own requests: a genuine client works with it."""
    create(provider_of(cluster), cluster)
    words = ["kubectl", f"--kubeconfig={cluster.config()}", f"--namespace={NAMESPACE}", verb]
    words += ["pods", *(["-l", "bastion/pool=here"] if verb == "get" else [POD])]
    words += ["--wait=false"] if verb == "delete" else []
    env = {**os.environ, "HOME": str(cluster.folder)}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert POD in done.stdout
    if verb == "describe":
        assert "bastion/pool=here" in done.stdout
    if verb == "delete":
        assert "deletionTimestamp" in cluster.pods.get(NAMESPACE, POD)["metadata"]


def test_a_pod_told_to_end_has_its_grace(cluster: Kubernetes, tmp_path: Path) -> None:
    """Kubernetes's signal becomes a note for the agent; the pod lives on for that long."""
    provider = provider_of(cluster)
    create(provider, cluster)
    until_state(provider, "running")
    cluster.pods.delete(NAMESPACE, POD, {})
    until(lambda: list(tmp_path.glob("pods/*/notice")))
    (note,) = tmp_path.glob("pods/*/notice")
    assert 100 < int(note.read_text()) - time.time() <= 121
    assert only(provider).state == "deleting"


class Slow(Kubectl):
    """A cluster of finished pods, where each removal takes half a minute and fails."""

    def __init__(self, clock: LateClock, pods: int) -> None:
        super().__init__({}, {})
        self.removals = 0
        self._clock = clock
        labels = Names(bucket=BUCKET, pool="here").labels
        self._pods = [
            {
                "metadata": {
                    "name": f"bastion-{BUCKET}-here-7-{n}",
                    "uid": f"{n}",
                    "labels": labels,
                    "annotations": {MACHINE_KEY: f"here-7-{n}"},
                    "deletionTimestamp": "2026-11-30T00:00:00Z",
                },
                "spec": {},
                "status": {},
            }
            for n in range(pods)
        ]

    def ask(self, verb: str, path: str, body: Json | None = None, *, about: str) -> Json:
        """See `Kubectl`."""
        if verb == "get":
            return {"items": self._pods}
        self.removals += 1
        self._clock.late_s += 30.0
        raise ProviderUnavailableError(f"{about}: failed calling webhook")


def test_what_is_left_delays_no_list() -> None:
    """If a removal takes long, the others are postponed, and every machine is listed."""
    clock = LateClock()
    kubectl = Slow(clock, 50)
    pool = Pool(
        name="here",
        provider="kubernetes",
        resources=Amounts({"cpu": 1}),
        max_machines=50,
        options={"namespace": NAMESPACE},
    )
    provider = KubernetesProvider(
        pool, bucket=BUCKET, script=lambda pool, name: SLEEP, clock=clock, kubectl=kubectl
    )
    provider.list()
    clock.late_s += KEEP_DELETED_S
    listed = provider.list()
    assert kubectl.removals == 1
    assert [each.state for each in listed] == ["gone"] * 50
    assert sum("failed calling webhook" in each.odd for each in listed) == 1
