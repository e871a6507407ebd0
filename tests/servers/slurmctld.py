"""A Slurm on this machine: munged, slurmctld and one slurmd per node."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rigs.limits import killed

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "scontrol")
PARTITIONS = ("main", "more")
"""Of `THREE`: `main`, the default, has the first two nodes; `more` the third."""

_DEVICES = ("null", "zero", "full", "random")
_UP_S = 60.0
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"

needs_slurm = [
    pytest.mark.prove,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(shutil.which(each, path=_PATH) for each in PROGRAMS),
        reason="needs root, slurmctld, slurmd and munge (Debian: slurm-wlm, munge)",
    ),
]

_CONFIG = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
KillWait=5
MessageTimeout=30
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,defer_batch=0
GresTypes=gpu
{nodes}
{lines}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a Slurm has."""

    nodes: tuple[str, ...]
    each: str
    """The resources of each node, as in slurm.conf."""
    lines: str
    """Its partitions, and other settings."""


THREE = Cluster(
    nodes=("n1", "n2", "n3"),
    each=f"CPUs=2 RealMemory=1000 Gres=gpu:h100:{len(_DEVICES)}",
    lines="PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n"
    "PartitionName=more Nodes=n3 MaxTime=60 State=UP",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """A running Slurm."""

    folder: Path

    @property
    def env(self) -> Mapping[str, str]:
        """Return what its programs need."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _PATH}

    def run(self, *argv: str) -> str:
        """Run one of its programs; return what it prints."""
        done = subprocess.run(argv, env=self.env, cwd=self.folder, capture_output=True, check=True)
        return done.stdout.decode()


@contextlib.contextmanager
def slurm(folder: Path, cluster: Cluster = THREE) -> Iterator[Slurm]:
    """Run a Slurm in `folder`, which exists, and end it with everything that runs on its nodes."""
    ports = _free_ports(1 + len(cluster.nodes))
    host = socket.gethostname().partition(".")[0]
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {cluster.each}"
        for node, port in zip(cluster.nodes, ports[1:], strict=True)
    )
    config = _CONFIG.format(
        folder=folder, host=host, port=ports[0], nodes=nodes, lines=cluster.lines
    )
    (folder / "slurm.conf").write_text(config)
    # A device is a file that exists; it is not used.
    devices = "".join(f"Name=gpu Type=h100 File=/dev/{name}\n" for name in _DEVICES)
    (folder / "gres.conf").write_text(devices)
    for name in ("state", *(f"spool-{node}" for node in cluster.nodes)):
        (folder / name).mkdir()
    made = Slurm(folder=folder)
    with contextlib.ExitStack() as stack:
        _munge(made, stack)
        _start(made, stack, "slurmctld", "-D")
        for node in cluster.nodes:
            _start(made, stack, "slurmd", "-D", "-N", node)
        _until_idle(made, len(cluster.nodes))
        try:
            yield made
        finally:
            _end_jobs(made)


def _munge(made: Slurm, stack: contextlib.ExitStack) -> None:
    key = made.folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    listens = made.folder / "munge.socket"
    options = [f"--{each}-file={made.folder}/munged.{each}" for each in ("pid", "log", "seed")]
    options += [f"--key-file={key}", f"--socket={listens}"]
    _start(made, stack, "munged", "--force", "--foreground", *options)
    until = time.monotonic() + _UP_S
    while not listens.exists():
        assert time.monotonic() < until, "munged does not listen"
        time.sleep(0.02)


def _start(made: Slurm, stack: contextlib.ExitStack, *argv: str) -> None:
    name = f"{argv[0]}-{len(argv)}-{Path(argv[-1]).name}.out"
    out = stack.enter_context((made.folder / name).open("wb"))
    server = subprocess.Popen(argv, env=made.env, stdout=out, stderr=out)
    stack.callback(killed, server)


def _until_idle(made: Slurm, nodes: int) -> None:
    until, told = time.monotonic() + _UP_S, ""
    while told.split() != ["idle"] * nodes:
        assert time.monotonic() < until, told
        time.sleep(0.1)
        with contextlib.suppress(subprocess.CalledProcessError):
            told = made.run("sinfo", "-h", "-N", "-o", "%t")


def _end_jobs(made: Slurm) -> None:
    made.run("scancel", "--user=root")
    until = time.monotonic() + _UP_S
    while made.run("squeue", "-h").strip():
        assert time.monotonic() < until, "jobs of Slurm do not end"
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
