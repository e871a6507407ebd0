"""The settings of an agent: its machine, the resources of that, and how often it asks the store."""

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
"""Instructions older than this are refused: registers are kept at least 30 days after a result,
so an instruction that is obeyed always meets the register that fences it."""

KEEP_ENVIRONMENT_S = 7 * 86400.0
"""How long a Python environment stays after a host last took it."""


Cloud = Literal["", "gce", "ec2"]
"""Of which kind the metadata server of this machine is; empty: it has none."""


@value
class Tempo:
    """How often an agent asks the store."""

    busy_s: float
    """Between looks for instructions after some came, and for `go`."""
    idle_s: float
    """The same when none has come for 20 s; half of it while something runs."""
    retry_s: float
    """Longest pause between tries while the store is out of reach."""
    logs: Pace


FOLDER = Tempo(busy_s=0.015, idle_s=0.1, retry_s=1.0, logs=LOCAL)
"""A look at a folder is one system call."""

GCS = Tempo(busy_s=1.0, idle_s=2.0, retry_s=30.0, logs=CLOUD)
"""Looking for what is not there is free on GCS, so idle machines need not be slow."""

S3 = Tempo(busy_s=1.0, idle_s=5.0, retry_s=30.0, logs=CLOUD)
"""S3 bills for looking: 5 s are 17,000 looks a day, 0.7 cents."""


NEAR = Tempo(busy_s=0.2, idle_s=0.5, retry_s=2.0, logs=LOCAL)
"""A server on this machine is free, and answers in milliseconds."""


def tempo_of(root_url: str) -> Tempo:
    """The tempo that suits the store at `root_url`."""
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
    """One agent's settings."""

    machine: str
    pool: str = ""
    resources: Amounts = NOTHING
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    """Where the machines of a gang reach this one."""
    hostname: str = "localhost"
    version: str = ""
    build: str = ""
    """The digest of the wheel that this program was installed from; empty: from none."""
    boot_id: str = ""
    """Of this machine's kernel."""
    user: str = "root"
    """The name of the user that jobs run as."""
    user_home: str = "/root"
    run_as: RunAs | None = None
    """That user, where it is another than the agent's own."""
    tempo: Tempo = FOLDER
    permit_s: float = 0.0
    """How long processes may run on without a round trip to the store; 0: for ever, where a
    provider vouches for the machine."""
    heartbeat_s: float = 0.0
    """Between bells that say no more than that the machine lives; 0: none."""
    keep_work_s: float = 7 * 86400.0
    """How long work directories stay after their job."""
    git_key_file: str = ""
    """Private key for repositories reached by ssh; empty: what ssh finds itself."""
    git_known_hosts: str = ""
    """Hosts that are trusted, in ssh's format; empty: what ssh finds itself."""
    secrets_dir: str = "/etc/bastion/secrets"
    """Where `file:` secrets lie; nothing outside is ever given to a job."""
    secret_sources: tuple[SecretRule, ...] = ()
    """Which sources this machine reads for which projects, beside the files of the project's own
    folder; none: any but files of other folders."""
    boot: str = ""
    """The folder of the start-up script that started this agent; empty: another program did."""
    cloud: Cloud = ""
    orphan_timeout_s: float = 0.0
    """How long this machine lives with nothing to do and its store out of reach; 0: for ever."""
    home: str = ""
    """The agent's folder on this machine, its true path."""
    engine_socket: str = ""
    """The socket of the container engine; empty: this machine runs no containers."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the agent's own process: values of `env:` secrets, settings of tools."""
