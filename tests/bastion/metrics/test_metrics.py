"""The metrics for Prometheus, read with the client's own parser."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bastion.client.look.rows import job_of_row
from bastion.clock import VirtualClock
from bastion.errors import ConflictError, NotFoundError, StoreError
from bastion.history.ended_attempt import queued_job
from bastion.job import state_of
from bastion.metrics.metered_store import MeteredStore
from bastion.metrics.port import open_port
from bastion.metrics.prometheus import PrometheusMeter
from bastion.records.keys import layout
from bastion.records.reports.usage import DeviceUse, ForeignProcess, MachineUse
from bastion.records.root import Event, Root
from bastion.service.publish.queue_view import queue_view
from bastion.store.memory import MemoryStore
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW, busy_root, put, write_bucket, write_use
from tests.rigs.job_records import T0, drained, ended, exited, running, stopping

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
EXAMPLES = Path(__file__).parents[3] / "examples" / "metrics"
Samples = dict[str, dict[frozenset[tuple[str, str]], float]]


def parsed(text: str) -> Samples:
    """Return every sample of an answer: by name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def told(meter: PrometheusMeter) -> Samples:
    """Return the answer of `meter`."""
    data, content_type = meter.answer(OPEN_METRICS)
    assert content_type.startswith("application/openmetrics-text")
    return parsed(data.decode())


def labels(**named: str) -> frozenset[tuple[str, str]]:
    """Return the labels of a sample."""
    return frozenset(named.items())


def test_a_page_server_tells_the_queue_the_devices_and_the_shares() -> None:
    """The numbers are those of the views: jobs, devices, shares, machines."""
    with site(busy_store(machines=6, running=5, queued=40)) as client:
        answer = client.get("/metrics", headers={"accept": OPEN_METRICS})
    found = parsed(answer.text)
    assert found["bastion_jobs"][labels(state="running")] == 5
    assert sum(found["bastion_queued_jobs"].values()) == 40
    assert found["bastion_machines"][labels(pool="h100-west", phase="ready")] == 6
    assert found["bastion_machines_troubled"][labels(pool="h100-west", trouble="cordoned")] == 1
    devices = found["bastion_devices"]
    assert sum(devices.values()) == 48
    assert devices[labels(pool="h100-west", device="h100", state="bad")] == 1
    assert sum(found["bastion_share_units"].values()) >= 46
    assert found["bastion_leads"][labels()] == 1
    assert "bastion_oldest_wait_seconds" in found


def test_what_is_used_of_budgets_is_told() -> None:
    """They are shown for each project or group, by type."""
    lab = {"period": "day", "renewed_at": 9.0, "hours": {"h100": 50}, "used": {"h100": 12.5}}
    meter = PrometheusMeter()
    meter.looked({}, {}, {"budgets": {"lab": lab}})
    found = told(meter)
    assert found["bastion_budget_hours"] == {labels(of="lab", resource="h100"): 50}
    assert found["bastion_budget_used_hours"] == {labels(of="lab", resource="h100"): 12.5}


def test_what_maintenance_closes_is_not_idle() -> None:
    """While a window is open its machines are troubled, and their devices are closed."""
    machines = [
        {"name": f"{pool}-0", "pool": pool, "phase": "ready", "resources": {"h100": 8}}
        for pool in ("a", "b")
    ]
    status = {"maintenance": [{"starts_at": 5.0, "ends_at": 9.0, "pools": ["a"]}]}
    meter = PrometheusMeter()
    for now, closed in ((4.0, 0), (5.0, 8), (9.0, 0)):
        meter.looked({}, {"now": now, "machines": machines}, status)
        found = told(meter)
        devices = found["bastion_devices"]
        assert devices.get(labels(pool="a", device="h100", state="closed"), 0) == closed
        assert devices.get(labels(pool="a", device="h100", state="idle"), 0) == 8 - closed
        assert devices[labels(pool="b", device="h100", state="idle")] == 8
        troubled = found["bastion_machines_troubled"]
        assert troubled[labels(pool="a", trouble="maintenance")] == closed // 8
        assert troubled[labels(pool="b", trouble="maintenance")] == 0


