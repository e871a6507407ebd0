"""The environment of a process, case by case."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.agent.host.start_request import memory_limit
from bastion.agent.machine import stray_processes as strays
from bastion.agent.setup.environment import PATH, Place, device_shares, environments
from bastion.errors import SpecError
from bastion.machine import Start
from bastion.spec import Job, Process, Resources
from bastion.spec.names import launch_uuid
from tests.rigs.agent import start

PLACE = Place(
    home="/home/ada",
    user="ada",
    notice_file="/work/notice.json",
    marks="/work",
    output="/work/output",
    addresses=("10.0.0.1",),
    port=29500,
)


def place(*addresses: str) -> Place:
    """Return a place in a gang."""
    return Place(
        home="/home/ada",
        user="ada",
        notice_file="/n",
        marks="/m",
        output="/o",
        addresses=addresses,
        port=1234,
    )


def job(*processes: Process, **fields: Any) -> Job:
    """Return a job."""
    return Job(name="train", processes=processes or (Process(["true"]),), **fields)


def one(said: Start, of: Job | None = None, where: Place = PLACE) -> dict[str, str]:
    """Return the environment of the first process."""
    return environments(said, of or job(), where)[0]


def test_a_lone_process_sees_exactly_this() -> None:
    """This is the whole environment of the simplest job, without anything of the agent's own."""
    assert one(start()) == {
        "PATH": PATH,
        "HOME": "/home/ada",
        "USER": "ada",
        "LOGNAME": "ada",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "0",
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:29500",
        "JAX_NUM_PROCESSES": "1",
        "JAX_PROCESS_ID": "0",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "30",
        "CUDA_VISIBLE_DEVICES": "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "BASTION_PROJECT": "vision",
        "BASTION_LAUNCH_ID": "launch-abc",
        "BASTION_JOB_NAME": "train",
        "BASTION_JOB_ID": "train-abc",
        "BASTION_ATTEMPT": "1",
        "BASTION_REPLICA_INDEX": "0",
        "BASTION_REPLICA_COUNT": "1",
        "BASTION_REPLICA_LEAST": "1",
        "BASTION_REPLICA_MOST": "1",
        "BASTION_HOST_INDEX": "0",
        "BASTION_HOST_COUNT": "1",
        "BASTION_HOSTS": "10.0.0.1",
        "BASTION_TIER": "0",
        "BASTION_OUTPUT_DIR": "/work/output",
        "BASTION_MARKS_DIR": "/work",
        "BASTION_NOTICE_FILE": "/work/notice.json",
        "BASTION_PROCESS_INDEX": "0",
        "BASTION_PROCESS_INDEX_ON_MACHINE": "0",
        "BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS": "0",
        "BASTION_PROCESS_COUNT_ACROSS_ALL_REPLICAS": "1",
    }


@pytest.mark.parametrize("replica", range(2))
@pytest.mark.parametrize("host", range(3))
def test_ranks_count_replica_by_replica_host_by_host(replica: int, host: int) -> None:
    """Ranks are dense and unique, and torch's relation of ranks holds everywhere."""
    said = replace(start(replicas=2, hosts=3, replicas_here=1), replica=replica, host=host)
    envs = environments(
        said, job(Process(["a"]), Process(["b"])), place(*(f"h{n}" for n in range(6)))
    )
    for local, env in enumerate(envs):
        rank = (replica * 3 + host) * 2 + local
        assert env["RANK"] == env["JAX_PROCESS_ID"] == str(rank)
        assert env["BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS"] == str(rank)
        assert env["WORLD_SIZE"] == env["JAX_NUM_PROCESSES"] == "12"
        assert env["BASTION_PROCESS_COUNT_ACROSS_ALL_REPLICAS"] == "12"
        assert int(env["RANK"]) == int(env["NODE_RANK"]) * int(env["LOCAL_WORLD_SIZE"]) + local
        assert env["LOCAL_RANK"] == str(local)
        assert env["BASTION_PROCESS_INDEX"] == str(host * 2 + local)
        assert env["BASTION_PROCESS_INDEX_ON_MACHINE"] == str(2 + local)
        assert env["MASTER_ADDR"] == "h0"
        assert env["BASTION_HOSTS"] == "h0,h1,h2,h3,h4,h5"


