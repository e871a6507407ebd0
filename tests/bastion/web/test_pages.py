"""Pages show the bucket's contents, escaped, in parts, and say what they cannot show."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.clock import VirtualClock
from bastion.metrics import gauges
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.origin import Origin
from bastion.spec import Job, Launch, Process, Resources, Where
from bastion.spec.values.quantity import text_of_hours
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.web.drawing.render import iso, span
from bastion.web.pages.job.spent import price_of
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW, busy_root, put, quota_text, write_bucket
from tests.rigs.scripted_bastion import lead, publish
from tests.rigs.scripted_bastion import row as queue_row

RUNNING = "/jobs/vision/train-0000000000"
SPEC = layout.spec("vision", "train-0000000000")
MARKUP = "<script>alert(1)</script>"
HOUR = 3600.0


def test_the_first_page_shows_machines_shares_and_the_queue() -> None:
    """It has every machine, every project and the first jobs, each with a link."""
    with site(busy_store()) as client:
        text = client.get("/").text
    assert "h100-west-3-0" in text
    assert "cordoned" not in text
    assert f'href="{RUNNING}"' in text
    assert text.count('class="bar-text">uses 4 of 7 h100, lends 1<') == 2
    assert "uses 12 of 6 h100, borrows 6" in text
    assert "1-50 of 126 jobs" in text.replace("\N{EN DASH}", "-")
    assert text.count('class="cell idle"') >= 4


def test_the_first_page_tells_what_is_used_of_budgets() -> None:
    """Usage beyond the budget is shown, with a full bar."""
    store = busy_store()
    lab = {"period": "month", "renewed_at": NOW + 3 * 86_400, "hours": {"h100": 5000}}
    with site(store) as client:
        assert "Budgets" not in client.get("/").text
    view = {
        "leader": "b",
        "host": "vm",
        "now": NOW,
        "budgets": {MARKUP: lab | {"used": {"h100": 6000}}},
    }
    publish(store, "status", view)
    with site(store) as client:
        text = client.get("/").text
    assert "has used 6,000 of 5,000 h100 hours this month; renewed in 3d" in text
    assert 'class="budget" x="0" y="6" width="1000"' in text
    assert MARKUP not in text
    few = lab | {"hours": {"h100": 4}, "used": {"h100": 3.71}}
    publish(store, "status", view | {"budgets": {"few": few}})
    with site(store) as client:
        assert "few has used 3.71 of 4 h100 hours this month" in client.get("/").text


def test_pages_tell_what_maintenance_closes() -> None:
    """Each window until it is over; of a machine that one closes now nothing is free."""
    store = busy_store()
    found = store.read(layout.view("status"))
    assert found is not None
    status = json.loads(found.data)
    window = {"starts_at": NOW + 60, "ends_at": NOW + HOUR, "machines": ["h100-west-3-0"]}
    told = "maintenance closes h100-west-3-0 from"

    def at(now: float) -> tuple[int, int, int]:
        windows = [window | {"reason": MARKUP}]
        put(store, layout.view("status"), encode_view(status, now=now, maintenance=windows))
        with site(store) as client:
            first, machines = client.get("/").text, client.get("/machines").text
            found = client.get("/machines?search=closed+for").text
        assert MARKUP not in first + machines
        assert (told in first) == (told in machines)
        assert first.count("closed for maintenance") == machines.count("closed for maintenance")
        free = machines.count('data-name="Free" class="nowrap">8 h100')
        return first.count(told), found.count('data-name="Machine"'), free

    before, after = at(NOW), at(NOW + HOUR)
    assert before[:2] == (1, 0)
    assert after[:2] == (0, 0)
    assert at(NOW + 60) == (1, 1, before[2] - 1)


def encode_view(view: dict[str, Any], **fields: object) -> bytes:
    """`view` with other `fields`, as it is published."""
    return json.dumps(view | fields).encode()


def test_the_queue_comes_in_parts_that_can_be_searched() -> None:
    """The address has part, project, user, state and text; filters match nothing else."""
    with site(busy_store()) as client:
        second = client.get("/?page=2").text
        found = client.get("/?search=train-0000000077").text
        of_state = client.get("/?state=running").text
        none = client.get("/?project=nobody").text
        beyond = client.get("/?page=99999999999999999999").text
    assert "51-100 of 126" in second.replace("\N{EN DASH}", "-")
    assert "1-1 of 1 jobs" in found.replace("\N{EN DASH}", "-")
    assert "1-6 of 6 jobs" in of_state.replace("\N{EN DASH}", "-")
    assert "no job matches" in none
    assert beyond


def test_running_and_queued_jobs_have_a_tab_each() -> None:
    """A tab shows how many match the filters, keeps them, and shows only those."""
    with site(busy_store()) as client:
        queued = client.get("/?show=queued").text.replace("\N{EN DASH}", "-")
        running = client.get("/?show=running&user=ada").text.replace("\N{EN DASH}", "-")
        odd = client.get("/?show=nothing").text.replace("\N{EN DASH}", "-")
    assert "1-50 of 120 jobs" in queued
    assert 'href="/?show=queued&amp;page=2"' in queued
    assert 'href="/?show=running#queue">Running <b>6</b>' in queued
    assert 'href="/?show=queued#queue" aria-current="true">Queued <b>120</b>' in queued
    assert "1-1 of 1 jobs" in running
    assert 'href="/?user=ada&amp;show=queued#queue">Queued <b>20</b>' in running
    assert '<input type="hidden" name="show" value="running">' in running
    assert "of 126 jobs" in odd


def test_ages_go_on_while_no_row_changes() -> None:
    """A quiet bucket only renews its status; waiting jobs still get older."""
    root = busy_root(machines=4, running=6, queued=20)
    store = MemoryStore(lambda: NOW + HOUR)
    write_bucket(store, root)
    status = json.loads(store.read(layout.view("status")).data)  # type: ignore[union-attr]
    put(store, layout.view("status"), json.dumps(status | {"now": NOW + HOUR}).encode())
    job = next(iter(root.jobs.values()))
    assert job.attempt is not None
    assert job.attempt.started_at is not None
    held_s = NOW + HOUR - job.attempt.started_at
    with site(store, clock=VirtualClock(wall=NOW + HOUR)) as client:
        now, machines = client.get("/").text, client.get("/machines").text
        own = client.get(RUNNING).text
        answer = client.get("/metrics").text
    for waiting in list(root.jobs.values())[-3:]:
        assert f">{span(NOW + HOUR - waiting.submitted_at)} ago<" in now
    assert f">{span(HOUR + 3)} ago<" in machines
    devices = job.replicas * job.request.per_replica["h100"]
    assert f"<dt>device hours</dt><dd>{text_of_hours(devices * held_s / HOUR)}" in own
    oldest = max(float(line.split()[-1]) for line in _samples(answer, "oldest_wait_seconds"))
    waits = [each.submitted_at for each in root.jobs.values() if each.attempt is None]
    assert oldest == NOW + HOUR - min(waits)


def _samples(answer: str, name: str) -> list[str]:
    return [line for line in answer.splitlines() if line.startswith(f"bastion_{name}{{")]


def test_a_machine_with_many_jobs_names_some_and_leads_to_all() -> None:
    """Four are named; the link searches for the jobs of that machine."""
    root = busy_root(machines=1, running=7, queued=2)
    store = MemoryStore(lambda: NOW)
    write_bucket(store, root)
    with site(store) as client:
        machines = client.get("/machines").text
        found = client.get("/?search=h100-west-0-0").text.replace("\N{EN DASH}", "-")
    assert '<a href="/?search=h100-west-0-0#queue">and 3 more</a>' in machines
    assert "1-7 of 7 jobs" in found


def test_the_page_of_a_job_tells_why_where_and_what_it_ran() -> None:
    """It has state, reason, machines, command, rerun command and the end of its log."""
    store = busy_store()
    process = Process(["python3", "train.py", MARKUP], resources=Resources(h100=1))
    jobs = (Job(name="train", processes=(process,)),)
    where = Where(pool="west", labels={"rack": "<b>red"})
    launch = Launch(name="train", project="vision", jobs=jobs, where=where)
    argv = ("bastion", "launch", "--", "sh", "-c", "echo 1;\nexit 3")
    data = encode(Origin(argv=argv))
    digest = hashlib.sha256(data).hexdigest()
    store.create(layout.origin(digest), data)
    record = SpecRecord(
        id="train-0000000000",
        project="vision",
        user="ada",
        ulid="01",
        launch=launch,
        origin=digest,
    )
    store.create(layout.spec("vision", "train-0000000000"), encode(record))
    prefix = layout.log("vision", "train-0000000000", 1, replica=0, host=0, process=0)
    store.create(f"{prefix}000000000000.log", b"step 1 \x1b[31m<b>red</b>\x1b[0m\nstep 2\n")
    with site(store) as client:
        text = client.get(RUNNING).text
        plain = client.get(f"{RUNNING}/log.txt")
        found = client.get(f"{RUNNING}?find=STEP+2").text
    for shown in ("running", "h100-west-0-0", "bastion rerun train-0000000000", "step 2"):
        assert shown in text
    assert "&lt;b&gt;red&lt;/b&gt;" in text
    assert "<b>red" not in text
    assert MARKUP not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert plain.headers["content-type"].startswith("text/plain")
    assert "1 line with" in found
    assert "<dt>where</dt><dd>pool=west, rack=&lt;b&gt;red</dd>" in text
    assert "<code>bastion launch -- sh -c &#39;echo 1;\nexit 3&#39;</code>" in text


def test_the_page_of_a_job_tells_since_when_it_is_in_the_queue() -> None:
    """A job that waited for another was in no queue before; otherwise the time is shown once."""
    store = busy_store()
    for queued_at, number in ((NOW + 60, 1), (NOW, 0)):
        waits = queue_row("late-0123456789", submitted_at=NOW, queued_at=queued_at)
        publish(store, "queue", {"jobs": [waits]})
        with site(store) as client:
            text = client.get("/jobs/blue/late-0123456789").text
        assert text.count("<dt>in queue since</dt>") == number
        assert "<dt>waited</dt>" not in text
    runs = queue_row("late-0123456789", state="running", queued_at=NOW - 300, started_at=NOW)
    publish(store, "queue", {"jobs": [runs]})
    with site(store) as client:
        text = client.get("/jobs/blue/late-0123456789").text
    assert "<dt>waited</dt><dd>5m from joining the queue to this start</dd>" in text


def test_what_a_job_wrote_is_escaped_wherever_it_is_shown() -> None:
    """Names and reasons full of markup are text on every page."""
    root = busy_root(machines=2, running=1, queued=1)
    name, job = next(iter(root.jobs.items()))
    machine = next(iter(root.machines.values()))
    root = replace(
        root,
        jobs={**root.jobs, name: replace(job, user=MARKUP, project=MARKUP, launch=MARKUP)},
        machines={
            **root.machines,
            machine.name: replace(machine, cordoned=MARKUP, zone='"><img src=x onerror=1>'),
        },
    )
    store = MemoryStore(lambda: NOW)
    write_bucket(store, root)
    with site(store) as client:
        pages = [
            client.get(path) for path in ("/", "/machines", f"/?search={MARKUP}", f"/{MARKUP}")
        ]
    for page in pages:
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/vision/nothing-0123456789",
        "/jobs/vision/..%2F..%2Fstate%2Froot.json",
        "/jobs/..%2fstate/root.json",
        "/jobs/vision/%00",
        "/jobs/vision/a%0Ab",
        "/static/..%2Fapp.py",
        "/static/../app.py",
        "/nothing",
        "/jobs/language/train-0000000000",
    ],
)
def test_an_unknown_page_is_not_found(path: str) -> None:
    """Unknown jobs, jobs of another project and path tricks all get 404, with a link."""
    with site(busy_store()) as client:
        answer = client.get(path)
    assert answer.status_code == 404
    assert "What is there now" in answer.text


def test_a_bucket_that_is_away_is_told_with_the_age_of_what_is_shown() -> None:
    """The last good views remain, and the page says for how long nothing was read."""
    clock, faults = VirtualClock(wall=NOW), list[Fault]()
    store = FaultyStore(busy_store(), lambda *_: faults[0] if faults else None)
    with site(store, clock=clock) as client:
        assert "out of reach" not in client.get("/").text
        faults.append(Fault.BEFORE)
        clock.advance(90.0)
        page, job = client.get("/"), client.get(RUNNING)
        gone = client.get("/jobs/vision/gone-0123456789")
    assert page.status_code == 200
    assert "shows what was read 1m 30s ago" in page.text
    assert "train-0000000000" in page.text
    assert job.status_code == 200
    assert gone.status_code == 503


def test_an_open_page_learns_that_the_bastion_is_gone_and_for_how_long() -> None:
    """Its version changes when the silence begins, and every minute of it, but not in between."""
    clock = VirtualClock(wall=NOW)
    store = MemoryStore(clock.wall)
    write_bucket(store, busy_root(machines=2, running=1, queued=2))
    with site(store, clock=clock) as client:

        def version() -> str:
            found = re.search(r'data-version="([^"]*)"', client.get("/").text)
            assert found is not None
            return found[1]

        leads = version()
        clock.advance(100.0)
        silent = version()
        clock.advance(10.0)
        same = version()
        clock.advance(60.0)
        longer, page = version(), client.get("/").text
    assert leads != silent
    assert silent == same
    assert longer != silent
    assert "has published nothing for 2m 50s" in page


def test_pages_say_what_status_says_of_a_leader_that_publishes_nothing() -> None:
    """A silent leader's last warning is shown, and one that commits is not called absent."""
    clock = VirtualClock(wall=NOW)
    store = MemoryStore(clock.wall)
    write_bucket(store, busy_root(machines=2, running=1, queued=2))
    found = store.read(layout.view("status"))
    assert found is not None
    status = json.loads(found.data)
    warned = f"{iso(NOW + 95)} warning: views: 403 {MARKUP}\n{iso(NOW + 96)} leads\n"
    put(store, layout.bastion_log(status["leader"]), warned.encode())
    with site(store, clock=clock) as client:
        clock.advance(100.0)
        silent = client.get("/").text
        put(store, layout.ROOT, b"{}")
        clock.advance(2.0)
        behind = client.get("/").text
        put(store, layout.view("status"), encode_view(status, now=NOW + 101))
        clock.advance(2.0)
        leads = client.get("/").text
    logged = f"{status['leader']} logged at {iso(NOW + 95)[:-1]}.000Z: views: 403 &lt;script"
    assert "has published nothing for 1m 40s; jobs continue while" in silent
    assert "no bastion answers" in silent
    assert logged in silent
    assert "no bastion" not in behind
    assert "leads, but has published nothing for 1m 42s" in behind
    assert logged in behind
    assert "published nothing" not in leads
    assert "logged at" not in leads
    versions = {re.findall(r'data-version="([^"]*)"', page)[0] for page in (silent, behind, leads)}
    assert len(versions) == 3


