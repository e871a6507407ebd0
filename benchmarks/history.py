"""
The record: usage over ten million rows, the compaction of a day, and the cost of a row per turn.

Run it with `python -m benchmarks.history`, with a number of rows if ten million are too many; it
leaves nothing behind. Usage and compaction each run in their own process, as they do for users;
time and memory are those of the whole process, including imports. On a machine that others use, the
CPU time of both cores is more meaningful than the elapsed time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from unittest.mock import patch

from bastion.clock import VirtualClock
from bastion.history.attempt_row import COLUMNS
from bastion.history.ended_attempt import has_row
from bastion.history.parquet import connect, copy
from bastion.job import Phase
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt, Shares
from bastion.records.root import Event, Root, RootWriter
from bastion.service.draft import root_draft
from bastion.spec.request import Request
from bastion.store.folder.local import LocalStore
from bastion.store.memory import MemoryStore
from benchmarks.table import median_of, show
from quota.amounts import Amounts
from tests.rigs.leader import CONFIG, QUOTA, Rig

DAY_S = 86400.0
T0 = 20_000 * DAY_S
DAYS = 30
JOBS = 20_000
RUNS = 3
BUSY, ENDS, TURNS, ROUNDS = 200, 10, 8, 24
"""Jobs of a leader, ends per round, turns per round, and the number of rounds."""

_MADE = """
SELECT range AS event, 'project' || (hash(range) % 20) AS project,
       'user' || (hash(range + 1) % 200) AS "user", 'launch' || range AS launch,
       'train-' || range AS job, 'train' AS name, 1 AS gang, 1 AS attempt, 'n' AS nonce,
       make_timestamp(begun - 60000000) AS queued_at, make_timestamp(begun) AS admitted_at,
       make_timestamp(begun) AS started_at,
       make_timestamp(begun + 600000000 + ran) AS freed_at,
       make_timestamp(begun + 4200000000) AS ended_at,
       CASE hash(range + 3) % 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'preempted'
            ELSE 'succeeded' END AS outcome,
       'succeeded' AS job_outcome, 'exited with code 0' AS text, 'h100' AS device_type,
       8 AS devices, 4800.0 AS guaranteed_device_s, 600.0 AS borrowed_device_s,
       300.0 AS lost_s, 2400.0 AS lost_device_s, 1.25 AS cost, 'gpu' AS pool,
       ['gpu-' || (range % 500)] AS machines
FROM (SELECT range, CAST(({begin} + (range % 86400)) * 1e6 AS BIGINT) AS begun,
             CAST((hash(range + 2) % 3600) * 1000000 AS BIGINT) AS ran
      FROM range({first}, {after}))
"""

_USAGE = """
import json, pathlib, sys, time
began = time.perf_counter()
from bastion.history import Record
from bastion.history.ask.usage import usage
from bastion.store import open_store
url, since, until = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
rows = usage(Record(open_store(url), url), by=["project"], since=since, until=until).rows
took = time.perf_counter() - began
status = pathlib.Path("/proc/self/status").read_text()
mb = int(status.partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps([took, mb, time.process_time()]))
"""

_COMPACT = """
import json, pathlib, sys, time
began = time.perf_counter()
from bastion.history.compaction import compact
from bastion.store import open_store
done = compact(open_store(sys.argv[1]))
took = time.perf_counter() - began
status = pathlib.Path("/proc/self/status").read_text()
mb = int(status.partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps([took, mb, time.process_time()]))
"""


def main() -> None:
    """Print one table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size_mb = _make_record(folder / "record", count)
        url, until = (folder / "record").as_uri(), T0 + DAYS * DAY_S
        runs = [_ran(_USAGE, url, str(T0), str(until)) for _ in range(RUNS)]
        what = f"usage, {DAYS} days of {count:,} rows ({size_mb:.0f} MB)"
        rows.append(_row(what, runs))
        day = folder / "day"
        _make_day(day)
        rows.append(_row(f"compaction of a day of {JOBS:,} jobs", [_ran(_COMPACT, day.as_uri())]))
    rows += _turns()
    rows += _pairs()
    show(rows)


def _row(what: str, runs: list[list[float]]) -> dict[str, object]:
    middle = [median(run[i] for run in runs) for i in range(3)]
    return {"what": what, "s": middle[0], "processor s": middle[2], "MB": middle[1]}


def _ran(code: str, *words: str) -> list[float]:
    ran = subprocess.run(
        [sys.executable, "-c", code, *words], check=True, stdout=subprocess.PIPE, text=True
    )
    found: list[float] = json.loads(ran.stdout)
    return found


def _make_record(folder: Path, count: int) -> float:
    """Write `count` rows as files of days; return their size in MB."""
    LocalStore(folder, makes_root=True)
    connection = connect(folder, memory_mb=1000)
    a_day = count // DAYS
    for day in range(DAYS):
        first, after = day * a_day, (day + 1) * a_day
        date = time.strftime("%Y-%m-%d", time.gmtime(T0 + day * DAY_S))
        path = folder / layout.day_file("attempts", date, first, after)
        path.parent.mkdir(parents=True)
        made = _MADE.format(begin=T0 + day * DAY_S, first=first, after=after)
        nothing = ", ".join(f"NULL::{each.sql_type} AS {each.name}" for each in COLUMNS)
        copy(connection, f"SELECT {nothing} WHERE false UNION ALL BY NAME {made}", path)
    connection.close()
    return sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6


