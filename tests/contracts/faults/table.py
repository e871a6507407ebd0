"""
Which fault is met by which provider, and why the others cannot meet it.

The page `docs/explanation/faults-of-machines.md` has this table, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping

PROVIDERS = ("fake", "local", "ssh", "docker", "slurm", "kubernetes", "ec2", "gce", "gcp_tpu")
FAULTS = (
    "a create times out and the machine exists",
    "a create times out and the machine does not exist",
    "the list lags by a minute",
    "a delete is accepted and the machine stays",
    "half a gang is made and the zone runs dry",
    "a VM boots and its agent never comes",
    "the agent dies and the VM lives",
    "the VM dies and the process had finished",
    "credentials expire in the middle",
    "429 for ten minutes",
)
_READ = "what is listed is read where the machines are"
NEVER: Mapping[tuple[str, str], str] = {
    ("the list lags by a minute", "local"): _READ,
    ("the list lags by a minute", "ssh"): _READ,
    ("the list lags by a minute", "docker"): _READ,
    ("the list lags by a minute", "slurm"): "the controller that makes them lists them",
    ("the list lags by a minute", "kubernetes"): "the server that makes them lists them",
    ("half a gang is made and the zone runs dry", "local"): "one host holds any number of machines",
    ("half a gang is made and the zone runs dry", "docker"): (
        "devices are counted before the first container is made"
    ),
    ("half a gang is made and the zone runs dry", "slurm"): (
        "what finds no node waits in the queue of Slurm"
    ),
    ("half a gang is made and the zone runs dry", "kubernetes"): (
        "what finds no node waits, in the words of the scheduler"
    ),
    ("credentials expire in the middle", "local"): "there are none",
    ("credentials expire in the middle", "docker"): "those of a socket do not expire",
    ("credentials expire in the middle", "slurm"): "those of munge are made anew for each call",
    ("429 for ten minutes", "local"): "there is no cloud to ask",
}
"""(fault, provider) -> why it cannot be."""
CELLS: Mapping[str, tuple[str, ...]] = {
    fault: tuple(each for each in PROVIDERS if (fault, each) not in NEVER) for fault in FAULTS
}
"""Fault -> the providers that meet it."""
KILLS = ("before", "after")
"""When the bastion is killed, as seen from the call of the provider that the fault befalls."""


def turns_of(minutes: int) -> int:
    """How many turns of the stage that is."""
    return minutes * 6


def page_rows() -> list[str]:
    """The lines of the table on the page, without its heads."""
    return [
        " | ".join(
            ["", fault, *("yes" if each in CELLS[fault] else "no" for each in PROVIDERS), ""]
        ).strip()
        for fault in FAULTS
    ]