def test_pages_say_that_local_machines_have_ended_with_the_bastion(tmp_path: Path) -> None:
    """After `bastion down`, no job continues, as `bastion list` says too."""
    folder = tmp_path / "machines" / "0123456789" / "here" / "here-0"
    folder.mkdir(parents=True)
    (folder / "machine").touch()
    (folder / "root").write_text("memory:")
    store = MemoryStore(lambda: NOW)
    publish(store, "pool", {"now": NOW, "machines": [], "pools": [_pool("local")]})
    place = {"machines_host": os.uname().nodename, "machines_dir": str(tmp_path / "machines")}
    lead(store, now=NOW - 60, leader=None, **place)

    def told() -> str:
        with site(store) as client:
            return client.get("/").text

    assert "jobs continue while their machines run" in told()
    (folder / "gone").touch()
    assert "its machines have ended too, and running jobs start again after bastion up" in told()
    put(store, layout.view("pool"), encode_view({"schema": 1, "now": NOW, "pools": [_pool("gcp")]}))
    assert "jobs continue while their machines run" in told()


def _pool(provider: str) -> dict[str, str]:
    return {"name": "p", "provider": provider}


def test_an_empty_bucket_says_so() -> None:
    """A page over a bucket without a bastion is no error."""
    with site(MemoryStore(lambda: NOW)) as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert "No bastion has published anything here yet" in answer.text


