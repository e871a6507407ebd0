"""Clusters in files: every error is named with what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.errors import SpecError
from bastion.simulator.cluster.cluster import Cluster, Shape
from bastion.simulator.cluster.words import cluster_of
from quota import Amounts

POOLS = """
[[machines]]
name = "new"
count = 2
devices = 4
[[machines]]
name = "old"
count = 2
devices = 4
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            'at_s = 0\npool = "odl"\ncount = 1',
            "changes 1: pool 'odl' is unknown, allowed are new, old",
        ),
        ('at_s = "x"\npool = "old"\ncount = 1', "changes 1: at_s: 'x' is not a number"),
        ('at_s = 1\npool = "old"\ncount = 1.5', "changes 1: count: 1.5 is not a whole number"),
        ("at_s = 1\npool = 3\ncount = 1", "changes 1: pool: 3 is not a text"),
        (
            'at_s = 60\npool = "old"\ncount = -3',
            "changes at 60 s: 3 machines of old go; it has 2 then",
        ),
    ],
)
def test_a_change_that_cannot_be_is_told(tmp_path: Path, change: str, said: str) -> None:
    """The error has the place, the value, and what is allowed or nearest."""
    path = tmp_path / "machines.toml"
    path.write_text(f"{POOLS}[[changes]]\n{change}\n")
    with pytest.raises(SpecError) as raised:
        cluster_of(str(path))
    assert said in str(raised.value)


def test_machines_that_come_may_go_again(tmp_path: Path) -> None:
    """The machines of a pool at that time count, whatever the order of the file."""
    path = tmp_path / "machines.toml"
    changes = [(120, -4), (60, 2)]
    tables = [f'[[changes]]\nat_s = {at}\npool = "old"\ncount = {n}\n' for at, n in changes]
    path.write_text(POOLS + "".join(tables))
    assert [each.count for each in cluster_of(str(path)).changes] == [2, -4]


def test_a_cluster_grows_by_machines_that_stand_or_may_be_made() -> None:
    """As its pool has them; the others stay as they are."""
    shapes = (
        Shape(name="own", count=4, most=4, devices=8, type="h100", names=("a", "b", "c", "d")),
        Shape(name="cloud", count=1, most=3, devices=8, type="h100"),
        Shape(name="old", count=2, devices=4, type="a100"),
    )
    grown = Cluster(shapes=shapes).grown({"own": 1, "cloud": 2})
    assert [(each.count, each.most) for each in grown.shapes] == [(5, 5), (1, 5), (2, 2)]
    assert grown.totals == Amounts({"h100": 80, "a100": 8})
    assert [*grown.machines()][:5] == ["a", "b", "c", "d", "own-0004"]
