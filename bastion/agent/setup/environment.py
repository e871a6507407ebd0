"""
The whole environment of a process, from its instruction, its spec and the placement of its gang.

It is pure, and takes nothing from the agent's own environment. Later groups override earlier ones:
the machine's few variables, rendezvous, the job's `env`, the process's `env`, secrets, then
`BASTION_*`, the devices and aliases, which a job cannot set.

A **node** of the rendezvous is one host of one replica, so that torch's own rule holds:
`RANK = NODE_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from bastion.agent.setup.aliases import aliased
from bastion.catalog import units_a_chip
from bastion.machine import Start
from bastion.spec.launch import Job, Process
from bastion.spec.secret import Secret
from bastion.value import value

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Source: Debian, /etc/login.defs ENV_SUPATH. It is the same for every user of jobs."""

TPUS = frozenset({"v2", "v3", "v4", "v5e", "v5p", "v6e"})
"""Resource types that are TPUs: libtpu finds them by variables other than CUDA's."""

NEURONS = frozenset({"trainium", "inferentia2"})
"""Resource types that are driven by the files /dev/neuron<index>."""

_NEURON_CORES = 2
"""Cores of such a device. Source: AWS Neuron documentation, "Trn1 Architecture" and "Inf2"."""

COUNTED = frozenset({"cpu", "memory"})
"""Resource types that are amounts, not devices with an index."""

_BOUNDS = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}
"""The arrangement of the chips of a part of a host, by their number."""

_MEGASCALE_PORT = 8080
"""Source: AXLearn and MaxText, `MEGASCALE_COORDINATOR_ADDRESS`; libtpu's default port."""

_IN_IMAGE = {"TINI_KILL_PROCESS_GROUP": "1"}
"""Makes docker's init process forward signals to the whole process group of its program. Source:
github.com/krallin/tini, "Process group killing"."""

_NO_DEVICES = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""Hides all GPUs: images for GPUs request all, and get them where NVIDIA's runtime is the default.
Source: docs.nvidia.com/datacenter/cloud-native/container-toolkit, "GPU Enumeration"."""


@value
class Place:
    """The facts about the machine and the gang of one host's processes, for their environment."""

    home: str
    """Home directory of the user that the processes run as."""
    user: str
    temporary: str = "/tmp"  # noqa: S108 - where every program looks; sockets need short paths
    path: str = PATH
    python: str = ""
    """Folder of their Python environment; empty: none."""
    python_path: tuple[str, ...] = ()
    """Where Python finds the packages of its lock file that are in the code."""
    notice_file: str
    marks: str
    output: str
    addresses: tuple[str, ...]
    """Addresses of all hosts of the gang, replica by replica; without a barrier, only its own."""
    port: int
    """Port that the first host may listen on for the others."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the job's secrets, by name."""
    secret_files: Mapping[str, str] = field(default_factory=dict)
    """Paths of the secrets that are also files, by name."""
    tpu: Mapping[str, str] = field(default_factory=dict)
    """Facts for libtpu about the whole machine."""
    chips: int = 0
    """TPU chips of the machine."""
    in_image: bool = False
    """Whether they run in containers: paths of the image's file system are then kept."""


def environments(
    start: Start, job: Job, place: Place, task: Mapping[str, str] | None = None
) -> tuple[dict[str, str], ...]:
    """
    Return the environment of every process of the host that `start` names, in their order.

    `task` has the variables of a task of an array.
    """
    shares = device_shares(start.devices, job.processes, hosts=start.hosts)
    if place.in_image:
        shares = tuple(_renumbered(share, gpus_of(start.devices)) for share in shares)
    ours = _of_host(start, job, place)
    every = dict.fromkeys(device for share in shares for device in _cuda(share))
    made = []
    for index, process in enumerate(job.processes):
        env = _of_machine(place)
        env.update(_rendezvous(start, place, shares, index=index))
        env.update(job.env)
        env.update(process.env)
        env.update(_secrets((*job.secrets, *process.secrets), place))
        env.update(ours)
        env.update(task or {})
        env.update(_of_process(start, index=index, processes=len(job.processes)))
        env.update(_devices(start, shares[index], place))
        env.update(aliased(job.aliases, env, devices=every))
        made.append(env)
    return tuple(made)


