"""The output and the exit codes of `fsck` and `restore`."""

from __future__ import annotations

import json
from typing import Any

from bastion.clock import SystemClock
from bastion.records.keys import layout
from bastion.records.root import Held, Leader, Root, RootWriter
from bastion.service.repair.fsck import RULES
from launch.handbook import find_page
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run


def root(bucket: Bucket, **more: Any) -> Held:
    """Provide a bucket with a root and no active jobs."""
    made = Root(epoch=3, seq=7, now=1.7e9, write_id="w", **more)
    return RootWriter(bucket.store, SystemClock()).commit(made, over=None)


def copy(bucket: Bucket) -> str:
    """Make an hourly copy of the current root; return its key."""
    found = bucket.store.read(layout.ROOT)
    assert found is not None
    key = layout.snapshot("2026-11-21", 7)
    bucket.store.create(key, found.data)
    return key


def test_a_whole_bucket_is_told_to_be(run: Run, bucket: Bucket) -> None:
    """There is nothing on stdout, a message on stderr, and exit code 0."""
    root(bucket)
    ran = run("fsck")
    assert (ran.code, ran.out) == (0, "")
    unread = "jobs that ended more than 7d ago were not read"
    assert ran.err == f"{bucket.url} is intact: all {len(RULES)} rules hold; {unread}\n"
    every = run("fsck", "--since=all")
    assert every.err == f"{bucket.url} is intact: all {len(RULES)} rules hold\n"
    assert run("fsck", "--since=soon").code == 2


def test_findings_are_data_and_an_exit_code(run: Run, bucket: Bucket) -> None:
    """Findings are a table with the broken promises; JSON has the same; exit code 1."""
    root(bucket, next_event=5)
    ran = run("fsck")
    assert ran.code == 1
    assert ran.out.splitlines()[1].split()[:2] == ["history", "state/root.json"]
    assert ran.err == "history: events have neither gap nor repeat\n"
    (finding,) = json.loads(run("fsck", "--json").out)["findings"]
    assert finding["text"] == "the next event is 5, but 0 are known"


def test_a_bucket_without_a_root_is_an_error(run: Run) -> None:
    """One line with the way back, and exit code 103."""
    ran = run("fsck")
    assert ran.code == 103
    assert ran.err.splitlines() == [
        "error: there is no state/root.json here",
        "hint: if a bastion ever led here: bastion restore lists the copies",
    ]


def test_restore_shows_and_changes_nothing(run: Run, bucket: Bucket) -> None:
    """Without --yes, it shows the copies, the effect of the newest, and the next command."""
    standing = root(bucket)
    key = copy(bucket)
    ran = run("restore")
    assert ran.code == 0
    assert ran.out.splitlines()[1].split()[:2] == [key, "7"]
    assert ran.err.splitlines() == [
        f"active in {key}: no job",
        f"nothing was changed; to restore: bastion restore --snapshot={key} --yes",
    ]
    shown = json.loads(run("restore", "--json").out)
    assert (shown["snapshot"], shown["plan"]["lost"]) == (key, [])
    assert RootWriter(bucket.store, SystemClock()).read() == standing


def test_restore_brings_a_lost_root_back(run: Run, bucket: Bucket) -> None:
    """With --yes and no root, the copy becomes root with a higher epoch."""
    root(bucket)
    key = copy(bucket)
    bucket.store.delete(layout.ROOT)
    ran = run("restore", "--yes")
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == f"{key} was restored as commit 1000007: start the bastion"
    held = RootWriter(bucket.store, SystemClock()).read()
    assert held is not None
    assert held.root.epoch > 3


def test_restore_watches_whether_a_bastion_leads(run: Run, bucket: Bucket) -> None:
    """A root that names a leader is watched for a while first; a dead one is replaced."""
    leader = Leader(holder="b", host="vm", boot="x", pid=1, pid_started=0.0, since=0.0, ttl_s=0.2)
    root(bucket, leader=leader)
    copy(bucket)
    ran = run("restore", "--yes")
    assert ran.code == 0
    assert ran.err.startswith("checking for 0.25 s whether a bastion leads\n")


def test_restore_without_copies_says_where_they_come_from(run: Run, bucket: Bucket) -> None:
    """An error with a hint."""
    root(bucket)
    ran = run("restore")
    assert ran.code == 103
    assert ran.err.splitlines() == [
        "error: there is no copy of root under state/snap/",
        "hint: a bastion makes one when it takes the lead, and one per hour; if all are lost,"
        " delete the machines and start over: bastion help recover-a-bucket",
    ]


def test_the_guide_has_a_row_for_every_rule() -> None:
    """It says what to do about each broken rule."""
    page = find_page("recover-a-bucket")
    assert page is not None
    told = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    assert RULES.keys() <= {line.split("`")[1] for line in told}
