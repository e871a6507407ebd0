"""
A Slurm of one node on this machine, for benchmarks that print its figures beside Bastion's.

It needs the programs of Debian's `slurm-wlm` and `munge`, and root; without them `slurm` yields
None. Everything of it is in a temporary folder, and it is stopped when the benchmark ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
SLOTS = 64
START_S = 60.0

_CONFIG = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ctld}
SlurmdPort={slurmd}
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
MaxJobCount=50000
MaxArraySize=20001
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,defer_batch=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A running Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))

    def run(self, *argv: str) -> str:
        """Run one of its programs; what it prints."""
        done = subprocess.run(argv, env=self.env, cwd=self.folder, capture_output=True, check=True)
        return done.stdout.decode()

    def queued(self) -> int:
        """How many jobs wait or run."""
        return len(self.run("squeue", "-h", "-r", "-o", "%i").splitlines())


@contextlib.contextmanager
def slurm() -> Iterator[Slurm | None]:
    """Yield a Slurm of one node with `SLOTS` processors; None where it cannot run."""
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-slurm-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield _started(folder, started)
    finally:
        for process in reversed(started):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _started(folder: Path, started: list[subprocess.Popen[bytes]]) -> Slurm | None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    ports = _free_ports(2)
    host = socket.gethostname().partition(".")[0]
    text = _CONFIG.format(folder=folder, host=host, ctld=ports[0], slurmd=ports[1], slots=SLOTS)
    (folder / "slurm.conf").write_text(text)
    made = Slurm(folder)
    munge = ["munged", "--force", "--foreground", f"--key-file={key}",
             f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
             f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]  # fmt: skip
    for argv in (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
        log = (folder / f"{argv[0]}.out").open("wb")
        started.append(subprocess.Popen(argv, env=made.env, stdout=log, stderr=log))
        _until(lambda argv=argv: argv[0] != "munged" or (folder / "munge.socket").exists())
    is_up = _until(lambda: "idle" in made.run("sinfo", "-h", "-o", "%t"))
    return made if is_up else None


def _until(done: object) -> bool:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        with contextlib.suppress(subprocess.CalledProcessError):
            if done():  # type: ignore[operator]
                return True
        time.sleep(0.05)
    return False


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
