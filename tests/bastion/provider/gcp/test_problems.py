"""Errors in a pool of Google's machines, reported before anything is created."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.machine import Pool
from bastion.provider.gcp import gce_request, tpu_request
from tests.bastion.provider.gcp.rig import GPUS, TPUS

WRONG_GPUS: dict[str, Pool] = {
    "instance_type": replace(GPUS, instance_type=""),
    "instance_type: p5.48xlarge": replace(GPUS, instance_type="p5.48xlarge"),
    "instance_type: tpu-v4-32": replace(GPUS, instance_type="tpu-v4-32"),
    "image": replace(GPUS, image=""),
    "zones": replace(GPUS, zones=("us-central1",)),
    "reservation: missing": replace(GPUS, terms="reserved"),
    "reservation: only": replace(GPUS, reservation="big-one"),
    "disk": replace(GPUS, disk_gib=5),
    "identity": replace(GPUS, identity="jobs"),
    "options.external_ip": replace(GPUS, options={"external_ip": "yes"}),
    "options.machine_type": replace(GPUS, options={"machine_type": "n2-standard-8"}),
    "options.preemption_notice: '30s'": replace(
        GPUS, terms="spot", options={"preemption_notice": "30s"}
    ),
    "options.preemption_notice: only": replace(GPUS, options={"preemption_notice": "120s"}),
    "options.subnet": replace(GPUS, options={"subnet": "x"}),
}
WRONG_TPUS: dict[str, Pool] = {
    "instance_type": replace(TPUS, instance_type=""),
    "instance_type: a3-highgpu-8g": replace(TPUS, instance_type="a3-highgpu-8g"),
    "disk": replace(TPUS, disk_gib=500),
    "zones": replace(TPUS, zones=("",)),
    "options.valid_for": replace(TPUS, options={"valid_for": "soon"}),
    "options.disk_type": replace(TPUS, options={"disk_type": "pd-ssd"}),
}


@pytest.mark.parametrize(("begins", "pool"), WRONG_GPUS.items(), ids=WRONG_GPUS)
def test_a_wrong_pool_of_vms_is_told(begins: str, pool: Pool) -> None:
    """Each error is one problem that begins with its field."""
    (problem,) = gce_request.problems(pool)
    assert problem.startswith(begins)


@pytest.mark.parametrize(("begins", "pool"), WRONG_TPUS.items(), ids=WRONG_TPUS)
def test_a_wrong_pool_of_slices_is_told(begins: str, pool: Pool) -> None:
    """Each error is one problem that begins with its field."""
    (problem,) = tpu_request.problems(pool)
    assert problem.startswith(begins)


def test_a_right_pool_has_no_problem() -> None:
    """Pools that work have none."""
    assert gce_request.problems(GPUS) == ()
    assert tpu_request.problems(TPUS) == ()


def test_all_problems_are_told_at_once() -> None:
    """A pool with several errors has all of them reported."""
    pool = replace(GPUS, image="", zones=("here", "there"), disk_gib=1, options={"x": "y"})
    assert len(gce_request.problems(pool)) == 5