def test_the_process_overrides_the_job_and_neither_the_bastion() -> None:
    """The env of a process overrides the job's, both override defaults; neither sets devices."""
    env = one(
        start(devices={"h100": (1,)}),
        job(
            Process(["a"], env={"A": "process", "HOME": "/x"}, resources=Resources(h100=1)),
            env={"A": "job", "B": "job", "RANK": "7", "CUDA_VISIBLE_DEVICES": "0,1,2"},
        ),
    )
    assert (env["A"], env["B"], env["HOME"], env["RANK"]) == ("process", "job", "/x", "7")
    assert env["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize(
    ("devices", "asked", "hosts", "visible"),
    [
        ({}, (0,), 1, ("",)),
        ({"h100": (3, 5)}, (2,), 1, ("3,5",)),
        ({"h100": (3, 5, 6)}, (1, 2), 1, ("3", "5,6")),
        ({"h100": (3, 5)}, (0, 2), 1, ("", "3,5")),
        ({"h100": (0, 1, 2, 3)}, (0,), 1, ("0,1,2,3",)),
        ({"h100": (0, 1)}, (0, 0), 1, ("0,1", "0,1")),
        ({"h100": (0, 1, 2, 3)}, (8,), 2, ("0,1,2,3",)),
        ({"h100": (0, 1, 2, 3)}, (4, 4), 2, ("0,1", "2,3")),
        ({"cpu": (0, 1), "h100": (4,)}, (1,), 1, ("4",)),
        ({"v4": (0, 1, 2, 3)}, (0,), 1, ("",)),
    ],
)
def test_devices_are_split_by_request(
    devices: dict[str, tuple[int, ...]],
    asked: tuple[int, ...],
    hosts: int,
    visible: tuple[str, ...],
) -> None:
    """Each process sees its own share in order, and none of another process."""
    processes = [
        Process(["a"], resources=Resources(**({"h100": units} if units else {}))) for units in asked
    ]
    envs = environments(
        start(devices=devices, hosts=hosts), job(*processes), place(*("a" for _ in range(hosts)))
    )
    assert tuple(env["CUDA_VISIBLE_DEVICES"] for env in envs) == visible


def test_shares_of_two_types_are_apart() -> None:
    """Each type is divided separately."""
    processes = (
        Process(["a"], resources=Resources(h100=1, a10=2)),
        Process(["b"], resources=Resources(h100=1)),
    )
    assert device_shares({"h100": (0, 1), "a10": (4, 5)}, processes, hosts=1) == (
        {"h100": (0,), "a10": (4, 5)},
        {"h100": (1,), "a10": ()},
    )


def test_a_slice_finds_its_hosts_and_the_other_slices() -> None:
    """Hosts of a TPU slice get each other's addresses; several slices get their coordinator's."""
    said = start(devices={"v4": (0, 1, 2, 3)}, replicas=2, hosts=2, tier=1)
    env = one(said, where=place("a", "b", "c", "d"))
    assert (env["TPU_WORKER_ID"], env["TPU_WORKER_HOSTNAMES"]) == ("0", "a,b")
    assert env["MEGASCALE_COORDINATOR_ADDRESS"] == "a:8080"
    assert (env["MEGASCALE_NUM_SLICES"], env["MEGASCALE_SLICE_ID"]) == ("2", "0")
    assert env["BASTION_TIER"] == "1"
    alone = one(start(devices={"v4": (0,)}), where=place("a"))
    assert alone["TPU_WORKER_HOSTNAMES"] == "a"
    assert "MEGASCALE_NUM_SLICES" not in alone


def test_a_neuron_runtime_is_told_the_cores_of_its_devices() -> None:
    """Two jobs on one machine share no core; a container has only its own devices."""
    said = start(devices={"trainium": (4, 5, 9)})
    env = one(said)
    assert env["NEURON_RT_VISIBLE_CORES"] == "8,9,10,11,18,19"
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert "NEURON_RT_VISIBLE_CORES" not in one(said, where=replace(PLACE, in_image=True))
    assert "NEURON_RT_VISIBLE_CORES" not in one(start(devices={"h100": (4,)}))


