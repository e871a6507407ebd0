"""The published queue: rows are found in the bytes, with the same result as by parsing all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.client.look.job_line import JobLine, whole
from bastion.client.look.queue_rows import QueueRows
from bastion.client.look.views import JobView, name_of
from bastion.service.publish.queue_view import queue_bytes

NAMES = ("train", "train2", "tra", "id", "text", "jobs", 'quo"te', "ü", "back\\slash", "a{")
names = st.sampled_from(NAMES)


def row(name: str, number: int, *, launch: str = "", task: int | None = None) -> dict[str, Any]:
    """Return a row of a waiting job, with a reason that names others."""
    own = f"{name}-{number:010d}" if task is None else f"{launch}.{task}"
    return {
        "id": own,
        "name": name,
        "project": "blue",
        "user": "ada",
        "launch": launch or own,
        "state": "running" if number % 3 == 0 else "queued",
        "phase": "running" if number % 3 == 0 else "queued",
        "task": task,
        "machines": [],
        "reason": {"kind": "behind", "first": ["train-0000000001"]},
        "text": 'behind "train-0000000001",\n"id":"train" and {"id":"tra"',
    }


def array(name: str, number: int) -> dict[str, Any]:
    """Return a row of an array."""
    made = row(name, number)
    return made | {"counts": {"queued": 3}, "waiting": "0-2"}


def body(jobs: Iterable[Mapping[str, Any]], arrays: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a whole view."""
    return {"schema": 1, "now": 5.0, "seq": 7, "jobs": list(jobs), "arrays": list(arrays)}


VIEW = body(
    [
        row("train", 0),
        row("train", 1),
        row("train2", 2),
        row("part", 3, launch="train-0000000009"),
        row("sweep", 4, launch="sweep-0000000005", task=17),
        *(row("other", number) for number in range(10, 200)),
    ],
    [array("sweep", 5), array("train", 6)],
)


def meant(rows: Iterable[JobView], text: str) -> list[JobView]:
    """Return the rows that a search for `text` must find."""
    return [
        row
        for row in rows
        if row.id.startswith(text)
        or text in (row.name, name_of(row.id), row.launch, name_of(row.launch))
    ]


FACTS = tuple(
    name for name, item in vars(JobLine).items() if not name.startswith("_") and name != "whole"
)


@given(st.data())
def test_a_line_tells_what_the_view_tells(data: st.DataObject) -> None:
    """All facts in a list are the same in a line and in the whole view of the job."""
    known = {
        "class": st.sampled_from(["guaranteed", None]),
        "priority": st.integers(1, 5),
        "units": st.dictionaries(st.sampled_from(["cpu", "h100"]), st.integers(0, 9)),
        "replicas": st.integers(1, 9),
        "replica_range": st.sampled_from([None, [1, 8]]),
        "submitted_at": st.floats(0, 9),
        "ended_at": st.none() | st.floats(0, 9),
        "attempt": st.integers(0, 9),
        "machines": st.lists(st.sampled_from(["m1", "m2"]), max_size=2),
    }
    told = {name: data.draw(drawn) for name, drawn in known.items() if data.draw(st.booleans())}
    line = JobLine(row("train", 1, task=data.draw(st.none() | st.just(3))) | told, 7.0)
    assert {"units", "text", "id", "ended_at", "parameters"} <= set(FACTS)
    for name in FACTS:
        assert getattr(line, name) == getattr(line.whole(), name), name
    assert whole(line) == line.whole() == whole(line.whole())


@pytest.mark.parametrize("asked", ["once", "often"])
@pytest.mark.parametrize(
    "text",
    [
        "train",
        "train-0000000001",
        "tra",
        "sweep-0000000005.17",
        "sweep",
        "part",
        "absent",
        "",
        "id",
        "\udcff",
    ],
)
def test_a_name_finds_its_rows_in_the_bytes(text: str, asked: str) -> None:
    """Rows of a name are in queue order, whether found in the bytes or in the index."""
    rows = QueueRows(queue_bytes(VIEW))
    for _ in range(100 if asked == "often" else 0):
        rows.like("other-0000000010")
    found = rows.like(text)
    every = QueueRows(json.dumps(VIEW).encode()).every()
    assert meant(found, text) == meant(every, text)
    assert [each for each in every if each in found] == list(found)
    if text in ("sweep", "part", "absent"):
        assert len(found) < 5


def test_few_rows_are_parsed_for_one_job() -> None:
    """A line of another job may even be invalid JSON."""
    data = queue_bytes(VIEW)
    spoilt = data.replace(b'"id":"other-0000000010"', b'"id"="other-0000000010"')
    assert [each.id for each in QueueRows(spoilt).like("train2")] == ["train2-0000000002"]
    with pytest.raises(ValueError, match="delimiter"):
        QueueRows(spoilt).every()


def test_the_view_is_one_json_object_with_a_row_a_line() -> None:
    """`jq` can read it, and so can a client that does not use lines."""
    data = queue_bytes(VIEW)
    assert json.loads(data) == VIEW
    jobs = len(VIEW["jobs"]) + len(VIEW["arrays"])
    assert sum(line.startswith(b"{") for line in data.splitlines()[1:]) == jobs
    empty = body([], [])
    assert json.loads(queue_bytes(empty)) == empty
    assert QueueRows(queue_bytes(empty)).every() == ()
    assert QueueRows(queue_bytes(empty)).like("train") == ()


def test_a_queue_of_an_older_bastion_is_read_too() -> None:
    """It is on one line."""
    rows = QueueRows(json.dumps(VIEW).encode())
    assert rows.head["seq"] == 7
    assert rows.of({"train2-0000000002", "absent"}).keys() == {"train2-0000000002"}
    del (old := dict(VIEW))["arrays"]
    assert len(QueueRows(json.dumps(old).encode()).every()) == len(VIEW["jobs"])


@given(
    st.lists(st.tuples(names, st.integers(0, 30)), max_size=12, unique_by=str),
    st.lists(st.tuples(names, st.integers(31, 40)), max_size=3, unique_by=str),
    st.one_of(names, st.text(max_size=3)),
)
def test_whatever_the_names_no_row_is_missed(
    jobs: list[tuple[str, int]], arrays: list[tuple[str, int]], text: str
) -> None:
    """This includes names that look like JSON, or like the keys of a row."""
    view = body([row(*each) for each in jobs], [array(*each) for each in arrays])
    rows, every = QueueRows(queue_bytes(view)), QueueRows(queue_bytes(view)).every()
    assert meant(rows.like(text), text) == meant(every, text)
    rows.every()
    assert meant(rows.like(text), text) == meant(every, text)
