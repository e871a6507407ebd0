"""What is said under a view, and before a change, when no bastion leads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.rigs.scripted_bastion import end, lead, publish, row


@pytest.mark.parametrize(
    "words",
    [
        *(["list"], ["show", "train"], ["why", "train"], ["events"], ["pool"], ["machines"]),
        *(["status"], ["top"], ["quota", "show"], ["history"], ["usage"]),
    ],
)
def test_every_view_says_that_no_bastion_leads(words: list[str], run: Run, bucket: Bucket) -> None:
    """One line on stderr, also where the rows are the last that was known."""
    publish(bucket.store, "pool", {"machines": [], "pools": []})
    assert "no bastion" not in run(*words).err
    lead(bucket.store, now=time.time(), leader=None)
    told = [line for line in run(*words).err.splitlines() if line.startswith("no bastion leads: ")]
    assert len(told) == 1
    assert told[0].endswith("; jobs that run go on, and nothing new starts")


def test_what_has_ended_needs_no_bastion(run: Run, bucket: Bucket) -> None:
    """Its record stands for good."""
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


def test_a_mistyped_root_is_said_at_once_and_left_as_it_is(run: Run, tmp_path: Path) -> None:
    """A folder that is no bucket gets no object of ours."""
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = run("launch", f"--root={empty}", "-p", "blue", "--", "true")
    assert ran.code == 103
    assert ran.err.startswith(f"error: no bastion has ever served {empty.as_uri()}\n")
    assert ran.err.endswith(f"to start one here: bastion up --root={empty.as_uri()}\n")
    assert not list(empty.iterdir())