def test_a_spoilt_view_is_named() -> None:
    """A view that is not JSON, or of a newer schema, is reported; the last good one stays."""
    store, clock = busy_store(), VirtualClock(wall=NOW)
    with site(store, clock=clock) as client:
        client.get("/")
        put(store, layout.view("queue"), b"{nothing")
        clock.advance(5.0)
        page = client.get("/").text
    assert "view/queue.json: not JSON" in page
    assert "train-0000000000" in page


@pytest.mark.parametrize(
    "data", [b"\x1f\x8bxx", gzip.compress(b"{}" * 100)[:-12]], ids=["no header", "cut short"]
)
@pytest.mark.parametrize("key", [layout.view("queue"), layout.ROOT, SPEC])
def test_a_damaged_compressed_object_spoils_no_page(key: str, data: bytes) -> None:
    """Only what it would have shown is missing."""
    store = busy_store()
    put(store, key, data)
    with site(store) as client:
        for path in ("/", RUNNING) if key != layout.view("queue") else ("/",):
            answer = client.get(path)
            assert answer.status_code == 200
        is_named = "cannot be read: view/queue.json" in answer.text
    assert is_named == (key == layout.view("queue"))


def test_a_view_of_an_unknown_form_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The last good one stays with its age, and the log names the error."""
    store, clock = busy_store(), VirtualClock(wall=NOW)
    with site(store, clock=clock) as client:
        client.get("/")
        put(store, layout.view("queue"), b'{"schema": 1, "now": [1], "jobs": []}')
        clock.advance(90.0)
        page = client.get("/").text
    assert "out of reach" not in page
    assert "it has an unknown form" in page
    assert "this page shows what was read 1m 30s ago" in page
    assert "train-0000000000" in page
    assert "TypeError" in caplog.text


def test_an_error_of_the_pages_is_a_page_and_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A meaningless view shows no traceback to its reader; the log has it."""
    store = busy_store()
    put(store, layout.view("queue"), b'{"schema": 1, "now": 1, "jobs": [{"no": "id"}]}')
    with site(store) as client:
        answer = client.get("/?search=x")
    assert answer.status_code == 500
    assert "This page could not be made" in answer.text
    assert "What is there now" in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "GET /\nTraceback" in caplog.text.replace("\r", "")
    assert "KeyError" in caplog.text


