"""The answers of a cloud's metadata server are understood; an orphan deletes itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest

from bastion.agent.cloud.interruptions import grace_of, look_for_interruption
from bastion.agent.cloud.metadata import MetadataError, metadata_of
from bastion.agent.cloud.orphan import BUSY_PATIENCE, end_orphan, is_orphan
from bastion.agent.cloud.tpu import parse_tpu_env, tpu_variables
from bastion.agent.settings import Cloud
from bastion.records.reports.facts import Interruption
from tests.rigs.limits import PATIENCE_S, killed
from tests.servers.metadata import MetadataServer, metadata_server

GOOGLE = "/computeMetadata/v1/"
AMAZON = "/latest/meta-data/"
AZURE = "/metadata/"
EVENTS = f"{AZURE}scheduledevents?api-version=2020-07-01"
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
TPU_ENV = (
    "ACCELERATOR_TYPE: 'v4-16'\nCONSUMER_PROJECT_ID: 'proj'\nNODE_ID: 'slice-1'\n"
    "ZONE: 'us-central2-b'\nTOPOLOGY: '2x2x2'\nWRAP: 'false,false,false'\nWORKER_ID: '1'\n"
    "CHIPS_PER_HOST_BOUNDS: '2,2,1'\nHOST_BOUNDS: '1,1,2'\nTPU_PROCESS_BOUNDS: '1,1,2'\n"
    "TPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\nTPU_WORKER_ID: '7'\nrubbish\n"
)


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    with metadata_server() as server:
        yield server


def environ_of(server: MetadataServer) -> dict[str, str]:
    return {
        "GCE_METADATA_HOST": server.host,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{server.host}/",
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{server.host}",
        "AZURE_RESOURCE_MANAGER_ENDPOINT": f"http://{server.host}",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"http://{server.host}",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://{server.host}/",
    }


def found(server: MetadataServer, cloud: Cloud, *, has_gpus: bool = True) -> Interruption | None:
    metadata = metadata_of(cloud, environ_of(server))
    assert metadata is not None
    return look_for_interruption(metadata, cloud, wall=NOON, has_gpus=has_gpus)


def test_google_announces_a_preemption(server: MetadataServer) -> None:
    """A preempted VM has 30 s; a VM that is not preempted, or migrates, has no notice."""
    server.says[f"{GOOGLE}instance/preempted"] = "FALSE"
    server.says[f"{GOOGLE}instance/maintenance-event"] = "MIGRATE_ON_HOST_MAINTENANCE"
    assert found(server, "gce") is None
    server.says[f"{GOOGLE}instance/preempted"] = "TRUE\n"
    assert found(server, "gce") == Interruption(in_s=30.0, text="the spot VM is preempted")


@pytest.mark.parametrize(
    ("said", "in_s"), [("120", 120.0), ("9999", 120.0), ("1", 30.0), ("nan", 30.0), ("x", 30.0)]
)
def test_google_announces_a_preemption_as_long_ahead_as_its_pool_asked(
    server: MetadataServer, said: str, in_s: float
) -> None:
    """The VM's metadata determines the time, within the limits of Google."""
    server.says[f"{GOOGLE}instance/preempted"] = "TRUE"
    server.says[f"{GOOGLE}instance/attributes/bastion-preemption-notice-s"] = said
    assert found(server, "gce") == Interruption(in_s=in_s, text="the spot VM is preempted")


