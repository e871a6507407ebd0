"""An array on the pages: its tasks by state, for any number of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from bastion.records.root import Event
from bastion.spec import Indices
from bastion.spec.request import Request
from bastion.store.memory import MemoryStore
from bastion.web.pages.job.array_tasks import MOST_LINKS
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW, busy_root, put, write_history

ARRAY = "sweep-0123456789"
PAGE = f"/jobs/audio/{ARRAY}"
FAILED = Indices.of(range(3, 700, 7))
WAITING = Indices.of(range(701, 1000))


def _store() -> MemoryStore:
    """Return a bucket where one task of an array runs, many have failed and more wait."""
    store = busy_store()
    found = store.read(layout.view("queue"))
    assert found is not None
    queue: dict[str, Any] = json.loads(found.data)
    each = {"name": "sweep", "project": "audio", "user": "sweeper", "launch": ARRAY}
    task = {**queue["jobs"][0], **each, "id": f"{ARRAY}.700", "task": 700}
    succeeded = Indices.of(range(700)) - FAILED
    array = {
        **each,
        "id": ARRAY,
        "state": "running",
        "phase": "running",
        "submitted_at": NOW - 60,
        "counts": {
            "running": 1,
            "queued": len(WAITING),
            "failed": len(FAILED),
            "succeeded": len(succeeded),
        },
        "tasks": "0-999",
        "waiting": str(WAITING),
        "ended": {"failed": str(FAILED), "succeeded": str(succeeded)},
    }
    queue["jobs"] = [*queue["jobs"], task]
    queue["arrays"] = [array]
    put(store, layout.view("queue"), json.dumps(queue).encode())
    return store


def test_the_page_of_an_array_leads_to_its_tasks_and_those_that_failed_come_first() -> None:
    """Each state has its first tasks as links, and all as ranges; the array has no log or use."""
    with site(_store()) as client:
        text = client.get(PAGE).text
        task = client.get(f"{PAGE}.700").text
    tasks = text[text.index('id="tasks"') : text.index('id="events-title"')]
    order = [tasks.index(f">{state}</span>") for state in ("failed", "running", "queued")]
    assert order == sorted(order)
    assert f'href="{PAGE}.3">3</a>' in tasks
    assert f'href="{PAGE}.700">700</a>' in tasks
    assert tasks.count(f'href="{PAGE}.') == 3 * MOST_LINKS + 1
    assert f"all {len(FAILED)}</summary>" in tasks
    assert str(FAILED) in tasks
    assert str(FAILED) not in text[: text.index('id="tasks"')]
    assert "it has not started yet" not in text
    assert "nothing printed yet" not in text
    assert "nothing printed yet" in task


def test_the_page_of_an_array_says_which_tasks_failed_and_why() -> None:
    """Frequent reasons come first, each with the logs of its tasks; what is retried has no row."""
    store, texts = _store(), {3: "no space", 10: "lost <b>", 17: "no space", 24: "no space"}
    ends = [
        Event(
            n=n,
            at=NOW - 30.0 + n,
            job=f"{ARRAY}.{task}",
            project="audio",
            what="failed",
            record=EndedAttempt(
                text=text,
                user="sweeper",
                launch=ARRAY,
                task=task,
                attempt=2,
                request=Request(),
                submitted_at=NOW - 60.0,
                queued_at=NOW - 60.0,
                admitted_at=NOW - 50.0,
                freed_at=NOW - 30.0,
                outcome="failed",
                job_outcome="" if task == 24 else "failed",
            ),
        )
        for n, (task, text) in enumerate(texts.items())
    ]
    store.create(layout.events(0), b"\n".join(map(encode, ends)))
    with site(store) as client:
        text = client.get(PAGE).text
    reasons = text.partition("Why tasks failed")[2].partition("</table>")[0]
    first, second = reasons.split("<tr>")[2:]
    assert "no space" in first
    assert re.findall(r'href="([^"]*)"', first) == [f"{PAGE}.{n}?attempt=2#log" for n in (3, 17)]
    assert "lost &lt;b&gt;" in second
    assert f"{PAGE}.24?" not in reasons


def test_an_array_is_found_in_each_state_that_a_task_of_it_is_in() -> None:
    """The number of queued tasks links to their array, even if another task runs."""
    with site(_store()) as client:
        for state in ("queued", "running"):
            assert f'href="{PAGE}">' in client.get(f"/?state={state}&user=sweeper").text
        assert f'href="{PAGE}">' not in client.get("/?state=held&user=sweeper").text


def test_projects_and_users_count_every_task_that_waits() -> None:
    """This matches the shares on the first page; a running task counts once, by its device."""
    store = _store()
    write_history(store, busy_root(machines=4, running=6, queued=120), days=1, a_day=24)
    found = store.read(layout.view("queue"))
    assert found is not None
    phases = Counter(
        row["phase"] for row in json.loads(found.data)["jobs"] if row["project"] == "audio"
    )
    with site(store) as client:
        page = client.get("/projects?days=1").text
    told = re.findall(r'\?project=audio#queue">(\d+) running, (\d+) queued</a>', page)
    running, queued = (sum(map(int, column)) for column in zip(*told))
    assert (running, queued) == (phases["running"], phases["queued"] + len(WAITING))
    assert len(told) == 2, "the array asks for another device than the jobs"