def test_a_whole_tpu_host_knows_its_topology_and_a_part_its_chips() -> None:
    """Facts of the machine are for processes with all its chips; others are told their chips."""
    of_machine = {"TPU_TOPOLOGY": "2x2x2", "TPU_WORKER_ID": "never"}
    where = replace(place("a", "b"), tpu=of_machine, chips=4)
    whole = start(devices={"v4": (0, 1, 2, 3, 4, 5, 6, 7)}, hosts=2)
    second = one(replace(whole, host=1), where=where)
    assert (second["TPU_TOPOLOGY"], second["TPU_WORKER_ID"]) == ("2x2x2", "1")
    assert "TPU_VISIBLE_CHIPS" not in second
    part = one(start(devices={"v4": (4, 5, 6, 7)}), where=replace(where, addresses=("a",)))
    assert (part["TPU_VISIBLE_CHIPS"], part["TPU_CHIPS_PER_PROCESS_BOUNDS"]) == ("2,3", "1,2,1")
    assert part["TPU_PROCESS_BOUNDS"] == "1,1,1"
    newer = one(start(devices={"v5e": (2, 3)}), where=replace(where, addresses=("a",)))
    assert newer["TPU_VISIBLE_CHIPS"] == "2,3"
    assert "TPU_TOPOLOGY" not in part


@pytest.mark.parametrize(
    ("asked", "hosts", "limit"),
    [((), 1, None), ((10,), 1, 10), ((10, 20), 1, 30), ((10, 0), 1, None), ((40,), 2, 20)],
)
def test_processes_share_the_memory_that_they_request(
    asked: tuple[int, ...], hosts: int, limit: int | None
) -> None:
    """There is a limit only if every process requests memory."""
    processes = tuple(
        Process(["a"], resources=Resources(**({"memory": units} if units else {})))
        for units in asked or (0,)
    )
    assert memory_limit(processes, hosts=hosts) == limit


PAGE = Path(__file__).parents[4] / "docs" / "reference" / "environment.md"


