"""Pods of a test Kubernetes as machines, requested with a genuine kubectl."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bastion.clock import SystemClock
from bastion.machine import Pool
from bastion.provider.kubernetes.kubectl import Kubectl
from bastion.provider.kubernetes.kubernetes import KubernetesProvider
from tests.contracts.provider_place import POOL, Place
from tests.servers.kubernetes.kubelet import IMAGE
from tests.servers.kubernetes.server import NAMESPACE, Kubernetes, kubernetes

BUCKET = "0a1b2c3d4e5f"
ZONES = ("main", "more")
SCRIPT = "exec sleep 100000"
"""What the machines run instead of an agent."""


def pool_of(cluster: Kubernetes) -> Pool:
    """Return the pool of a cluster."""
    options = {"namespace": NAMESPACE, "kubeconfig": str(cluster.config())}
    return replace(
        POOL, provider="kubernetes", image=IMAGE, zones=ZONES, permit_s=600.0, options=options
    )


def pod_of(machine: str) -> str:
    """Return the name of a machine's pod."""
    return f"bastion-{BUCKET}-{machine}"


@contextlib.contextmanager
def kubernetes_place(folder: Path) -> Iterator[Place]:
    """Provide the cluster and its pool."""
    with kubernetes(folder) as cluster:
        yield place_on(cluster)
        assert cluster.misfits == []


def place_on(cluster: Kubernetes) -> Place:
    """Provide a cluster whose faults the caller turns on."""
    pool = pool_of(cluster)
    provider = KubernetesProvider(
        pool,
        bucket=BUCKET,
        script=lambda pool, name: SCRIPT,
        clock=SystemClock(),
        kubectl=Kubectl(pool.options, os.environ),
    )
    return Place(
        provider=provider,
        let_time_pass=lambda: time.sleep(0.05),
        kill_agent=lambda name: cluster.kubelet.kill(pod_of(name)),
        zones=ZONES,
        pool=pool,
    )