def _attempt(at: float, n: int) -> EndedAttempt:
    return EndedAttempt(
        user=f"user{n % 200}",
        launch=f"train-{n}",
        name="train",
        attempt=1,
        nonce="0123456789abcdef",
        request=Request(per_replica=Amounts({"h100": 8, "cpu": 4, "memory": 1 << 36})),
        submitted_at=at - 700,
        queued_at=at - 700,
        admitted_at=at - 600,
        started_at=at - 590,
        freed_at=at,
        outcome="succeeded",
        job_outcome="succeeded",
        text="exited with code 0",
        exit_code=0,
        job_class="guaranteed",
        guaranteed_s=600.0,
        device_type="h100",
        devices=8,
        guaranteed_device_s=4800.0,
        machines=("gpu-12-0",),
        pool="gpu",
        machine_s=600.0,
    )


def _make_day(folder: Path) -> None:
    """Write the log of a day: five events per job, as the bastion seals them, and every spec."""
    store = LocalStore(folder, makes_root=True, durable=False)
    events = [Event(n=0, at=T0, what="shares", record=Shares(nominal={"p": {"h100": 8}}))]
    for n in range(JOBS):
        at = T0 + n * DAY_S / JOBS
        for what in ("submitted", "starting", "running", "draining", "succeeded"):
            record = _attempt(at, n) if what == "succeeded" else None
            event = Event(
                n=len(events), at=at, job=f"train-{n}", project="p", what=what, record=record
            )
            events.append(event)
        spec = {"launch": {"code": {"kind": "bundle", "digest": "a" * 64}, "jobs": ["x" * 500]}}
        store.create(layout.spec("p", f"train-{n}"), json.dumps(spec).encode())
    events.append(Event(n=len(events), at=T0 + DAY_S, what="leads"))
    for i in range(0, len(events), 70):
        data = b"".join(encode(event) + b"\n" for event in events[i : i + 70])
        store.create(layout.events(i), data)


def _turns() -> list[dict[str, object]]:
    """Return what a commit encodes with 400 unsealed events, with and without rows."""
    found: list[dict[str, object]] = []
    for what, every in (("no row", 0), ("a row in each fifth", 5)):
        events = tuple(
            Event(
                n=n,
                at=T0,
                job=f"train-{n}",
                project="p",
                what="running",
                text="attempt 1 on gpu-12-0",
                record=_attempt(T0, n) if every and n % every == 0 else None,
            )
            for n in range(400)
        )
        root = Root(epoch=1, seq=1, now=T0, write_id="w", events=events, next_event=400)
        clock = VirtualClock()
        writer = RootWriter(MemoryStore(clock.wall), clock)
        took = median_of(50, lambda w=writer, r=root: w.encoded(r), clock=time.process_time)  # type: ignore[misc]
        found.append(
            {"what": f"commit with 400 events, {what}", "s": took, "processor s": took, "MB": 0.0}
        )
    return found


def _pairs() -> list[dict[str, object]]:
    """
    Return the time of turns of two leaders, one of which creates no rows: side by side, in pairs.

    Each has its own jobs, the same number; in every round some end and as many are submitted.
    """
    rigs = {has_rows: _busy_rig() for has_rows in (True, False)}
    spent: dict[bool, list[float]] = {True: [], False: []}
    for n in range(ROUNDS):
        for has_rows in (True, False) if n % 2 else (False, True):
            with patch.object(root_draft, "has_row", has_row if has_rows else lambda *_: False):
                spent[has_rows].append(_round(rigs[has_rows], n))
    more = median(a / b for a, b in zip(spent[True], spent[False]))
    return [
        {
            "what": f"turns of a round with {ENDS} ends of {BUSY} jobs, {name}",
            "s": median(spent[has_rows]),
            "processor s": median(spent[has_rows]),
            "MB": 0,
        }
        for has_rows, name in ((False, "no row"), (True, f"rows ({more - 1:+.1%} in pairs)"))
    ]


def _busy_rig() -> Rig:
    quota = QUOTA.replace("h100 = 16", f"h100 = {8 * BUSY}").replace("h100 = 0.5", "h100 = 1", 1)
    rig = Rig(
        quota=quota.replace("h100 = 0.5", "h100 = 0"),
        config=CONFIG.replace("count = 2", f"count = {BUSY}"),
    )
    for n in range(BUSY):
        rig.launch(f"job-{n}", h100=8)
    rig.until(lambda: _running(rig) == BUSY)
    return rig


def _running(rig: Rig) -> int:
    return sum(job.phase is Phase.RUNNING for job in rig.root.jobs.values())


def _round(rig: Rig, number: int) -> float:
    """Return the CPU seconds of the leader's turns until the jobs that end have successors."""
    for job in list(rig.root.jobs.values())[:ENDS]:
        rig.agent_of(job.id).end(job.id, 0)
    for n in range(ENDS):
        rig.launch(f"next-{number}-{n}", h100=8)
    spent_s = 0.0
    for _ in range(TURNS):
        began = time.process_time()
        rig.leader.turn()
        spent_s += time.process_time() - began
        for agent in rig.agents.values():
            agent.poll()
        rig.clock.advance(1.0)
    assert _running(rig) == BUSY
    return spent_s


if __name__ == "__main__":
    main()