def test_machines_are_listed_with_their_health_and_idle_time() -> None:
    """It has phase, problems, jobs, idle time and price of each machine, with filters."""
    with site(busy_store(machines=8, running=6)) as client:
        text = client.get("/machines").text
        none = client.get("/machines?pool=other").text
    assert "cordoned: ECC errors on device 3" in text
    assert "11m 40s" in text
    assert "31.50 an hour" in text
    assert "no machine" in none


def test_a_queued_job_shows_who_holds_what_it_waits_for() -> None:
    """Largest holders first, with project and user; a running job has no such table."""
    store = busy_store(machines=4, running=6, queued=120)
    found = store.read(layout.view("queue"))
    assert found is not None
    queue = json.loads(found.data)
    queue["jobs"][0]["units"] = {"v5e": 64}
    queue["jobs"][3]["units"] = {"h100": 31}
    waits = next(row for row in queue["jobs"] if row["phase"] == "queued")
    held = {**waits, "id": "held-0123456789", "reason": {"kind": "Held"}}
    queue["jobs"].append(held)
    put(store, layout.view("queue"), json.dumps(queue).encode())
    with site(store) as client:
        page = client.get(f"/jobs/{waits['project']}/{waits['id']}").text
        running = client.get(f"/jobs/{queue['jobs'][3]['project']}/{queue['jobs'][3]['id']}").text
        other = client.get(f"/jobs/{waits['project']}/held-0123456789").text
        filtered = client.get("/?show=running&device=v5e").text
    holders = page.partition('id="holders"')[2].partition("</table>")[0]
    ids = re.findall(r'title="([^"]*)"', holders)
    assert ids[0] == queue["jobs"][3]["id"]
    assert len([each for each in ids if each.startswith("train-")]) == 5
    assert queue["jobs"][0]["id"] not in ids
    assert "31 h100" in holders
    assert 'id="holders"' not in running + other
    assert re.findall(r'<a class="id" title="([^"]*)"', filtered) == [queue["jobs"][0]["id"]]


