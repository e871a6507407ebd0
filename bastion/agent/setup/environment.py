"""
What a process sees: its whole environment, from its instruction, its spec and where its gang lies.

Rules: pure; nothing of the agent's own environment comes in. Later groups outrank earlier ones:
the machine's few variables, rendezvous, the job's `env`, the process's `env`, secrets, then
`BASTION_*`, the devices and aliases, which nobody may set for himself.

A **node** of the rendezvous is one host of one replica, so that torch's own rule holds:
`RANK = NODE_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from bastion.agent.setup.aliases import aliased
from bastion.machine import Start
from bastion.spec.launch import Job, Process
from bastion.spec.secret import Secret
from bastion.value import value

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Source: Debian, /etc/login.defs ENV_SUPATH; the same for every user, as jobs are."""

TPUS = frozenset({"v2", "v3", "v4", "v5e", "v5p", "v6e"})
"""Resource types that are TPUs: libtpu finds them by other variables than CUDA's."""

NEURONS = frozenset({"trainium", "inferentia2"})
"""Resource types that are driven by the files /dev/neuron<index>."""

COUNTED = frozenset({"cpu", "memory"})
"""Resource types that are amounts, not devices that a process could be given by index."""

_MEGASCALE_PORT = 8080
"""Source: AXLearn and MaxText, `MEGASCALE_COORDINATOR_ADDRESS`; libtpu's default port."""

_IN_IMAGE = {"TINI_KILL_PROCESS_GROUP": "1"}
"""Docker's first process hands signals to all that its program runs, not to that alone. Source:
github.com/krallin/tini, "Process group killing"."""

_NO_DEVICES = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""Images for GPUs ask for all of them, and are given them where NVIDIA's runtime is the default.
Source: docs.nvidia.com/datacenter/cloud-native/container-toolkit, "GPU Enumeration"."""


@value
class Place:
    """What one host's processes are told about their machine and their gang."""

    home: str
    """The home directory of the user they run as."""
    user: str
    temporary: str = "/tmp"  # noqa: S108 - where every program looks; sockets need short paths
    path: str = PATH
    python: str = ""
    """Where the Python environment lies that they run in; empty: there is none."""
    notice_file: str
    marks: str
    output: str
    addresses: tuple[str, ...]
    """Of every host of the gang, replica by replica; of this host alone where it has no barrier."""
    port: int
    """Where the first host may listen for the others."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the job's secrets, by name."""
    secret_files: Mapping[str, str] = field(default_factory=dict)
    """Paths of those that are files too, by name."""
    in_image: bool = False
    """They live in containers: what the image says of its own file system stands."""


def environments(
    start: Start, job: Job, place: Place, told: Mapping[str, str] | None = None
) -> tuple[dict[str, str], ...]:
    """
    The environment of every process of the host that `start` names, in their order.

    `told` is what a task knows of its array.
    """
    shares = device_shares(start.devices, job.processes, hosts=start.hosts)
    if place.in_image:
        shares = tuple(_counted_anew(share, gpus_of(start.devices)) for share in shares)
    ours = _of_host(start, job, place)
    every = dict.fromkeys(device for share in shares for device in _cuda(share))
    made = []
    for index, process in enumerate(job.processes):
        env = _of_machine(place)
        env.update(_rendezvous(start, place, index=index, processes=len(job.processes)))
        env.update(job.env)
        env.update(process.env)
        env.update(_secrets((*job.secrets, *process.secrets), place))
        env.update(ours)
        env.update(told or {})
        env.update(_of_process(start, index=index, processes=len(job.processes)))
        env.update(_devices(start, shares[index], place))
        env.update(aliased(job.aliases, env, devices=every))
        made.append(env)
    return tuple(made)


