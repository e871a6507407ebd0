"""The usage of machines and jobs on the pages: known sums, and damaged data."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.usage import (
    DeviceUse,
    ForeignProcess,
    GroupUse,
    HostUse,
    MachineUse,
    UsageSegment,
    packed,
)
from bastion.store.memory import MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW, put
from tests.rigs.wrapped import Wrapped

JOB = "train-0000000000"
PAGE = f"/jobs/vision/{JOB}"
MACHINE = "h100-west-0-0"
SAMPLES = layout.usage("vision", JOB, 1, replica=0, host=0)
GIB = 2**30
MARKUP = "<script>alert(1)</script>"


def use_of(*used: float | None, foreign: tuple[ForeignProcess, ...] = ()) -> MachineUse:
    """Return the first machine, with the use of its first devices."""
    return MachineUse(
        machine=MACHINE,
        devices=tuple(DeviceUse(index=n, used=each) for n, each in enumerate(used)),
        hosts=(
            HostUse(
                project="vision",
                job=JOB,
                attempt=1,
                devices=(0, 1),
                use=GroupUse(cores=3.5, memory_bytes=6 * GIB),
            ),
        ),
        foreign=foreign,
        cores=4.0,
        memory_bytes=9 * GIB,
    )


def store_with(use: MachineUse) -> MemoryStore:
    """Return a busy bucket whose first machine reports this."""
    store = busy_store()
    store.create(layout.machine_use(MACHINE), encode(use))
    return store


def segment(first: int, **columns: Any) -> UsageSegment:
    """Return four samples of two devices."""
    made = UsageSegment(
        at=tuple(range(first, first + 40, 10)),
        used={"0": (100, 100, 0, 0), "1": (50, 50, 50, -1)},
        device_memory_mib={"0": (1024, 2048, 1024, 0), "1": (512,) * 4},
        cores=(1.0, 2.0, 3.0, 2.0),
        memory_mib=(100, 300, 200, 100),
        disk_kib_s=(1024,) * 4,
        network_kib_s=(-1,) * 4,
    )
    return replace(made, **columns)


def test_devices_show_how_much_they_are_used() -> None:
    """The map shows height and words, as a mean of held devices; unknown use is not zero."""
    with site(store_with(use_of(0.75, 0.25, 0.9))) as client:
        now = client.get("/").text
        machines = client.get("/machines").text
    assert "h100 0: train-0000000000 of ada in vision, 75% used" in now
    assert "of 32 devices in use" in now
    assert 'class="cell c' in now
    assert " u8" in now  # 75 % is eight tenths, rounded up
    assert " u3" in now
    assert "4.0 cores, 9 GiB" in machines
    silent = [row for row in machines.split("<tr>") if "h100-west-1-0" in row]
    assert "cores" not in silent[0]


def test_foreign_processes_are_named() -> None:
    """It has name, pid, user, devices and memory; markup in them is text."""
    eve = ForeignProcess(pid=77, name=MARKUP, user="eve", devices=(6, 7), memory_bytes=3 * GIB)
    with site(store_with(use_of(0.5, foreign=(eve,)))) as client:
        for path in ("/", "/machines"):
            text = " ".join(client.get(path).text.split())
            assert "(77, eve) on devices 6, 7, 3 GiB" in text
            assert MARKUP not in text
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_a_use_that_is_old_is_not_shown() -> None:
    """Three minutes after an agent's last report, nothing is shown of its machine."""
    clock = VirtualClock(wall=NOW - 200.0)
    written = MemoryStore(clock.wall)
    source = store_with(use_of(0.75, 0.25))
    for entry in source.list(""):
        found = source.read(entry.key)
        assert found is not None
        written.create(entry.key, found.data)
    with site(written) as client:
        assert "% used" not in client.get("/").text


def test_the_page_of_a_job_sums_its_samples() -> None:
    """Mean, median, maximum and idle, by device; CPUs and memory of its processes."""
    store = store_with(use_of(0.75, 0.25))
    for number in range(2):
        key = layout.usage_segment(SAMPLES, number)
        store.create(key, packed(segment(1000 + 40 * number)))
    with site(store) as client:
        text = client.get(PAGE).text
    words = text.replace("\N{NO-BREAK SPACE}", " ")
    assert "its 2 devices 50 %, the least 25 %" in words
    rows = [row.replace("\n", "") for row in words.split("<tr>") if "replica 0, host 0" in row]
    cells = [cell.partition("</td>")[0].rpartition(">")[2] for cell in rows[0].split("<td")[1:]]
    # 2 x (100, 100, 0, 0) and 2 x (50, 50, 50): 700 / 14, and 4 of 14 are idle
    assert cells == ["replica 0, host 0", "50 %", "50 %", "100 %", "29 %", "", "2.0", "300 MiB"]
    second = next(row for row in words.split("<tr>") if "its device 1<" in row)
    assert "50 %" in second
    assert "0 %</td>" in second
    assert "512 MiB" in second


