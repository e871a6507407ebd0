"""Parts of pages are made once for many readers, and never shown when outdated."""

from __future__ import annotations

from dataclasses import replace

from bastion.clock import VirtualClock
from bastion.web.drawing.kept_parts import MOST_PARTS, KeptParts
from bastion.web.drawing.palette import Palette
from bastion.web.pages.timeline import lanes_of, timeline_page
from bastion.web.record.question import Period
from bastion.web.record.reader import KEPT_S, Known, RecordReader
from bastion.web.record.summary import Stay, Summary
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW, busy_root, write_bucket

HOUR = 3600.0
DAY = Period(since=NOW - 24 * HOUR, until=NOW, parts=1)


def _stay(machine: str, job: str = "train-1") -> Stay:
    return Stay(
        machine=machine,
        job=job,
        project="vision",
        user="ada",
        begin=NOW - 3 * HOUR,
        end=NOW - HOUR,
        outcome="succeeded",
        is_borrowed=False,
        devices=4,
    )


def test_a_part_is_made_once_while_it_is_kept() -> None:
    """A part is not made twice; the last of many are kept; and it is not escaped again."""
    parts, made = KeptParts(), []

    def of(name: str) -> str:
        return parts.of((name, 1), lambda: made.append(name) or f"<b>{name}</b>")  # type: ignore[func-returns-value]

    assert f"{of('a')}" == "<b>a</b>" == of("a").__html__()  # type: ignore[attr-defined]
    for number in range(MOST_PARTS - 1):
        of(f"{number}")
    of("a")
    of("one more")
    of("0")
    of("a")
    assert (made.count("a"), made.count("0")) == (1, 2)


def test_bars_are_drawn_of_the_machines_that_are_shown() -> None:
    """Of 400 machines a page shows 50, and its bars are those of its own part."""
    stays = tuple(_stay(f"m{n}") for n in range(400))
    known = Known(summary=Summary(since=DAY.since, until=DAY.until, step_s=1.0, stays=stays))

    class Counting(Palette):
        drawn = 0

        def __call__(self, project: str) -> int:
            self.drawn += 1
            return super().__call__(project)

    palette = Counting(["vision"])
    lanes = lanes_of(timeline_page(DAY, known, {"page": "8"}), palette)
    assert [lane.machine for lane in lanes] == [f"m{n}" for n in range(350, 400)]
    assert palette.drawn == 50


def test_the_timeline_shows_what_the_record_said_last() -> None:
    """A new answer, another period and another search are drawn again."""
    answers = {"job": "train-1"}
    clock = VirtualClock(wall=NOW)

    def ask(period: Period) -> Summary:
        stays = (_stay("m1", answers["job"]), _stay("m2", "other-1"))
        return Summary(since=period.since, until=period.until, step_s=1.0, stays=stays)

    record = RecordReader(ask, clock, wait_s=60.0)
    day = "/timeline?from=2026-11-18T00:00:00&to=2026-11-19T00:00:00"
    with site(busy_store(), clock=clock, record=record) as client:
        assert "/jobs/vision/train-1" in client.get(day).text
        searched = client.get(f"{day}&search=m2").text
        answers["job"] = "train-2"
        kept = client.get(day).text
        clock.advance(KEPT_S + 1.0)
        client.get(day)  # the old answer, while the record is asked
        record._thread.submit(lambda: None).result(20)
        later = client.get(day).text
    assert "/jobs/vision/train-1" not in searched
    assert "/jobs/vision/train-1" in kept
    assert "/jobs/vision/train-1" not in later
    assert "/jobs/vision/train-2" in later


def test_machines_are_those_that_were_published_last() -> None:
    """The table changes with the published data, and with the request."""
    store, clock = busy_store(machines=2), VirtualClock(wall=NOW)
    with site(store, clock=clock) as client:
        one = client.get("/machines?search=west-1").text
        both = client.get("/machines").text
        root = busy_root(machines=2, running=1, queued=0)
        name = next(iter(root.machines))
        sick = replace(root.machines[name], cordoned="a fan is loud")
        write_bucket(store, replace(root, machines={**root.machines, name: sick}))
        clock.advance(5.0)
        pages = (client.get("/machines").text for _ in range(1000))  # until it is read
        assert any("a fan is loud" in page for page in pages)
    assert "h100-west-0-0</td>" not in one
    assert "h100-west-0-0</td>" in both
    assert "a fan is loud" not in both
