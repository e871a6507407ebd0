"""The machines at a provider, compared with root."""

from __future__ import annotations

from dataclasses import replace

from bastion.clock import VirtualClock
from bastion.machine import Machine, MachinePhase, Pool
from bastion.provider.fake import FakeProvider
from bastion.provider.port import Listed
from bastion.service.repair.inventory import delete_orphans, listed_or_why, odd_machines
from quota import Amounts

POOL = Pool(
    name="gpu",
    provider="fake",
    resources=Amounts({"h100": 8}),
    max_machines=4,
    price_per_hour=98.5,
)
KNOWN = Machine(name="gpu-2-0", pool="gpu", phase=MachinePhase.READY, made_at=1.0)


def provider(*names: str) -> FakeProvider:
    """Return a provider with these machines."""
    made = FakeProvider(VirtualClock(), delete_s=5.0)
    for name in names:
        made.create([Machine(name=name, pool="gpu", zone="a")], POOL)
    return made


def kinds(fake: FakeProvider, *machines: Machine, seq: int = 5) -> dict[str, str]:
    """Return machine -> its finding."""
    known = {machine.name: machine for machine in machines}
    odd = odd_machines(POOL, listed_or_why(fake), known, seq=seq, now=0.0)
    return {each.machine: each.kind for each in odd}


def test_orphans_strangers_and_absent_machines_are_told_apart() -> None:
    """The commit in a machine's name, and root, distinguish them."""
    fake = provider("gpu-2-0", "gpu-3-0", "gpu-9-0", "gpu-of-ada")
    absent = replace(KNOWN, name="gpu-4-0")
    assert kinds(fake, KNOWN, absent) == {
        "gpu-3-0": "orphan",
        "gpu-9-0": "stranger",
        "gpu-of-ada": "stranger",
        "gpu-4-0": "absent",
    }


def test_a_machine_on_a_node_that_is_off_is_told() -> None:
    """Root has let go of it as its permit has expired; a cloud confirms the end by itself."""
    ending = Listed(name="gpu-2-0", pool="gpu", state="deleting", text="Kubernetes: deleted")
    cluster = replace(POOL, provider="kubernetes", permit_s=600.0)
    for pool, known, found in (
        (cluster, {}, ["ending"]),
        (cluster, {KNOWN.name: replace(KNOWN, phase=MachinePhase.DELETING)}, []),
        (POOL, {}, []),
    ):
        odd = [*odd_machines(pool, (ending,), known, seq=5, now=0.0)]
        assert [each.kind for each in odd] == found
    (told,) = odd_machines(cluster, (ending,), {}, seq=5, now=0.0)
    assert told.text == (
        "is being deleted (Kubernetes: deleted), and its node has not confirmed its end; if the"
        " node is off permanently, remove it from the cluster: bastion help run-on-kubernetes"
    )


def test_a_machine_that_is_being_deleted_is_not_absent() -> None:
    """It is as intended in root; one that its provider deletes on its own is told as such."""
    ending = Listed(name="gpu-2-0", pool="gpu", state="deleting")
    intended = replace(KNOWN, phase=MachinePhase.DELETING)
    assert not [*odd_machines(POOL, (ending,), {KNOWN.name: intended}, seq=5, now=0.0)]
    (odd,) = odd_machines(POOL, (ending,), {KNOWN.name: KNOWN}, seq=5, now=0.0)
    assert (odd.kind, odd.text) == (
        "absent",
        "is ready in root, and its provider shows it as deleting",
    )


def test_a_pool_that_cannot_be_listed_says_why() -> None:
    """Nothing is concluded about its machines."""
    fake = provider("gpu-3-0")
    fake.is_reachable = False
    (odd,) = odd_machines(POOL, listed_or_why(fake), {KNOWN.name: KNOWN}, seq=5, now=0.0)
    assert (odd.kind, odd.machine) == ("unreachable", "")
    assert "cannot be reached" in odd.text


def test_of_a_host_that_does_not_answer_nothing_is_concluded() -> None:
    """Its machine may well run: only those of other hosts are absent."""
    machines = {
        name: replace(KNOWN, name=name, zone=zone) for name, zone in (("g", "a"), ("h", "b"))
    }
    listed = listed_or_why(provider())
    odd = odd_machines(POOL, listed, machines, seq=5, now=0.0, unreached={"b"})
    assert [(each.machine, each.kind) for each in odd] == [("g", "absent")]


def test_a_fix_deletes_orphans_alone() -> None:
    """Each is listed with what became of it, and its cost per hour before."""
    fake = provider("gpu-2-0", "gpu-3-0", "gpu-9-0")
    odd = tuple(odd_machines(POOL, listed_or_why(fake), {KNOWN.name: KNOWN}, seq=5, now=0.0))
    assert {each.price_per_hour for each in odd} == {98.5}
    assert [(each.machine, why) for each, why in delete_orphans(odd, lambda _: fake)] == [
        ("gpu-3-0", "")
    ]
    assert {each.name: each.state for each in fake.list()} == {
        "gpu-2-0": "running",
        "gpu-3-0": "deleting",
        "gpu-9-0": "running",
    }
    assert kinds(fake, KNOWN) == {"gpu-9-0": "stranger"}


def test_a_machine_without_a_price_of_ours_has_its_list_price() -> None:
    """It has that day's list price, labeled as such; a spot machine has none."""
    fake = provider("gpu-3-0")
    pool = replace(POOL, price_per_hour=0.0, instance_type="p5.48xlarge")
    listed, in_2026 = listed_or_why(fake), 1_780_000_000.0
    (odd,) = odd_machines(pool, listed, {}, seq=5, now=in_2026)
    assert (odd.price_per_hour, odd.is_list_price) == (55.04, True)
    (early,) = odd_machines(pool, listed, {}, seq=5, now=0.0)
    (spot,) = odd_machines(replace(pool, terms="spot"), listed, {}, seq=5, now=in_2026)
    assert early.price_per_hour == spot.price_per_hour == 0.0
    (own,) = odd_machines(replace(pool, price_per_hour=40.0), listed, {}, seq=5, now=in_2026)
    assert (own.price_per_hour, own.is_list_price) == (40.0, False)
