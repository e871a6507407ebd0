"""The messages under a view, and before a change, when no bastion leads."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bastion.records.keys import layout
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.rigs.busy_bucket import put
from tests.rigs.scripted_bastion import end, lead, publish, row

STATES = ("queued", "starting", "running")


@pytest.mark.parametrize(
    "words",
    [
        *(["list"], ["show", "train"], ["why", "train"], ["events"], ["pool"], ["machines"]),
        *(["status"], ["top"], ["quota", "show"], ["history"], ["usage"]),
    ],
)
def test_every_view_says_that_no_bastion_leads(words: list[str], run: Run, bucket: Bucket) -> None:
    """There is one line on stderr, even if the rows are the last known ones."""
    publish(bucket.store, "pool", {"machines": [], "pools": []})
    assert "no bastion" not in run(*words).err
    lead(bucket.store, now=time.time(), leader=None)
    told = [line for line in run(*words).err.splitlines() if line.startswith("no bastion leads: ")]
    assert len(told) == 1
    assert told[0].endswith("; jobs continue while their machines run, and no new ones start")


def test_a_silent_leader_is_shown_with_its_last_warning(run: Run, bucket: Bucket) -> None:
    """A leader that cannot write root still writes its log, which says why it is silent."""
    now = float(int(time.time()))
    lead(bucket.store, now=now - 60, leader="north")
    publish(bucket.store, "pool", {"machines": [], "pools": []})
    early, late = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - s)) for s in (90, 5))
    tail = f"{early} warning: j failed: exited with code 3\n"
    bucket.store.create(layout.bastion_log("north"), tail.encode())
    assert "logged at" not in run("status").err
    more = f"{tail}{late} warning: store: 403 \x1b[2J\n{late} leads\n"
    put(bucket.store, layout.bastion_log("north"), more.encode())
    told = [line for line in run("status").err.splitlines() if line.startswith("problem: ")]
    when = f"{late.removesuffix('Z')}.000Z"
    assert told == [f"problem: north logged at {when}: store: 403 \\x1b[2J"]
    (warning,) = [json.loads(run("status", "--json").out)["status"]["last_warning"]]
    assert warning == {"at": when, "text": "store: 403 \x1b[2J"}
    lead(bucket.store, now=now, leader="north")
    assert "logged at" not in run("status").err


def test_a_damaged_root_is_named_with_what_brings_it_back(run: Run, bucket: Bucket) -> None:
    """A bastion ends at once on such a root, so nothing else can say why none answers."""
    lead(bucket.store, now=time.time() - 60, leader="north")
    bucket.store.create(layout.ROOT, b'{"schema":4,"buck')
    told = [line for line in run("status").err.splitlines() if line.startswith("problem: ")]
    assert len(told) == 1
    assert told[0].startswith("problem: state/root.json: not JSON, Unterminated string")
    assert told[0].endswith("; bastion restore brings a copy back")


def test_a_leader_that_may_not_publish_is_not_called_absent(run: Run, bucket: Bucket) -> None:
    """Root still changes, so jobs start: only what the commands show is old."""
    now = float(int(time.time()))
    lead(bucket.store, now=now - 60, leader="north")
    assert "no bastion answers" in run("list").err
    bucket.store.create(layout.ROOT, b"{}")
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now - 5))
    tail = f"{when}Z warning: views: 'view/queue.json' was not written: 403\n"
    bucket.store.create(layout.bastion_log("north"), tail.encode())
    assert "no bastion" not in run("list").err
    behind, problem = run("status").err.splitlines()
    assert "leads, but has published nothing for 1m" in behind
    why = "views: 'view/queue.json' was not written: 403"
    assert problem == f"problem: north logged at {when}.000Z: {why}"


@pytest.mark.parametrize(
    ("leader", "told"), [(None, "2 running when it stopped"), ("vm", "2 running when it was last")]
)
def test_counts_of_a_bastion_that_is_gone_are_of_its_time(
    leader: str | None, told: str, run: Run, bucket: Bucket
) -> None:
    """No bastion has counted since: `status` shows the time of the numbers."""
    lead(bucket.store, now=time.time() - 60, leader=leader, counts={"running": 2})
    assert told in run("status").out


@pytest.mark.parametrize(
    ("provider", "is_gone", "told"),
    [
        (
            "local",
            True,
            "its machines have ended too, and running jobs start again after bastion up",
        ),
        ("local", False, "jobs continue while their machines run, and no new ones start"),
        ("gcp", True, "jobs continue while their machines run, and no new ones start"),
    ],
)
def test_jobs_whose_machines_have_ended_are_not_said_to_go_on(
    provider: str, is_gone: bool, told: str, run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """After `bastion down`, the folders of its machines show that nothing runs."""
    folder = tmp_path / "machines" / "0123456789" / "here" / "here-0"
    folder.mkdir(parents=True)
    (folder / "machine").touch()
    (folder / "root").write_text(bucket.url)
    if is_gone:
        (folder / "gone").touch()
    place = {"machines_host": os.uname().nodename, "machines_dir": str(tmp_path / "machines")}
    lead(bucket.store, now=time.time(), leader=None, **place)
    publish(bucket.store, "pool", {"machines": [], "pools": [{"name": "p", "provider": provider}]})
    rows = [row(f"a-012345678{n}", state=s, text="old") for n, s in enumerate(STATES)]
    publish(bucket.store, "queue", {"jobs": rows})
    listed = run("list")
    assert listed.err.splitlines()[-1].endswith(f" ago; {told}")
    anew = "its machine has ended; it starts again after bastion up"
    has_ended = is_gone and provider == "local"
    assert listed.out.count(anew) == (2 if has_ended else 0), "of starting and running, not queued"
    for job in rows[1:]:
        assert (anew in run("show", str(job["id"])).out) is has_ended
        assert (anew in run("why", str(job["id"])).out) is has_ended


def test_what_has_ended_needs_no_bastion(run: Run, bucket: Bucket) -> None:
    """Its record is permanent."""
    end(bucket.store, "old-0123456789")
    lead(bucket.store, now=time.time(), leader=None)
    assert run("show", "old").err == ""


def test_a_cancel_never_reaches_a_longer_name(run: Run, bucket: Bucket) -> None:
    """`cancel train` with an ended `train` and an active `train2` changes nothing."""
    publish(bucket.store, "queue", {"jobs": [row("train2-0123456789", state="running")]})
    end(bucket.store, "train-9876543210")
    with bucket.bastion() as bastion:
        ran = run("cancel", "train")
        assert (ran.code, ran.out) == (0, "")
        part = run("cancel", "trai")
    assert part.code == 103
    assert part.err.splitlines() == [
        "error: no job is called 'trai'; a change needs the whole name or id",
        "hint: did you mean train2-0123456789?",
    ]
    assert bastion.taken == []


def test_a_job_whose_launch_waits_in_the_inbox_is_no_job_yet(run: Run, bucket: Bucket) -> None:
    """Without a bastion, no request is accepted, so the job's name is unknown."""
    publish(bucket.store, "queue", {"jobs": []})
    lead(bucket.store, now=time.time(), leader="vm")
    assert "inbox" not in run("cancel", "x").err
    lead(bucket.store, now=time.time(), leader=None)
    error, hint = run("cancel", "x").err.splitlines()
    assert error == "error: no job 'x'"
    assert hint.endswith(" ago, and a launch that waits in the inbox is no job yet")
    assert "; no bastion leads: the last one stopped " in hint


def test_a_mistyped_root_is_said_at_once_and_left_as_it_is(run: Run, tmp_path: Path) -> None:
    """A folder that is no bucket gets no object of ours."""
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = run("launch", f"--root={empty}", "-p", "blue", "--", "true")
    assert ran.code == 103
    assert ran.err.startswith(f"error: no bastion has ever served {empty.as_uri()}\n")
    assert ran.err.endswith(f"to start one here: bastion up --root={empty.as_uri()}\n")
    assert not list(empty.iterdir())
