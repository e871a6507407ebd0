"""Projects, users and the timeline: known sums of the record."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import Any

import psutil
import pytest

from bastion.clock import SystemClock, VirtualClock
from bastion.errors import BastionError
from bastion.history.ask.usage import usage
from bastion.history.record import Record
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from bastion.records.root import Event as Happening
from bastion.spec.request import Request
from bastion.store.folder.local import LocalStore
from bastion.store.memory import FaultyStore, MemoryStore
from bastion.web.app import CHARTS_AT_ONCE
from bastion.web.drawing.chart import usage_chart
from bastion.web.drawing.palette import Palette
from bastion.web.drawing.render import iso, percent
from bastion.web.drawing.ticks import ticks_of
from bastion.web.pages.timeline import lanes_of, timeline_page
from bastion.web.pages.usage import period_of
from bastion.web.record import child as child_program
from bastion.web.record.ask import MOST_FAILURES, MOST_STAYS, MOST_TEXT, summary_of
from bastion.web.record.asker import RecordChild
from bastion.web.record.kept_tables import TABLES_KEPT_S, KeptTables
from bastion.web.record.question import Period
from bastion.web.record.reader import KEPT_S, MOST_KEPT, Known, RecordReader
from bastion.web.record.summary import Slot, Stay, Summary
from tests.bastion.web.site import asked_here, busy_store, site
from tests.rigs.busy_bucket import NOW, busy_root, put, write_bucket, write_history
from tests.rigs.scripted_bastion import publish
from tests.rigs.scripted_bastion import row as queue_row

HOUR = 3600.0
SECOND = Period(since=0.0, until=1.0, parts=1)


def _ended(job: str, user: str, begin: float, end: float, **more: Any) -> Happening:
    outcome = str(more.pop("outcome", "succeeded"))
    devices = int(str(more.pop("devices", 4)))
    held = (end - begin) * devices
    borrows = bool(more.pop("borrows", False))
    record = EndedAttempt(
        user=user,
        launch=job,
        attempt=1,
        request=Request(),
        submitted_at=begin - 100.0,
        queued_at=begin - 60.0,
        admitted_at=begin,
        started_at=begin,
        freed_at=end,
        outcome=outcome,
        job_outcome="" if outcome == "preempted" else outcome,
        job_class="borrowed" if borrows else "guaranteed",
        devices=devices,
        guaranteed_device_s=0.0 if borrows else held,
        borrowed_device_s=held if borrows else 0.0,
        machines=("h100-west-0-0",),
        **more,
    )
    project = "vision" if user == "ada" else "audio"
    return Happening(
        n=int(begin - NOW + 1e6), at=end, job=job, project=project, what=outcome, record=record
    )


def _store() -> MemoryStore:
    events = [
        _ended("a-1", "ada", NOW - 30 * HOUR, NOW - 28 * HOUR),  # before the day
        _ended("a-2", "ada", NOW - 26 * HOUR, NOW - 22 * HOUR),  # half of it within the day
        _ended("b-1", "lin", NOW - 10 * HOUR, NOW - 9 * HOUR, borrows=True, devices=8),
        _ended(
            "a-3",
            "ada",
            NOW - 4 * HOUR,
            NOW - 3 * HOUR,
            outcome="preempted",
            lost_s=225.0,
            lost_device_s=900.0,
        ),
        _ended("a-4", "ada", NOW - 2 * HOUR, NOW - 1 * HOUR, outcome="failed"),
    ]
    store = MemoryStore(lambda: NOW)
    write_bucket(store, busy_root(machines=2, running=1, queued=2))
    store.create(layout.events(0), b"\n".join(encode(event) for event in events))
    return store


def test_a_day_sums_up_what_was_held_within_it() -> None:
    """An attempt counts with the part of it within the day; waste, waits and jobs too."""
    found = summary_of(Record(_store()), since=NOW - 24 * HOUR, until=NOW, parts=24)
    by_project = {each.project: each for each in found.projects}
    vision, audio = by_project["vision"], by_project["audio"]
    assert vision.guaranteed_h == pytest.approx((2 + 1 + 1) * 4)
    assert vision.borrowed_h == 0
    assert audio.borrowed_h == pytest.approx(8)
    assert vision.jobs == 3
    assert vision.preempted_h == pytest.approx(0.25)
    assert vision.waited_p50_s == vision.waited_p90_s == 60.0
    assert {each.user for each in found.users} == {"ada", "lin"}
    assert (
        found.projects
        == usage(Record(_store()), by=["project"], since=NOW - 24 * HOUR, until=NOW).rows
    )
    assert sum(slot.device_s for slot in found.slots) == pytest.approx(16 * HOUR + 8 * HOUR)
    assert all(slot.device_s <= 8 * HOUR + 1 for slot in found.slots)
    assert [stay.job for stay in found.stays] == ["a-4", "a-3", "b-1", "a-2"]


def test_questions_of_some_seconds_share_one_load_of_the_record() -> None:
    """Periods within the loaded data read nothing again, unless it is old or incomplete."""
    clock, store = VirtualClock(wall=NOW), _store()
    counted = FaultyStore(store, lambda *_: None)
    tables = KeptTables(Record(counted), clock)

    def jobs(hours: float) -> int:
        found = tables.answer(Period(since=NOW - hours * HOUR, until=NOW, parts=1))
        return sum(each.jobs for each in found.projects)

    assert jobs(24) == 4
    reads = counted.counts.copy()
    assert jobs(11) == 3
    assert jobs(30) == 5
    assert jobs(48) == 5
    assert counted.counts == reads
    assert jobs(60) == 5
    assert counted.counts["read"] > reads["read"]
    ends = _ended("c-1", "lin", NOW - 3 * HOUR, NOW - 2 * HOUR)
    store.create(layout.events(1_900_000), encode(replace(ends, n=1_900_000)))
    clock.advance(TABLES_KEPT_S)
    assert jobs(30) == 6
    since, until = NOW - 24 * HOUR, NOW - HOUR
    found = tables.answer(Period(since=since, until=until, parts=4))
    assert found == summary_of(Record(store), since=since, until=until, parts=4)
    tables.close()


def test_projects_and_users_show_the_sums() -> None:
    """The pages have hours, fractions, waits and waste, with a chart as an image."""
    with site(_store()) as client:
        projects = client.get("/projects?days=1").text
        users = client.get("/users?days=1&project=audio").text
        chart = client.get("/charts/projects.svg?days=1")
        none = client.get("/charts/nothing.svg")
    assert '<td data-name="Hours" class="n">16</td>' in projects
    assert "67\N{NO-BREAK SPACE}%" in projects
    assert '<td data-name="Lost to preemption" class="n">0.25</td>' in projects
    assert "lin" in users
    assert "ada" not in users
    assert chart.headers["content-type"] == "image/svg+xml"
    assert "<script" not in chart.text
    assert "vision" in chart.text
    assert none.status_code == 404


def test_hours_of_different_devices_are_neither_added_nor_drawn_together() -> None:
    """A part is of all hours of its type, and each type has its own chart."""
    ended = [
        _ended("h-1", "ada", NOW - 3 * HOUR, NOW - HOUR, device_type="h100"),
        _ended("v-1", "ada", NOW - 2 * HOUR, NOW - HOUR, device_type="v5e"),
        _ended("v-2", "lin", NOW - 2 * HOUR, NOW - HOUR, device_type="v5e"),
    ]
    store = MemoryStore(lambda: NOW)
    write_bucket(store, busy_root(machines=2, running=1, queued=2))
    store.create(layout.events(0), b"\n".join(map(encode, ended)))
    with site(store) as client:
        page = client.get("/projects?days=1").text
        charts = re.findall(r'<img class="chart" src="([^"]*)"', page)
        drawn = [client.get(each.replace("&amp;", "&")).text for each in charts]
    told = re.findall(
        r'data-name="Device">(\w+)</td>.*?data-name="Of all" class="n">(\d+)', page, re.DOTALL
    )
    for kind in ("h100", "v5e"):
        assert sum(int(part) for of, part in told if of == kind) == 100
    assert [re.findall(r"device=(\w+)", each) for each in charts] == [["h100"], ["v5e"]]
    assert drawn[0] != drawn[1]
    assert "<h3>v5e</h3>" in page


def test_what_was_used_this_month_and_last_month_is_a_period() -> None:
    """A calendar month in UTC: this one up to now, the last one whole, even across a year."""
    assert iso(NOW) == "2026-11-18T11:06:40Z"
    in_january = NOW + 60 * 24 * HOUR
    told = [
        (name, iso(period.since), iso(period.until), period.parts)
        for name, period in (
            period_of({"days": "this-month"}, NOW),
            period_of({"days": "last-month"}, NOW),
            period_of({"days": "last-month"}, in_january),
        )
    ]
    assert told == [
        ("this-month", "2026-11-01T00:00:00Z", "2026-11-18T11:07:00Z", 17),
        ("last-month", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", 31),
        ("last-month", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", 31),
    ]
    with site(_store()) as client:
        page = client.get("/projects?days=this-month").text
        failures = client.get("/failures?days=last-month").text
    assert "Device-hours over this month" in page
    assert '<td data-name="Jobs" class="n">4</td>' in page
    assert "Last month, newest first" in failures
    assert "nothing failed in this period" in failures


def test_a_month_is_shown_from_the_last_answer_while_it_is_queried_again() -> None:
    """Its end moves every minute; a part of the timeline is never shown instead of another."""
    clock = VirtualClock(wall=NOW)
    asked: list[float] = []

    def ask(period: Period) -> Summary:
        asked.append(period.until)
        return Summary(since=period.since, until=period.until, step_s=1.0)

    reader = RecordReader(ask, clock, wait_s=60.0)
    for parts, is_near in ((17, True), (1, False)):
        reader.of(Period(since=0.0, until=NOW, parts=parts))
        later = reader.of(Period(since=0.0, until=NOW + 60.0, parts=parts)).summary
        assert later is not None
        assert (later.until == NOW) == is_near
    reader.close()


def test_long_names_fit_into_the_key_of_a_narrow_chart() -> None:
    """Three columns of short names: longer ones would cover each other."""
    slots = [
        Slot(
            at=NOW,
            project="audio",
            user=f"a-name-of-thirty-characters-{n}",
            device_type="",
            device_s=9.0,
        )
        for n in range(8)
    ]
    told = Summary(since=NOW, until=NOW + HOUR, step_s=HOUR, slots=tuple(slots))
    narrow, wide = (
        usage_chart(told, Palette(()), by="user", is_narrow=each).decode() for each in (True, False)
    )
    assert "a-name-of-" in narrow
    assert "a-name-of-thi" not in re.sub(r"<title>[^<]*</title>", "", narrow)
    assert "a-name-of-thi" in re.sub(r"<title>[^<]*</title>", "", wide)


class _Waiting(RecordReader):
    """Counts the readers that wait for an answer, until `answers` is set."""

    def __init__(self) -> None:
        self.answers, self.is_full = Event(), Event()
        self.most, self._now, self._counting = 0, 0, Lock()
        super().__init__(self._answer, VirtualClock(wall=NOW))

    def _answer(self, period: Period) -> Summary:
        assert self.answers.wait(60.0)
        return Summary(since=period.since, until=period.until, step_s=60.0)

    def of(self, period: Period, *, wait_s: float | None = None) -> Known:
        with self._counting:
            self._now += 1
            self.most = max(self.most, self._now)
            if self.most >= CHARTS_AT_ONCE:
                self.is_full.set()
        try:
            return super().of(period, wait_s=wait_s)
        finally:
            with self._counting:
                self._now -= 1


def test_charts_that_wait_for_the_record_keep_no_page_waiting() -> None:
    """They take few threads, so pages are answered while many readers ask for charts."""
    record = _Waiting()
    with site(busy_store(), record=record) as client, ThreadPoolExecutor(60) as readers:
        try:
            charts = [readers.submit(client.get, "/charts/projects.svg?days=90") for _ in range(60)]
            assert record.is_full.wait(60.0)
            page = client.get("/machines")
        finally:
            record.answers.set()
        assert page.status_code == 200
        assert {each.result().status_code for each in charts} == {200}
    assert record.most == CHARTS_AT_ONCE


def test_a_small_part_is_not_called_nothing() -> None:
    """Half a percent and less is called less than one; only nothing is zero."""
    told = [
        percent(part).replace("\N{NO-BREAK SPACE}", " ") for part in (0.0, 0.0001, 0.005, 0.0051)
    ]
    assert told == ["0 %", "< 1 %", "< 1 %", "1 %"]


def test_jobs_of_now_count_in_the_row_of_their_device() -> None:
    """Once each; what waits for a device that was not used in the period has a row, too."""
    store = _store()
    kinds = (
        ("h100", 2, "running"),
        ("h100", 1, "queued"),
        ("v5e", 4, "queued"),
        ("cpu", 9, "queued"),
    )
    rows = [
        queue_row(f"{kind}-{state}-{n:010}", state=state, project="vision", user="ada")
        | {"units": {kind: 8, "cpu": 16}}
        for kind, number, state in kinds
        for n in range(number)
    ]
    publish(store, "queue", {"now": NOW, "jobs": rows})
    events = [
        _ended("v-1", "ada", NOW - 2 * HOUR, NOW - HOUR, device_type="v5e"),
        _ended("w-1", "ada", NOW - 2 * HOUR, NOW - HOUR, device_type="h100"),
    ]
    store.create(layout.events(2_000_000), b"\n".join(map(encode, events)))
    with site(store) as client:
        pages = [client.get(f"/{each}?days=1").text for each in ("projects", "users")]
    for page in pages:
        told = re.findall(
            r'data-name="Device">(\w+)</td>.*?([\d,]+) running, ([\d,]+) queued', page, re.DOTALL
        )
        found = {kind: (int(ran), int(waits)) for kind, ran, waits in told if ran + waits != "00"}
        assert found == {"h100": (2, 1), "v5e": (0, 4), "none": (0, 9)}


@pytest.mark.parametrize("library", ["lxml", "the standard one"])
def test_charts_are_drawn_by_whichever_library_of_xml_is_installed(library: str) -> None:
    """Pygal uses lxml if it is installed; either way, the picture has no script."""
    from pygal.etree import etree

    was_lxml = etree.lxml
    (etree.to_lxml if library == "lxml" else etree.to_etree)()
    try:
        with site(_store()) as client:
            chart = client.get("/charts/projects.svg?days=1")
    finally:
        (etree.to_lxml if was_lxml else etree.to_etree)()
    assert chart.status_code == 200
    assert "<svg" in chart.text and "vision" in chart.text
    assert "<script" not in chart.text


def test_the_users_of_a_project_have_a_chart_of_their_own() -> None:
    """Chart and table have the same rows; a project without usage has no chart."""
    with site(_store()) as client:
        users = client.get("/users?days=1&project=audio").text
        chart = re.search(r'<img class="chart" src="([^"]*)"', users)
        assert chart is not None
        drawn = client.get(chart[1].replace("&amp;", "&")).text
        none = client.get("/users?days=1&project=safety").text
    assert "lin" in drawn
    assert "ada" not in drawn
    assert "<img" not in none.partition("<main")[2]
    assert "nothing was used in this period" in none


def test_a_job_tells_its_device_hours_and_its_cost() -> None:
    """Each attempt in the log has its sum, including the running one."""
    store = busy_store(machines=4, running=6, queued=2)
    job = "train-0000000000"
    before = _ended(
        job,
        "ada",
        NOW - 9 * HOUR,
        NOW - 8 * HOUR,
        outcome="preempted",
        borrows=True,
        lost_device_s=1800.0,
        machine_s=1800.0,
        price_per_hour=31.5,
    )
    again = Happening(
        n=before.n + 1, at=NOW - HOUR, job=job, project="vision", what="starting", text="on m"
    )
    store.create(layout.events(before.n), b"\n".join(map(encode, (before, again))))
    with site(store) as client:
        text = client.get(f"/jobs/vision/{job}").text
    queue = store.read(layout.view("queue"))
    assert queue is not None
    running = next(row for row in json.loads(queue.data)["jobs"] if row["id"] == job)
    held = 4 + running["units"]["h100"]
    cost = 31.5 / 2 + 31.5 * running["units"]["h100"] / 8
    facts = re.sub(r"<[^>]*>", " ", text[text.index('id="facts"') : text.index('id="attempts')])
    assert f"device hours  {held}, 4 of them borrowed, 0.5 lost" in facts
    assert f"cost  {cost:,.2f}" in facts


def test_the_timeline_shows_which_job_was_where_and_zooms_by_links() -> None:
    """Each attempt is a bar and a line of text; preemptions are marked; spans are addresses."""
    with site(_store()) as client:
        page = client.get("/timeline?span=24h").text
        closer = re.search(r'href="(/timeline[^"]*)">zoom in', page)
        assert closer is not None
        near = client.get(closer[1].replace("&amp;", "&")).text
        found = client.get("/timeline?span=24h&search=lin").text
    assert page.count('class="mark m-preempted"') == 1
    assert page.count('class="mark m-failed"') == 1
    assert "b-1 of lin in audio, borrowed" in page
    assert "b-1 of lin" in near
    assert "a-4 of ada" not in near
    assert "a-4 of ada" not in found


def test_failures_tell_what_failed_why_and_whose_it_is() -> None:
    """The newest come first, with a link to the log; every address keeps the filters."""
    store = _store()
    retried = _ended("r-1", "lin", NOW - 3 * HOUR, NOW - HOUR / 2, outcome="lost", text="gone <b>")
    never = _ended("q-1", "ada", NOW - 9 * HOUR, NOW - 5 * HOUR, outcome="failed", text="no disk")
    array = _ended("s-1", "ada", NOW - 8 * HOUR, NOW - 4 * HOUR, outcome="failed", tasks=9)
    assert isinstance(retried.record, EndedAttempt)
    assert isinstance(never.record, EndedAttempt)
    found = [
        replace(retried, n=2_000_000, record=replace(retried.record, job_outcome="", exit_code=-9)),
        replace(never, n=2_000_001, record=replace(never.record, attempt=0, machines=())),
        replace(array, n=2_000_002),
    ]
    store.create(layout.events(2_000_000), b"\n".join(map(encode, found)))
    with site(store) as client:
        page, one = client.get("/failures").text, client.get("/failures?project=vision").text
        none = client.get("/failures?project=vision&search=no+such").text
        days = client.get("/failures?days=7&project=audio&search=GONE").text
        odd = client.get("/failures?days=x&page=99999999999&project=%00&search=%ff").text
    rows = page.partition('id="failures"')[2].partition("</table>")[0]
    assert re.findall(r'title="([a-z]-1|a-4)"', rows) == ["q-1", "r-1", "a-4"]
    assert "gone &lt;b&gt;" in rows
    assert 'href="/jobs/audio/r-1?attempt=1#log"' in rows
    assert rows.count("tried again") == 1
    assert '<td data-name="Code">-9</td>' in rows
    assert 'href="/machines?search=h100-west-0-0"' in rows
    assert "r-1" not in one.partition('id="failures"')[2]
    assert "no failure matches" in none
    assert 'title="r-1"' in days
    assert 'href="?days=30&amp;project=audio&amp;search=GONE"' in days
    assert "no failure matches" in odd


def test_a_day_without_a_failure_says_so() -> None:
    """A record that cannot be read has another message."""
    clock = VirtualClock(wall=NOW)

    def broken(period: Period) -> Summary:
        raise BastionError("DuckDB is not installed")

    with site(busy_store(machines=1, running=1, queued=1)) as client:
        assert "nothing failed in this period" in client.get("/failures").text
    record = RecordReader(broken, clock, wait_s=60.0)
    with site(_store(), clock=clock, record=record) as client:
        page = client.get("/failures").text
    assert "The record cannot be read: DuckDB is not installed" in page
    assert "nothing is known" in page
    record = RecordReader(broken, clock, wait_s=0.0)
    with site(_store(), clock=clock, record=record) as client:
        pending = client.get("/failures").text
    assert "data-pending" in pending, "the page asks again by itself"
    assert "no failures" not in pending
    assert "nothing failed" not in page


def test_a_sweep_that_fails_hides_no_other_failure() -> None:
    """The newest of each project are listed, with the number of the others."""
    store = _store()
    tasks = [
        replace(
            _ended(
                f"s-1.{n}", "ada", NOW - HOUR, NOW - HOUR / 2, outcome="failed", text="x" * 4000
            ),
            n=2_000_000 + n,
        )
        for n in range(MOST_FAILURES + 30)
    ]
    other = replace(
        _ended("b-9", "lin", NOW - 9 * HOUR, NOW - 8 * HOUR, outcome="timed_out"), n=1_999_999
    )
    store.create(layout.events(1_999_999), b"\n".join(map(encode, (other, *tasks))))
    found = summary_of(Record(store), since=NOW - 24 * HOUR, until=NOW, parts=24)
    assert found.failed == {"vision": MOST_FAILURES + 31, "audio": 1}
    assert [each.job for each in found.failures if each.project == "audio"] == ["b-9"]
    assert max(len(each.text) for each in found.failures) == MOST_TEXT
    with site(store) as client:
        assert "31 older failures of this period are left out" in client.get("/failures").text
        assert "left out" not in client.get("/failures?project=audio").text


def test_any_period_in_an_address_is_a_page() -> None:
    """Periods beyond the calendar are cut to it, and so are those of links."""
    queries = (
        "from=0001-01-01T00:00:00&to=0001-01-01T01:00",
        "from=0001-01-01T00:00:00%2B14:00&to=9999-12-31T23:59-14:00",
        "from=x&to=9999-99-99&span=zzz",
        "from=9999-01-01&to=9999-12-31T23:59",
        "from=2026-01-01&to=9999-12-31T23:59:59.999999",
        "from=2026-11-18&to=2026-11-18",
        "span=7d&page=999999999&search=%00",
    )
    with site(_store()) as client:
        for query in queries:
            page = client.get(f"/timeline?{query}")
            assert page.status_code == 200, query
            for address in re.findall(r'href="(/timeline[?][^"]*)"', page.text):
                assert client.get(address.replace("&amp;", "&")).status_code == 200, address


def test_attempts_that_overlap_stand_below_each_other() -> None:
    """Two jobs that share a machine have a bar each; a later one uses a free row."""
    stays = [
        Stay(
            machine="m1",
            job=job,
            project="p",
            user="u",
            begin=begin,
            end=end,
            outcome="succeeded",
            is_borrowed=False,
            devices=4,
        )
        for job, begin, end in (("a", 0, 50), ("b", 10, 60), ("c", 50, 90), ("d", 60, 100))
    ]
    summary = Summary(since=0.0, until=100.0, step_s=100.0, stays=tuple(stays))
    page = timeline_page(Period(since=0.0, until=100.0, parts=1), Known(summary=summary), {})
    (lane,) = lanes_of(page, Palette(()))
    rows = {bar.stay.job: bar.y for bar in lane.bars}
    assert rows["a"] == rows["c"] < rows["b"] == rows["d"]
    assert rows["b"] >= rows["a"] + lane.bars[0].height
    assert lane.height >= rows["b"] + lane.bars[0].height


@pytest.mark.parametrize(
    ("length", "texts"),
    [
        (7 * 24 * HOUR, ["Nov 13", "Nov 14", "Nov 15", "Nov 16", "Nov 17", "Nov 18", "Nov 19"]),
        (24 * HOUR, ["21:00", "Nov 19", "03:00"]),
        (HOUR, ["17:20", "17:30"]),
        (60.0, ["18:05:10"]),
    ],
)
def test_ticks_stand_at_round_moments(length: float, texts: list[str]) -> None:
    """A week has each midnight, a day its full hours, in the right places."""
    until = datetime(2026, 11, 19, 18, 6, 0, tzinfo=UTC).timestamp()
    ticks = ticks_of(until - length, until)
    shown = [tick.text for tick in ticks]
    assert "|".join(texts) in "|".join(shown)
    assert len(ticks) <= 9
    parts = [tick.part for tick in ticks]
    assert parts == sorted(parts)
    assert 0 <= parts[0] < parts[-1] <= 1
    if length == 7 * 24 * HOUR:
        midnight = datetime(2026, 11, 13, tzinfo=UTC).timestamp()
        assert parts[0] == pytest.approx((midnight - (until - length)) / length)


def test_the_period_that_is_shown_is_marked() -> None:
    """One span of the menu is current; none is if the address names a period."""
    with site(_store()) as client:
        week = client.get("/timeline?span=7d").text
        own = client.get("/timeline?from=2026-11-18&to=2026-11-19").text
    assert re.findall(r'aria-current="true">([^<]*)', week) == ["7d"]
    assert 'aria-current="true"' not in own


def test_a_timeline_of_many_bars_has_fewer_machines_on_a_page_which_stays_small() -> None:
    """A page has no more bars than it can bear, and the next one has the other machines."""
    stays = [
        Stay(
            machine=f"m{n % 64}",
            job=f"a-rather-long-name-of-a-job-{n:010}",
            project="robotics-and-manipulation",
            user="someone",
            begin=NOW - 90_000.0 + 20 * n,
            end=NOW - 88_000.0 + 20 * n,
            outcome="failed",
            is_borrowed=True,
            devices=8,
        )
        for n in range(MOST_STAYS)
    ]
    told = Summary(since=NOW - 86_400.0, until=NOW, step_s=86_400.0, stays=tuple(stays))
    record = RecordReader(lambda *_: told, VirtualClock(wall=NOW), wait_s=60.0)
    with site(busy_store(), record=record) as client:
        pages = [client.get(f"/timeline?page={n}").text for n in (1, 2, 3)]
    assert all(len(page) < 1_000_000 for page in pages)
    names = [re.findall(r'<a class="name id" title="(m\d+)"', page) for page in pages]
    assert [name for page in names for name in page] == [f"m{n}" for n in range(64)]
    assert "of 64 machines" in pages[0]


def test_bars_that_are_left_out_are_told_on_the_timeline_alone() -> None:
    """Sums omit nothing, so their pages have no such message."""

    def ask(period: Period) -> Summary:
        return Summary(since=period.since, until=period.until, step_s=60.0, left_out=1500)

    clock = VirtualClock(wall=NOW)
    with site(_store(), clock=clock, record=RecordReader(ask, clock, wait_s=60.0)) as client:
        assert "the 1,500 oldest attempts" in client.get("/timeline").text
        assert "oldest attempts" not in client.get("/projects").text


def test_names_in_the_record_are_escaped_in_pages_and_charts() -> None:
    """A user or job name full of markup is text in the table, the bars and the chart."""
    evil = "<script>alert(1)</script>"
    event = _ended(evil, "ada", NOW - 2 * HOUR, NOW - HOUR)
    record = event.record
    assert isinstance(record, EndedAttempt)
    event = replace(event, project=evil, record=replace(record, user=evil, machines=(evil,)))
    store = MemoryStore(lambda: NOW)
    write_bucket(store, busy_root(machines=1, running=0, queued=0))
    put(store, layout.events(0), encode(event))
    with site(store) as client:
        for path in (
            "/projects",
            "/users",
            "/timeline",
            "/charts/users.svg",
            "/charts/projects.svg",
        ):
            text = client.get(path).text
            assert "<script>alert" not in text
            assert "alert(1)" in text


def test_a_record_that_cannot_be_read_is_told_with_the_age_of_what_is_shown() -> None:
    """One query runs once per minute; a failure shows the old answer."""
    clock, asked = VirtualClock(wall=NOW), []
    is_over = Event()

    def ask(period: Period) -> Summary:
        asked.append(period.until)
        if len(asked) > 1:
            is_over.set()
            raise BastionError("gs://bucket: timed out")
        return Summary(since=period.since, until=period.until, step_s=1.0)

    reader, period = RecordReader(ask, clock, wait_s=20.0), Period(since=0.0, until=6000.0, parts=2)
    assert reader.of(period).trouble == ""
    assert reader.of(period).trouble == ""
    assert asked == [6000.0]
    clock.advance(KEPT_S + 5.0)
    later = Period(since=60.0, until=6060.0, parts=2)
    known = reader.of(later)
    assert known.summary is not None, "the old answer is shown at once"
    assert known.age_s == pytest.approx(65.0)
    assert is_over.wait(20)
    reader._thread.submit(lambda: None).result(20)  # its one thread has answered before
    known = reader.of(later)
    assert len(asked) == 2
    assert known.trouble == "gs://bucket: timed out"
    assert known.summary is not None
    other = reader.of(Period(since=0.0, until=90_000.0, parts=24))
    assert (other.summary, other.trouble) == (None, "gs://bucket: timed out")


def test_the_record_is_asked_by_a_program_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program answers query after query, another continues, and both leave no file."""
    (files := tmp_path / "files").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    store = LocalStore(tmp_path / "bucket", makes_root=True)
    root = busy_root(machines=2, running=0, queued=0)
    write_history(store, root, days=2, a_day=12)
    child = RecordChild(f"file://{tmp_path}/bucket", SystemClock())
    day = Period(since=NOW - 24 * HOUR, until=NOW, parts=4)
    try:
        found = child.ask(day)
        first = child.pid
        assert first is not None
        assert child.ask(day) == found
        assert child.pid == first
        psutil.Process(first).terminate()
        assert child.ask(day) == found
        assert child.pid != first
    finally:
        child.close()
    assert sum(each.jobs for each in found.projects) > 5
    assert list(files.iterdir()) == []


