"""What admins do to a bucket, in Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bastion import Admin, SpecError
from bastion.admin import granted
from bastion.clock import VirtualClock
from bastion.errors import NotFoundError
from bastion.machine import Machine, MachinePhase, Pool
from bastion.provider.fake import FakeProvider
from bastion.records.keys import layout
from bastion.records.root import Root, RootWriter
from bastion.service.access.grants import People, Right
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from quota.amounts import NOTHING
from quota.file.config import parse
from tests.rigs.leader import Rig

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 8
[project_membership]
blue = ["ada", "intern-.*"]
[project_resources.blue]
h100 = 1.0
"""
PEOPLE = People(bastion="B", users={"ada": "A", "intern-1": "I", "eve": "E"})


def test_a_bucket_is_audited_and_restored() -> None:
    """A healthy bucket has no findings; its newest copy can be restored once root is gone."""
    rig = Rig()
    rig.turn()
    admin = Admin("memory:", store=rig.bucket, clock=rig.clock)
    assert admin.fsck() == ()
    root = rig.bucket.read(layout.ROOT)
    assert root is not None
    rig.bucket.delete(layout.ROOT)
    with pytest.raises(NotFoundError):
        admin.fsck()
    back = admin.restoring().commit()
    assert back.seq > 0
    assert rig.bucket.read(layout.ROOT) is not None


def test_an_audit_outlasts_short_outages() -> None:
    """One read in three fails, and the findings are the same."""
    rig = Rig()
    rig.turn()
    asked: list[str] = []

    def faults(operation: str, _: str) -> Fault | None:
        asked.append(operation)
        return Fault.BEFORE if len(asked) % 3 == 1 else None

    admin = Admin("memory:", store=FaultyStore(rig.bucket, faults), clock=rig.clock)
    assert admin.fsck() == ()
    assert admin.restoring().copies


def test_rights_follow_the_quota_file() -> None:
    """Members get their inbox, by name or by pattern; other users get nothing."""
    quota = parse(QUOTA)
    creators = {
        grant.principal
        for grant in granted(PEOPLE, quota)
        if grant.right is Right.CREATE and grant.prefix.startswith(layout.INBOX)
    }
    assert creators == {"A", "I"}
    users = {name: f"user:{name}@x.org" for name in PEOPLE.users}
    people = People(bastion="serviceAccount:b@p.iam.gserviceaccount.com", users=users)
    commands = Admin("gs://bucket/b").setup_commands(people, quota)
    assert any("inbox/blue/ada/" in line for line in commands)
    with pytest.raises(SpecError, match="is not in such a bucket"):
        Admin("file:///srv/b").setup_commands(PEOPLE, quota)


def test_an_identity_that_a_cloud_does_not_know_is_refused_before_it_is_asked() -> None:
    """As with `bastion setup`, all are reported together, each with its place."""
    people = People(
        bastion="b@x.org",
        pool_agents={"gpu": ("arn:aws:iam::123456789012:role/gpu", "gpu")},
        users={"ada": "user:ada@x.org"},
    )
    admin = Admin("s3://bucket/b")
    for give in (admin.setup, admin.setup_commands):
        with pytest.raises(SpecError) as caught:
            give(people, parse(QUOTA))
        assert caught.value.problems == (
            "people.bastion: 'b@x.org' is no identity for s3://",
            "people.pool_agents['gpu']: 'gpu' is no identity for s3://",
            "people.users['ada']: 'user:ada@x.org' is no identity for s3://",
        )
        assert caught.value.hint.startswith(
            "write it whole, as arn:aws:iam::123456789012:role/NAME"
        )


RENTED = """
[pools.rented]
provider = "ec2"
zones = ["us-east-1a"]
resources = { cpu = 2 }
max_machines = 2
image = "self/ours"
identity = "agents"
options = { machine_type = "m7i.large" }
"""


def test_machines_of_a_region_that_a_pool_left_are_found_and_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An inspection searches where root's machines are, and deletes what it finds there."""
    clock, store = VirtualClock(wall=1.7e9), MemoryStore(lambda: 1.7e9)
    old = Machine(name="rented-3-0", pool="rented", zone="eu-west-1a", phase=MachinePhase.READY)
    root = Root(bucket="0123456789", epoch=1, seq=7, now=1.7e9, write_id="w", machines={"m": old})
    RootWriter(store, clock).commit(root, over=None)
    store.create(layout.CONFIG, RENTED.encode())
    provider, opened = FakeProvider(clock), []

    def open_provider(pool: Pool, **_: object) -> FakeProvider:
        opened.append(pool.zones)
        return provider

    monkeypatch.setattr("bastion.provider.open.open_provider", open_provider)
    orphan = replace(old, name="rented-2-0", zone="ap-south-1a")
    provider.create(
        [orphan], Pool(name="rented", provider="ec2", resources=NOTHING, max_machines=1)
    )
    admin = Admin("memory:", store=store, clock=clock)
    found = admin.inspection()
    assert [(each.kind, each.machine) for each in found.odd] == [("orphan", "rented-2-0")]
    assert [why for _, why in admin.delete_orphans(found)] == [""]
    assert opened == [("us-east-1a", "eu-west-1a"), ("us-east-1a", "ap-south-1a")]
    assert admin.inspection().odd == ()


def test_a_missing_root_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a root, the error says how to name one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BASTION_ROOT", raising=False)
    with pytest.raises(SpecError, match="no bastion named"):
        Admin()