def test_a_page_server_tells_how_much_devices_are_used() -> None:
    """By project, held devices with reports count; by machine, all devices with reports."""
    queue = {"now": 9.0, "jobs": [{"id": "a-1", "project": "p"}, {"id": "b-1", "project": "q"}]}
    held = {"a-1": {"h100": [0, 1], "cpu": [3]}, "b-1": {"h100": [2]}}
    machines = [{"name": "m-0", "pool": "m", "held": held}, {"name": "m-1", "pool": "m"}]
    used = (1.0, 0.5, 0.04, 0.0, None)
    eve = ForeignProcess(pid=7, devices=(3,))
    use = MachineUse(
        machine="m-0",
        devices=tuple(DeviceUse(index=n, used=each) for n, each in enumerate(used)),
        foreign=(eve,),
    )
    meter = PrometheusMeter()
    meter.looked(queue, {"machines": machines}, {}, {"m-0": use})
    found = told(meter)
    p, q = labels(pool="m", project="p"), labels(pool="m", project="q")
    assert found["bastion_device_use_ratio"] == {p: 0.75, q: 0.04}
    assert found["bastion_devices_told"] == {p: 2, q: 1}
    assert found["bastion_devices_held_idle"] == {p: 0, q: 1}
    assert found["bastion_machine_device_use_ratio"] == {
        labels(pool="m", machine="m-0"): (1.0 + 0.5 + 0.04) / 4
    }
    assert found["bastion_foreign_processes"] == {labels(pool="m"): 1}


def test_a_scrape_of_a_page_server_has_the_use_of_its_bucket() -> None:
    """Agents' reports are read for the scrape, and left out once they are old."""
    root = busy_root(machines=2, running=2, queued=1)
    store = MemoryStore(lambda: NOW)
    write_bucket(store, root)
    write_use(store, root)
    with site(store) as client:
        found = parsed(client.get("/metrics", headers={"accept": OPEN_METRICS}).text)
    assert sum(found["bastion_devices_told"].values()) == 14
    assert len(found["bastion_machine_device_use_ratio"]) == 2


def test_starts_and_preemptions_between_two_looks_are_counted_once() -> None:
    """A page server that started later counts changes from then on."""
    meter = PrometheusMeter()
    row = {"id": "a-1", "project": "p", "phase": "queued", "state": "queued", "submitted_at": 100.0}
    started = row | {"phase": "running", "state": "running", "started_at": 130.0, "attempt": 1}
    again = started | {"preemptions": 1, "phase": "queued", "started_at": None}
    other = started | {"id": "b-1"}
    for jobs in ([row, other], [started, other], [started, other], [again, other]):
        meter.looked({"now": 200.0, "jobs": jobs}, {}, {})
    found = told(meter)
    assert found["bastion_job_wait_seconds_count"][labels(project="p")] == 1
    assert found["bastion_job_wait_seconds_sum"][labels(project="p")] == 30
    assert found["bastion_preemptions_total"][labels(project="p")] == 1


def test_a_bastion_counts_what_it_commits() -> None:
    """It counts every start, preemption and end of a commit, and the commit itself."""
    meter, job = PrometheusMeter(), running()
    assert state_of(job) == "running"
    job = replace(job, attempts=1)
    end = replace(queued_job(job), job_outcome="failed")
    events = [
        Event(n=1, at=T0, job=job.id, project="blue", what="running"),
        Event(n=2, at=T0, job="x-1", project="blue", what="preempted"),
        Event(n=3, at=T0, job="y-1", project="red", what="failed", record=end),
    ]
    meter.committed(events, {job.id: job})
    meter.committed([], {})
    meter.turned(0.02, moved=True)
    meter.strangers(2)
    found = told(meter)
    assert found["bastion_commits_total"][labels()] == 2
    assert found["bastion_job_wait_seconds_count"][labels(project="blue")] == 1
    assert found["bastion_preemptions_total"][labels(project="blue")] == 1
    assert found["bastion_job_ends_total"][labels(project="red", outcome="failed")] == 1
    assert found["bastion_turn_seconds_count"][labels(moved="yes")] == 1
    assert found["bastion_stranger_machines"][labels()] == 2


def test_a_bastion_that_no_longer_leads_reports_no_strangers() -> None:
    """Its last number would keep an alert firing after the next leader has deleted them."""
    meter = PrometheusMeter()
    meter.rested()
    for number in (2, 0):
        meter.committed([], {})
        meter.strangers(number)
        found = told(meter)
        assert found["bastion_stranger_machines"][labels()] == number
        meter.rested()
        assert "bastion_stranger_machines" not in told(meter)
    assert told(meter)["bastion_commits_total"][labels()] == 2


