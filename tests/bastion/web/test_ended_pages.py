"""The list of ended jobs: filtered and in parts by the record itself, the newest first."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from bastion.clock import VirtualClock
from bastion.history.ask.job_history import Filter, job_history
from bastion.history.record import Record
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from bastion.records.root import Event
from bastion.spec.request import Request
from bastion.store.memory import MemoryStore
from bastion.web.record.ended import ROWS
from tests.bastion.web.site import site
from tests.rigs.busy_bucket import NOW, busy_root, write_bucket

HOUR = 3600.0
MARKUP = "<script>alert(1)</script>"


def _ended(number: int, ago_s: float, **more: Any) -> Event:
    """Return an attempt with which its job ended `ago_s` before now, unless `outcome` says else."""
    job, at = str(more.pop("job", f"job-{number:010d}")), NOW - ago_s
    project, outcome = more.pop("project", "vision"), more.pop("outcome", "succeeded")
    fields = {
        "user": "ada",
        "launch": job,
        "name": job[:-11],
        "attempt": 1,
        "request": Request(),
        "submitted_at": at - 900.0,
        "queued_at": at - 900.0,
        "admitted_at": at - 600.0,
        "started_at": at - 590.0,
        "freed_at": at,
        "outcome": outcome,
        "job_outcome": "" if outcome == "preempted" else outcome,
        "device_type": "h100",
        "devices": 8,
        "machines": ("h100-west-0-0",),
    }
    record = EndedAttempt(**fields | more)
    return Event(n=number, at=at, job=job, project=project, what=outcome, record=record)


def _store(*events: Event, clock: VirtualClock | None = None) -> MemoryStore:
    store = MemoryStore(clock.wall if clock else lambda: NOW)
    write_bucket(store, busy_root(machines=2, running=1, queued=2))
    store.create(layout.events(0), b"\n".join(map(encode, events)))
    return store


def _jobs(page: str) -> list[str]:
    return re.findall(r'<td data-name="Job"><a class="id" title="([^"]*)"', page)


EVENTS = (
    _ended(1, 9 * 24 * HOUR, job="old-0000000001"),
    _ended(2, 30 * HOUR, job="train-0000000002", user="lin"),
    _ended(3, 20 * HOUR, job="train-0000000003", outcome="preempted"),
    _ended(4, 10 * HOUR, job="train-0000000003", attempt=2, outcome="failed", text="Out of luck"),
    _ended(
        5,
        5 * HOUR,
        job="mix-0000000005",
        project="audio",
        outcome="timed_out",
        text="replica 2: out of time",
    ),
    _ended(
        6,
        4 * HOUR,
        job="never-0000000006",
        attempt=0,
        admitted_at=None,
        freed_at=None,
        started_at=None,
        outcome="cancelled",
        text=MARKUP,
    ),
)


@pytest.mark.parametrize(
    ("asked", "jobs"),
    [
        ("days=7", ["never", "mix", "train-0000000003", "train-0000000002"]),
        ("days=1", ["never", "mix", "train-0000000003"]),
        ("days=30&search=OLD", ["old"]),
        ("days=30&user=lin", ["train-0000000002"]),
        ("days=30&project=audio", ["mix"]),
        ("days=30&state=failed", ["train-0000000003"]),
        ("search=out+of+LUCK", ["train-0000000003"]),
        ("search=h100-west-0-0&user=lin", ["train-0000000002"]),
        ("user=nobody", []),
        ("user=%27+OR+1%3D1+--", []),
        ("search=%25", []),
        ("search=%5B*%5C%00%F0%9F%92%A5", []),
        ("state=preempted", []),
    ],
)
def test_ended_jobs_are_listed_by_what_is_asked(asked: str, jobs: list[str]) -> None:
    """One row per job that ended in the period, with its last attempt, the newest first."""
    with site(_store(*EVENTS)) as client:
        answer = client.get(f"/ended?{asked}")
    assert answer.status_code == 200
    found = _jobs(answer.text)
    assert [job[: len(start)] for job, start in zip(found, jobs, strict=True)] == jobs
    if not jobs:
        assert "no ended job matches in this period" in answer.text


def test_a_row_says_how_its_job_ended() -> None:
    """With a link to the log of its last attempt; what never started has none, and no time."""
    with site(_store(*EVENTS)) as client:
        page = client.get("/ended").text
    never, gang, failed, _ = page.split("<tbody>")[1].split("<tr>")[1:]
    assert 'href="/jobs/audio/mix-0000000005?attempt=1&amp;replica=2#log"' in gang
    assert 'href="/jobs/vision/train-0000000003?attempt=2#log">2, log</a>' in failed
    assert '<td data-name="Took" class="nowrap">10m</td>' in failed
    assert "8 h100" in failed
    assert "Out of luck" in failed
    assert '<td data-name="Attempt" class="nowrap">none</td>' in never
    assert '<td data-name="Took" class="nowrap"></td>' in never
    assert MARKUP not in page


def test_the_list_has_the_jobs_of_bastion_history() -> None:
    """The same jobs in the same order, with the same states."""
    store = _store(*EVENTS)
    rows = job_history(Record(store), Filter(since=NOW - 7 * 24 * HOUR))
    with site(store) as client:
        page = client.get("/ended").text
    assert _jobs(page) == [row.job for row in rows]
    states = re.findall(r'<td data-name="State"><span class="state s-(\w+)"', page)
    assert states == [row.state for row in rows]


def test_a_long_list_comes_in_parts_that_keep_their_filters() -> None:
    """Each part has a bounded number of rows; a number beyond the last part shows that one."""
    number = 2 * ROWS + 5
    store = _store(*(_ended(n, HOUR + 60.0 * (number - n)) for n in range(number)))
    with site(store) as client:
        pages = [client.get("/ended?days=1&user=ada").text]
        while following := re.search(r'<a rel="next" href="([^"]*)"', pages[-1]):
            pages.append(client.get(unescape(following[1])).text)
        beyond = [client.get(f"/ended?days=1&page={n}").text for n in ("999999999", "-1", "x", "0")]
    parts = list(map(_jobs, pages))
    assert [len(part) for part in parts] == [ROWS, ROWS, 5]
    assert [job for part in parts for job in part] == [
        f"job-{n:010d}" for n in reversed(range(number))
    ]
    assert f"101\N{EN DASH}105 of {number} jobs" in pages[-1]
    assert [_jobs(page) for page in beyond] == [parts[2], *[parts[0]] * 3]


def test_tasks_of_arrays_are_listed_if_they_are_asked_for() -> None:
    """A sweep has one row, so that its tasks do not hide a user's other jobs."""
    array = "sweep-0000000001"
    tasks = [_ended(n, HOUR, job=f"{array}.{n}", launch=array, task=n) for n in range(3)]
    store = _store(*tasks, _ended(3, HOUR, job=array, attempt=0, tasks=3))
    with site(store) as client:
        few = client.get("/ended?user=ada").text
        link = re.search(r'<a href="([^"]*)">list them too', few)
        assert link is not None
        every = client.get(unescape(link[1])).text
    assert _jobs(few) == [array]
    assert f'<a href="/ended?days=7&amp;tasks=1&amp;search={array}">tasks</a>' in few
    assert _jobs(every) == [array, *(f"{array}.{n}" for n in (2, 1, 0))]
    assert "left out" not in every
    assert 'name="tasks" type="checkbox" value="1" checked' in every


def test_projects_and_users_lead_to_their_ended_jobs() -> None:
    """Over the same period."""
    with site(_store(*EVENTS)) as client:
        of_project = client.get("/projects?days=30").text
        of_user = client.get("/users?days=30").text
    assert 'href="/ended?days=30&amp;project=audio"' in of_project
    assert 'href="/ended?days=30&amp;project=vision&amp;user=lin"' in of_user


def test_ends_are_as_long_ago_as_they_are_although_the_bastion_is_silent() -> None:
    """Other ages are those of the last views, and the page says when that was."""
    clock = VirtualClock(wall=NOW)
    store = _store(*EVENTS, clock=clock)
    clock.advance(8 * HOUR)
    with site(store, clock=clock) as client:
        page = client.get("/ended?search=mix").text
    assert ">13h ago</time>" in page
