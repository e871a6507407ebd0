"""What admins do to a bucket, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion import Admin, SpecError
from bastion.admin import granted
from bastion.errors import NotFoundError
from bastion.records import layout
from bastion.service.access.grants import People, Right
from bastion.store.memory import Fault, FaultyStore
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
    """A whole bucket has no findings; its newest copy can be restored once root is gone."""
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
    """Members get their inbox, by name or by a pattern; other users get nothing."""
    quota = parse(QUOTA)
    creators = {
        grant.principal
        for grant in granted(PEOPLE, quota)
        if grant.right is Right.CREATE and grant.prefix.startswith(layout.INBOX)
    }
    assert creators == {"A", "I"}
    commands = Admin("gs://bucket/b").setup_commands(PEOPLE, quota)
    assert any("inbox/blue/ada/" in line for line in commands)
    with pytest.raises(SpecError, match="is not in such a bucket"):
        Admin("file:///srv/b").setup_commands(PEOPLE, quota)


def test_a_missing_root_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a root anywhere the error says how to name one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BASTION_ROOT", raising=False)
    with pytest.raises(SpecError, match="no bastion named"):
        Admin()
