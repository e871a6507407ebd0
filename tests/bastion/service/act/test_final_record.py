"""The final record of a job whose key has another object."""

from __future__ import annotations

import json

import pytest

from bastion.errors import StoreRefusedError
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.service.act.final_record import write_final
from bastion.spec import Array
from bastion.store.memory import FaultyStore, MemoryStore
from tests.rigs.leader import Rig

FORGED = json.dumps(
    {
        "id": "forged",
        "project": "blue",
        "user": "eve",
        "launch": "forged",
        "name": "forged",
        "outcome": "succeeded",
        "text": "exited with code 0",
        "submitted_at": 0.0,
        "ended_at": 0.0,
    }
).encode()


def replacements(rig: Rig, job: str) -> list[str]:
    """Return the texts of the events about a replaced final record of `job`."""
    return [
        each.text
        for each in rig.history()
        if each.job == job and each.what == "final record replaced"
    ]


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (FORGED, "it said succeeded and root says failed"),
        (b"{", "it could not be decoded and root says failed"),
    ],
)
def test_a_forged_final_record_is_replaced_and_reported(forged: bytes, said: str) -> None:
    """Root is authoritative: the forged record is set aside, and the job leaves root."""
    rig = Rig()
    job = rig.start()
    rig.bucket.create(layout.result("blue", job), forged)
    rig.agent_of(job).end(job, 3)
    rig.until(lambda: job not in rig.root.jobs)
    found = rig.result(job)
    assert found is not None
    assert (found.id, found.outcome, found.code) == (job, "failed", 3)
    rig.turn(70)
    (text,) = replacements(rig, job)
    assert text.startswith(said)
    aside = rig.bucket.read(text.rpartition(" ")[2])
    assert aside is not None
    assert aside.data == forged


def test_a_final_record_in_other_bytes_is_the_same() -> None:
    """A record that another version wrote with other spaces is equal, and stays."""
    store = MemoryStore(lambda: 0.0)
    record = decode(Result, FORGED, key="forged")
    key = layout.result("blue", "forged")
    spaced = json.dumps(json.loads(FORGED), indent=1).encode()
    store.create(key, spaced)
    assert write_final(store, record) == ""
    standing = store.read(key)
    assert standing is not None
    assert standing.data == spaced
    assert [entry.key for entry in store.list("")] == [key]


def test_a_huge_final_record_keeps_no_job_in_root() -> None:
    """A record that is too large to be read is replaced unread."""
    rig = Rig()
    job = rig.start()
    rig.bucket.create(layout.result("blue", job), b" " * (RECORD_BYTES + 1))
    rig.agent_of(job).end(job)
    rig.until(lambda: job not in rig.root.jobs)
    found = rig.result(job)
    assert found is not None
    assert found.outcome == "succeeded"


@pytest.mark.parametrize("forged", [FORGED, b" " * (RECORD_BYTES + 1)])
def test_a_forged_final_record_gives_way_where_keys_are_create_only(forged: bytes) -> None:
    """The bucket's policy forbids replacing it even to the bastion: the job still leaves root."""

    def refuse(operation: str, key: str) -> None:
        if operation == "swap" and key.startswith(layout.RESULTS):
            raise StoreRefusedError(f"{key}: access denied")

    rig = Rig(spoil=lambda store: FaultyStore(store, refuse))
    job = rig.start()
    rig.bucket.create(layout.result("blue", job), forged)
    rig.agent_of(job).end(job, 3)
    assert rig.ended(job).outcome == "failed"


def test_a_forged_final_record_of_an_array_is_replaced() -> None:
    """An array's record is replaced like a job's."""
    rig = Rig()
    array = rig.submit("sweep", array=Array("0-1%1"))
    rig.bucket.create(layout.result("blue", array), FORGED)
    for task in (f"{array}.0", f"{array}.1"):
        rig.until(lambda task=task: rig.phase(task) == "running")  # type: ignore[misc]
        rig.agent_of(task).end(task, 1)
    rig.until(lambda: array not in rig.root.arrays)
    found = rig.result(array)
    assert found is not None
    assert found.outcome == "failed"
