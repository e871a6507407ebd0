"""Slices of Cloud TPU are created, listed and deleted as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderUnavailableError
from bastion.machine import Pool
from bastion.provider.gcp.tpu import GcpTpuProvider
from tests.bastion.provider.gcp.rig import BUCKET, TPUS, hosts, tpu
from tests.servers.google import Tpu


@pytest.fixture
def server() -> Iterator[Tpu]:
    """Run Cloud TPU, with every exchange checked against Google's description."""
    with Tpu.at(VirtualClock()) as made:
        yield made
        assert made.problems == []


def states(provider: GcpTpuProvider) -> dict[str, str]:
    """Return name -> state of listed machines."""
    return {listed.name: listed.state for listed in provider.list()}


def texts(provider: GcpTpuProvider) -> set[str]:
    """Return the texts of listed machines."""
    return {listed.text for listed in provider.list()}


POOLS = {
    "v4": TPUS,
    "v5e": replace(TPUS, instance_type="v5litepod-16"),
    "v5p": replace(TPUS, instance_type="tpu-v5p-32", hosts=4),
    "v6e": replace(TPUS, instance_type="tpu-v6e-8", hosts=1),
    "spot": replace(TPUS, terms="spot"),
    "reserved": replace(TPUS, terms="reserved", reservation="ours"),
    "everything": replace(
        TPUS,
        image="tpu-vm-base",
        network="training",
        tags=("tpu",),
        identity="jobs@acme.iam.gserviceaccount.com",
        options={"subnetwork": "training-us", "external_ip": "false", "valid_for": "6h"},
    ),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_each_kind_of_pool_is_asked_for_as_google_describes_it(server: Tpu, pool: Pool) -> None:
    """A slice of every kind of pool is a valid request, and all its hosts run in the end."""
    provider = tpu(server, pool)
    machines = [
        machine if pool.hosts > 1 else replace(machine, name="tpus-7-0", slice="")
        for machine in hosts(1, pool)
    ]
    provider.create(machines, pool)
    server.clock.sleep(10)
    provider.list()
    server.clock.sleep(60)
    assert states(provider) == {machine.name: "running" for machine in machines}


def test_terms_are_told_as_google_has_them(server: Tpu) -> None:
    """Spot is a tier, a reservation is named by its whole path, and on demand is neither."""
    for seq, terms in enumerate(("v4", "spot", "reserved")):
        tpu(server, POOLS[terms]).create(hosts(1, seq=seq), POOLS[terms])
    on_demand, spot, reserved = (sent for _, sent in server.sent)
    assert {"spot", "guaranteed"} & on_demand.keys() == set()
    assert spot["spot"] == {}
    assert reserved["reservationName"] == "projects/acme/locations/us-central2-b/reservations/ours"


def test_software_is_googles_for_the_version(server: Tpu) -> None:
    """Without an image, a slice gets the runtime that Google names for its version."""
    for seq, kind in enumerate(("v4", "v5e", "v5p", "v6e", "everything")):
        tpu(server, POOLS[kind]).create(hosts(1, seq=seq), POOLS[kind])
    asked = [sent["tpu"]["nodeSpec"][0]["node"]["runtimeVersion"] for _, sent in server.sent]
    assert asked == [
        "tpu-ubuntu2204-base",
        "v2-alpha-tpuv5-lite",
        "v2-alpha-tpuv5",
        "v2-alpha-tpuv6e",
        "tpu-vm-base",
    ]


def test_a_slice_waits_in_googles_words(server: Tpu) -> None:
    """Without capacity, every host is `waiting`, with Google's message."""
    server.stock = {"us-central2-b": 0}
    provider = tpu(server)
    provider.create(hosts(1), TPUS)
    server.clock.sleep(600)
    assert set(states(provider).values()) == {"waiting"}
    assert texts(provider) == {"WAITING_FOR_RESOURCES"}
    server.stock = {}
    provider.list()
    assert set(states(provider).values()) == {"creating"}
    server.clock.sleep(60)
    assert set(states(provider).values()) == {"running"}


def test_a_slice_is_deleted_whole(server: Tpu) -> None:
    """The name of any host deletes its slice, but not the other slice of the gang."""
    provider = tpu(server)
    provider.create(hosts(2), TPUS)
    server.clock.sleep(10)
    provider.list()
    server.clock.sleep(60)
    tpu(server).delete("tpus-7-1-h2")
    assert {s for n, s in states(provider).items() if "-7-1-" in n} == {"deleting"}
    server.clock.sleep(60)
    assert states(provider) == {f"tpus-7-0-h{host}": "running" for host in range(4)}


def test_a_zone_that_does_not_answer_keeps_no_delete_from_the_others(server: Tpu) -> None:
    """Before the first list its zone is unknown: it is deleted, and the failed zone reported."""
    pool = replace(TPUS, zones=TPUS.zones[::-1])
    tpu(server).create(hosts(1), TPUS)
    server.unreachable = {pool.zones[0]}
    with pytest.raises(ProviderUnavailableError, match=f"tpus-7-0 in {pool.zones[0]}"):
        tpu(server, pool).delete("tpus-7-0-h0")
    server.unreachable = set()
    server.clock.sleep(60)
    assert states(tpu(server)) == {}


def test_a_request_that_expired_is_sold_out_and_cleared(server: Tpu) -> None:
    """The next create reports a failed request as sold out, and deletes it."""
    pool = replace(TPUS, options={"valid_for": "1h"})
    server.stock = {"us-central2-b": 0}
    provider = tpu(server, pool)
    provider.create(hosts(1), pool)
    server.clock.sleep(3600)
    assert set(states(provider).values()) == {"stopped"}
    assert "not fulfilled" in texts(provider).pop()
    with pytest.raises(NoCapacityError, match="not fulfilled"):
        provider.create(hosts(1), pool)
    server.clock.sleep(60)
    assert states(provider) == {}


def test_a_preempted_slice_is_gone_and_its_request_is_cleared(server: Tpu) -> None:
    """A spot slice that was preempted is gone; its remains make room for the next one."""
    provider = tpu(server, POOLS["spot"])
    provider.create(hosts(1), POOLS["spot"])
    server.clock.sleep(10)
    provider.list()
    server.clock.sleep(60)
    server.preempt(f"bastion-{BUCKET}-tpus-7-0")
    assert set(states(provider).values()) == {"deleting"}
    server.clock.sleep(60)
    assert set(states(provider).values()) == {"gone"}
    provider.create(hosts(1), POOLS["spot"])
    assert set(states(provider).values()) == {"gone"}
    provider.create(hosts(1, seq=8), POOLS["spot"])
    server.clock.sleep(60)
    assert {name.partition("-h")[0] for name in states(provider)} == {"tpus-8-0"}


def test_a_gang_that_is_refused_in_part_leaves_nothing(server: Tpu) -> None:
    """If the second slice is refused immediately, the first one is deleted."""
    server.room = {"us-central2-b": 1}
    provider = tpu(server)
    with pytest.raises(NoCapacityError, match="no more capacity"):
        provider.create(hosts(2), TPUS)
    server.clock.sleep(60)
    assert states(provider) == {}


def test_a_slice_that_is_being_provisioned_is_deleted_later(server: Tpu) -> None:
    """Google refuses to delete during provisioning: the outcome is open, and a later call works."""
    provider = tpu(server)
    provider.create(hosts(1), TPUS)
    server.clock.sleep(10)
    provider.list()
    with pytest.raises(ProviderUnavailableError, match="PROVISIONING"):
        provider.delete("tpus-7-0-h0")
    server.clock.sleep(60)
    provider.delete("tpus-7-0-h0")
    server.clock.sleep(60)
    assert states(provider) == {}


def rests(provider: GcpTpuProvider) -> set[tuple[str, bool]]:
    """Return the states of listed machines, and whether something remains of them."""
    return {(listed.state, listed.leaves_rest) for listed in provider.list()}


@pytest.mark.parametrize("is_node_only", [True, False])
def test_what_is_left_of_a_slice_is_told_until_it_is_deleted(
    server: Tpu, is_node_only: bool
) -> None:
    """A preempted node stays, with its request or alone, and uses up quota."""
    provider = tpu(server, POOLS["spot"])
    provider.create(hosts(1), POOLS["spot"])
    server.clock.sleep(10)
    provider.list()
    server.clock.sleep(60)
    assert rests(provider) == {("running", False)}
    made = server.slice(f"bastion-{BUCKET}-tpus-7-0")
    made.node_state, made.is_node_only = "PREEMPTED", is_node_only
    assert rests(provider) == {("gone", True)}
    provider.delete("tpus-7-0-h0")
    server.clock.sleep(60)
    assert rests(provider) == set()


def test_a_suspended_request_is_deleted_though_no_slice_follows(server: Tpu) -> None:
    """It also uses up the quota of other pools."""
    provider = tpu(server, POOLS["spot"])
    provider.create(hosts(1), POOLS["spot"])
    server.clock.sleep(10)
    provider.list()
    server.clock.sleep(60)
    server.preempt(f"bastion-{BUCKET}-tpus-7-0")
    server.clock.sleep(60)
    assert rests(provider) == {("gone", True)}
    provider.delete("tpus-7-0-h1")
    assert rests(provider) == {("gone", False)}, "it is on its way"
    server.clock.sleep(60)
    assert rests(provider) == set()


def test_a_node_without_its_request_is_listed_and_deleted(server: Tpu) -> None:
    """A node whose queued resource disappeared is listed, and deleted by its name."""
    provider = tpu(server)
    provider.create(hosts(1), TPUS)
    server.clock.sleep(10)
    provider.list()
    server.clock.sleep(60)
    server.forget_request(f"bastion-{BUCKET}-tpus-7-0")
    assert set(states(provider).values()) == {"running"}
    provider.delete("tpus-7-0-h0")
    server.clock.sleep(60)
    assert states(provider) == {}


def test_a_zone_that_does_not_answer_makes_no_shorter_list(server: Tpu) -> None:
    """If one zone of the pool is unreachable, there is no list at all."""
    provider = tpu(server)
    provider.create(hosts(1), TPUS)
    server.unreachable = {"us-east5-a"}
    with pytest.raises(ProviderUnavailableError, match="us-east5-a"):
        provider.list()


def test_an_outage_of_a_zone_elsewhere_is_none_of_a_pools(server: Tpu) -> None:
    """A list covers all zones; one that the pool does not use may be away."""
    provider = tpu(server)
    provider.create(hosts(1), TPUS)
    server.unreachable = {"europe-west4-b"}
    assert len(provider.list()) == 4
    server.unreachable = {"-"}
    with pytest.raises(ProviderUnavailableError, match="no answer of"):
        provider.list()  # a place of an unknown kind may be any of them


def test_the_project_is_told(server: Tpu) -> None:
    """Each host shows it, even while its slice waits, and so does an empty list."""
    provider = tpu(server)
    provider.create(hosts(1), TPUS)
    assert {listed.account for listed in provider.list()} == {"project acme"}
    assert provider.account() == "project acme"


def test_two_lists_show_every_slice(server: Tpu) -> None:
    """The calls of a list only grow with its pages."""
    provider = tpu(server)
    provider.create(hosts(3), TPUS)
    server.clock.sleep(10)
    server.page = 100
    server.calls.clear()
    assert len(provider.list()) == 12
    assert sum(server.calls.values()) == 2