def test_the_keyboard_stops_once_at_a_job_of_a_machine_and_can_skip_the_map() -> None:
    """Neighboring devices of one job are one stop, and one more link leads past all of them."""
    with site(busy_store(machines=4, running=2)) as client:
        page = client.get("/").text
    machine = page.partition('<li class="machine')[2].partition("</li>")[0]
    cells = re.findall(r'<a class="cell[^>]*>', machine)
    assert len(cells) == 8
    assert [n for n, cell in enumerate(cells) if 'tabindex="-1"' not in cell] == [0]
    assert '<a class="skip" href="#queue">Skip the map</a>' in page


def test_a_search_for_active_jobs_leads_to_those_that_have_ended() -> None:
    """Of a user, a project or a text, even if no active job matches; without one, nowhere."""
    with site(busy_store()) as client:
        for asked in ("user", "project", "search"):
            page = client.get(f"/?{asked}=some+one").text
            assert '<a href="/timeline?span=7d&amp;search=some%20one">' in page
            assert '<a href="/failures?days=7&amp;search=some%20one">' in page
            assert f'<a href="/ended?days=7&amp;{asked}=some+one">' in page
        assert "that have ended" not in client.get("/").text


def test_the_estimated_start_is_a_sentence_of_its_own() -> None:
    """It follows the reason, whose text has no full stop."""
    store = busy_store()
    found = store.read(layout.view("queue"))
    assert found is not None
    queue = json.loads(found.data)
    row = next(each for each in queue["jobs"] if each["phase"] == "queued")
    row |= {"text": "waits for 8 h100", "estimated_at": NOW + 600.0}
    put(store, layout.view("queue"), json.dumps(queue).encode())
    with site(store) as client:
        page = client.get(f"/jobs/{row['project']}/{row['id']}").text
    assert "data-live>waits for 8 h100. It starts about <time" in page


