"""Containers as machines: requests to an engine, and the handling of devices and names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.containers.docker import KEEP_GONE_S, DockerProvider
from bastion.provider.containers.docker_request import (
    container_of,
    devices_of,
    gone_at,
    name_of,
    problems,
)
from quota.amounts import Amounts
from tests.rigs.limits import PATIENCE_S
from tests.servers.engine import FakeEngine

POOL = Pool(
    name="box",
    provider="docker",
    resources=Amounts({"h100": 2, "cpu": 8, "memory": 64 << 30}),
    max_machines=2,
    image="trainer:1",
    options={"gpus": "0-3"},
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    """Provide an engine that has the image."""
    made = FakeEngine(tmp_path / "s", images={"trainer:1"}, registry=frozenset({"trainer:2"}))
    made.open()
    yield made
    made.end()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def provider(engine: FakeEngine, clock: VirtualClock) -> DockerProvider:
    return of(POOL, engine, clock)


def of(pool: Pool, engine: FakeEngine, clock: VirtualClock) -> DockerProvider:
    return DockerProvider(
        replace(pool, options={**pool.options, "host": f"unix://{engine.path}"}),
        bucket="bucket",
        root_url="gs://bucket",
        script=lambda pool, name: f"{name}; exec sleep 100000",
        clock=clock,
    )


def machine(index: int, *, seq: int = 7, pool: str = "box") -> Machine:
    return Machine(name=f"{pool}-{seq}-{index}", pool=pool, batch=str(seq))


def devices(engine: FakeEngine) -> list[str]:
    return [made.body["Labels"]["bastion.devices"] for made in engine.made.values()]


def body(pool: Pool, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "bucket": "bucket",
        "root_url": "gs://bucket",
        "script": "true",
        "devices": (),
        "environ": {},
    }
    return container_of(pool, "box-7-0", **{**given, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "options": {"cdi": "nvidia.com/gpu=0, nvidia.com/gpu=1", "host": "ssh://gpu1"},
            "max_machines": 1,
        },
        {"options": {"gpus": "GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a 1"}, "max_machines": 1},
        {"resources": Amounts({"cpu": 4}), "options": {"mounts": "/data:/data:ro", "shm": "8GiB"}},
        {"network": "host", "setup": ("apt-get update",), "options": {"gpus": "0-3", "env": "A"}},
    ],
)
def test_a_good_pool_has_no_problem(changes: dict[str, Any]) -> None:
    """Everything that the guide shows is accepted."""
    assert problems(replace(POOL, **changes)) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"image": ""}, "image: missing"),
        ({"zones": ("a",)}, "zones: a pool has one engine"),
        ({"terms": "spot"}, "terms: a container has none"),
        ({"disk_gib": 10}, "disk: a container has none"),
        ({"labels": {"containers": "true"}}, "containers: a container runs no images"),
        ({"options": {}}, "options.gpus: missing"),
        ({"options": {"gpus": "all"}}, "options.gpus: 'all' is not a number"),
        ({"options": {"cdi": "gpu0"}}, "options.cdi: 'gpu0' is not a CDI name"),
        ({"options": {"gpus": "0-2"}}, "max_machines: 2 machines with 2 devices each are more"),
        ({"options": {"gpus": "0-3", "cdi": "a.b/c=0"}}, "options.gpus: options.cdi names"),
        ({"options": {"gpus": "0-3", "host": "gpu1"}}, "options.host: 'gpu1' is not an engine"),
        ({"options": {"gpus": "0-3", "mounts": "data"}}, "options.mounts: 'data' must be"),
        ({"options": {"gpus": "0-3", "shm": "much"}}, "options.shm: "),
        ({"options": {"gpus": "0-3", "env": "A=B"}}, "options.env: 'A=B' is not a valid name"),
        ({"options": {"gpus": "0-3", "user": "me"}}, "options.user: unknown"),
    ],
)
def test_a_wrong_pool_is_told(changes: dict[str, Any], problem: str) -> None:
    """The error begins with its field and comes before anything is created."""
    (found,) = problems(replace(POOL, **changes))
    assert found.startswith(problem)


def test_a_machine_has_what_its_pool_says() -> None:
    """A container is limited to the pool's CPUs and memory, half of which is shared memory."""
    host = body(POOL, devices=("0", "1"))["HostConfig"]
    assert host["NanoCpus"] == 8 * 10**9
    assert (host["Memory"], host["ShmSize"]) == (64 << 30, 32 << 30)
    assert host["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}
    ]
    assert host["RestartPolicy"] == {"Name": "no"}


def test_devices_by_their_cdi_names() -> None:
    """Devices with CDI names are requested by these names."""
    pool = replace(POOL, options={"cdi": "nvidia.com/gpu=0,nvidia.com/gpu=1"})
    host = body(pool, devices=devices_of(pool))["HostConfig"]
    assert host["DeviceRequests"] == [
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]}
    ]


def test_a_folder_is_mounted_at_its_path() -> None:
    """A bucket in a folder has the path of its URL, beside the mounts of the pool."""
    pool = replace(POOL, options={"mounts": "/data:/mnt/data:ro"})
    mounts = body(pool, root_url="file:///srv/a%20b")["HostConfig"]["Mounts"]
    assert mounts == [
        {"Type": "bind", "Source": "/data", "Target": "/mnt/data", "ReadOnly": True},
        {"Type": "bind", "Source": "/srv/a b", "Target": "/srv/a b", "ReadOnly": False},
    ]


