"""
An attempt whose processes live in containers: the requests to start and to undo it.

A container has the user, the network and the folders of a plain process, at the same paths, and
only the devices of its host's attempt. The image's settings apply, except for the program, its
working directory, and variables that are set elsewhere. The containers of one attempt, and no
others, share a /dev/shm of the machine's size: frameworks pass tensors through it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bastion.agent.containers.program import ATTEMPT_LABEL, HOME_LABEL, PREFIX
from bastion.agent.home import Folders
from bastion.agent.keeper.port import AttemptStart, ProcessStart, RunAs
from bastion.agent.settings import AgentSettings
from bastion.agent.setup.environment import COUNTED, NEURONS, TPUS, chips_of, gpus_of
from bastion.spec.launch import Process

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from bastion.agent.containers.program import main
main()
"""

_FABRICS = ("/dev/infiniband",)
"""Devices that connect the accelerators of several machines, besides the network."""

_OF_TPUS = "/dev/vfio"
"""Newer TPUs are driven from user space. Source: docs.kernel.org/driver-api/vfio.html."""


def contained(
    attempt: AttemptStart,
    image: str,
    folders: Folders,
    settings: AgentSettings,
    *,
    processes: Sequence[Process],
    devices: Mapping[str, tuple[int, ...]],
    hosts: int,
) -> AttemptStart:
    """
    Return `attempt` with each of its processes in a container of `image`.

    Args:
        attempt: The attempt with plain processes; their environments are for an image.
        image: A reference with a tag or digest; the image is on this machine.
        folders: The folders of the processes.
        settings: The settings of this agent; its engine answers.
        processes: The processes of the spec, each with its own memory limit.
        devices: Assigned to this host, by type.
        hosts: The number of hosts of a replica, which share the resources of a process.
    """
    mark = f"{settings.home}:{attempt.key}"
    name = "bastion-" + hashlib.sha256(mark.encode()).hexdigest()[:32]
    shm = f"/dev/shm/{name}"  # noqa: S108 - the name is ours alone
    word = f"{folders.marks}/container.json"

    def boxed(one: ProcessStart, suffix: str, memory_bytes: int) -> ProcessStart:
        body = _body(image, settings, mark)
        body["HostConfig"] = _host(folders, shm, devices, memory_bytes=memory_bytes)
        where = (settings.engine_socket, f"{name}-{suffix}", word, shm, json.dumps(body))
        env = {PREFIX + variable: text for variable, text in one.env.items()}
        return ProcessStart(argv=(*_program("run"), *where, *one.argv), env=env, cwd=folders.marks)

    memory = [asked.resources.amounts["memory"] // hosts for asked in processes]
    made = [
        boxed(one, f"p{index}", most)
        for index, (one, most) in enumerate(zip(attempt.processes, memory, strict=True))
    ]
    label = f"{ATTEMPT_LABEL}={mark}"
    return replace(
        attempt,
        processes=tuple(made),
        on_end=boxed(attempt.on_end, "end", 0) if attempt.on_end is not None else None,
        on_end_words=attempt.on_end.argv if attempt.on_end is not None else (),
        memory_limit_bytes=None,
        # The program that represents a container uses the engine's socket, which no job may use.
        run_as=None,
        undo=(*_program("remove"), settings.engine_socket, label, shm),
    )


def inside(process: ProcessStart, argv: tuple[str, ...]) -> ProcessStart | None:
    """
    Return the start of `argv` in the container that `process` represents.

    None if it represents none, and is a plain process.
    """
    run, socket_and_name = _program("run"), slice(len(_program("run")), len(_program("run")) + 2)
    # Another build of Bastion has its interpreter in another place: the program identifies it.
    if process.argv[1:4] != run[1:4] or process.argv[len(run) - 1] != run[-1]:
        return None
    env = {name: text for name, text in process.env.items() if not name.startswith(PREFIX)}
    where = process.argv[socket_and_name]
    return ProcessStart(argv=(*_program("exec"), *where, *argv), env=env, cwd=process.cwd)


def _program(verb: str) -> tuple[str, ...]:
    """Return the command of our program, isolated from all other packages, like the keeper."""
    root = str(Path(__file__).resolve().parents[3])
    return (sys.executable, "-I", "-S", "-c", _PROGRAM, root, verb)


def _body(image: str, settings: AgentSettings, mark: str) -> dict[str, Any]:
    user = settings.run_as or RunAs(uid=os.getuid(), gid=os.getgid())
    return {
        "Image": image,
        # Otherwise it would write files of a user whose files the agent cannot delete.
        "User": f"{user.uid}:{user.gid}",
        "AttachStdout": True,
        "AttachStderr": True,
        "Labels": {HOME_LABEL: settings.home, ATTEMPT_LABEL: mark},
    }


def _host(
    folders: Folders, shm: str, devices: Mapping[str, tuple[int, ...]], *, memory_bytes: int
) -> dict[str, Any]:
    found: dict[str, Any] = {
        # A first process that reaps and forwards signals: programs do not expect to be process 1.
        "Init": True,
        # A job needs no root privileges, and no program in an image may grant them.
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "NetworkMode": "host",
        # Output is copied immediately. The engine keeps none, so no limit applies.
        "LogConfig": {"Type": "none"},
        "Mounts": [
            {"Type": "bind", "Source": folders.marks, "Target": folders.marks},
            {"Type": "bind", "Source": shm, "Target": "/dev/shm"},  # noqa: S108
        ],
    }
    if memory_bytes:
        found |= {"Memory": memory_bytes, "MemorySwap": memory_bytes}
    given = {kind: indices for kind, indices in devices.items() if kind not in COUNTED and indices}
    if given:
        # Drivers pin the memory that devices use. Source: docs.nvidia.com/deeplearning/nccl,
        # user guide, "Troubleshooting", Docker.
        found["Ulimits"] = [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    if gpus := gpus_of(devices):
        request = {"DeviceIDs": [str(index) for index in gpus], "Capabilities": [["gpu"]]}
        found["DeviceRequests"] = [request]
    paths = [path for path in _device_paths(given) if Path(path).exists()]
    found["Devices"] = [
        {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in paths
    ]
    return found


def _device_paths(given: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the possible device files of these devices."""
    found = list(_FABRICS) if given else []
    for kind, indices in given.items():
        if kind in TPUS:
            found += [*(f"/dev/accel{chip}" for chip in chips_of(kind, indices)), _OF_TPUS]
        elif kind in NEURONS:
            found += [f"/dev/neuron{index}" for index in indices]
    return found
