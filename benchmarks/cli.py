"""The command line: what starting it costs, listing ten thousand jobs, submitting one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from bastion.client import Client
from bastion.records import layout
from bastion.records.codec import encode
from bastion.records.request import Answer
from bastion.spec import Job, Launch, Process, job_id
from bastion.store.local import LocalStore
from benchmarks.table import median_of, show

COMMAND = (sys.executable, "-m", "launch.cli")
RUNS = 7
JOBS = 10_000
QUOTA = """\
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
blue = ["ada"]
[project_resources.blue]
h100 = 1.0
"""


def main() -> None:
    """Print one table."""
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder), makes_root=True)
        store.create(layout.QUOTA, QUOTA.encode())
        store.create(layout.view("queue"), json.dumps(queue()).encode())
        root = f"--root={Path(folder).as_uri()}"
        rows = [
            timed("python -c pass", [sys.executable, "-c", "pass"]),
            timed("import bastion", [sys.executable, "-c", "import bastion"]),
            timed("import bastion, all names", [sys.executable, "-c", "from bastion import *"]),
            timed("bastion --help", [*COMMAND, "--help"]),
            timed("bastion launch --help", [*COMMAND, "launch", "--help"]),
            timed(f"bastion list, {JOBS:,} jobs", [*COMMAND, "list", root]),
            timed(f"bastion list --json, {JOBS:,} jobs", [*COMMAND, "list", "--json", root]),
            timed(f"bastion why, {JOBS:,} jobs", [*COMMAND, "why", f"train-{JOBS - 1:010d}", root]),
            submitting(store),
        ]
    show(rows)


def timed(what: str, command: list[str]) -> dict[str, object]:
    """Return one row: a whole process from start to end."""
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]))
    seconds = median_of(
        RUNS, lambda: subprocess.run(command, env=env, capture_output=True, check=True)
    )
    return {"what": what, "median_ms": seconds * 1e3}


def submitting(store: LocalStore) -> dict[str, object]:
    """Return one row: a launch on a folder, with a bastion that answers at once."""
    over = threading.Event()

    def answer() -> None:
        while not over.wait(0.002):
            for entry in store.list(layout.INBOX):
                name = layout.parse_request(entry.key)
                assert name is not None
                said = Answer(
                    ulid=name.ulid,
                    verb=name.verb,
                    accepted=True,
                    launch=job_id("train", name.ulid),
                    jobs=(job_id("train", name.ulid),),
                )
                store.create(layout.answer(name.project, name.user, name.ulid), encode(said))
                store.delete(entry.key)

    thread = threading.Thread(target=answer)
    thread.start()
    client = Client("file:", user="ada", store=store)
    launch = Launch(name="train", jobs=(Job(processes=(Process(["true"]),)),))
    try:
        seconds = median_of(200, lambda: client.launch(launch))
    finally:
        over.set()
        thread.join()
    return {"what": "Client.launch on a folder, answered", "median_ms": seconds * 1e3}


def queue() -> dict[str, object]:
    """Return the view of a long queue."""
    rows = [
        {
            "id": f"train-{number:010d}",
            "name": "train",
            "project": f"project{number % 20}",
            "user": "ada",
            "launch": f"train-{number:010d}",
            "state": "queued",
            "phase": "queued",
            "class": None,
            "priority": 3,
            "units": {"h100": 2, "cpu": 8},
            "replicas": 1,
            "submitted_at": 1.7e9 + number,
            "started_at": None,
            "attempt": 0,
            "preemptions": 0,
            "machines": [],
            "reason": {"kind": "behind", "jobs": number, "first": ["a-0123456789"]},
            "text": f"behind {number} jobs of its project; the first is a-0123456789",
            "estimated_at": None,
        }
        for number in range(JOBS)
    ]
    return {"schema": 1, "now": 1.7e9 + JOBS, "seq": 1, "jobs": rows}


if __name__ == "__main__":
    main()
