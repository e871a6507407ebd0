"""
The bucket's cost per month: operations of each class, counted over a real leader and agents.

    python -m benchmarks.cost                  10, 1,000 and 10,000 active jobs
    python -m benchmarks.cost 1000 --minutes 60 --store s3
    python -m benchmarks.cost 10 1000 --heartbeat 30       agents as local pools start them

It uses a virtual clock, a memory store that counts, and the intervals of a cloud. Half of the jobs
run, with one device each on machines of eight, for eight hours. Whenever one ends another is
submitted, so the numbers stay constant. No user looks and nothing is printed: logs and views that
people read cost extra.

Prices are list prices of standard storage in one region, in dollars for 10,000 operations. Google
does not bill 4xx answers (a poll for a missing object, a create that lost); Amazon bills all of
them. Source: cloud.google.com/storage/pricing, "Operation charges" (A 0.05, B 0.004);
aws.amazon.com/s3/pricing (0.05, 0.004) and S3 User Guide, "Billing for Amazon S3 error responses".
Looked up 2025.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar, cast

from bastion.agent.agent import Agent
from bastion.agent.host.context import KeeperAndSpool
from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Script
from bastion.agent.keeper.port import KeeperGoneError, ProcessStart
from bastion.agent.keeper_life import begin_life
from bastion.agent.settings import GCS, S3, AgentSettings, Tempo
from bastion.errors import ConflictError, NotFoundError
from bastion.lane import InlineLane
from bastion.machine import Machine, Pool
from bastion.records.requests.launch_request import LaunchRequest
from bastion.service.act.machines import OpenPool
from bastion.service.config.settings import CLOUD
from bastion.service.run.serve import BUSY_FOR_S
from bastion.spec import Job, Launch, Process, Resources
from bastion.store import Entry, Object, ObjectStore, Version, Written
from bastion.store.port import READ_LIMIT_BYTES
from benchmarks.table import show
from quota.amounts import Amounts
from tests.rigs.leader import Rig, ScriptedProvider
from tests.simulation.machines import SimHome
from tests.simulation.port import Port

_T = TypeVar("_T")

MONTH_S = 30 * 86400.0
A_DOLLARS, B_DOLLARS = 0.05 / 10_000, 0.004 / 10_000
RUNS_S = 8 * 3600.0
DEVICES = 8
"""Devices of each machine, which is also its number of jobs."""
USERS = 50
WARM_UP_S = 120.0


class Tally:
    """Operations by actor and kind: written, listed, read, absent, lost, deleted."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()

    def since(self, before: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
        """The operations since `before` was copied."""
        return self.asked - before


class Counted:
    """A store that counts the operations of `actor` in a tally."""

    def __init__(self, store: ObjectStore, tally: Tally, actor: str) -> None:
        self._store = store
        self._tally = tally
        self._actor = actor

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""

        def work() -> Object | None:
            return self._store.read(key, unless=unless, limit_bytes=limit_bytes)

        return self._count("read", "absent", work)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        return self._count("written", "lost", lambda: self._store.create(key, data))

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        work = lambda: self._store.swap(key, data, if_version=if_version)  # noqa: E731
        return self._count("written", "lost", work)

    def delete(self, key: str) -> None:
        """See the port."""
        self._count("deleted", "deleted", lambda: self._store.delete(key))

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        work = lambda: self._store.list(prefix, start_after=start_after, limit=limit)  # noqa: E731
        return self._count("listed", "listed", work)

    def _count(self, done: str, failed: str, work: Callable[[], _T]) -> _T:
        try:
            found = work()
        except (NotFoundError, ConflictError):
            self._tally.asked[self._actor, failed] += 1
            raise
        self._tally.asked[self._actor, done] += 1
        return found


class Straight:
    """A port of the simulation without interleaving: each call is made immediately."""

    def call(self, _operation: str, _key: str, work: Callable[[], _T], **_: bool) -> _T:
        """Call `work`."""
        return work()


class World(Rig):
    """
    One bastion, its machines with real agents over fake keepers, and users who keep it busy.

    Args:
        active: The number of jobs that wait or run at any time; half of them run.
        heartbeat_s: The interval of the heartbeats of an idle agent; 0: none.
    """

    def __init__(
        self, active: int, tempo: Tempo = GCS, seed: int = 1, *, heartbeat_s: float = 0.0
    ) -> None:
        self.heartbeat_s = heartbeat_s
        self.tally = Tally()
        self.chance = random.Random(seed)
        self.machines: dict[str, Agent] = {}
        self.running = max(1, active // 2)
        self.active = active
        self.tempo = tempo
        self.turns = 0
        self._due: list[tuple[float, int, Callable[[], float]]] = []
        self._order = count()
        machines = -(-self.running // DEVICES)
        super().__init__(
            quota=_quota(machines * DEVICES),
            config=_config(machines),
            spoil=lambda store: Counted(store, self.tally, "bastion"),
            pace=CLOUD,
        )
        self.users = Counted(self.bucket, self.tally, "users")
        self._moved_at = 0.0
        self._at(0.0, self._lead)

    def pass_s(self, seconds: float) -> None:
        """Let time pass for all actors."""
        until = self.clock.monotonic() + seconds
        while self._due and self._due[0][0] <= until:
            at, _, turn = heappop(self._due)
            self.clock.advance(max(0.0, at - self.clock.monotonic()))
            self._at(turn(), turn)
        self.clock.advance(until - self.clock.monotonic())

    def ask_for(self, jobs: int, *, runs_s: Callable[[], float]) -> None:
        """Submit `jobs` jobs, a hundred at a time."""
        for first in range(0, jobs, 100):
            wanted = [self._job(n, runs_s()) for n in range(min(100, jobs - first))]
            launch = Launch(name="batch", jobs=tuple(wanted), together=False)
            user = f"u{self.chance.randrange(USERS)}"
            bucket, self.bucket = self.bucket, cast("object", self.users)  # type: ignore[assignment]
            try:
                self.ask(user, "blue", "launch", LaunchRequest(launch=launch))
            finally:
                self.bucket = bucket
            # A client polls for the answer every second; only the last poll finds it.
            self.tally.asked["users", "absent"] += 3
            self.tally.asked["users", "read"] += 1

    def refill(self) -> None:
        """Submit as many jobs as have ended."""
        self.ask_for_singly(self.active - len(self.root.jobs))

    def ask_for_singly(self, jobs: int) -> None:
        """Submit `jobs` launches of one job."""
        for _ in range(jobs):
            self.ask_for(1, runs_s=lambda: RUNS_S)

    def _job(self, number: int, runs_s: float) -> Job:
        process = Process(["sim", str(runs_s)], resources=Resources(h100=1))
        return Job(name=f"j{number}", processes=(process,))

    def _at(self, at: float, turn: Callable[[], float]) -> None:
        heappush(self._due, (at, next(self._order), turn))

    def _lead(self) -> float:
        """Make one turn of the leader; return when the next is due, as `Service` computes it."""
        moved = self.leader.turn()
        self.turns += 1
        now = self.clock.monotonic()
        self._moved_at = now if moved else self._moved_at
        return now + self.leader.wait_s(moved=moved, busy=now - self._moved_at < BUSY_FOR_S)

    def _open_pool(self, pool: Pool) -> OpenPool:
        provider = self.providers.setdefault(pool.name, ScriptedProvider(pool.name, self._boot))
        return OpenPool(pool=pool, provider=provider, lane=InlineLane())

    def _boot(self, machine: Machine) -> None:
        if machine.name in self.machines:
            return
        home, store = FakeHome(), Counted(self.bucket, self.tally, "agents")

        def no_keeper() -> KeeperAndSpool:
            raise KeeperGoneError("none yet")

        keeper = begin_life(
            store,
            machine.name,
            boot_id="b",
            nonce=self.nonce,
            connect=no_keeper,
            spawn=lambda life: FakeKeeper(home, self.clock, _script, life=life),
        )
        agent = Agent(
            store,
            keeper,
            self.clock,
            AgentSettings(
                machine=machine.name,
                pool=machine.pool,
                resources=Amounts({"h100": DEVICES}),
                tempo=self.tempo,
                heartbeat_s=self.heartbeat_s,
            ),
            InlineLane(),
            self.nonce,
            home=SimHome(cast("Port", Straight()), home),
            ports=lambda: 29500,
            say=lambda _: None,
        )
        self.machines[machine.name] = agent

        def turn() -> float:
            while agent.turn():
                pass
            now = self.clock.monotonic()
            return now + agent._wait_s(now)

        # Machines do not boot in step.
        self._at(self.clock.monotonic() + self.chance.uniform(0.0, self.tempo.idle_s), turn)


def _script(process: ProcessStart) -> Script:
    return Script(runs_s=float(process.argv[1]))


def _quota(devices: int) -> str:
    members = ", ".join(f'"u{n}"' for n in range(USERS))
    return f"""
[toml-schema]
version = "1"
[total_resources]
h100 = {devices}
[project_membership]
blue = [{members}]
[project_resources.blue]
h100 = 1.0
"""


def _config(machines: int) -> str:
    return f"""
[pools.gpu]
provider = "fake"
resources = {{ h100 = {DEVICES} }}
count = {machines}
"""


def dollars(asked: Counter[str], tempo: Tempo) -> float:
    """Return the price of `asked` at Google, or at Amazon, which also bills missing objects."""
    a, b = asked["written"] + asked["listed"], asked["read"]
    if tempo == S3:
        a, b = a + asked["lost"], b + asked["absent"]
    return a * A_DOLLARS + b * B_DOLLARS


def standing(
    active: int, minutes: float, tempo: Tempo, heartbeat_s: float
) -> Iterator[dict[str, object]]:
    """Yield rows of the cost of that many active jobs, by actor."""
    world = World(active, tempo, heartbeat_s=heartbeat_s)
    # The first running jobs are spread over their eight hours.
    world.ask_for(world.running, runs_s=lambda: world.chance.random() * RUNS_S)
    world.ask_for(active - world.running, runs_s=lambda: RUNS_S)
    world.pass_s(WARM_UP_S)
    running = sum(job.attempt is not None for job in world.root.jobs.values())
    assert running, world.journal.problems
    before, turns, seq = world.tally.asked.copy(), world.turns, world.root.seq
    for _ in range(int(minutes)):
        world.pass_s(60.0)
        world.refill()
    asked, turns = world.tally.since(before), world.turns - turns
    scale = MONTH_S / (int(minutes) * 60.0)
    for actor in ("bastion", "agents", "users", ""):
        by = Counter[str]()
        for (asker, what), times in asked.items():
            by[what] += times if actor in ("", asker) else 0
        yield {
            "active": active,
            "running": running,
            "machines": len(world.machines),
            "actor": actor or "all",
            "A a turn": (by["written"] + by["listed"]) / turns,
            "B a turn": by["read"] / turns,
            "free a turn": (by["absent"] + by["deleted"] + by["lost"]) / turns,
            "turns an hour": turns * 60.0 / int(minutes),
            "commits an hour": (world.root.seq - seq) * 60.0 / int(minutes),
            "$ a month": dollars(by, tempo) * scale,
        }


def one_job() -> Iterator[dict[str, object]]:
    """Yield rows of what a job adds to an idle bastion: its submission, its start, its end."""
    for what, until_s in (("submit and start", 30.0), ("whole life", 130.0)):
        costs = []
        for jobs in (0, 1):
            world = World(DEVICES)
            world.pass_s(WARM_UP_S)
            before = world.tally.asked.copy()
            for _ in range(jobs):
                world.ask_for(1, runs_s=lambda: 60.0)
            world.pass_s(until_s)
            costs.append(world.tally.since(before))
        added = {key: costs[1][key] - costs[0][key] for key in costs[1].keys() | costs[0].keys()}
        row: dict[str, object] = {"one job": what}
        for actor in ("users", "bastion", "agents"):
            written = added.get((actor, "written"), 0) + added.get((actor, "listed"), 0)
            row |= {f"A {actor}": written, f"B {actor}": added.get((actor, "read"), 0)}
        yield row


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost")
    parser.add_argument("active", type=int, nargs="*", default=[10, 1_000, 10_000])
    parser.add_argument("--minutes", type=float, default=30.0, help="virtual, that are counted")
    parser.add_argument("--store", choices=("gs", "s3"), default="gs")
    parser.add_argument("--heartbeat", type=float, default=0.0, help="of agents, in seconds")
    said = parser.parse_args()
    tempo = S3 if said.store == "s3" else GCS
    show(
        [
            row
            for active in said.active
            for row in standing(active, said.minutes, tempo, said.heartbeat)
        ]
    )
    show(list(one_job()))


if __name__ == "__main__":
    main()