@pytest.mark.parametrize("what", ["devices", "device-memory", "cores", "memory", "traffic"])
def test_a_chart_is_a_picture_that_runs_nothing(what: str) -> None:
    """It is SVG without a script, with a text alternative, and draws each series."""
    store = busy_store()
    store.create(layout.usage_segment(SAMPLES, 0), packed(segment(1000)))
    with site(store) as client:
        page = client.get(PAGE).text
        answer = client.get(f"{PAGE}/use/{what}.svg?attempt=1")
        narrow = client.get(f"{PAGE}/use/{what}.svg?narrow=1")
    assert f'src="{PAGE}/use/{what}.svg?' in page
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert b"<script" not in answer.content
    names = {"devices": "device 1", "device-memory": "device 1", "traffic": "network"}
    assert names.get(what, what).encode() in answer.content
    assert fromstring(answer.content).attrib["viewBox"].split()[2] == "640"
    assert fromstring(narrow.content).attrib["viewBox"].split()[2] == "420"


def test_samples_stand_at_their_times_however_close_they_are() -> None:
    """Samples are denser at the beginning of a run; the axis is linear in time."""
    store = busy_store()
    at = (1000, 1010, 1020, 1120)
    store.create(layout.usage_segment(SAMPLES, 0), packed(segment(1000, at=at)))
    with site(store) as client:
        drawn = fromstring(client.get(f"{PAGE}/use/cores.svg").content)
    lines = [each.get("d", "") for each in drawn.iter() if "reactive" in each.get("class", "")]
    places = [float(x) for x in re.findall(r"[ML]?(\d+\.\d+) \d+\.\d+", lines[0])]
    parts = [(x - places[0]) / (places[-1] - places[0]) for x in places]
    assert parts == pytest.approx([0, 10 / 120, 20 / 120, 1], abs=1e-3)
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"00:17:00", "00:18:00"} <= set(texts)


def test_a_clock_that_jumped_leaves_a_chart() -> None:
    """A time beyond any calendar causes neither an error nor a million marks."""
    store = busy_store()
    at = (0, 5, 10, 10**15)
    store.create(layout.usage_segment(SAMPLES, 0), packed(segment(1000, at=at)))
    with site(store) as client:
        assert client.get(f"{PAGE}/use/cores.svg").status_code == 200


def test_samples_that_cannot_be_read_leave_the_others() -> None:
    """Garbage, foreign bytes, a bomb, jumping clocks and huge numbers are left out."""
    store = busy_store()
    bomb = gzip.compress(b" " * (8 << 20))
    strange = segment(1000, at=(10**15, 0, 5, 1), cores=(1e300, -1.0, 2.0, 2.0))
    many = segment(1000, used={str(n): (1, 1, 1, 1) for n in range(300)})
    texts = segment(1000, used={MARKUP: (1, 1, 1, 1), "٣": (1, 1, 1, 1)})
    each = [b"spoilt", bomb, packed(strange), packed(many), packed(texts)]
    for number, data in enumerate(each):
        store.create(layout.usage_segment(SAMPLES, number), data)
    with site(store) as client:
        page = client.get(PAGE)
        charts = [client.get(f"{PAGE}/use/{what}.svg") for what in ("devices", "cores", "traffic")]
    assert page.status_code == 200
    assert MARKUP not in page.text
    assert "its device 15<" in page.text
    assert "its device 16<" not in page.text
    assert [chart.status_code for chart in charts] == [200, 200, 200]


def test_a_long_run_is_drawn_by_a_bounded_number_of_points() -> None:
    """The newest samples of thousands of segments are thinned; the page says so."""
    store = busy_store()
    for number in range(300):
        data = packed(segment(1000 + 40 * number))
        store.create(layout.usage_segment(SAMPLES, number), data)
    reads: list[str] = []

    class Counted(Wrapped):
        def read(
            self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
        ) -> Object | None:
            reads.append(key)
            return super().read(key, unless=unless, limit_bytes=limit_bytes)

    with site(Counted(store)) as client:
        page = client.get(PAGE).text
        chart = client.get(f"{PAGE}/use/devices.svg").content
    assert "replica 0, host 0, lately" in page
    assert sum("/usage/" in key for key in reads) == 240
    assert len(chart) < 100_000