def test_the_end_of_an_array_is_the_end_of_no_job() -> None:
    """Its tasks were counted as each ended; tasks that never started are counted separately."""
    meter = PrometheusMeter()
    task = replace(queued_job(running()), job_outcome="succeeded", task=0)
    array = replace(task, job_outcome="cancelled", task=None, tasks=2)
    events = [
        Event(n=1, at=T0, job="a-1.0", project="red", what="succeeded", record=task),
        Event(n=2, at=T0, job="a-1", project="red", what="cancelled", text="tasks 1 by eve"),
        Event(n=3, at=T0, job="a-1", project="red", what="cancelled", record=array),
    ]
    meter.committed(events, {})
    found = told(meter)["bastion_job_ends_total"]
    assert found == {labels(project="red", outcome="succeeded"): 1}


def test_calls_of_the_store_are_counted_by_what_became_of_them() -> None:
    """Each operation and outcome counts, whatever is raised; the answer is unchanged."""

    class Broken(MemoryStore):
        def delete(self, key: str) -> None:
            raise StoreError("timed out")

    meter = PrometheusMeter()
    store = MeteredStore(Broken(lambda: NOW), meter, VirtualClock())
    written = store.create("a", b"1")
    assert store.read("a") is not None
    assert store.read("a", unless=written.version) is None
    assert len(store.list("")) == 1
    with pytest.raises(ConflictError):
        store.create("a", b"2")
    with pytest.raises(NotFoundError):
        store.read("b")
    with pytest.raises(StoreError):
        store.delete("a")
    store.swap("a", b"3", if_version=written.version)
    counts = told(meter)["bastion_store_seconds_count"]
    assert counts[labels(operation="read", outcome="ok")] == 2
    assert counts[labels(operation="create", outcome="conflict")] == 1
    assert counts[labels(operation="read", outcome="not_found")] == 1
    assert counts[labels(operation="delete", outcome="unreachable")] == 1


def test_a_share_that_is_not_honoured_shows_its_age() -> None:
    """A job that fits in its project's own idle share differs from one that borrows."""
    queue = {
        "now": 1000.0,
        "jobs": [
            {
                "id": "a",
                "project": "p",
                "state": "queued",
                "submitted_at": 400.0,
                "units": {"h": 2},
            },
            {
                "id": "b",
                "project": "q",
                "state": "queued",
                "submitted_at": 100.0,
                "units": {"h": 9},
            },
        ],
    }
    shares = {"nominal": {"h": 4}, "usage": {"h": 2}}
    meter = PrometheusMeter()
    meter.looked(queue, {}, {"projects": {"p": shares, "q": shares}})
    found = told(meter)
    assert found["bastion_share_wait_seconds"] == {labels(project="p"): 600.0}
    assert found["bastion_oldest_wait_seconds"][labels(project="q")] == 900.0


def test_the_wait_of_a_requeued_job_counts_from_its_requeue() -> None:
    """The run before a preemption is no wait; a bucket of an older bastion can be read."""
    begun = replace(stopping(), submitted_at=T0 - 9000.0)
    job = drained(ended(begun, exited(-15, notice="preempt")))
    root = Root(epoch=1, seq=1, now=T0 + 62, write_id="w", jobs={job.id: job})
    view = queue_view(root, None)
    (row,) = view["jobs"]
    assert (row["state"], job_of_row(row, as_of=root.now).queued_at) == ("preempted", T0 + 2)
    meter = PrometheusMeter()
    meter.looked(view, {}, {})
    assert told(meter)["bastion_oldest_wait_seconds"] == {labels(project="blue"): 60.0}
    old = {name: each for name, each in row.items() if name != "queued_at"}
    meter.looked(view | {"jobs": [old]}, {}, {})
    assert told(meter)["bastion_oldest_wait_seconds"] == {labels(project="blue"): 9062.0}
    assert job_of_row(old, as_of=root.now).queued_at is None


def test_what_a_job_waits_for_another_is_no_wait_in_the_queue() -> None:
    """The first start counts from when it joined the queue, in a bastion and in pages."""
    job = replace(running(), submitted_at=T0 - 9000.0, queued_at=T0 - 7.0)
    events = [Event(n=1, at=T0, job=job.id, project="blue", what="running")]
    bastion, pages = PrometheusMeter(), PrometheusMeter()
    bastion.committed(events, {job.id: job})
    root = Root(epoch=1, seq=1, now=T0, write_id="w", jobs={job.id: job})
    for seen in (replace(root, jobs={}), root):
        pages.looked(queue_view(seen, None), {}, {})
    for meter in (bastion, pages):
        assert told(meter)["bastion_job_wait_seconds_sum"] == {labels(project="blue"): 7.0}


