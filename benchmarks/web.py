"""The page: how soon it answers, and its memory, with 10,000 queued and 2,000 running jobs."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from bastion.records import layout
from bastion.records.codec import encode
from bastion.store.local import LocalStore
from benchmarks.table import median_of, show
from tests.rigs.busy_bucket import busy_root, write_bucket, write_history, write_use

QUEUED, RUNNING, MACHINES = 10_000, 2_000, 250
RUNS = 15
ANY = {
    "now": "/",
    "now, searched": "/?search=train-0000009",
    "now, the last part": "/?page=240",
    "a job": "/jobs/vision/train-0000000000",
    "a chart of its use": "/jobs/vision/train-0000000000/use/devices.svg",
    "machines": "/machines",
    "timeline of a day": "/timeline?span=24h",
    "projects, 7 days": "/projects",
    "quota": "/quota",
    "metrics": "/metrics",
}


def main() -> None:
    """Print one table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bucket"
        store = LocalStore(folder, makes_root=True)
        root = busy_root(machines=MACHINES, running=RUNNING, queued=QUEUED)
        write_bucket(store, root)
        write_history(store, root, days=7, a_day=500)
        write_use(store, root, segments=2)
        store.create(layout.ROOT, encode(replace(root, next_event=1_000_000)))
        with served(folder) as (process, host):
            rows = [measured(what, process, host, path) for what, path in ANY.items()]
            memory = process.memory_info().rss
        show(rows)
        print(f"memory of the page's process: {memory / 1e6:.0f} MB")


@contextmanager
def served(folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """The process of a page server, and its host and port."""
    words = [sys.executable, "-m", "launch.cli", "web", f"--root=file://{folder}", "--port=0"]
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]))
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        line = child.stderr.readline()
        try:
            yield psutil.Process(child.pid), line.partition("http://")[2].partition("/")[0]
        finally:
            child.terminate()


def measured(what: str, process: psutil.Process, host: str, path: str) -> dict[str, object]:
    """
    The median time to the first byte and to the last one, of answers after the first.

    On a machine that others use, the processor time of an answer says more than these.
    """
    firsts: list[float] = []
    sizes: list[int] = []

    def ask() -> None:
        line = http.client.HTTPConnection(host, timeout=120)
        began = time.perf_counter()
        line.request("GET", path, headers={"accept-encoding": "gzip"})
        answer = line.getresponse()
        answer.read(1)
        firsts.append(time.perf_counter() - began)
        sizes.append(1 + len(answer.read()))
        line.close()

    before = process.cpu_times()
    whole = median_of(RUNS, ask)
    after = process.cpu_times()
    spent_s = after.user + after.system - before.user - before.system
    first = sorted(firsts[1:])[len(firsts) // 2]
    return {
        "what": what,
        "first_byte_ms": first * 1e3,
        "median_ms": whole * 1e3,
        "processor_ms": spent_s / (RUNS + 1) * 1e3,
        "kB": round(sizes[-1] / 1e3),
    }


if __name__ == "__main__":
    main()
