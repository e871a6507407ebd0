"""VMs of Azure, created on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine
from bastion.provider.azure import vms
from bastion.provider.azure.arm import Arm
from bastion.provider.azure.rights import ACTIONS
from bastion.store.azure.caller import Token
from tests.bastion.provider.azure.rig import BUCKET, POOL, arm, batch, pool, provider, script
from tests.servers.azure import ArmError, ArmServer
from tests.servers.azure.arm import GROUP, SUBSCRIPTION


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def server(clock: VirtualClock) -> Iterator[ArmServer]:
    with ArmServer(clock=clock).running() as server:
        yield server
        assert server.problems == []


def cloud(name: str) -> str:
    return f"bastion-{BUCKET}-{name}"


def test_a_list_goes_through_all_pages_and_omits_what_is_not_ours(
    server: ArmServer, clock: VirtualClock
) -> None:
    """Other pools, other buckets and people's own VMs in the group are not listed."""
    ours, other = provider(server), provider(server, pool(name="gpu-1"))
    ours.create(batch(5), POOL)
    other.create([Machine(name="gpu-1-7-0", pool="gpu-1", zone="westeurope-1")], POOL)
    server.vms["mine"] = replace(server.vm(cloud("gpu-7-0")), name="mine")
    clock.advance(60)
    listed = ours.list()
    assert [each.name for each in listed] == [f"gpu-7-{n}" for n in range(5)]
    assert {(each.state, each.zone) for each in listed} == {("running", "westeurope-1")}
    assert {each.account for each in listed} == {f"subscription {SUBSCRIPTION}"}
    assert all(each.created_at for each in listed)


def test_power_states_are_read_a_few_at_a_time(server: ArmServer, clock: VirtualClock) -> None:
    """VMs that have not been seen to run come first, and every VM has its turn."""
    one, size = provider(server), vms.LOOKS + 2
    server.page = size
    one.create(batch(size), POOL)
    clock.advance(60)
    assert [each.state for each in one.list()].count("running") == vms.LOOKS
    assert [each.state for each in one.list()].count("running") == size
    server.vm(cloud("gpu-7-0")).power = "deallocated"
    seen = {each.name: each.state for _ in range(2) for each in one.list()}
    assert seen["gpu-7-0"] == "stopped"


@pytest.mark.parametrize("code", ["ZonalAllocationFailed", "AllocationFailed", "SkuNotAvailable"])
def test_a_gang_that_the_zone_cannot_hold_leaves_nothing(
    server: ArmServer, clock: VirtualClock, code: str
) -> None:
    """The failure comes from the operation, after Azure has accepted every request."""
    server.stock, server.sold_out = {"westeurope-1": 2}, code
    with pytest.raises(NoCapacityError, match=f"3 x .* in westeurope-1: {code}"):
        provider(server).create(batch(3), POOL)
    clock.advance(60)
    assert server.names() == []


def test_a_failure_after_the_wait_is_listed_deleted_and_reported(
    server: ArmServer, clock: VirtualClock
) -> None:
    """A VM whose creation failed is stopped; the next create deletes it and says why."""
    server.stock, server.operation_s, server.create_s = {"westeurope-1": 0}, 90.0, 100.0
    one = provider(server)
    one.create(batch(1), POOL)
    assert [each.state for each in one.list()] == ["creating"]
    clock.advance(60)
    (failed,) = one.list()
    assert (failed.state, failed.text) == (
        "stopped",
        "Failed: ZonalAllocationFailed: no capacity in westeurope-1",
    )
    with pytest.raises(NoCapacityError, match="ZonalAllocationFailed"):
        one.create(batch(1), POOL)
    clock.advance(60)
    assert one.list() == ()
    server.stock, server.operation_s = {}, 5.0
    one.create(batch(1), POOL)
    assert server.names() == [cloud("gpu-7-0")]


def test_a_second_bastion_creates_no_second_vm(server: ArmServer, clock: VirtualClock) -> None:
    """Azure refuses a name that exists, even if the list does not show it and the pool changed."""
    server.lag_s = 600.0
    provider(server).create(batch(2), POOL)
    provider(server).create(batch(2), pool(disk_gib=500))
    assert server.made == 2