def test_machines_in_trouble_have_their_own_tab_which_the_first_page_leads_to() -> None:
    """It has exactly those that accept no new job or not on all devices; another has idle ones."""
    with site(busy_store(machines=30, running=6)) as client:
        first = client.get("/").text
        troubled = client.get("/machines?show=trouble").text
        idle = client.get("/machines?show=idle&pool=h100-west").text
        every = client.get("/machines").text
    assert '<a href="/machines?show=trouble">2 machines in trouble</a>' in first
    assert re.findall(r'data-name="Machine" class="id">([^<]*)<', troubled) == [
        "h100-west-5-0",
        "h100-west-22-0",
    ]
    assert '<a href="/machines?show=trouble">In trouble <b>2</b></a>' in every
    assert '<a href="/machines?pool=h100-west&amp;show=trouble">In trouble' in idle
    assert "h100-west-5-0" not in idle
    assert "h100-west-29-0" in idle


def test_a_pool_without_a_price_is_shown_with_its_list_price() -> None:
    """Without its own price, a published pool costs that day's list price."""
    in_2026 = 1_780_000_000.0
    assert price_of({"instance_type": "p5.48xlarge"}, in_2026) == 55.04
    assert price_of({"instance_type": "p5.48xlarge", "price_per_hour": 40.0}, in_2026) == 40.0
    assert price_of({"instance_type": "p5.48xlarge", "terms": "spot"}, in_2026) == 0.0
    assert price_of({}, in_2026) == 0.0


def test_a_pasted_quota_file_is_compared_and_never_written() -> None:
    """A good file shows its changes, a bad one every problem; the bucket's stays."""
    store = busy_store()
    put(store, layout.ROOT, encode(busy_root(machines=4, running=6, queued=3)))
    new = quota_text(4).replace("h100 = 0.2", "h100 = 0.3", 1)
    new = new.replace("h100 = 0.2", "h100 = 0.1", 1)
    before = store.read(layout.QUOTA)
    with site(store) as client:
        shown = client.get("/quota").text
        changed = client.post("/quota", data={"text": new}).text
        wrong = client.post("/quota", data={"text": "[nonsense]\nx = 1\n"}).text
        large = client.post("/quota", content=b"text=" + b"x" * 2_000_000)
    assert "project_membership" in shown
    assert "It would change" in changed
    assert "vision: 6 h100 -&gt;" in changed or "h100 -&gt;" in changed
    assert "It is not a valid quota file" in wrong
    assert large.status_code == 413
    assert store.read(layout.QUOTA) == before