def test_the_reference_names_every_variable() -> None:
    """Every variable of a process is on the page, and the page names no other."""
    gang = start(devices={"v4": (0,), "h100": (1,), "trainium": (0,)}, replicas=2)
    seen = one(
        gang,
        job(aliases=["clusterfudge", "blox"]),
        replace(place("a", "b"), python="/env", python_path=("/code/a/src", "/code/b")),
    )
    told = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)
    names = [name for cell in told for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(names) == sorted([*seen, strays.MARK])
    assert seen["PYTHONPATH"] == "/code/a/src:/code/b"


@pytest.mark.parametrize(
    ("processes", "ranks", "visible"),
    [
        ([Process(["a"], resources=Resources(h100=4))], [None], ["4,5,6,7"]),
        ([Process(["a"], resources=Resources(h100=1))] * 4, list("0123"), ["4", "5", "6", "7"]),
        ([Process(["a"])] * 4, list("0123"), ["4,5,6,7"] * 4),
    ],
)
def test_local_ranks_and_devices_are_as_the_reference_says(
    processes: list[Process], ranks: list[str | None], visible: list[str]
) -> None:
    """LOCAL_RANK counts processes; devices are divided separately: the table's three rows."""
    envs = environments(start(devices={"h100": (4, 5, 6, 7)}), job(*processes), PLACE)
    assert [env.get("LOCAL_RANK") for env in envs] == ranks
    assert [env["CUDA_VISIBLE_DEVICES"] for env in envs] == visible


@pytest.mark.parametrize(
    ("devices", "is_numbered"),
    [({}, True), ({"h100": (3,)}, True), ({"h100": (0, 1)}, False), ({"v4": (0, 1)}, False)],
)
def test_a_process_that_shares_out_its_devices_itself_has_no_local_rank(
    devices: dict[str, tuple[int, ...]], is_numbered: bool
) -> None:
    """With LOCAL_RANK, Lightning would wait for missing processes: world size 2, one here."""
    env = one(start(devices=devices), job(env={"A": "b"}))
    assert ("LOCAL_RANK" in env) is ("LOCAL_WORLD_SIZE" in env) is is_numbered
    assert env["NODE_RANK"] == env["RANK"] == "0"


def test_torchrun_knows_its_gang() -> None:
    """The defaults of its flags: a node is a host of the gang, with one process per GPU."""
    said = replace(
        start(devices={"h100": (2, 3), "cpu": (0, 1)}, replicas=2, hosts=2), replica=1, host=1
    )
    env = one(said, where=place("h0", "h1", "h2", "h3"))
    assert {name: text for name, text in env.items() if name.startswith("PET_")} == {
        "PET_NNODES": "4",
        "PET_NODE_RANK": "3",
        "PET_MASTER_ADDR": "h0",
        "PET_MASTER_PORT": env["MASTER_PORT"],
        "PET_NPROC_PER_NODE": "2",
    }


def test_torchrun_waits_for_its_processes_as_long_as_the_job_may_save() -> None:
    """It kills them itself, by default 30 s after SIGTERM."""
    for grace_s, told in ((300.0, "300"), (0.5, "1"), (0.0, "0")):
        env = one(replace(start(), grace_s=grace_s))
        assert env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == told


def test_torchrun_starts_as_many_processes_as_it_likes_where_no_gpu_is_given() -> None:
    """It starts one, or what its flags say: chips of a TPU are not GPUs."""
    for devices in ({}, {"v4": (0, 1, 2, 3)}):
        env = one(start(devices=devices, replicas=2), where=place("h0", "h1"))
        assert "PET_NPROC_PER_NODE" not in env
        assert env["PET_NNODES"] == "2"


def test_torchrun_on_one_host_finds_a_port_itself() -> None:
    """A job may run two of them, each on half of its GPUs, which cannot share one port."""
    env = one(start(devices={"h100": (0, 1)}))
    assert {name for name in env if name.startswith("PET_")} == {"PET_NPROC_PER_NODE"}


def test_processes_that_bastion_started_for_each_device_are_no_nodes() -> None:
    """Several processes on a host have their own ranks: a torchrun in each is not intended."""
    envs = environments(start(), job(Process(["a"]), Process(["b"])), PLACE)
    assert not any(name.startswith("PET_") for env in envs for name in env)


def test_other_schedulers_names_mean_what_they_meant() -> None:
    """On request, each process of a gang gets Clusterfudge's and Blox's variables."""
    said = replace(start(devices={"h100": (2, 3)}, replicas=2, replicas_here=1), replica=1)
    halves = [Process([name], resources=Resources(h100=1)) for name in "ab"]
    _, second = environments(
        said, job(*halves, aliases=["clusterfudge", "blox"]), place("10.0.0.1", "10.0.0.2")
    )
    theirs = {name: text for name, text in second.items() if name.startswith("CLUSTERFUDGE_")}
    assert theirs == {
        "CLUSTERFUDGE_LAUNCH_ID": launch_uuid("launch-abc"),
        "CLUSTERFUDGE_JOB_NAME": "train",
        "CLUSTERFUDGE_REPLICA_INDEX": "1",
        "CLUSTERFUDGE_REPLICA_COUNT": "2",
        "CLUSTERFUDGE_PROCESS_COUNT_ACROSS_ALL_REPLICAS": "4",
        "CLUSTERFUDGE_PROCESS_INDEX": "3",
        "CLUSTERFUDGE_PROCESS_INDEX_ACROSS_ALL_REPLICAS": "3",
    }
    assert {name: text for name, text in second.items() if name.islower()} == {
        "local_gpu_id": "3",
        "local_accessible_gpu": "2,3",
        "local_accessible_gpus": "2,3",
        "master_ip_address": "10.0.0.1",
        "world_size": "4",
        "dist_rank": "3",
        "job_id": "train-abc",
    }
    assert not any(name.startswith("CLUSTERFUDGE_") for name in one(said, job(*halves)))


def test_an_unknown_scheduler_is_refused() -> None:
    """The error for an unknown name lists the known names."""
    with pytest.raises(SpecError, match=r"aliases\[0\]: 'cluster' is unknown, .*clusterfudge"):
        job(aliases=["cluster"])


def test_a_container_renumbers_its_devices() -> None:
    """It sees only the GPUs of its host, from 0 on, and each process sees its own."""
    two = tuple(Process(["true"], resources=Resources(h100=1)) for _ in range(2))
    made = environments(
        start(devices={"h100": (3, 6)}), job(*two), replace(PLACE, in_image=True, home="")
    )
    assert [env["CUDA_VISIBLE_DEVICES"] for env in made] == ["0", "1"]
    assert "NVIDIA_VISIBLE_DEVICES" not in made[0]


def test_variables_of_an_image_are_kept() -> None:
    """No path of the machine is set, and an image that requests GPUs gets none."""
    env = one(start(), where=replace(PLACE, in_image=True, home=""))
    assert not env.keys() & {"PATH", "HOME", "SHELL", "LANG", "TMPDIR"}
    assert (env["USER"], env["CUDA_VISIBLE_DEVICES"]) == ("ada", "")
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