def test_an_evicted_vm_leaves_the_list(server: ArmServer, clock: VirtualClock) -> None:
    """Azure deletes it, and the name stays free for nobody: a new machine has a new name."""
    spot = pool(terms="spot")
    one = provider(server, spot)
    one.create(batch(2), spot)
    clock.advance(60)
    one.list()
    server.evict(cloud("gpu-7-0"))
    assert [each.state for each in one.list()] == ["deleting", "running"]
    clock.advance(60)
    assert [each.name for each in one.list()] == ["gpu-7-1"]


def test_a_pause_that_azure_asks_for_is_kept(server: ArmServer) -> None:
    """429 has the time of the next try."""
    server.fail("GET", ArmError(429, "TooManyRequests", "slow down", {"Retry-After": "45"}))
    with pytest.raises(ProviderUnavailableError) as paced:
        provider(server).list()
    assert paced.value.retry_after_s == 45.0


def test_a_throttled_gang_is_completed_by_the_next_create(server: ArmServer) -> None:
    """What exists stays, because the outcome is unknown."""
    throttled = ArmError(429, "TooManyRequests", "slow down")
    server.fail("PUT .*-1$", throttled)
    one = provider(server)
    with pytest.raises(ProviderUnavailableError):
        one.create(batch(3), POOL)
    assert server.names() == [cloud("gpu-7-0")]
    one.create(batch(3), POOL)
    assert server.made == 3


def test_links_to_other_servers_get_no_token(server: ArmServer) -> None:
    """A list is incomplete then, and raises."""
    server.next_host = "http://elsewhere.example"
    one = provider(server)
    one.create(batch(3), POOL)
    with pytest.raises(ProviderUnavailableError, match="refers to another server"):
        one.list()


def test_an_operation_that_may_not_be_seen_is_left_to_the_list(
    server: ArmServer, clock: VirtualClock
) -> None:
    """The VM is created in any case."""
    forbidden = ArmError(403, "AuthorizationFailed", "no")
    server.fail("GET .*/operations/", forbidden, times=10)
    one = provider(server)
    one.create(batch(1), POOL)
    clock.advance(60)
    assert [each.state for each in one.list()] == ["running"]


@pytest.mark.parametrize(
    ("allowed", "denied", "count"),
    [
        (["*"], [], 0),
        (["microsoft.compute/*", "Microsoft.Network/*"], [], 0),
        (list(ACTIONS), [], 0),
        (["*"], ["Microsoft.Compute/virtualMachines/delete"], 1),
        (["*/read"], [], len([each for each in ACTIONS if not each.endswith("/read")])),
        ([], [], len(ACTIONS)),
    ],
    ids=["owner", "contributor", "exact", "no-delete", "reader", "none"],
)
def test_missing_rights_are_told(
    server: ArmServer, allowed: list[str], denied: list[str], count: int
) -> None:
    """Azure lists what the identity may do, and nothing is created."""
    server.permissions = [{"actions": allowed, "notActions": denied}]
    found = provider(server).lacking()
    assert len(found) == count
    assert all(line.startswith("lacks Microsoft.") and GROUP in line for line in found)
    assert server.made == 0


class Credential:
    """An identity whose tokens are counted."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get_token(self, *scopes: str, **_: object) -> object:
        """Return the next token."""
        from azure.core.credentials import AccessToken

        self.asked += scopes
        return AccessToken(f"t{len(self.asked)}", 10**10)


def test_a_token_that_was_revoked_is_replaced(server: ArmServer, clock: VirtualClock) -> None:
    """One new token is asked for, and its scope is the resource manager."""
    credential = Credential()
    scope = "https://management.azure.com/.default"
    caller = Token(credential, clock, scope=scope)  # type: ignore[arg-type]
    requests = Arm(
        subscription=SUBSCRIPTION,
        resource_group=GROUP,
        clock=clock,
        endpoint=server.url,
        caller=caller,
    )
    one = vms.AzureVmProvider(POOL, bucket=BUCKET, script=script, arm=requests)
    server.token = "t2"
    assert one.list() == ()
    assert credential.asked == [scope, scope]
    server.token = "other"
    with pytest.raises(ProviderRefusedError, match="ExpiredAuthenticationToken"):
        one.list()


def test_an_answer_that_is_not_azures_is_no_empty_list(server: ArmServer) -> None:
    """A group that does not exist, or a proxy, is an error."""
    server.fail("GET", ArmError(404, "ResourceGroupNotFound", "group 'ml' could not be found"))
    with pytest.raises(ProviderRefusedError, match="ResourceGroupNotFound"):
        provider(server).list()
    assert arm(server).group == f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