def test_a_form_with_other_fields_is_refused() -> None:
    """What another program posts is its error, not one of the pages."""
    with site(busy_store()) as client:
        answer = client.post("/quota", content="a=1&b=2&c=3&d=4&e=5")
    assert answer.status_code == 400
    assert "this page takes one field, text" in answer.text


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
def test_what_is_no_form_is_refused(kind: str) -> None:
    """It would be read as an empty quota file."""
    with site(busy_store()) as client:
        answer = client.post("/quota", content="{}", headers={"content-type": kind})
    assert answer.status_code == 415
    assert f"and not {kind.partition(';')[0]}" in answer.text


def test_a_reader_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A browser that is closed while it sends a quota file leaves no traceback in the log."""
    bucket = busy_store()
    sent = [
        {"type": "http.request", "body": b"text=a", "more_body": True},
        {"type": "http.disconnect"},
    ]
    answered: list[Any] = []

    async def receive() -> Any:
        return sent.pop(0)

    async def send(message: Any) -> None:
        answered.append(message)

    with site(bucket) as client:
        host = (b"host", b"localhost")
        scope = {"type": "http", "method": "POST", "path": "/quota", "headers": [host]}
        asyncio.run(client.app(scope | {"query_string": b""}, receive, send))  # type: ignore[arg-type]
    assert not answered
    assert not caplog.text


def test_a_refused_quota_file_is_shown_beside_the_one_in_force() -> None:
    """The page has both, says which is which, and names the problems of the newest."""
    store, root = busy_store(), busy_root(machines=4, running=6, queued=3)
    job = next(iter(root.jobs.values()))
    odd = replace(job, name='x"quota_text":"y')
    root = replace(root, jobs={**root.jobs, job.id: odd})
    with site(store) as client:
        whole = client.get("/quota").text
    put(store, layout.ROOT, encode(root))
    put(store, layout.QUOTA, b"[project_resourced.vision]\nh100 = 1\n")
    found = store.read(layout.view("status"))
    assert found is not None
    quota = {"in_force": True, "problem": "line 1: unknown table"}
    view = json.loads(found.data) | {"quota": quota}
    put(store, layout.view("status"), json.dumps(view).encode())
    with site(store) as client:
        text = client.get("/quota").text
    assert "The file in the bucket" in whole
    assert "The file in force" not in whole
    force, newest = text.index("The file in force"), text.index("The newest file, which is not")
    assert "project_resources.vision" in text[force:newest]
    assert "[project_resourced.vision]" in text[newest:]
    assert "project_resourced" in text[newest:].partition("<pre")[0]


def test_a_job_is_found_by_its_id_or_else_searched() -> None:
    """The search field leads to the job's own page, or to the matching jobs."""
    with site(busy_store()) as client:
        known = client.get("/find?name=train-0000000000")
        other = client.get("/find?name=lin/../x")
    assert known.headers["location"] == RUNNING
    assert other.headers["location"].startswith("/?search=lin")


def test_what_metrics_say_of_the_views_is_made_once_for_each_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second scrape of the same views counts nothing again; new views are used immediately."""
    store, clock, made = busy_store(), VirtualClock(wall=NOW), []
    count = gauges._jobs

    def counted(*arguments: Any) -> Any:
        made.append(1)
        return count(*arguments)

    monkeypatch.setattr(gauges, "_jobs", counted)
    with site(store, clock=clock) as client:
        first = client.get("/metrics").text
        again = client.get("/metrics").text
        assert len(made) == 1
        write_bucket(store, replace(busy_root(machines=4, running=6, queued=7), seq=2000))
        clock.advance(5.0)
        later = client.get("/metrics").text
    assert 'bastion_jobs{state="queued"} 120.0' in first
    assert 'bastion_jobs{state="queued"} 120.0' in again
    assert 'bastion_jobs{state="queued"} 7.0' in later
    assert len(made) == 2


def test_machines_of_an_older_bastion_are_shown_too() -> None:
    """Views without the devices of each job, or without new fields, make a page."""
    store = busy_store()
    found = store.read(layout.view("pool"))
    assert found is not None
    view = json.loads(found.data)
    for row in view["machines"]:
        for name in ("held", "idle_since", "slice", "hostname"):
            row.pop(name)
    put(store, layout.view("pool"), json.dumps(view).encode())
    with site(store) as client:
        assert client.get("/").status_code == 200
        assert client.get("/machines").status_code == 200