def device_shares(
    devices: Mapping[str, tuple[int, ...]], processes: Sequence[Process], *, hosts: int
) -> tuple[dict[str, tuple[int, ...]], ...]:
    """
    The assigned indices of each type, split between `processes` by what each asked for, in order.

    Where no process asks for a type that was assigned (an instance type was asked for, or a whole
    machine), every process sees all of it. What a process asks for counts for all `hosts` of its
    replica, so each host gives its part.
    """
    shares: tuple[dict[str, tuple[int, ...]], ...] = tuple({} for _ in processes)
    for kind, indices in devices.items():
        if kind in COUNTED:
            continue
        asked = [process.resources.amounts[kind] // hosts for process in processes]
        first = 0
        for share, units in zip(shares, asked, strict=True):
            share[kind] = indices[first : first + units] if any(asked) else tuple(indices)
            first += units
    return shares


def gpus_of(devices: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The indices of those devices that NVIDIA's driver counts, in its order."""
    others = TPUS | NEURONS | COUNTED
    return tuple(
        sorted(i for kind, indices in devices.items() if kind not in others for i in indices)
    )


def _counted_anew(
    share: Mapping[str, tuple[int, ...]], gpus: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """`share` as a container counts it, which sees only the `gpus` of its host, from 0 on."""
    return {
        kind: indices if kind in TPUS | NEURONS else tuple(map(gpus.index, indices))
        for kind, indices in share.items()
    }


def _of_machine(place: Place) -> dict[str, str]:
    if place.in_image:
        # Names for programs that ask who they are: images do not know the user they run as.
        home = {"HOME": place.home} if place.home else {}
        return {**home, "USER": place.user, "LOGNAME": place.user, "PYTHONUNBUFFERED": "1"}
    python = {"VIRTUAL_ENV": place.python} if place.python else {}
    return python | {
        "PATH": f"{place.python}/bin:{place.path}" if place.python else place.path,
        "HOME": place.home,
        "USER": place.user,
        "LOGNAME": place.user,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TMPDIR": place.temporary,
        # A log is read while it is written: lines must not wait in a buffer of 8 KiB.
        "PYTHONUNBUFFERED": "1",
    }


def _rendezvous(start: Start, place: Place, *, index: int, processes: int) -> dict[str, str]:
    rank, world = _ranks(start, index=index, processes=processes)
    master = place.addresses[0]
    return {
        "MASTER_ADDR": master,
        "MASTER_PORT": str(place.port),
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(index),
        "LOCAL_WORLD_SIZE": str(processes),
        "NODE_RANK": str(start.replica * start.hosts + start.host),
        "JAX_COORDINATOR_ADDRESS": f"{master}:{place.port}",
        "JAX_NUM_PROCESSES": str(world),
        "JAX_PROCESS_ID": str(rank),
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
        "BASTION_HOST_INDEX": str(start.host),
        "BASTION_HOST_COUNT": str(start.hosts),
        "BASTION_HOSTS": ",".join(place.addresses),
        "BASTION_TIER": str(start.tier),
        "BASTION_OUTPUT_DIR": place.output,
        "BASTION_MARKS_DIR": place.marks,
        "BASTION_NOTICE_FILE": place.notice_file,
    }


def _secrets(asked: Sequence[Secret], place: Place) -> dict[str, str]:
    env = {secret.name: place.secrets[secret.name] for secret in asked}
    files = {secret.name for secret in asked if secret.file}
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
        # Empty, not unset: an unset variable would show every device of the machine.
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, _cuda(share))),
        # Indices mean what nvidia-smi shows, not what CUDA guesses to be fastest first.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if place.in_image:
        env |= _IN_IMAGE if start.devices.keys() - COUNTED else {**_IN_IMAGE, **_NO_DEVICES}
    return env | _tpu(start, place) if TPUS & share.keys() else env


def _cuda(share: Mapping[str, tuple[int, ...]]) -> list[int]:
    return [index for kind, indices in share.items() if kind not in TPUS for index in indices]


def _tpu(start: Start, place: Place) -> dict[str, str]:
    """
    How libtpu finds the other hosts of its slice, and Megascale the other slices.

    Source: cloud.google.com/tpu/docs/multislice-introduction.
    """
    first = start.replica * start.hosts
    env = {
        "TPU_WORKER_ID": str(start.host),
        "TPU_WORKER_HOSTNAMES": ",".join(place.addresses[first : first + start.hosts]),
    }
    if start.replicas > 1:
        env["MEGASCALE_COORDINATOR_ADDRESS"] = f"{place.addresses[0]}:{_MEGASCALE_PORT}"
        env["MEGASCALE_NUM_SLICES"] = str(start.replicas)
        env["MEGASCALE_SLICE_ID"] = str(start.replica)
    return env


def _ranks(start: Start, *, index: int, processes: int) -> tuple[int, int]:
    """(rank, world size) of a process, counted replica by replica, host by host."""
    before = start.replica * start.hosts + start.host
    return before * processes + index, start.replicas * start.hosts * processes
