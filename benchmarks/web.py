"""The page: how fast it answers, and its memory, with 10,000 queued and 2,000 running jobs."""

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
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import psutil

from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.store.folder.local import LocalStore
from bastion.value import value
from bastion.web.record.kept_tables import TABLES_KEPT_S
from benchmarks.table import show
from tests.rigs.busy_bucket import NOW, busy_root, write_bucket, write_history, write_use

QUEUED, RUNNING, MACHINES = 10_000, 2_000, 250
RUNS = 15
LATE_RUNS = 5
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
            row, answers = measured_anew(process, host)
            rows.append(row)
            memory = process.memory_info().rss
            other = sum(each.memory_info().rss for each in process.children())
            late = [answered_late(process, host, n) for n in range(LATE_RUNS)]
        show(rows)
        print(f"memory of the page's process: {memory / 1e6:.0f} MB")
        print(f"of the program that asks the record, for a minute: {other / 1e6:.0f} MB")
        for what, answered in (("", answers), (", the record loaded anew for it", late)):
            clock_s, spent_s = (median(each[i] for each in answered) for i in range(2))
            most_s = max(each[0] for each in answered)
            print(
                f"a new period of the timeline{what} is whole after {clock_s:.2f} s,"
                f" the slowest after {most_s:.2f} s; {spent_s:.2f} s of a processor"
            )


@contextmanager
def served(folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Run a page server; yield its process, host and port."""
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
    Return the median time to the first and to the last byte, of answers after the first.

    The first answer has its own column: it reads what the others find in memory. On a machine that
    others use, the CPU time of an answer is more meaningful than these.
    """
    cold = asked(host, path)
    while b"data-pending" in asked(host, path, encoding="identity").data:
        time.sleep(0.1)
    before = _spent_s(process)
    answers = [asked(host, path) for _ in range(RUNS)]
    return _row(what, answers, cold, (_spent_s(process) - before) / RUNS)


def measured_anew(
    process: psutil.Process, host: str
) -> tuple[dict[str, object], list[tuple[float, float]]]:
    """
    Measure periods of the timeline that no reader has looked at, so that none of them is known.

    Each is awaited until it shows the record, so that none waits for another; the elapsed time and
    CPU time of that are returned too.
    """
    answered_s(process, host, RUNS)
    cold = asked(host, _period(RUNS + 1))
    answers, whole, spent_s = [], [], 0.0
    for n in range(RUNS):
        before = _spent_s(process)
        answers.append(asked(host, _period(n)))
        spent_s += _spent_s(process) - before
        whole.append(answered_s(process, host, n))
    return _row("timeline, a new period", answers, cold, spent_s / RUNS), whole


def answered_late(process: psutil.Process, host: str, number: int) -> tuple[float, float]:
    """Return how long a new period takes when the tables of the record are too old for it."""
    time.sleep(TABLES_KEPT_S)
    return answered_s(process, host, RUNS + 2 + number)


def answered_s(process: psutil.Process, host: str, number: int) -> tuple[float, float]:
    """Return how long it takes until the page of a period shows the record: elapsed, CPU time."""
    began, path = time.perf_counter(), _period(number)
    before = _spent_s(process, *process.children())
    while b"data-pending" in asked(host, path, encoding="identity").data:
        time.sleep(0.05)
    took_s = time.perf_counter() - began
    return took_s, _spent_s(process, *process.children()) - before


@value
class Answer:
    """One answer."""

    first_s: float
    """To its first byte."""
    whole_s: float
    data: bytes


def asked(host: str, path: str, *, encoding: str = "gzip") -> Answer:
    """Request a page on its own connection."""
    line = http.client.HTTPConnection(host, timeout=120)
    began = time.perf_counter()
    line.request("GET", path, headers={"accept-encoding": encoding})
    answer = line.getresponse()
    data = answer.read(1)
    first_s = time.perf_counter() - began
    data += answer.read()
    whole_s = time.perf_counter() - began
    line.close()
    return Answer(first_s=first_s, whole_s=whole_s, data=data)


def _row(what: str, answers: list[Answer], cold: Answer, spent_s: float) -> dict[str, object]:
    return {
        "what": what,
        "first_byte_ms": median(each.first_s for each in answers) * 1e3,
        "median_ms": median(each.whole_s for each in answers) * 1e3,
        "processor_ms": spent_s * 1e3,
        "cold_ms": cold.whole_s * 1e3,
        "kB": round(len(answers[-1].data) / 1e3),
    }


def _spent_s(*processes: psutil.Process) -> float:
    times = [process.cpu_times() for process in processes]
    return float(sum(each.user + each.system for each in times))


def _period(number: int) -> str:
    """Return the address of a day of the timeline, different for each number."""
    begin = NOW - 5 * 86400.0 + 3600.0 * number
    moments = (datetime.fromtimestamp(at, UTC) for at in (begin, begin + 86400.0))
    since, until = (f"{moment:%Y-%m-%dT%H:%M:%S}" for moment in moments)
    return f"/timeline?from={since}&to={until}"


if __name__ == "__main__":
    main()
