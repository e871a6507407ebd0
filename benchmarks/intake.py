"""
How long one user's flood of requests delays another user's launch, and what memory it takes.

    python -m benchmarks.intake                1,000 requests of each kind
    python -m benchmarks.intake 5000

A real leader runs in one thread on a virtual clock and a memory store. One user's requests are in
the inbox before another user submits a launch. Turns are counted until that launch is answered. The
memory is the peak of Python's allocations in one of the first turns, above what it held before. The
store's own objects do not count, because they are created earlier and are not copied.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace

from bastion.records.coding.codec import encode
from bastion.records.coding.limits import LAUNCH_BYTES
from bastion.records.keys import layout, ulid
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import Job, Launch, Process
from benchmarks.table import show
from tests.rigs.leader import Rig

MOST_TURNS = 100
"""A launch without an answer after that many turns will not get one."""
LEAST_TURNS = 5
"""Turns that are always measured: later turns keep in memory what the first one read."""

_Flood = tuple[str, str, bytes]
"""User, verb and body of every request of a flood."""


def _launch(*, jobs: int, env_bytes: int) -> bytes:
    """Return a launch of that many jobs, each with an environment of that many bytes."""
    process = Process(["true"], env={"TEXT": "x" * env_bytes})
    made = tuple(Job(name=f"j{n}", processes=(process,)) for n in range(jobs))
    return encode(LaunchRequest(launch=Launch(name="flood", jobs=made)))


def _targets(count: int) -> bytes:
    """Return a verb for that many unknown jobs."""
    targets = tuple(f"x{n:06}-0123456789" for n in range(count))
    return encode(JobsRequest(targets=targets))


def _unknown(*, jobs: int, each: int) -> bytes:
    """Return a launch of that many jobs, each of which waits for that many that do not exist."""
    made = tuple(
        Job(
            name=f"j{n}",
            processes=(Process(["true"]),),
            after=[f"x{n}-{other}-0123456789" for other in range(each)],
        )
        for n in range(jobs)
    )
    return encode(LaunchRequest(launch=Launch(name="flood", jobs=made, together=False)))


QUEUED: Mapping[str, int] = {"cancels of a member, 9,000 jobs wait": 9_000}
"""Number of the member's jobs that wait before some of the floods."""
FLOODS: Mapping[str, _Flood] = {
    "cancels of a member, 9,000 jobs wait": ("ann", "cancel", _targets(2)),
    "launches after 4,000 unknown jobs": ("ann", "launch", _unknown(jobs=80, each=50)),
    "launches of a member": ("ann", "launch", _launch(jobs=1, env_bytes=10)),
    "launches of 900 jobs, 4 MB": ("ann", "launch", _launch(jobs=900, env_bytes=4_000)),
    "cancels of a member": ("ann", "cancel", _targets(2)),
    "cancels of 1,000 jobs": ("ann", "cancel", _targets(1_000)),
    "cancels of a stranger": ("eve", "cancel", _targets(2)),
    "4 MiB of a stranger": ("eve", "launch", b" " * LAUNCH_BYTES),
}


def measure(flood: _Flood, requests: int, queued: int = 0) -> dict[str, object]:
    """Measure one flood: turns until another's launch is answered, longest turn, peak memory."""
    user, verb, body = flood
    rig = Rig()
    rig.turn(3)
    job = Job(processes=(Process(["true"]),), hold=True)
    for _ in range(queued // 1_000):
        jobs = tuple(replace(job, name=f"j{n}") for n in range(1_000))
        rig.launch("queue", jobs=jobs, together=False)
    rig.until(lambda: len(rig.root.jobs) == queued, turns=1_000)
    for n in range(requests):
        asked = ulid.make(rig.clock.wall(), b"\1" * 6 + n.to_bytes(4, "big"))
        rig.bucket.create(layout.request("blue", user, asked, verb), body)
    other = rig.launch("honest", user="ben")
    key = f"blue/ben/{other}"
    answered = layout.answer("blue", "ben", other)
    waited, longest_s, peak = 0, 0.0, 0
    for turn in range(1, MOST_TURNS + 1):
        spent_s, allocated = _measured(rig.turn)
        longest_s, peak = max(longest_s, spent_s), max(peak, allocated)
        if not waited and (key in rig.root.answers or rig.keys(answered)):
            waited = turn
        if waited and turn >= LEAST_TURNS:
            break
    return {
        "left": len(rig.keys(layout.user_inbox("blue", user))),
        "turns": waited or "never",
        "longest_turn_s": longest_s,
        "most_memory_mib": peak / (1 << 20),
    }


def _measured(turn: Callable[[], None]) -> tuple[float, int]:
    """Return the CPU seconds of a turn, and its peak allocation in bytes."""
    tracemalloc.start()
    try:
        began = time.process_time()
        turn()
        return time.process_time() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> None:
    """Print one row for each flood."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.intake")
    parser.add_argument("requests", nargs="?", type=int, default=1_000)
    said = parser.parse_args()
    show(
        [
            {
                "flood": name,
                "requests": said.requests,
                **measure(flood, said.requests, QUEUED.get(name, 0)),
            }
            for name, flood in FLOODS.items()
        ]
    )


if __name__ == "__main__":
    main()