def test_what_is_wrong_with_the_record_is_told_in_a_line() -> None:
    """An invalid URL, a program that cannot run, one that ends, and one that prints too much."""
    wrong = RecordChild("nothing://x", SystemClock())
    with pytest.raises(BastionError, match="nothing://"):
        wrong.ask(SECOND)
    wrong.close()
    no_program = RecordChild("file:///x", SystemClock(), ["/nowhere/at/all"])
    with pytest.raises(BastionError, match="cannot be queried: No such file"):
        no_program.ask(SECOND)
    dies = RecordChild(
        "file:///x", SystemClock(), ["/bin/sh", "-c", "echo out of memory >&2; exit 1"]
    )
    with pytest.raises(BastionError, match="cannot be read: out of memory"):
        dies.ask(SECOND)
    talks = RecordChild("file:///x", SystemClock(), ["/bin/sh", "-c", "echo hello"])
    with pytest.raises(BastionError, match="cannot be read"):
        talks.ask(SECOND)


def test_the_program_ends_without_questions_or_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a query for a while, or without its pages, it ends on its own."""
    read, write = os.pipe()
    with os.fdopen(read) as silent:
        monkeypatch.setattr(sys, "stdin", silent)
        monkeypatch.setattr(child_program, "REST_S", 0.01)
        assert child_program.main([f"file://{tmp_path}"]) == 0
        monkeypatch.setattr(child_program, "REST_S", 60.0)
        os.close(write)
        assert child_program.main([f"file://{tmp_path}"]) == 0


def test_a_server_that_ends_does_not_wait_for_the_record() -> None:
    """The querying program is killed; no later query is sent."""
    closing = RecordChild(
        "file:///x", SystemClock(), ["/bin/sh", "-c", "read question; exec sleep 1000"]
    )
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(closing.ask, SECOND)
        while closing.pid is None:
            assert not asked.done()
        closing.close()
        with pytest.raises(BastionError):
            asked.result(20)
    with pytest.raises(BastionError, match="the server is stopping"):
        closing.ask(SECOND)


def test_a_page_does_not_wait_for_the_record() -> None:
    """It is sent immediately and says that the record is being read; later it has the answer."""
    may_answer = Event()
    clock, store = VirtualClock(wall=NOW), _store()
    answer = asked_here(store, clock)
    asked = []

    def ask(period: Period) -> Summary:
        asked.append(period.parts)
        assert may_answer.wait(30)
        return answer(period)

    record = RecordReader(ask, clock, wait_s=0.0)
    with site(store, clock=clock, record=record) as client:
        for path in ("/projects?days=1", "/users?days=1", "/timeline"):
            page = client.get(path)
            assert page.status_code == 200
            assert "the record is being read" in page.text
            assert '<meta http-equiv="refresh" content="1">' in page.text
            assert "nothing" not in page.text.partition("<main")[2]
        may_answer.set()
        assert client.get("/charts/projects.svg?days=30").status_code == 200, "a chart waits"
        record._thread.submit(lambda: None).result(20)  # its one thread has answered all
        for path in ("/projects?days=1", "/users?days=1", "/timeline"):
            text = client.get(path).text
            assert "the record is being read" not in text
            assert "refresh" not in text
    assert sorted(asked) == [1, 24, 30], "one question is asked once"


def test_readers_who_zoom_on_do_not_wait_for_what_they_have_left() -> None:
    """The latest period is answered first, and their number is bounded."""
    begun, may_answer, asked = Event(), Event(), []

    def ask(period: Period) -> Summary:
        asked.append(period.since)
        begun.set()
        assert may_answer.wait(30)
        return Summary(since=period.since, until=period.until, step_s=1.0)

    reader = RecordReader(ask, VirtualClock(wall=NOW), wait_s=0.0)
    periods = [Period(since=n * 9e4, until=n * 9e4 + 100.0, parts=1) for n in range(MOST_KEPT + 6)]
    assert reader.of(periods[0]).is_pending
    assert begun.wait(20)
    assert all(reader.of(period).is_pending for period in (*periods[1:], periods[3]))
    may_answer.set()
    assert reader.of(periods[5], wait_s=20.0).summary is not None
    reader._thread.submit(lambda: None).result(20)
    assert asked[:4] == [each.since for each in (periods[0], periods[5], periods[3], periods[-1])]
    assert len(asked) <= MOST_KEPT + 2
    reader.close()
