"""The settings of an agent: its machine, the machine's resources, and its polling intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, assert_never

from bastion.agent.keeper.port import RunAs
from bastion.logs.pace import CLOUD, LOCAL, Pace
from bastion.secret_rules import SecretRule
from bastion.store.reach import Reach, reach_of
from bastion.value import value
from quota.amounts import NOTHING, Amounts

OLDEST_BATCH_S = 7 * 86400.0
"""
Instructions older than this are refused. Registers are kept at least 30 days after a result, so an
instruction that is obeyed always meets the register that fences it.
"""

KEEP_ENVIRONMENT_S = 7 * 86400.0
"""How long a Python environment is kept after its last use by a host."""


Cloud = Literal["", "gce", "ec2", "azure", "slurm", "kubernetes"]
"""
The kind of metadata server of this machine; empty if it has none.

Slurm and Kubernetes have no server: their notices to a machine are in its folder.
"""


@value
class Tempo:
    """How often an agent polls the store."""

    busy_s: float
    """Between polls for instructions after some came, and for `go`."""
    idle_s: float
    """The same after 20 s without instructions; half of it while a host runs."""
    retry_s: float
    """Longest pause between tries while the store is unreachable."""
    logs: Pace


FOLDER = Tempo(busy_s=0.015, idle_s=0.1, retry_s=1.0, logs=LOCAL)
"""A poll of a folder is one system call."""

GCS = Tempo(busy_s=1.0, idle_s=2.0, retry_s=30.0, logs=CLOUD)
"""A poll that finds nothing is free on GCS, so idle machines need not be slow."""

S3 = Tempo(busy_s=1.0, idle_s=5.0, retry_s=30.0, logs=CLOUD)
"""S3 bills polls: every 5 s are 17,000 a day, 0.7 cents."""


NEAR = Tempo(busy_s=0.2, idle_s=0.5, retry_s=2.0, logs=LOCAL)
"""A poll of a server on this machine is free, and takes milliseconds."""


def tempo_of(root_url: str) -> Tempo:
    """Return the tempo for the store at `root_url`."""
    match reach_of(root_url):
        case Reach.FOLDER:
            return FOLDER
        case Reach.LOOPBACK:
            return NEAR
        case Reach.CLOUD:
            return S3 if root_url.startswith("s3:") else GCS
        case other:
            assert_never(other)


@value
class AgentSettings:
    """The settings of one agent."""

    machine: str
    pool: str = ""
    resources: Amounts = NOTHING
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    """The address at which the machines of a gang reach this one."""
    hostname: str = "localhost"
    version: str = ""
    build: str = ""
    """The digest of the wheel that this program was installed from; empty: no wheel."""
    boot_id: str = ""
    """The boot id of this machine's kernel."""
    user: str = "root"
    """The name of the user that jobs run as."""
    user_home: str = "/root"
    run_as: RunAs | None = None
    """That user, if it is not the agent's own."""
    root_url: str = ""
    """The URL of the root; writes below it are watched if possible."""
    tempo: Tempo = FOLDER
    permit_s: float = 0.0
    """
    How long processes may run without a round trip to the store; 0: forever, because a provider
    confirms deletions of the machine.
    """
    heartbeat_s: float = 0.0
    """Between bells without news, which show that the agent is alive; 0: none."""
    keep_work_s: float = 7 * 86400.0
    """How long work directories are kept after their job."""
    git_key_file: str = ""
    """Private key for repositories over ssh; empty: the key that ssh finds itself."""
    git_known_hosts: str = ""
    """Trusted hosts, in ssh's format; empty: the hosts that ssh finds itself."""
    secrets_dir: str = "/etc/bastion/secrets"
    """The folder of `file:` secrets; a job gets no file from outside it."""
    secret_sources: tuple[SecretRule, ...] = ()
    """
    The sources that this machine reads for projects, besides the files in a project's own folder;
    empty: only those files.
    """
    boot: str = ""
    """The folder of the start-up script that started this agent; empty: another program did."""
    begin: str = ""
    """The folder of the steps and checks before the greeting, if no script ran."""
    cloud: Cloud = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    """The accelerators whose health is watched, by type; empty if none."""
    respects_foreign: bool = False
    """Whether devices that foreign processes hold get no job."""
    tpu: Mapping[str, str] = field(default_factory=dict)
    """Variables that describe the TPUs of this machine to libtpu."""
    orphan_timeout_s: float = 0.0
    """How long an idle machine lives while its store is unreachable; 0: forever."""
    home: str = ""
    """The agent's folder on this machine, its true path."""
    engine_socket: str = ""
    """The socket of the container engine; empty: this machine runs no containers."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the agent's own process: values of `env:` secrets, settings of tools."""
