"""The possible settings of a bastion's VM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.vm.bastion_vm import BastionVm, problems
from tests.bastion.vm.shared import VM


def test_a_zone_tells_the_cloud() -> None:
    """The zone names of the two clouds are distinct."""
    assert VM.is_google
    assert not replace(VM, zone="us-east-1a").is_google
    assert problems(VM) == ()
    assert problems(replace(VM, root_url="s3://b/x", zone="us-east-1a", identity="role")) == ()
    assert problems(replace(VM, root_url="s3://b/x", image="x/bastion:v1")) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "shared"}, "--name: 'shared' is not allowed; at most 63 small letters"),
        ({"name": "x" * 60 + "-bastion"}, "--name: 'xxx"),
        ({"name": ""}, "--name: missing; such as shared-bastion"),
        ({"root_url": "s3://b/x"}, "--zone: us-central1-a is Google's, and the root Amazon's"),
        ({"zone": "us-east-1a"}, "--zone: us-east-1a is Amazon's, and the root Google's"),
        ({"root_url": "file:///b"}, "--root: 'file:///b' is not in a cloud"),
        ({"zone": ""}, "--zone: missing"),
        ({"zone": "us-central1"}, "--zone: 'us-central1' is not a zone"),
        ({"image": "a b"}, "--image: 'a b' is not a valid name of an image"),
        ({"identity": ""}, "--identity: missing"),
        ({"disk_gib": 5}, "--disk: 5 GiB is not enough"),
        ({"metrics_port": 0}, "--metrics_port: 0 is not allowed; 1 to 65535"),
        ({"metrics_port": 70_000}, "--metrics_port: 70000 is not allowed"),
        ({"metrics_host": "0.0.0.0"}, "--metrics_host: is the address of --metrics_port"),
        (
            {"metrics_port": 9420, "metrics_host": "a b"},
            "--metrics_host: 'a b' is not an address, such as 0.0.0.0",
        ),
    ],
)
def test_what_cannot_be_is_told(changes: dict[str, Any], problem: str) -> None:
    """Each error names its flag before anything is created."""
    (found,) = problems(replace(VM, **changes))
    assert found.startswith(problem)


def test_every_problem_is_told_at_once() -> None:
    """Four errors are four problems."""
    assert len(problems(BastionVm(name="", root_url="", zone=""))) == 4
