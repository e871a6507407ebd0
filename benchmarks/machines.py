"""
How long a turn spends on 1,000 machines: the reconciler, and its calls to providers.

    python -m benchmarks.machines

One pool has 1,000 machines and 1,000 jobs, one on each. `steady` is the everyday turn with a fresh
list, `no list` one without. `all new` is the first turn that sees them created, and `all idle` the
one that deletes them all. `act` derives the calls that committed state requires, which in `steady`
are none. The last row is a whole turn of the leader, including its commit to memory; `calls` are
then its list calls, whose number does not grow with jobs.

Milliseconds are CPU time, the median of several turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import process_time

from bastion.job import Phase
from bastion.machine import Machine, MachinePhase, Pool
from bastion.pool import Seen, machine_actions, reconcile
from bastion.provider.port import Listed
from benchmarks.table import show
from quota import Amounts
from tests.rigs.leader import CONFIG, QUOTA, Rig

COUNT = 1_000
TURNS = 15
NOW = 1_000_000.0
POOL = Pool(name="gpu", provider="fake", resources=Amounts({"h100": 8}), max_machines=COUNT)


def machines_of(**more: object) -> dict[str, Machine]:
    """Return a thousand machines in use."""
    made = (
        Machine(
            name=f"gpu-5-{i}",
            pool="gpu",
            phase=MachinePhase.READY,
            resources=POOL.resources,
            life=1,
            made_at=NOW - 60.0,
            created_at=NOW - 120.0,
        )
        for i in range(COUNT)
    )
    return {machine.name: replace(machine, **more) for machine in made}  # type: ignore[arg-type]


def took_ms(work: Callable[[], object]) -> float:
    """Return the median milliseconds of `work`."""
    times = []
    for _ in range(TURNS):
        began = process_time()
        work()
        times.append((process_time() - began) * 1000.0)
    return median(times)


def whole_turn() -> dict[str, object]:
    """Measure a turn of a leader with a job on each machine, which gets a fresh list."""
    quota = QUOTA.replace("h100 = 16", f"h100 = {8 * COUNT}").replace(
        "blue]\nh100 = 0.5", "blue]\nh100 = 1"
    )
    quota = quota.replace("red]\nh100 = 0.5", "red]\nh100 = 0")
    rig = Rig(quota=quota, config=CONFIG.replace("count = 2", f"count = {COUNT}"))
    for n in range(COUNT):
        rig.launch(f"job-{n}", h100=8)
    rig.until(lambda: sum(job.phase is Phase.RUNNING for job in rig.root.jobs.values()) == COUNT)
    rig.turn(20)
    provider = rig.providers["gpu"]
    lists = 0
    real = provider.list

    def counted() -> tuple[Listed, ...]:
        nonlocal lists
        lists += 1
        return real()

    provider.list = counted  # type: ignore[method-assign]

    def turn() -> None:
        rig.clock.advance(1.0)
        rig.leader.turn()

    turn_ms = took_ms(turn)
    return {"turn": "whole", "reconcile_ms": turn_ms, "act_ms": "", "calls": lists / TURNS}


def main() -> None:
    """Measure and print."""
    ready, new = machines_of(), machines_of(made_at=None, life=0, phase=MachinePhase.CREATING)
    idle = machines_of(idle_since=0.0)
    listing = tuple(Seen(name=name, pool="gpu", runs=True, gone=False) for name in ready)
    used = frozenset(ready)
    cases = {
        "steady": (ready, {"gpu": listing}, used),
        "no list": (ready, {}, used),
        "all new": (new, {"gpu": listing}, used),
        "all idle": (idle, {"gpu": listing}, frozenset()),
    }
    rows = []
    for name, (machines, fresh, in_use) in cases.items():
        turn_ms = took_ms(
            lambda m=machines, f=fresh, u=in_use: reconcile(m, {"gpu": POOL}, f, u, NOW, seq=9)  # type: ignore[misc]
        )
        act_ms = took_ms(lambda m=machines: machine_actions(m, {"gpu": listing}, seq=9))  # type: ignore[misc]
        calls = len(machine_actions(machines, {"gpu": listing}, seq=9))
        rows.append({"turn": name, "reconcile_ms": turn_ms, "act_ms": act_ms, "calls": calls})
    rows.append(whole_turn())
    show(rows)


if __name__ == "__main__":
    main()
