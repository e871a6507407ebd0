"""The providers, each with its faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tests.contracts.amazon_place import ec2_place
from tests.contracts.azure_place import azure_place
from tests.contracts.fake_place import fake_place
from tests.contracts.faults.ground import Ground
from tests.contracts.faults.hosts import (
    docker_ground,
    kubernetes_ground,
    local_ground,
    slurm_ground,
    ssh_ground,
)
from tests.contracts.google_places import gce_place, tpu_place
from tests.contracts.provider_place import Place


@contextlib.contextmanager
def _of_world(place: AbstractContextManager[Place]) -> Iterator[Ground]:
    with place as made:
        world = made.world
        assert world is not None
        yield Ground(
            place=made,
            lose=world.lose,
            keep_deleted=world.keep_deleted,
            vanish=world.vanish,
            stock=world.stock,
            lag=world.lag,
            expire=world.expire,
            pace=world.pace,
        )


def fake_ground(folder: Path) -> AbstractContextManager[Ground]:
    """Provide the shipped fake."""
    return _of_world(fake_place(folder))


def ec2_ground(folder: Path) -> AbstractContextManager[Ground]:
    """Provide instances of a region on loopback."""
    return _of_world(ec2_place(folder))


def azure_vm_ground(folder: Path) -> AbstractContextManager[Ground]:
    """Provide VMs of Azure on loopback."""
    return _of_world(azure_place(folder))


def gce_ground(folder: Path) -> AbstractContextManager[Ground]:
    """Provide VMs of Compute Engine on loopback."""
    return _of_world(gce_place(folder))


def gcp_tpu_ground(folder: Path) -> AbstractContextManager[Ground]:
    """Provide slices of Cloud TPU on loopback."""
    return _of_world(tpu_place(folder))


GROUNDS: dict[str, Callable[[Path], AbstractContextManager[Ground]]] = {
    "fake": fake_ground,
    "local": local_ground,
    "ssh": ssh_ground,
    "docker": docker_ground,
    "slurm": slurm_ground,
    "kubernetes": kubernetes_ground,
    "ec2": ec2_ground,
    "azure_vm": azure_vm_ground,
    "gce": gce_ground,
    "gcp_tpu": gcp_tpu_ground,
}