def test_google_announces_maintenance(server: MetadataServer) -> None:
    """A VM with GPUs gets an hour, one without a minute."""
    server.says[f"{GOOGLE}instance/maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"
    with_gpus, without = found(server, "gce"), found(server, "gce", has_gpus=False)
    assert with_gpus is not None and without is not None
    assert (with_gpus.in_s, without.in_s) == (3600.0, 60.0)


def test_amazon_announces_an_interruption(server: MetadataServer) -> None:
    """The time of the action counts, but never as more than two minutes."""
    assert found(server, "ec2") is None
    action = '{"action": "terminate", "time": "2026-11-23T12:01:30Z"}'
    server.says[f"{AMAZON}spot/instance-action"] = action
    notice = found(server, "ec2")
    assert notice is not None and notice.in_s == pytest.approx(90.0) and notice.is_certain
    server.says[f"{AMAZON}spot/instance-action"] = action.replace("2026", "2036")
    assert found(server, "ec2") is not None and found(server, "ec2").in_s == 120.0  # type: ignore[union-attr]


def test_amazon_recommends_to_rebalance(server: MetadataServer) -> None:
    """That is a warning: nothing is stopped for it."""
    server.says[f"{AMAZON}events/recommendations/rebalance"] = '{"noticeTime": "x"}'
    notice = found(server, "ec2")
    assert notice is not None and not notice.is_certain


@pytest.mark.parametrize(
    ("not_before", "in_s"),
    [
        ("Mon, 23 Nov 2026 12:00:30 GMT", 30.0),
        ("Mon, 23 Nov 2026 11:00:00 GMT", 0.0),
        ("Mon, 23 Nov 2036 12:00:00 GMT", 900.0),
        ("", 0.0),
    ],
    ids=["soon", "past", "wrong-clock", "begun"],
)
@pytest.mark.parametrize("kind", ["Preempt", "Terminate", "Redeploy", "Reboot"])
def test_azure_announces_an_event(
    server: MetadataServer, kind: str, not_before: str, in_s: float
) -> None:
    """The time that Azure names counts, and a blank one means that the event has begun."""
    assert found(server, "azure") is None
    freeze = {"EventType": "Freeze", "NotBefore": "", "EventStatus": "Scheduled"}
    event = {"EventType": kind, "NotBefore": not_before, "EventStatus": "Scheduled"}
    server.says[EVENTS] = json.dumps({"DocumentIncarnation": 1, "Events": [freeze]})
    assert found(server, "azure") is None
    server.says[EVENTS] = json.dumps({"DocumentIncarnation": 2, "Events": [freeze, event]})
    notice = found(server, "azure")
    assert notice is not None and notice.is_certain
    assert notice.in_s == pytest.approx(in_s)
    assert notice.text.startswith(f"{kind}: the ")


@pytest.mark.parametrize("cloud", ["slurm", "kubernetes"])
def test_a_cluster_announces_the_end_of_a_machine(tmp_path: Path, cloud: Cloud) -> None:
    """Its first process wrote the time; an unreadable note means an immediate end."""
    metadata = metadata_of(cloud, {"BASTION_BOOT_DIR": str(tmp_path)})
    assert metadata is not None
    for said, in_s in (("", None), (f"{NOON + 90:.0f}\n", 90.0), ("1\n", 0.0), ("soon", 0.0)):
        (tmp_path / "notice").write_text(said)
        notice = look_for_interruption(metadata, cloud, wall=NOON, has_gpus=True)
        assert (notice and notice.in_s) == in_s
    (tmp_path / "notice").unlink()
    assert look_for_interruption(metadata, cloud, wall=NOON, has_gpus=True) is None


@pytest.mark.parametrize(
    ("cloud", "variable"), [("slurm", "SLURM_TASK_PID"), ("kubernetes", "BASTION_POD_SCRIPT")]
)
def test_an_orphan_of_a_cluster_ends_its_machine(
    tmp_path: Path, cloud: Cloud, variable: str
) -> None:
    """It signals the first process, which ends its job of Slurm, or its pod."""
    line = 'trap "exit 7" USR2; : >ready; while :; do sleep 0.01; done'
    script = subprocess.Popen(["/bin/sh", "-c", line], cwd=tmp_path)
    try:
        while not (tmp_path / "ready").exists():
            assert script.poll() is None
            time.sleep(0.01)
        environ = {variable: str(script.pid), "BASTION_BOOT_DIR": str(tmp_path)}
        metadata = metadata_of(cloud, environ)
        assert metadata is not None
        end_orphan(cloud, metadata, environ, lambda _: None)
        assert script.wait(PATIENCE_S) == 7
    finally:
        killed(script)


def test_a_metadata_server_that_is_away_is_no_notice() -> None:
    """It raises, and the query is repeated."""
    metadata = metadata_of("gce", {"GCE_METADATA_HOST": "127.0.0.1:9"})
    assert metadata is not None
    with pytest.raises(MetadataError):
        look_for_interruption(metadata, "gce", wall=NOON, has_gpus=False)
    assert metadata_of("", {}) is None


def test_a_grace_leaves_time_for_logs() -> None:
    """Of 30 s, processes get 25; of two minutes, 105 s; always at least one."""
    assert [grace_of(s) for s in (30.0, 120.0, 0.0)] == [25.0, 105.0, 1.0]


def test_only_a_machine_without_work_is_an_orphan_soon() -> None:
    """With work, a day replaces the hour; without a timeout, it never is one."""
    assert is_orphan(3601.0, 3600.0, is_busy=False)
    assert not is_orphan(3600.0, 3600.0, is_busy=False)
    assert not is_orphan(3600.0 * BUSY_PATIENCE, 3600.0, is_busy=True)
    assert is_orphan(3600.0 * BUSY_PATIENCE + 1, 3600.0, is_busy=True)
    assert not is_orphan(1e9, 0.0, is_busy=False)


def ended(server: MetadataServer, cloud: Cloud, tmp_path: Path) -> bool:
    """End an orphan; return whether it halted."""
    halt = tmp_path / "shutdown"
    halt.write_text('#!/bin/sh\n: >"${0%/*}/halted"\n')
    halt.chmod(0o755)
    environ = environ_of(server) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    metadata = metadata_of(cloud, environ)
    assert metadata is not None
    end_orphan(cloud, metadata, environ, lambda _: None)
    return (tmp_path / "halted").exists()


def announce_vm(server: MetadataServer) -> None:
    token = '{"access_token": "secret", "expires_in": 3000}'
    server.says[f"{GOOGLE}instance/service-accounts/default/token"] = token
    server.says[f"{GOOGLE}project/project-id"] = "proj"
    server.says[f"{GOOGLE}instance/zone"] = "projects/1/zones/us-east1-b"
    server.says[f"{GOOGLE}instance/name"] = "bastion-b-gpu-1-0"


def test_an_orphan_of_google_deletes_itself(server: MetadataServer, tmp_path: Path) -> None:
    """It deletes exactly its own VM, with the VM's own identity, and does not halt."""
    announce_vm(server)
    assert not ended(server, "gce", tmp_path)
    vm = "/compute/v1/projects/proj/zones/us-east1-b/instances/bastion-b-gpu-1-0"
    assert server.deleted == [(vm, "Bearer secret")]


def test_a_host_of_a_slice_deletes_the_slice(server: MetadataServer, tmp_path: Path) -> None:
    """A TPU VM cannot be deleted alone: its node is deleted."""
    announce_vm(server)
    server.says[f"{GOOGLE}instance/attributes/tpu-env"] = TPU_ENV
    assert not ended(server, "gce", tmp_path)
    node = "/v2/projects/proj/locations/us-central2-b/nodes/slice-1"
    assert server.deleted == [(node, "Bearer secret")]


def test_an_orphan_of_azure_deletes_itself(server: MetadataServer, tmp_path: Path) -> None:
    """A VM deletes itself with its identity's token for the resource manager."""
    vm = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm"
    about = f"{AZURE}instance/compute/resourceId?api-version=2021-02-01&format=text"
    asked = urlencode({"api-version": "2018-02-01", "resource": f"http://{server.host}/"})
    server.says[about] = vm
    server.says[f"{AZURE}identity/oauth2/token?{asked}"] = '{"access_token": "secret"}'
    assert not ended(server, "azure", tmp_path)
    assert server.deleted == [(f"{vm}?api-version=2024-07-01", "Bearer secret")]


def test_an_orphan_without_rights_halts(server: MetadataServer, tmp_path: Path) -> None:
    """This includes one whose metadata server is silent, and all of Amazon's, which end so."""
    announce_vm(server)
    server.refuses_deletes = True
    assert ended(server, "gce", tmp_path)
    (tmp_path / "halted").unlink()
    assert ended(server, "ec2", tmp_path)


def test_the_facts_of_a_tpu_become_variables() -> None:
    """The names are those that libtpu reads; the gang determines the worker's number."""
    made = tpu_variables(parse_tpu_env(TPU_ENV))
    assert made == {
        "TPU_ACCELERATOR_TYPE": "v4-16",
        "TPU_TOPOLOGY": "2x2x2",
        "TPU_TOPOLOGY_WRAP": "false,false,false",
        "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1",
        "TPU_HOST_BOUNDS": "1,1,2",
        "TPU_PROCESS_BOUNDS": "1,1,2",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1",
        "TPU_SKIP_MDS_QUERY": "true",
    }
    assert tpu_variables({}) == {}