def test_only_named_variables_are_passed() -> None:
    """A container gets the variables that the pool names, those for agents first."""
    pool = replace(POOL, options={"env": "KEY PROXY"})
    environ = {"KEY": "bastion", "AGENT_KEY": "agent", "PROXY": "p", "SECRET": "s"}
    assert body(pool, environ=environ)["Env"] == ["KEY=agent", "PROXY=p"]
    with pytest.raises(ProviderRefusedError, match="KEY is not set"):
        body(pool)


@pytest.mark.parametrize("machine", ["box-7-0", "b@x+y-7-0", "x" * 300 + "-7-0"])
def test_a_name_fits_an_engine(machine: str) -> None:
    """Every machine has a valid name, even after its deletion, and no two share one."""
    name = name_of("bucket", machine)
    assert name == name_of("bucket", machine)
    assert name != name_of("bucket", machine + "0")
    assert len(name) < 201
    assert gone_at(name) is None
    assert gone_at("/" + name_of("bucket", machine, gone_at=1234.5)) == 1234.0


def test_no_device_is_given_twice(provider: DockerProvider, engine: FakeEngine) -> None:
    """Machines get different devices; one more has none until a machine has ended."""
    provider.create([machine(0), machine(1)], POOL)
    assert devices(engine) == ["0,1", "2,3"]
    with pytest.raises(NoCapacityError, match="0 free devices of 0, 1, 2, 3; 2 are needed"):
        provider.create([machine(0, seq=8)], POOL)
    provider.delete("box-7-0")
    provider.create([machine(0, seq=9)], POOL)
    assert devices(engine) == ["0,1", "2,3", "0,1"]


def test_pools_and_buckets_share_no_device(
    provider: DockerProvider, engine: FakeEngine, clock: VirtualClock
) -> None:
    """What another pool's container has is not free."""
    other = replace(POOL, name="other")
    of(other, engine, clock).create([machine(0, pool="other")], other)
    provider.create([machine(0)], POOL)
    assert devices(engine) == ["0,1", "2,3"]
    assert [listed.name for listed in provider.list()] == ["box-7-0"]


def test_a_batch_without_devices_for_all_makes_none(
    provider: DockerProvider, engine: FakeEngine
) -> None:
    """A batch is created as a whole or not at all."""
    with pytest.raises(NoCapacityError):
        provider.create([machine(0), machine(1), machine(2)], POOL)
    assert not engine.made


def test_a_container_that_was_never_started_is_started(
    provider: DockerProvider, engine: FakeEngine
) -> None:
    """A create that failed between its two steps is completed by the next one."""
    provider.create([machine(0)], POOL)
    (made,) = engine.made.values()
    made.end_all()
    assert made.is_over.wait(PATIENCE_S)
    made.process = None  # as after a create whose start was never sent
    assert [listed.state for listed in provider.list()] == ["stopped"]
    provider.create([machine(0)], POOL)
    assert [listed.state for listed in provider.list()] == ["running"]
    assert len(engine.made) == 1


def test_what_is_gone_is_kept_for_an_hour(
    provider: DockerProvider, engine: FakeEngine, clock: VirtualClock
) -> None:
    """A deleted machine is listed as gone for an hour, and then its container is removed."""
    provider.create([machine(0)], POOL)
    provider.delete("box-7-0")
    clock.advance(KEEP_GONE_S - 10)
    assert [listed.state for listed in provider.list()] == ["gone"]
    clock.advance(20)
    assert provider.list() == ()
    assert not engine.made


def test_an_image_is_pulled(engine: FakeEngine, clock: VirtualClock) -> None:
    """A missing image is pulled; one that no registry has is refused."""
    there = replace(POOL, image="trainer:2")
    of(there, engine, clock).create([machine(0)], there)
    assert "trainer:2" in engine.images
    nowhere = replace(POOL, image="trainer:3")
    with pytest.raises(ProviderRefusedError, match="trainer:3: manifest"):
        of(nowhere, engine, clock).create([machine(1)], nowhere)


@pytest.mark.parametrize(
    "refusal",
    ['could not select device driver "nvidia" with capabilities: [[gpu]]', "invalid mount config"],
)
def test_a_wrong_setting_is_refused(
    provider: DockerProvider, engine: FakeEngine, refusal: str
) -> None:
    """A refusal has the engine's words, and the next create works once it is fixed."""
    engine.refusal = refusal
    with pytest.raises(ProviderRefusedError) as caught:
        provider.create([machine(0)], POOL)
    assert refusal in caught.value.message
    engine.refusal = ""
    provider.create([machine(0)], POOL)
    assert [listed.state for listed in provider.list()] == ["running"]


def test_an_engine_that_is_away_is_out_of_reach(
    provider: DockerProvider, engine: FakeEngine
) -> None:
    """An engine that does not answer has no shorter list; its containers continue."""
    provider.create([machine(0)], POOL)
    engine.close()
    for act in (provider.list, lambda: provider.delete("box-7-0")):
        with pytest.raises(ProviderUnavailableError):
            act()
    engine.open()
    assert [listed.state for listed in provider.list()] == ["running"]


def test_no_engine_is_out_of_reach(tmp_path: Path, clock: VirtualClock) -> None:
    """For a missing engine, the error says where it was searched."""
    pool = replace(POOL, options={"host": f"unix://{tmp_path}/none"})
    provider = DockerProvider(
        pool, bucket="b", root_url="gs://b", script=lambda *_: "", clock=clock
    )
    with pytest.raises(ProviderUnavailableError, match=f"{tmp_path}/none"):
        provider.list()


def test_the_sdk_is_loaded_by_the_first_call() -> None:
    """Creating the provider loads no SDK, so a bastion without docker pays nothing."""
    line = (
        "import sys; from bastion.provider.containers import docker, docker_request;"
        " assert 'docker' not in sys.modules and 'requests' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", line], check=True)
