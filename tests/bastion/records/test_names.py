"""A launch with an unknown place is refused at submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bastion.machine import Machine, Pool
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.names import unknown_names
from bastion.spec import Job, Launch, Process, Where
from quota import Amounts
from tests.rigs.leader import CONFIG, Rig

POOLS = {
    name: Pool(
        name=name,
        provider="fake",
        resources=Amounts({"h100": 8}),
        max_machines=2,
        labels={"cluster": cluster},
    )
    for name, cluster in (("gpu", "primary"), ("spot", "second"))
}
MACHINES = tuple(
    Machine(name=f"gpu-1-{i}", pool="gpu", life=1, hostname=f"node{i}", labels={"rack": f"r{i}"})
    for i in range(7)
)


def problems(where: Where, machines: tuple[Machine, ...] = MACHINES) -> list[str]:
    """Return problems of a launch with this placement."""
    return list(unknown_names(where, POOLS, machines))


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"cluster": "second", "pool": "spot"},
        {"hostnames": ["node3", "gpu-1-4"], "labels": {"rack": "r0"}},
        {"labels": {"containers": "true"}},
        {"same": "pool"},
        {"same": "cluster"},
        {"same": "rack"},
    ],
)
def test_what_is_there_is_known(asked: Mapping[str, object]) -> None:
    """Machines and hosts are known by name; support of images may change any time."""
    assert problems(Where(**asked)) == []  # type: ignore[arg-type]


def test_what_is_nowhere_is_told_with_the_nearest() -> None:
    """All unknown names are reported together, with the existing ones."""
    where = Where(
        pool="gpuu",
        cluster="primry",
        shard="rl",
        hostnames=["node3", "nod9"],
        labels={"disk": "fast"},
        same="racks",
    )
    assert problems(where) == [
        "where.pool: 'gpuu' is unknown; there are gpu, spot; did you mean gpu?",
        "where.cluster: 'primry' is unknown; there are primary, second; did you mean primary?",
        "where.shard: 'rl' is unknown; no machine is in a shard, which is a label of a pool",
        "where.labels.disk: 'fast' is unknown; no machine has the label disk",
        "where.same: 'racks' is unknown; there are cluster, pool, rack; did you mean rack?",
        "where.hostnames: 'nod9' is unknown; there are node0 (rack=r0), node1 (rack=r1), node2"
        " (rack=r2), node3 (rack=r3), node4 (rack=r4) and 2 more; did you mean node6?",
    ]


def test_machines_of_one_host_are_told_by_their_own_names() -> None:
    """The host's name would not distinguish them."""
    two = tuple(replace(each, hostname="node") for each in MACHINES[:2])
    (problem,) = problems(Where(hostnames=["nod9"]), two)
    assert problem.endswith("there are gpu-1-0 (rack=r0), gpu-1-1 (rack=r1)")


def test_a_machine_that_still_comes_may_bring_it() -> None:
    """Agents report hosts and labels; pools are in the admin's file."""
    coming = (*MACHINES, Machine(name="gpu-2-0", pool="gpu"))
    assert problems(Where(hostnames=["node99"], labels={"rack": "r9"}), coming) == []
    assert len(problems(Where(pool="gpuu"), coming)) == 1


def test_the_launch_is_refused() -> None:
    """It would wait forever."""
    rig = Rig(config=CONFIG + 'labels = { cluster = "primary" }\n')
    rig.start("first", h100=1)
    job = Job(processes=(Process(["true"]),))
    launch = Launch(name="second", jobs=(job,), where=Where(cluster="primry"))
    asked = rig.ask("ann", "blue", "launch", LaunchRequest(launch=launch))
    rig.turn()
    assert rig.answer(asked).problems == (
        "where.cluster: 'primry' is unknown; the only one is primary; did you mean primary?",
    )
