"""VMs of Compute Engine: the requests and their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Pool
from bastion.provider.gcp.gce import GceProvider
from quota.amounts import Amounts
from tests.bastion.provider.gcp.rig import BUCKET, GPUS, gce, vms
from tests.servers.google import Compute


@pytest.fixture
def server() -> Iterator[Compute]:
    """Run Compute Engine, with every exchange checked against Google's description."""
    with Compute.at(VirtualClock()) as made:
        yield made
        assert made.problems == []


def states(provider: GceProvider) -> dict[str, str]:
    """Return name -> state of listed machines."""
    return {listed.name: listed.state for listed in provider.list()}


POOLS = {
    "a3": GPUS,
    "n1-with-t4": replace(GPUS, instance_type="n1-standard-16-t4-2"),
    "n1-with-v100": replace(GPUS, instance_type="n1-standard-8-v100-1"),
    "g2": replace(GPUS, instance_type="g2-standard-48"),
    "no-accelerators": replace(
        GPUS, instance_type="", image="", options={"machine_type": "n2-standard-8"}
    ),
    "spot": replace(GPUS, terms="spot"),
    "spot-with-notice": replace(
        GPUS, terms="spot", options={**GPUS.options, "preemption_notice": "120s"}
    ),
    "spot-without-accelerators": replace(
        GPUS, instance_type="", terms="spot", options={"machine_type": "e2-medium"}
    ),
    "reserved": replace(GPUS, terms="reserved", reservation="big-one"),
    "everything": replace(
        GPUS,
        disk_gib=500,
        network="training",
        tags=("gpu", "no-ssh"),
        identity="jobs@acme.iam.gserviceaccount.com",
        options={
            "subnetwork": "training-us",
            "disk_type": "pd-ssd",
            "placement_policy": "close",
            "external_ip": "false",
        },
    ),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_each_kind_of_pool_is_asked_for_as_google_describes_it(
    server: Compute, pool: Pool, count: int
) -> None:
    """Single machines and batches of every kind of pool are valid requests, and are created."""
    provider = gce(server, pool)
    provider.create(vms(count, pool), pool)
    assert set(states(provider)) == {machine.name for machine in vms(count, pool)}


def test_accelerators_are_attached_where_the_type_has_none(server: Compute) -> None:
    """An N1 names its accelerators, by path for one machine and by name in a batch."""
    pool = POOLS["n1-with-t4"]
    gce(server, pool).create(vms(1, pool), pool)
    gce(server, pool).create(vms(2, pool, seq=8), pool)
    (_, one), (_, several) = server.sent
    zone = "zones/us-central1-a"
    assert one["machineType"] == f"{zone}/machineTypes/n1-standard-16"
    (attached,) = one["guestAccelerators"]
    assert attached["acceleratorType"] == f"{zone}/acceleratorTypes/nvidia-tesla-t4"
    (attached,) = several["instanceProperties"]["guestAccelerators"]
    assert attached == {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}


def test_a_spot_machine_deletes_itself_when_it_is_taken(server: Compute) -> None:
    """A preempted spot VM leaves the list, and its name creates no second one."""
    pool = POOLS["spot"]
    provider = gce(server, pool)
    provider.create(vms(1, pool), pool)
    server.clock.sleep(60)
    assert states(provider) == {"gpus-7-0": "running"}
    server.preempt(f"bastion-{BUCKET}-gpus-7-0")
    assert states(provider) == {"gpus-7-0": "deleting"}
    server.clock.sleep(60)
    provider.create(vms(1, pool), pool)
    assert states(provider) == {}


def test_a_reservation_is_the_only_source(server: Compute) -> None:
    """A reserved machine comes from its reservation or is not created."""
    pool = POOLS["reserved"]
    gce(server, pool).create(vms(1, pool), pool)
    affinity = server.sent[0][1]["reservationAffinity"]
    assert affinity["consumeReservationType"] == "SPECIFIC_RESERVATION"
    assert affinity["values"] == ["big-one"]


def test_what_is_missing_of_a_batch_is_made(server: Compute) -> None:
    """If some machines of a batch exist, the others are created, again all or none."""
    provider = gce(server)
    provider.create(vms(3)[:1], GPUS)
    provider.create(vms(3), GPUS)
    assert server.made == 3
    assert server.sent[-1][1]["minCount"] == "2"


@pytest.mark.parametrize("status", ["TERMINATED", "SUSPENDED"])
def test_a_machine_that_stopped_is_started_again(server: Compute, status: str) -> None:
    """A VM that ended without being deleted is listed as stopped, and started by a create."""
    provider = gce(server)
    provider.create(vms(2), GPUS)
    server.clock.sleep(60)
    server.end(f"bastion-{BUCKET}-gpus-7-1", status)
    assert states(provider) == {"gpus-7-0": "running", "gpus-7-1": "stopped"}
    provider.create(vms(2), GPUS)
    server.clock.sleep(60)
    assert states(provider) == {"gpus-7-0": "running", "gpus-7-1": "running"}
    assert server.made == 2


def test_the_cause_of_a_half_made_batch_is_told(server: Compute) -> None:
    """Google's summary of a batch hides a quota: the cause is read from its operations."""
    server.limit = 1
    with pytest.raises(NoCapacityError, match="NVIDIA_H100_GPUS") as limited:
        gce(server).create(vms(2), GPUS)
    assert limited.value.is_limit
    assert server.made == 0


def test_an_image_that_is_missing_is_a_refusal(server: Compute) -> None:
    """An unknown setting is reported in Google's words, and creates nothing."""
    server.images = {"another"}
    with pytest.raises(ProviderRefusedError, match="images/family/cuda"):
        gce(server).create(vms(1), GPUS)


def test_a_stock_out_that_comes_late_is_told_at_the_next_create(server: Compute) -> None:
    """A create waits a minute; the next one of the same names asks for the same verdict."""
    server.stock = {"us-central1-a": 0}
    server.operation_s = 100.0
    provider = gce(server)
    provider.create(vms(2), GPUS)
    with pytest.raises(NoCapacityError, match="does not have enough resources"):
        provider.create(vms(2), GPUS)
    assert server.calls["compute.instances.bulkInsert"] == 2


def test_every_page_of_every_zone_is_listed(server: Compute) -> None:
    """A list covers all pages and zones, even a zone that the pool no longer names."""
    provider = gce(server)
    provider.create(vms(3), GPUS)
    provider.create(vms(3, seq=8, zone="us-central1-b"), GPUS)
    moved = gce(server, replace(GPUS, zones=("us-east1-c",)))
    assert len(moved.list()) == 6
    moved.delete("gpus-8-1")
    server.clock.sleep(60)
    assert "gpus-8-1" not in states(moved)


def test_a_zone_that_does_not_answer_keeps_no_delete_from_the_others(server: Compute) -> None:
    """Before the first list its zone is unknown: it is deleted, and the failed zone reported."""
    gce(server).create(vms(1, zone=GPUS.zones[1]), GPUS)
    server.unreachable = {GPUS.zones[0]}
    with pytest.raises(ProviderUnavailableError, match=f"gpus-7-0 in {GPUS.zones[0]}"):
        gce(server).delete("gpus-7-0")
    server.unreachable = set()
    server.clock.sleep(60)
    assert states(gce(server)) == {}


def test_calls_of_a_list_do_not_grow_with_zones(server: Compute) -> None:
    """One call lists all zones, and each further page is one more."""
    provider = gce(server)
    provider.list()
    assert sum(server.calls.values()) == 1
    provider.create(vms(3), GPUS)
    server.calls.clear()
    provider.list()
    assert dict(server.calls) == {"compute.instances.aggregatedList": 2}


def test_a_zone_that_does_not_answer_makes_no_shorter_list(server: Compute) -> None:
    """If one zone of the pool is unreachable, there is no list at all."""
    provider = gce(server)
    provider.create(vms(1), GPUS)
    server.unreachable = {GPUS.zones[1]}
    with pytest.raises(ProviderUnavailableError, match=GPUS.zones[1]):
        provider.list()


def test_an_outage_of_a_zone_elsewhere_is_none_of_a_pools(server: Compute) -> None:
    """Google lists all zones of the world; one that the pool does not use may be away."""
    provider = gce(server)
    provider.create(vms(1), GPUS)
    server.unreachable = {"us-east1-c"}
    assert [listed.name for listed in provider.list()] == ["gpus-7-0"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_list_that_lags_makes_nothing_twice(server: Compute, restarts: bool) -> None:
    """While a list omits what was created, a create does nothing, even after a restart."""
    server.lag_s = 60.0
    provider = gce(server)
    provider.create(vms(2), GPUS)
    assert provider.list() == ()
    provider = gce(server) if restarts else provider
    provider.create(vms(2), GPUS)
    with pytest.raises(ProviderUnavailableError, match="not listed yet"):
        provider.create(vms(3)[1:], GPUS)
    assert server.made == 2
    server.clock.sleep(60)
    assert set(states(provider)) == {"gpus-7-0", "gpus-7-1"}


def test_a_machine_whose_labels_are_changed_is_not_gone(server: Compute) -> None:
    """It runs and costs money: it is listed with what to do, and is deleted by its name."""
    mine = gce(server)
    mine.create(vms(2), GPUS)
    server.clock.sleep(60)
    mine.list()
    theirs = server.vm(f"bastion-{BUCKET}-gpus-7-0")
    theirs.fields["labels"] = {"team": "ops"}
    for _ in range(3):
        assert states(mine) == {"gpus-7-0": "running", "gpus-7-1": "running"}
    first, second = mine.list()
    assert f"--labels=bastion={BUCKET},pool=gpus,commit=7" in first.odd
    assert not second.odd
    mine.delete("gpus-7-0")
    mine.delete("gpus-7-1")
    server.clock.sleep(60)
    assert states(mine) == {}
    server.calls.clear()
    assert states(mine) == {}
    assert "compute.instances.get" not in server.calls, "what is gone is asked for once"


def test_the_project_is_told(server: Compute) -> None:
    """The machines show it, and so does a list without machines."""
    mine = gce(server)
    mine.create(vms(1), GPUS)
    assert [listed.account for listed in mine.list()] == ["project acme"]
    assert mine.account() == "project acme"


def test_only_its_own_machines_are_listed(server: Compute) -> None:
    """Machines of another bucket or pool, and those of people, are left out."""
    provider = gce(server)
    provider.create(vms(1), GPUS)
    gce(server, bucket="another").create(vms(1, seq=9), GPUS)
    other = replace(GPUS, name="more")
    gce(server, other).create(vms(1, other, seq=9), other)
    stranger = server.vm(f"bastion-{BUCKET}-gpus-7-0").fields
    server.vms["us-central1-a", "mine-1-0"] = replace(
        server.vm(f"bastion-{BUCKET}-gpus-7-0"), name="mine-1-0", fields=stranger
    )
    assert set(states(provider)) == {"gpus-7-0"}


@pytest.mark.parametrize("name", ["GPU_pool.v2@lab", "a" * 60, "9-lives"])
def test_any_name_of_a_pool_makes_a_name_of_googles(server: Compute, name: str) -> None:
    """A pool whose name Google would reject has machines that can be found."""
    pool = replace(GPUS, name=name)
    provider = gce(server, pool)
    provider.create(vms(2, pool), pool)
    assert set(states(provider)) == {f"{name}-7-0", f"{name}-7-1"}
    gce(server, pool).delete(f"{name}-7-0")
    server.clock.sleep(60)
    assert set(states(provider)) == {f"{name}-7-1"}


def test_resources_may_be_of_any_machine_type() -> None:
    """A pool without accelerators names Google's type itself; its image is Debian's."""
    pool = replace(POOLS["no-accelerators"], resources=Amounts({"cpu": 8}))
    with Compute.at(VirtualClock()) as server:
        gce(server, pool).create(vms(1, pool), pool)
        ((_, sent),) = server.sent
    assert sent["disks"][0]["initializeParams"]["sourceImage"].startswith("projects/debian-cloud/")
    assert "onHostMaintenance" not in sent["scheduling"]
