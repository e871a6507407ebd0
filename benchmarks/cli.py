"""
The start-up cost of the command line, beside Slurm's; `python -m benchmarks.cli`.

Each row is a whole process, from start to end: its time, and its CPU time. The last table shows
what `bastion launch` imports. Slurm's rows are included if Slurm is installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, time

from bastion.client import Client
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.service.publish.queue_view import queue_bytes
from bastion.spec import Job, Launch, Process, job_id
from bastion.store.folder.local import LocalStore
from benchmarks.guard import guarded
from benchmarks.slurm import slurm
from benchmarks.table import median_of, show
from tests.servers.slurmctld import Slurm

COMMAND = (sys.executable, "-m", "bastion.command")
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


Row = dict[str, object]
IMPORTS = 15
"""Modules in the last table."""
ANSWERED_EVERY_S = 0.002
LOOPS, LAUNCHES = 8, 15
"""Simultaneous shell loops, and submissions of each."""
_IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| +(\S+)")


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder, slurm() as beside:
        store = LocalStore(Path(folder), makes_root=True)
        store.create(layout.QUOTA, QUOTA.encode())
        store.create(layout.view("queue"), queue_bytes(queue() | {"arrays": []}))
        store.create(layout.view("status"), status())
        rows = [
            timed("python -c pass", [sys.executable, "-c", "pass"]),
            timed("import bastion", [sys.executable, "-c", "import bastion"]),
            timed("import bastion, all names", [sys.executable, "-c", "from bastion import *"]),
            timed("bastion --help", [*COMMAND, "--help"]),
            timed("bastion launch --help", [*COMMAND, "launch", "--help"]),
        ]
        with led(store):
            rows += verbs(store, f"--root={Path(folder).as_uri()}")
            rows += slurms(beside) if beside is not None else []
            show(rows)
            show(imports(_launch(f"--root={Path(folder).as_uri()}")))


def verbs(store: LocalStore, root: str) -> Iterator[Row]:
    """Yield the rows of a bastion that answers immediately."""
    many = f"{JOBS:,} jobs"
    last = f"train-{JOBS - 1:010d}"
    yield timed(f"bastion list, {many}", [*COMMAND, "list", root])
    yield timed(f"bastion list --json, {many}", [*COMMAND, "list", "--json", root])
    yield timed(f"bastion list -q, {many}", [*COMMAND, "list", "-q", root])
    yield timed(f"bastion why, {many}", [*COMMAND, "why", last, root])
    yield timed(f"bastion show, {many}", [*COMMAND, "show", last, root])
    yield timed(f"bastion cancel, one of {many}", [*COMMAND, "cancel", "-q", last, root])
    every = [f"train-{number:010d}" for number in range(JOBS)]
    yield timed(f"bastion cancel, {many} by id", [*COMMAND, "cancel", "-q", root, *every])
    array = [*COMMAND, "launch", "-q", root, "--user_id=ada", f"--array=0-{JOBS - 1}"]
    yield timed(f"bastion launch, an array of {JOBS:,}", [*array, "--", "true"])
    yield timed("bastion launch -q", _launch(root))
    yield submitting(store)
    yield looping("bastion launch -q", shlex.join(_launch(root)))


def _launch(root: str) -> list[str]:
    return [*COMMAND, "launch", "-q", root, "--user_id=ada", "--", "true"]


def slurms(beside: Slurm) -> Iterator[Row]:
    """Yield the rows of a Slurm with the same number of held jobs."""
    held = ["sbatch", "-H", "-o", "/dev/null", f"--array=0-{JOBS - 1}", "--wrap", "true"]
    job = beside.run("sbatch", "--parsable", *held[1:]).strip()
    submit = ["sbatch", "-H", "-o", "/dev/null", "--wrap", "true"]
    yield timed("sbatch", submit, beside)
    yield timed(f"squeue -r, {JOBS:,} jobs", ["squeue", "-r"], beside)
    yield timed("scontrol show job", ["scontrol", "show", "job", f"{job}_{JOBS - 1}"], beside)
    yield looping("sbatch", shlex.join(submit), beside)


def timed(what: str, command: list[str], beside: Slurm | None = None) -> Row:
    """Return one row: a whole process from start to end, and its CPU time."""
    seconds, used = [], []
    for run in range(RUNS + 1):
        began, before = perf_counter(), os.times()
        subprocess.run(command, env=_env(beside), capture_output=True, check=True)
        after = os.times()
        if run:  # the first run warms the caches
            seconds.append(perf_counter() - began)
            used.append(
                after.children_user - before.children_user
                + after.children_system - before.children_system
            )  # fmt: skip
    return {"what": what, "median_ms": median(seconds) * 1e3, "cpu_ms": median(used) * 1e3}


def looping(what: str, line: str, beside: Slurm | None = None) -> Row:
    """Return one row: shell loops that submit concurrently, as the time per submission overall."""
    loop = f"for _ in $(seq {LAUNCHES}); do {line} >/dev/null || exit 1; done"
    began = perf_counter()
    loops = [subprocess.Popen(["sh", "-c", loop], env=_env(beside)) for _ in range(LOOPS)]
    if any(each.wait() for each in loops):
        raise SystemExit(f"{what} failed")
    rate = LOOPS * LAUNCHES / (perf_counter() - began)
    return {"what": f"{LOOPS} loops of {what}: {rate:.0f} a second", "median_ms": 1e3 / rate}


def imports(command: list[str]) -> list[Row]:
    """Return what a command imports: the own time of each module, the minimum of several runs."""
    least: dict[str, float] = {}
    for _ in range(RUNS):
        argv = [command[0], "-X", "importtime", *command[1:]]
        said = subprocess.run(argv, env=_env(), capture_output=True, text=True, check=True).stderr
        for found in _IMPORTED.finditer(said):
            own_ms = int(found[1]) / 1e3
            least[found[2]] = min(own_ms, least.get(found[2], own_ms))
    packages: dict[str, float] = {}
    for name, own_ms in least.items():
        top = name.partition(".")[0]
        packages[top] = packages.get(top, 0.0) + own_ms
    return [
        {"import": f"all {len(least)} modules", "own_ms": sum(least.values())},
        *({"import": f"{name}.*", "own_ms": ms} for name, ms in _longest(packages)),
        *({"import": name, "own_ms": ms} for name, ms in _longest(least)),
    ]


def _longest(took: dict[str, float]) -> Iterable[tuple[str, float]]:
    return sorted(took.items(), key=lambda each: -each[1])[:IMPORTS]


def _env(beside: Slurm | None = None) -> dict[str, str]:
    env = dict(os.environ if beside is None else beside.env, PYTHONPATH=str(_REPOSITORY))
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise every run compiles its imports
    return env


_REPOSITORY = Path(__file__).parents[1]


@contextlib.contextmanager
def led(store: LocalStore) -> Iterator[None]:
    """Answer each request immediately and publish a status every second, like an idle bastion."""
    over = threading.Event()

    def lead() -> None:
        published = perf_counter()
        while not over.wait(ANSWERED_EVERY_S):
            for entry in store.list(layout.INBOX):
                answer(store, entry.key)
            if perf_counter() > published + 1:
                published = perf_counter()
                known = store.read(layout.view("status"))
                assert known is not None
                store.swap(layout.view("status"), status(), if_version=known.version)

    thread = threading.Thread(target=lead)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def answer(store: LocalStore, key: str) -> None:
    """Accept the request at `key`."""
    name = layout.parse_request(key)
    assert name is not None
    launched = (job_id("train", name.ulid),) if name.verb == "launch" else ()
    said = Answer(
        ulid=name.ulid, verb=name.verb, accepted=True, launch="".join(launched), jobs=launched
    )
    store.create(layout.answer(name.project, name.user, name.ulid), encode(said))
    store.delete(key)


def submitting(store: LocalStore) -> Row:
    """Return one row: a launch on a folder, by the Python API."""
    client = Client("file:", user="ada", store=store)
    launch = Launch(name="train", jobs=(Job(processes=(Process(["true"]),)),))
    seconds = median_of(100, lambda: client.launch(launch))
    return {"what": "Client.launch on a folder, answered", "median_ms": seconds * 1e3}


def status() -> bytes:
    """Return the status of a bastion that leads now."""
    said = {"schema": 1, "now": time(), "seq": 1, "leader": "here", "host": "here"}
    return json.dumps(said).encode()


def queue() -> dict[str, object]:
    """Return the view of a long queue."""
    rows: list[dict[str, object]] = [
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
    guarded(main)