def device_shares(
    devices: Mapping[str, tuple[int, ...]], processes: Sequence[Process], *, hosts: int
) -> tuple[dict[str, tuple[int, ...]], ...]:
    """
    Split the assigned indices of each type between `processes` by their requests, in order.

    If no process requests an assigned type (because the job requested an instance type or a whole
    machine), every process sees all of it. The request of a process is for all `hosts` of its
    replica, so each host contributes its part.
    """
    shares: tuple[dict[str, tuple[int, ...]], ...] = tuple({} for _ in processes)
    for kind, indices in devices.items():
        if kind in COUNTED:
            continue
        requested = [process.resources.amounts[kind] // hosts for process in processes]
        first = 0
        for share, units in zip(shares, requested, strict=True):
            share[kind] = indices[first : first + units] if any(requested) else tuple(indices)
            first += units
    return shares


def chips_of(kind: str, indices: Sequence[int]) -> tuple[int, ...]:
    """Return the chips that contain the units `indices` of a TPU: some have two to a chip."""
    return tuple(sorted({index // units_a_chip(kind) for index in indices}))


def gpus_of(devices: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the indices of the devices that NVIDIA's driver counts, in its order."""
    others = TPUS | NEURONS | COUNTED
    return tuple(
        sorted(i for kind, indices in devices.items() if kind not in others for i in indices)
    )


def _renumbered(
    share: Mapping[str, tuple[int, ...]], gpus: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Renumber `share` for a container, which sees only the `gpus` of its host, from 0 on."""
    return {
        kind: indices if kind in TPUS | NEURONS else tuple(map(gpus.index, indices))
        for kind, indices in share.items()
    }


def _of_machine(place: Place) -> dict[str, str]:
    if place.in_image:
        # Names for programs that look up their user: images do not have that user.
        home = {"HOME": place.home} if place.home else {}
        return {**home, "USER": place.user, "LOGNAME": place.user, "PYTHONUNBUFFERED": "1"}
    python = {"VIRTUAL_ENV": place.python} if place.python else {}
    if place.python_path:
        python["PYTHONPATH"] = ":".join(place.python_path)
    return python | {
        "PATH": f"{place.python}/bin:{place.path}" if place.python else place.path,
        "HOME": place.home,
        "USER": place.user,
        "LOGNAME": place.user,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TMPDIR": place.temporary,
        # Logs are followed: lines must not wait in a buffer of 8 KiB.
        "PYTHONUNBUFFERED": "1",
    }


def _rendezvous(
    start: Start, place: Place, shares: Sequence[Mapping[str, tuple[int, ...]]], *, index: int
) -> dict[str, str]:
    processes = len(shares)
    rank, world = _ranks(start, index=index, processes=processes)
    master = place.addresses[0]
    env = {
        "MASTER_ADDR": master,
        "MASTER_PORT": str(place.port),
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(index),
        "LOCAL_WORLD_SIZE": str(processes),
        "NODE_RANK": _node(start),
        "JAX_COORDINATOR_ADDRESS": f"{master}:{place.port}",
        "JAX_NUM_PROCESSES": str(world),
        "JAX_PROCESS_ID": str(rank),
    }
    if processes > 1:
        return env
    own = shares[index]
    if max(map(len, own.values()), default=0) > 1:
        # Lightning and accelerate read these as: there is already one process for each device.
        del env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]
    return env | _torchrun(start, place, gpus=len(gpus_of(own)))


def _torchrun(start: Start, place: Place, *, gpus: int) -> dict[str, str]:
    """
    Return the defaults of torchrun's flags: all hosts of the gang, and a process for each GPU.

    On one host it finds a port of its own, even if several of it run there.

    Source: torch, distributed/argparse_util.py, `PET_` and the name of the flag; launcher/api.py.
    """
    # After SIGTERM it kills its processes itself, by default after 30 s.
    env = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(math.ceil(start.grace_s))}
    if gpus:
        env["PET_NPROC_PER_NODE"] = str(gpus)
    nodes = start.replicas * start.hosts
    if nodes == 1:
        return env
    return env | {
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": _node(start),
        "PET_MASTER_ADDR": place.addresses[0],
        "PET_MASTER_PORT": str(place.port),
    }


def _of_host(start: Start, job: Job, place: Place) -> dict[str, str]:
    array = {} if start.task is None else {"BASTION_ARRAY_ID": start.launch}
    return array | {
        "BASTION_PROJECT": start.project,
        "BASTION_LAUNCH_ID": start.launch,
        "BASTION_JOB_NAME": job.name,
        "BASTION_JOB_ID": start.job,
        "BASTION_ATTEMPT": str(start.attempt),
        "BASTION_REPLICA_INDEX": str(start.replica),
        "BASTION_REPLICA_COUNT": str(start.replicas),
        "BASTION_REPLICA_LEAST": str(job.range.least),
        "BASTION_REPLICA_MOST": str(job.range.most),
        "BASTION_HOST_INDEX": str(start.host),
        "BASTION_HOST_COUNT": str(start.hosts),
        "BASTION_HOSTS": ",".join(place.addresses),
        "BASTION_TIER": str(start.tier),
        "BASTION_OUTPUT_DIR": place.output,
        "BASTION_MARKS_DIR": place.marks,
        "BASTION_NOTICE_FILE": place.notice_file,
    }


def _secrets(requested: Sequence[Secret], place: Place) -> dict[str, str]:
    env = {secret.name: place.secrets[secret.name] for secret in requested}
    files = {secret.name for secret in requested if secret.file}
    return env | {f"{name}_FILE": place.secret_files[name] for name in files}


def _of_process(start: Start, *, index: int, processes: int) -> dict[str, str]:
    rank, world = _ranks(start, index=index, processes=processes)
    return {
        "BASTION_PROCESS_INDEX": str(start.host * processes + index),
        "BASTION_PROCESS_INDEX_ON_MACHINE": str(start.replicas_here * processes + index),
        "BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS": str(rank),
        "BASTION_PROCESS_COUNT_ACROSS_ALL_REPLICAS": str(world),
    }


def _devices(start: Start, share: Mapping[str, tuple[int, ...]], place: Place) -> Mapping[str, str]:
    env = {
        # Empty, not unset: without the variable, every device of the machine is visible.
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, _cuda(share))),
        # Indices are those of nvidia-smi, not those of CUDA's default order, fastest first.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if place.in_image:
        env |= _IN_IMAGE if start.devices.keys() - COUNTED else {**_IN_IMAGE, **_NO_DEVICES}
    neurons = [index for kind in NEURONS & share.keys() for index in share[kind]]
    if neurons and not place.in_image:
        env["NEURON_RT_VISIBLE_CORES"] = _neuron_cores(neurons)
    chips = sorted(chip for kind in TPUS & share.keys() for chip in chips_of(kind, share[kind]))
    return env | _tpu(start, place, chips) if chips else env


def _neuron_cores(devices: Sequence[int]) -> str:
    """
    Return the cores of these devices, as Neuron's runtime reads them.

    Without them it takes all cores of the machine. In a container there are no others.

    Source: AWS Neuron documentation, "Neuron Runtime configuration"; ray,
    _private/accelerators/neuron.py, for commas.
    """
    first = (device * _NEURON_CORES for device in devices)
    return ",".join(str(core + each) for core in first for each in range(_NEURON_CORES))


def _cuda(share: Mapping[str, tuple[int, ...]]) -> list[int]:
    others = TPUS | NEURONS
    return [index for kind, indices in share.items() if kind not in others for index in indices]


def _tpu(start: Start, place: Place, chips: Sequence[int]) -> dict[str, str]:
    """
    Return the variables by which libtpu finds its slice's hosts, and Megascale the other slices.

    A process with all chips of its machine gets the topology. A process with some of them gets
    their numbers, and is a topology of its own.

    Source: cloud.google.com/tpu/docs/multislice-introduction; GKE's device plugin for TPUs, for the
    names; jax, docs "Running multiple JAX processes on one TPU host", for parts of a host.
    """
    first = start.replica * start.hosts
    has_part = place.chips > len(chips)
    topology = _part_of_host(chips) if has_part else place.tpu
    env = {
        **topology,
        "TPU_WORKER_ID": str(start.host),
        "TPU_WORKER_HOSTNAMES": ",".join(place.addresses[first : first + start.hosts]),
    }
    if start.replicas > 1:
        env["MEGASCALE_COORDINATOR_ADDRESS"] = f"{place.addresses[0]}:{_MEGASCALE_PORT}"
        env["MEGASCALE_NUM_SLICES"] = str(start.replicas)
        env["MEGASCALE_SLICE_ID"] = str(start.replica)
    return env


def _part_of_host(chips: Sequence[int]) -> dict[str, str]:
    bounds = _BOUNDS.get(len(chips))
    shape = {"TPU_CHIPS_PER_PROCESS_BOUNDS": bounds, "TPU_PROCESS_BOUNDS": "1,1,1"}
    return {
        "TPU_VISIBLE_CHIPS": ",".join(map(str, chips)),
        **{name: text for name, text in shape.items() if bounds and text},
    }


def _node(start: Start) -> str:
    """Return the number of this host among all hosts of the gang."""
    return str(start.replica * start.hosts + start.host)


def _ranks(start: Start, *, index: int, processes: int) -> tuple[int, int]:
    """Return (rank, world size) of a process, counted replica by replica, host by host."""
    before = start.replica * start.hosts + start.host
    return before * processes + index, start.replicas * start.hosts * processes
