"""Nodes of Slurm as machines: of a real Slurm and of the test one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bastion.provider.slurm.programs import Programs
from bastion.provider.slurm.slurm import SlurmProvider
from tests.contracts.provider_place import POOL, Place
from tests.servers.slurm import FakeSlurm
from tests.servers.slurmctld import PARTITIONS, slurm

BUCKET = "0a1b2c3d4e5f"
SLURM_POOL = replace(
    POOL, provider="slurm", zones=PARTITIONS, permit_s=600.0, options={"gres": "none"}
)
SCRIPT = "exec sleep 100000"
"""What the machines run instead of an agent."""


class FakePrograms(Programs):
    """The programs of a test Slurm, called without a process for each."""

    def __init__(self, fake: FakeSlurm) -> None:
        super().__init__(os.environ)
        self._fake = fake

    def call(self, argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        """See `Programs`."""
        code, out, err = self._fake.call(argv, text, {"PATH": os.environ["PATH"]})
        return subprocess.CompletedProcess(argv, code, out, err)


def provider_on(programs: Programs) -> SlurmProvider:
    """Return the provider of the pool."""
    return SlurmProvider(
        SLURM_POOL, bucket=BUCKET, script=lambda pool, name: SCRIPT, programs=programs
    )


def suspend(programs: Programs, name: str) -> None:
    """Let an operator suspend the job of a machine, whose agent then does not run."""
    job = programs.run("squeue", "--noheader", "--format=%A", f"--name=bastion-{BUCKET}-{name}")
    programs.run("scontrol", "suspend", job.strip())


@contextlib.contextmanager
def fake_slurm_place(folder: Path) -> Iterator[Place]:
    """Provide the test one."""
    with slurm_place_on(FakeSlurm(folder)) as place:
        yield place


@contextlib.contextmanager
def slurm_place_on(fake: FakeSlurm) -> Iterator[Place]:
    """Provide a test one whose faults the caller turns on."""
    programs = FakePrograms(fake)
    try:
        yield _place(programs)
    finally:
        fake.end()


@contextlib.contextmanager
def slurm_place(folder: Path) -> Iterator[Place]:
    """Provide a real one."""
    # Addresses of sockets are short.
    with TemporaryDirectory(prefix="slurm") as short, slurm(Path(short)) as made:
        yield _place(Programs(made.env))


def _place(programs: Programs) -> Place:
    return Place(
        provider=provider_on(programs),
        let_time_pass=lambda: time.sleep(0.05),
        kill_agent=lambda name: suspend(programs, name),
        zones=PARTITIONS,
        pool=SLURM_POOL,
    )
