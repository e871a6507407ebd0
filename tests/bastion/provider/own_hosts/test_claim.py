"""One machine has a host, among all folders, users, pools and buckets, as long as it lasts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderUnavailableError
from bastion.lane import InlineLane
from bastion.machine import Machine, Pool
from bastion.provider.build import build_digest
from bastion.provider.own_hosts.claim import CLAIMS, Claim, claims_folder, free_host, take_host
from bastion.provider.own_hosts.ssh import SshProvider
from bastion.service.act.machines import Machines, OpenPool
from bastion.service.journal import Journal
from quota.amounts import Amounts
from tests.end_to_end.programs import until
from tests.servers.sshd import hosts, needs_sshd

NAME = f"bastion-host-{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"


def claim(folder: Path, machine: str = "own-1-0") -> Claim:
    """Return the claim of a machine below `folder`, which is created."""
    home = folder / "b" / machine / "home"
    home.mkdir(parents=True, exist_ok=True)
    return Claim(machine=machine, pool="own", bucket="b", user="ada", home=str(home))


def test_the_first_has_the_host(tmp_path: Path) -> None:
    """A second machine is told which one has the host; the first can ask any number of times."""
    environ = {CLAIMS: str(tmp_path)}
    first, second = claim(tmp_path / "a"), claim(tmp_path / "z", "own-2-0")
    assert take_host(first, environ) is None
    assert take_host(second, environ) == first
    assert take_host(first, environ) is None
    free_host(Path(second.home), environ)
    assert take_host(second, environ) == first
    free_host(Path(first.home), environ)
    assert take_host(second, environ) is None
    assert [path.name for path in tmp_path.glob("bastion-host-*")] == [NAME]


@pytest.mark.parametrize("by_hand", ["removed", "ended"])
def test_what_was_ended_by_hand_has_no_host(tmp_path: Path, by_hand: str) -> None:
    """A machine whose folder was removed, or whose home is ended, does not keep its host."""
    environ = {CLAIMS: str(tmp_path)}
    first = claim(tmp_path / "a")
    take_host(first, environ)
    if by_hand == "ended":
        (Path(first.home) / "ended").touch()
    else:
        Path(first.home).rmdir()
        Path(first.home).parent.rmdir()
    assert take_host(claim(tmp_path / "z", "own-2-0"), environ) is None


@pytest.mark.parametrize("text", ["", "[]", "[" * 3000, '{"machine": 7}'])
def test_a_claim_that_says_nothing_holds(tmp_path: Path, text: str) -> None:
    """An unreadable file counts as a machine; nothing is started beside it."""
    (tmp_path / NAME).write_text(text)
    held = take_host(claim(tmp_path / "a"), {CLAIMS: str(tmp_path)})
    assert held is not None
    assert held.home == "unknown"


def test_a_host_that_cannot_be_claimed_is_unavailable(tmp_path: Path) -> None:
    """If the claim cannot be written, nothing is known, and nothing is created."""
    with pytest.raises(ProviderUnavailableError, match="bastion-host-"):
        take_host(claim(tmp_path / "a"), {CLAIMS: str(tmp_path / "none")})


def test_users_of_a_host_look_in_one_place() -> None:
    """Every user can write to the claim's folder, and none can remove another's claim."""
    place = claims_folder({})
    assert place.stat().st_mode & 0o1002 == 0o1002
    assert place in (Path("/run/lock"), Path("/tmp"))


@needs_sshd
def test_two_pools_of_one_host_never_share_it(tmp_path: Path) -> None:
    """Another folder finds the host taken until the machine of the first is gone."""
    with hosts(tmp_path, "one") as config:
        pool = Pool(
            name="own",
            provider="ssh",
            resources=Amounts({"cpu": 1}),
            max_machines=1,
            zones=("one",),
            machines_per_zone=1,
            permit_s=600.0,
            options={"ssh_config": str(config), "python": sys.executable},
        )
        there = replace(pool, name="new", options={**pool.options, "folder": "elsewhere"})
        first, second = (
            SshProvider(f"file://{tmp_path}/root", each, bucket="b", build=build_digest())
            for each in (pool, there)
        )
        mine = Machine(name="own-1-0", pool="own", zone="one")
        theirs = Machine(name="new-1-0", pool="new", zone="one")
        first.create([mine], pool)
        (tmp_path / "one" / NAME).unlink()  # as a clean-up of old files may do
        first.list()
        told = (
            r"host one still holds machine own-1-0 of pool own of bucket b, user \w+, in .*/b/own"
        )
        with pytest.raises(NoCapacityError, match=told):
            second.create([theirs], there)
        assert second.list() == ()
        first.delete(mine.name)
        until(lambda: [each.state for each in first.list()] == ["gone"], "the first is gone")
        assert not (tmp_path / "one" / NAME).exists()


@needs_sshd
def test_a_host_that_was_taken_out_is_asked_until_its_machine_is_gone(tmp_path: Path) -> None:
    """Its machine is listed and deleted as before, and it gets no other one."""
    with hosts(tmp_path, "one", "two") as config:
        before = Pool(
            name="own",
            provider="ssh",
            resources=Amounts({"cpu": 1}),
            max_machines=2,
            zones=("one", "two"),
            machines_per_zone=1,
            permit_s=600.0,
            options={"ssh_config": str(config), "python": sys.executable},
        )
        now = replace(before, zones=("one",), max_machines=1)
        left = Machine(name="own-1-0", pool="own", zone="two")

        def opened(pool: Pool) -> OpenPool:
            url = f"file://{tmp_path}/root"
            provider = SshProvider(url, pool, bucket="b", build=build_digest())
            return OpenPool(pool=pool, provider=provider, lane=InlineLane())

        opened(before).provider.create([left], before)
        providers: list[OpenPool] = []

        def open_pool(pool: Pool) -> OpenPool:
            providers.append(opened(pool))
            return providers[-1]

        clock = VirtualClock()
        machines = Machines(clock, Journal("b", clock), open_pool, listing_s=10.0)
        machines.open_pools({"own": now}, {left.name: left})
        provider = providers[-1].provider
        assert [(each.name, each.zone) for each in provider.list()] == [(left.name, "two")]
        with pytest.raises(NoCapacityError, match="has no host 'two' any more"):
            provider.create([Machine(name="own-2-0", pool="own", zone="two")], now)
        provider.delete(left.name)
        until(lambda: [each.state for each in provider.list()] == ["gone"], "it is gone")
        assert not (tmp_path / "two" / NAME).exists()
