"""
Which provider meets which fault, and why the others cannot meet it.

The page `docs/explanation/faults-of-machines.md` has this table, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping

PROVIDERS = (
    *("fake", "local", "ssh", "docker", "slurm", "kubernetes", "ec2", "azure_vm", "gce", "gcp_tpu"),
)
FAULTS = (
    "a create times out and the machine exists",
    "a create times out and the machine does not exist",
    "the list lags by a minute",
    "a delete is accepted and the machine stays",
    "half of a gang is created and the zone sells out",
    "a VM boots and its agent never starts",
    "the agent dies and the VM lives",
    "the VM dies after the process has finished",
    "credentials expire midway",
    "429 for ten minutes",
)
_READ = "the list is read where the machines are"
NEVER: Mapping[tuple[str, str], str] = {
    ("the list lags by a minute", "local"): _READ,
    ("the list lags by a minute", "ssh"): _READ,
    ("the list lags by a minute", "docker"): _READ,
    ("the list lags by a minute", "slurm"): (
        "the controller that creates the machines also lists them"
    ),
    ("the list lags by a minute", "kubernetes"): (
        "the API server that creates the machines also lists them"
    ),
    ("half of a gang is created and the zone sells out", "local"): (
        "one host can hold any number of machines"
    ),
    ("half of a gang is created and the zone sells out", "docker"): (
        "devices are counted before the first container is created"
    ),
    ("half of a gang is created and the zone sells out", "slurm"): (
        "a job without a node waits in Slurm's queue"
    ),
    ("half of a gang is created and the zone sells out", "kubernetes"): (
        "a pod without a node stays pending, with the scheduler's message"
    ),
    ("credentials expire midway", "local"): "there are no credentials",
    ("credentials expire midway", "docker"): "access to a socket does not expire",
    ("credentials expire midway", "slurm"): "munge makes new credentials for each call",
    ("429 for ten minutes", "local"): "there is no cloud API",
}
"""(fault, provider) -> why it cannot occur."""
CELLS: Mapping[str, tuple[str, ...]] = {
    fault: tuple(each for each in PROVIDERS if (fault, each) not in NEVER) for fault in FAULTS
}
"""Fault -> the providers that meet it."""
KILLS = ("before", "after")
"""When the bastion is killed, relative to the provider call that the fault affects."""


def turns_of(minutes: int) -> int:
    """Return how many turns of the stage that is."""
    return minutes * 6


def page_rows() -> list[str]:
    """Return the lines of the table on the page, without its heads."""
    return [
        " | ".join(
            ["", fault, *("yes" if each in CELLS[fault] else "no" for each in PROVIDERS), ""]
        ).strip()
        for fault in FAULTS
    ]