def test_what_is_not_there_is_not_drawn() -> None:
    """Unknown charts, jobs and hosts get 404; a page without samples says when they appear."""
    with site(busy_store()) as client:
        assert client.get(f"{PAGE}/use/devices.svg").status_code == 404
        assert client.get(f"{PAGE}/use/nothing.svg").status_code == 404
        assert client.get("/jobs/vision/no-such-job/use/cores.svg").status_code == 404
        page = client.get(f"{PAGE}?replica=7").text
    assert "hosts are sampled every ten seconds" in page
    assert "<img class" not in page


def test_a_bucket_without_samples_in_reach_is_still_a_page() -> None:
    """What cannot be listed now has a message; the rest of the page is complete."""

    class Away(Wrapped):
        def list(
            self, prefix: str, *, start_after: str = "", limit: int = 1000
        ) -> tuple[Entry, ...]:
            if "/usage/" in prefix or prefix == layout.USAGE:
                raise StoreError("timed out")
            return super().list(prefix, start_after=start_after, limit=limit)

    with site(Away(store_with(use_of(0.75, 0.25)))) as client:
        page, first = client.get(PAGE), client.get("/")
    assert page.status_code == first.status_code == 200
    assert "its samples cannot be read: timed out" in page.text


def test_a_change_of_use_is_a_change_of_the_page() -> None:
    """Open pages see it by the version, which changes with machines' reports."""
    clock, store = VirtualClock(wall=NOW), store_with(use_of(0.75, 0.25))
    with site(store, clock=clock) as client:
        before = client.get("/").text
        put(store, layout.machine_use(MACHINE), encode(use_of(0.1, 0.25)))
        clock.advance(10.0)
        after = client.get("/").text
    assert "75% used" in before
    assert "10% used" in after
    versions = [text.partition('data-version="')[2].partition('"')[0] for text in (before, after)]
    assert versions[0] != versions[1]


def test_a_job_without_devices_has_no_columns_for_them() -> None:
    """Only CPUs and memory are shown, and idle devices are not explained."""
    store = busy_store()
    store.create(
        layout.usage_segment(SAMPLES, 0), packed(segment(1000, used={}, device_memory_mib={}))
    )
    with site(store) as client:
        bare = client.get(PAGE).text
    put(store, layout.usage_segment(SAMPLES, 0), packed(segment(1000)))
    with site(store) as client:
        full = client.get(PAGE).text
    for shown in ('data-name="Median"', ">Device memory<", "idle: the share of the time"):
        assert shown in full
        assert shown not in bare
    assert 'data-name="Cores">2.0<' in bare


@pytest.mark.parametrize(
    ("columns", "what", "unit", "labels"),
    [
        ({"disk_kib_s": (0, 1, 2, 3)}, "traffic", "KiB a second", ["1", "2"]),
        ({"disk_kib_s": (0, 1024, 2048, 4096)}, "traffic", "MiB a second", ["1", "2"]),
        ({"memory_mib": (1, 2, 3, 2)}, "memory", "MiB", ["1", "2"]),
        ({"memory_mib": (1024, 4096, 2048, 2048)}, "memory", "GiB", ["1", "2"]),
        ({"cores": (0.01, 0.02, 0.04, 0.03)}, "cores", "cores", ["0.01", "0.02"]),
    ],
)
def test_an_axis_tells_small_values_apart(
    columns: dict[str, object], what: str, unit: str, labels: list[str]
) -> None:
    """Its unit fits the largest value, and no two of its labels are the same."""
    store = busy_store()
    store.create(layout.usage_segment(SAMPLES, 0), packed(segment(1000, **columns)))
    with site(store) as client:
        drawn = fromstring(client.get(f"{PAGE}/use/{what}.svg").content)
    texts = [element.text or "" for element in drawn.iter() if element.tag.endswith("text")]
    assert unit in texts
    numbers = [text for text in texts if text.replace(".", "", 1).isdecimal()]
    assert set(labels) <= set(numbers)
    assert len(numbers) == len(set(numbers))
