"""Devices have their driver's numbers, even if a machine has several types."""

from __future__ import annotations

import pytest

from bastion.agent.setup.gpu_types import as_driver_counts, gpu_types


@pytest.mark.parametrize(
    ("machine", "types"),
    [
        ({"h100": 8, "cpu": 96, "memory": 1 << 40}, {"h100": 0}),
        ({"h100": 2, "a100_80gb": 4}, {"a100_80gb": 0, "h100": 4}),
        ({"h200": 8, "abaqus": 5, "matlab": 4}, {"h200": 0}),
        ({"rtx_6000_ada": 1, "zoom": 1}, {"rtx_6000_ada": 0}),
        ({"gpu": 8}, {"gpu": 0}),
        ({"gpu": 8, "matlab": 4}, {"gpu": 0, "matlab": 0}),
        ({"v5e": 4, "trainium": 2}, {}),
    ],
)
def test_types_follow_each_other(machine: dict[str, int], types: dict[str, int]) -> None:
    """A second type of GPU begins where the first ends; a license is not a device."""
    assert gpu_types(machine) == types


def test_no_device_is_given_twice() -> None:
    """The first h100 and the first a100 of a machine are two devices of its driver."""
    machine = {"h100": 2, "a100": 2, "cpu": 8}
    given = {"h100": (0,), "a100": (0, 1), "cpu": (), "v4": (3,)}
    assert as_driver_counts(given, machine) == {**given, "h100": (2,)}


def test_a_licence_is_no_device() -> None:
    """A job that requests one beside its GPUs has only those: a repeated number hides all."""
    assert as_driver_counts({"h200": (4, 5), "matlab": (4,)}, {"h200": 8, "matlab": 8}) == {
        "h200": (4, 5)
    }
