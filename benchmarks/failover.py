"""
How long there is no leader, and how long a new leader needs for its first turn.

    python -m benchmarks.failover              on a folder, and on the test server of gs://
    python -m benchmarks.failover file --runs 9

There are two real bastions. The time is from the failure of the leader to the commit of the next
one, as a reader of the bucket sees it. A frozen leader represents one whose host is gone: the other
sees only its silence. The second table shows the time that a new leader takes, in one process and
on a memory store, to read a root of that many active jobs, to take it over, and to make its first
turn.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.cost import RUNS_S, World
from benchmarks.table import show
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import ROOTS, Place

ACTIVE = (10, 1_000, 10_000)
"""Jobs in the root that is taken over."""


def silence_s(place: Place, befall: Callable[[], None]) -> float:
    """Return the seconds from `befall()` to the first commit of the next epoch."""
    root = place.root()
    assert root is not None
    epoch = root.epoch
    befall()
    began = time.monotonic()
    while (root := place.root()) is not None and root.epoch == epoch:
        time.sleep(0.005)
    return time.monotonic() - began


def restarted_s(programs: Programs) -> float:
    """Measure a kill -9, after which its supervisor restarts it immediately."""
    north = _leading(programs, "north")

    def befall() -> None:
        north.kill()
        north.wait()
        programs.serve("--name=north")

    return silence_s(programs.place, befall)


def killed_s(programs: Programs) -> float:
    """Measure a kill -9, with a standby on the same host."""
    north = _with_standby(programs)
    return silence_s(programs.place, north.kill)


def stopped_s(programs: Programs) -> float:
    """Measure a SIGTERM, with a standby."""
    north = _with_standby(programs)
    return silence_s(programs.place, north.terminate)


def frozen_s(programs: Programs) -> float:
    """Measure a leader that is frozen without a commit, with a standby."""
    north = _with_standby(programs)
    return silence_s(programs.place, lambda: north.send_signal(signal.SIGSTOP))


CASES = {
    "killed, started again": restarted_s,
    "killed, standby on its host": killed_s,
    "stopped, standby": stopped_s,
    "frozen or its host gone, standby": frozen_s,
}


def _leading(programs: Programs, name: str) -> subprocess.Popen[bytes]:
    process = programs.serve("--standby", f"--name={name}")
    until(lambda: "leads epoch" in programs.served, "it leads")
    return process


def _with_standby(programs: Programs) -> subprocess.Popen[bytes]:
    north = _leading(programs, "north")
    programs.serve("--standby", "--name=south")
    until(lambda: "waiting" in programs.served, "the other waits")
    return north


def measure(scheme: str, case: Callable[[Programs], float], runs: int) -> list[float]:
    """Run `case` several times, each on a separate root."""
    found = []
    for _ in range(runs):
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            ROOTS[scheme](Path(folder)) as place,
        ):
            programs = Programs(Path(folder), place)
            try:
                found.append(case(programs))
            finally:
                programs.stop_everything()
    return found


def recoveries(runs: int) -> Iterator[dict[str, object]]:
    """Yield rows of the cost of a takeover with that many active jobs."""
    for active in ACTIVE:
        world = World(active)
        world.ask_for(active, runs_s=lambda: RUNS_S)
        world.pass_s(60.0)
        taken, turned = [], []
        for n in range(runs):
            began = time.perf_counter()
            world.leader = world.take(f"next{n}")
            took = time.perf_counter()
            world.leader.turn()
            taken.append(took - began)
            turned.append(time.perf_counter() - took)
        yield {
            "active jobs": len(world.root.jobs),
            "root_kb": len(world.leader._writer.encoded(world.root)) / 1024,
            "take_over_ms": median(taken) * 1e3,
            "first_turn_ms": median(turned) * 1e3,
        }


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover")
    parser.add_argument("root", nargs="*", default=["file", "gs"], help=", ".join(ROOTS))
    parser.add_argument("--runs", type=int, default=5)
    said = parser.parse_args()
    rows = []
    for scheme in said.root:
        for name, case in CASES.items():
            found = measure(scheme, case, said.runs)
            rows.append(
                {
                    "root": scheme,
                    "the leader is": name,
                    "median_s": median(found),
                    "longest_s": max(found),
                }
            )
    show(rows)
    show(list(recoveries(said.runs)))


if __name__ == "__main__":
    main()