def test_a_task_of_an_array_that_waits_shows_its_age() -> None:
    """A project whose only job is an array has an age, but not for a limit of its user."""
    row = {"id": "a", "submitted_at": 400.0, "units": {"h": 2}}
    limited = {"counts": {"running": 1, "queued": 9}, "reason": {"kind": "AtOnce"}}
    single = {"state": "queued", "reason": {"kind": "OverUserLimit"}}
    queue = {
        "now": 1000.0,
        "jobs": [row | single | {"project": "s"}],
        "arrays": [
            row | {"project": "p", "counts": {"queued": 9}},
            row | {"project": "q"} | limited,
            row | {"project": "r", "counts": {"held": 9}},
        ],
    }
    shares = {"nominal": {"h": 4}, "usage": {"h": 2}}
    meter = PrometheusMeter()
    meter.looked(queue, {}, {"projects": dict.fromkeys("pqrs", shares)})
    found = told(meter)
    assert found["bastion_share_wait_seconds"] == {labels(project="p"): 600.0}
    assert set(found["bastion_oldest_wait_seconds"]) == {labels(project=name) for name in "pqs"}


def test_names_full_of_markup_are_labels() -> None:
    """Quotes, newlines and backslashes in names neither break the format nor forge a metric."""
    name = 'x"}\nbastion_leads 7\\'
    meter = PrometheusMeter()
    jobs = [{"id": "a", "project": name, "phase": "queued", "state": "queued", "submitted_at": 1.0}]
    meter.looked({"now": 2.0, "jobs": jobs}, {}, {})
    found = told(meter)
    assert found["bastion_queued_jobs"][labels(project=name, reason="queued")] == 1
    assert "bastion_leads" not in found


def test_a_port_answers_on_loopback_and_closes() -> None:
    """A scrape of the port returns the counters; a port in use is an error of the caller."""
    meter = PrometheusMeter()
    meter.turned(0.01, moved=False)
    port, close = open_port(meter, "127.0.0.1", 0)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        with pytest.raises(OSError, match="in use"):
            open_port(meter, "127.0.0.1", port)
    finally:
        close()
    assert "bastion_turn_seconds_count" in text
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_dashboard_and_the_rules_name_metrics_that_exist() -> None:
    """Every metric that the examples use is exported by a bastion or a page server."""
    store, clock = busy_store(), VirtualClock(wall=NOW)
    root = busy_root(machines=4, running=6, queued=120)
    name = next(iter(root.jobs))
    write_use(store, root)
    with site(store, clock=clock) as client:
        client.get("/metrics")
        job = replace(root.jobs[name], preemptions=1)
        write_bucket(store, replace(root, seq=root.seq + 1, jobs={**root.jobs, name: job}))
        clock.advance(10.0)
        text = client.get("/metrics", headers={"accept": OPEN_METRICS}).text
    meter = PrometheusMeter()
    meter.turned(0.1, moved=True)
    meter.asked("read", 0.1, "ok")
    meter.committed([Event(n=1, at=T0, job="a", project="p", what="failed")], {})
    known = set(parsed(text)) | set(told(meter))
    for family in text_string_to_metric_families(text):
        known.add(family.name)
    known |= {f"bastion_job_wait_seconds_{part}" for part in ("bucket", "count", "sum")}
    known |= {"bastion_preemptions_total", "bastion_shortages"}
    for file in ("grafana.json", "rules.yml"):
        named = set(re.findall(r"bastion_[a-z_]+", (EXAMPLES / file).read_text()))
        assert named, file
        assert not named - known, file


def test_the_dashboard_is_one_that_grafana_reads() -> None:
    """It is JSON with panels that each have a title, a type, a position and a query."""
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) >= 8
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["gridPos"].keys() == {"h", "w", "x", "y"}
        assert panel["targets"][0]["expr"]


def test_an_older_view_leaves_metrics_out_and_breaks_none() -> None:
    """A bucket without publications, and rows without new fields, still give an answer."""
    store = MemoryStore(lambda: NOW)
    with site(store) as client:
        empty = client.get("/metrics", headers={"accept": OPEN_METRICS})
    put(store, layout.view("pool"), b'{"schema":1,"now":1,"machines":[{"name":"m"}]}')
    put(store, layout.view("queue"), b'{"schema":1,"now":1,"jobs":[{"id":"a","project":"p"}]}')
    put(store, layout.view("status"), b'{"schema":1,"now":1}')
    with site(store) as client:
        bare = client.get("/metrics", headers={"accept": OPEN_METRICS})
    assert parsed(empty.text)
    assert parsed(bare.text)
