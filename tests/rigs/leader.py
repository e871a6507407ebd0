"""
A bastion in one thread on a virtual clock: real leader, scripted agents, in-memory store.

Agents claim and start hosts as instructed; a test says when and how their processes end. Time and
state change only in `turn`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal, TypeVar

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, NotFoundError, RecordError
from bastion.job import Claim, End, JobRecord
from bastion.lane import InlineLane
from bastion.machine import Batch, Build, Instruction, Machine, Pool, Start, StopHost
from bastion.provider.port import Listed, Provider
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout, ulid
from bastion.records.register import Won, look, win
from bastion.records.reports.facts import (
    Bell,
    Checkpointed,
    Claimed,
    Drained,
    Ended,
    Fact,
    Hello,
    HostFact,
    Reported,
    Started,
)
from bastion.records.reports.registers import ClaimRegister, EndRegister, GoRegister, LifeRegister
from bastion.records.requests.answer import Answer
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.request import Body
from bastion.records.requests.result import Result
from bastion.records.root import Event, Root, RootWriter
from bastion.records.settings.webhooks import Webhook
from bastion.service.act.machines import Machines, OpenPool
from bastion.service.act.notifications import Notifier
from bastion.service.config.admin_files import AdminFiles
from bastion.service.config.settings import Pace
from bastion.service.intake.registers import Seat
from bastion.service.journal import Journal
from bastion.service.leader import Leader
from bastion.service.publish.views import Publisher
from bastion.service.run.election import Candidate, Election
from bastion.spec import After, Array, CodeRef, Job, Launch, Notify, Process, Resources
from bastion.spec.where import ANYWHERE, Where
from bastion.store import ObjectStore
from bastion.store.memory import MemoryStore
from tests.rigs.carried import wrongly_carried

_T = TypeVar("_T")

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
blue = ["ann", "ben"]
red = ["cat"]
[project_resources.blue]
h100 = 0.5
[project_resources.red]
h100 = 0.5
[scheduler]
min_runtime_s = 0
grace_s = 5
max_grace_s = 60
"""
CONFIG = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
count = 2
"""
PACE = Pace(
    busy_poll_s=0.1,
    idle_poll_s=1.0,
    settle_s=0.0,
    commit_s=0.0,
    ttl_s=30.0,
    files_s=0.0,
    listing_s=1.0,
    sweep_s=1e9,
    view_s=0.0,
)


class ScriptedProvider:
    """Machines that run as soon as they are created; `stock` limits their number."""

    def __init__(self, pool: str, on_create: Callable[[Machine], None]) -> None:
        self.pool = pool
        self.states: dict[str, str] = {}
        self.creates: list[str] = []
        self.deletes: list[str] = []
        self.stock = 1_000
        self.sold_out: set[str] = set()
        """Zones without machines."""
        self.left: dict[str, int] = {}
        """How many more machines zones have; any number for a zone without an entry."""
        self.queues: dict[str, str] = {}
        """Zones that keep requests, and the provider's message."""
        self.ends: dict[str, str] = {}
        """Zones whose machines end before their agents start, and the provider's message."""
        self._words: dict[str, str] = {}
        self.odd: dict[str, str] = {}
        """What an admin has to fix, by machine."""
        self.in_account = ""
        """The account in use; empty if there is none."""
        self.refusal: Exception | None = None
        """The error of a create of new machines."""
        self.start_refusal: Exception | None = None
        """The error of a create of a stopped machine."""
        self.error: Exception | None = None
        self._on_create = on_create

    def list(self) -> tuple[Listed, ...]:
        """See the port."""
        self._fail()
        return tuple(
            Listed(
                name=name,
                pool=self.pool,
                state=state,  # type: ignore[arg-type]
                text=self._words.get(name, ""),
                odd=self.odd.get(name, ""),
                account=self.in_account,
            )
            for name, state in self.states.items()
        )

    def account(self) -> str:
        """See `TellsAccount`."""
        return self.in_account

    @property
    def vouches(self) -> bool:
        """See the port."""
        return True

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port."""
        for machine in machines:
            self._create(machine, pool)

    def _create(self, machine: Machine, pool: Pool) -> None:
        self._fail()
        self.creates.append(machine.name)
        if machine.name not in self.states:
            self._check_stock(machine, pool)
        elif self.states[machine.name] == "stopped" and self.start_refusal is not None:
            raise self.start_refusal
        for zones, state in ((self.queues, "waiting"), (self.ends, "gone")):
            if machine.zone in zones:
                self.states[machine.name], self._words[machine.name] = state, zones[machine.zone]
                return
        self.states[machine.name] = "running"
        self._on_create(machine)

    def _check_stock(self, machine: Machine, pool: Pool) -> None:
        if self.refusal is not None:
            raise self.refusal
        left = self.left.get(machine.zone, self.stock - len(self.states))
        if left <= 0 or machine.zone in self.sold_out:
            raise NoCapacityError(f"no machine in {pool.name}")
        if machine.zone in self.left:
            self.left[machine.zone] -= 1

    def delete(self, name: str) -> None:
        """See the port."""
        self._fail()
        self.deletes.append(name)
        self.states.pop(name, None)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


class Agent:
    """One machine's agent: it follows its instructions at `poll`, and the calls of the test."""

    def __init__(self, store: ObjectStore, name: str, *, h100: int = 8) -> None:
        self.store = store
        self.name = name
        self.life = 0
        self.h100 = h100
        self.is_deaf = False
        self.fails_with: End | None = None
        """How every host ends instead of starting; None: they start."""
        self.failed: list[str] = []
        self.starts: dict[str, Start] = {}
        self.stops: list[StopHost] = []
        self.told: list[Instruction] = []
        self.ran: list[str] = []
        self._batch = 1
        self._bell = 0
        self._waiting: list[Start] = []
        self.heartbeat_s = 0.0
        self.build = ""
        self.live_again()

    def live_again(self) -> None:
        """Start a new keeper life."""
        self.life += 1
        self._batch, self._bell = 1, 0
        self._waiting = []
        key = layout.life(self.name, self.life)
        self.store.create(key, encode(LifeRegister(write_id=key, boot_id="b")))
        self.ring(self.hello())

    def hello(self) -> Hello:
        """Return what it reports about itself."""
        return Hello(
            resources=Resources(h100=self.h100).amounts,
            address=f"10.0.0.{self.name[-1]}",
            hostname=self.name,
            version="0",
            heartbeat_s=self.heartbeat_s,
            build=self.build,
        )

    def ring(self, *facts: Fact) -> str:
        """Ring a bell; return its key."""
        key = layout.bell(self.name, self.life, self._bell)
        self.store.create(key, encode(Bell(facts=facts)))
        self._bell += 1
        return key

    def poll(self) -> None:
        """Follow all new instructions."""
        if self.is_deaf:
            return
        while (instructions := self._next()) is not None:
            for instruction in instructions:
                self.told.append(instruction)
                self._do(instruction)
        for start in list(self._waiting):
            self._begin(start)

    def of(self, job: str, *, replica: int | None = None) -> HostFact:
        """Return the host of `job` here that started last, or that of one replica."""
        start = next(
            s
            for s in reversed(self.starts.values())
            if s.job == job and replica in (None, s.replica)
        )
        return _fact(start)

    def end(self, job: str, *codes: int, replica: int | None = None, **more: Any) -> None:
        """Let the processes of `job` here exit with `codes`, with all logs shipped."""
        codes = codes or (0,)
        first = next((i for i, code in enumerate(codes) if code), None)
        if more.get("notice"):
            first = None
        first = more.pop("first_failed", first)
        end = End(kind="exited", codes=codes, first_failed=first, sizes=(3,), **more)
        self.end_as(self.of(job, replica=replica), end)

    def end_as(self, of: HostFact, end: End, *, rings: bool = True) -> End:
        """Write `end` and report it."""
        key = Seat(of=of, machine=self.name).end_key
        stands = win(self.store, key, EndRegister(write_id=f"{self.name}-{key}", end=end)).record
        if rings:
            self.ring(Ended(of=of, end=stands.end), Drained(of=of))
        return stands.end

    def checkpoint(self, job: str) -> None:
        """Mark a checkpoint of `job`."""
        self.ring(Checkpointed(of=self.of(job)))

    def report(self, job: str, **numbers: float) -> None:
        """Report numbers of `job`."""
        self.ring(Reported(of=self.of(job), numbers=numbers))

    def _next(self) -> tuple[Instruction, ...] | None:
        """Return the next batch, empty if it is unreadable; None if there is none yet."""
        key = layout.instructions(self.name, self.life, self._batch)
        try:
            found = self.store.read(key)
        except NotFoundError:
            return None
        assert found is not None
        self._batch += 1
        try:
            return decode(Batch, found.data, key=key).instructions
        except RecordError:
            return ()

    def _do(self, instruction: Instruction) -> None:
        if isinstance(instruction, Start):
            self._claim(instruction)
        elif isinstance(instruction, StopHost):
            self.stops.append(instruction)
            self._stop(instruction)

    def _claim(self, start: Start) -> None:
        of = _fact(start)
        key = Seat(of=of, machine=self.name).claim_key
        claim = Claim(machine=self.name, life=self.life, address="10.0.0.1", port=29500)
        if not isinstance(win(self.store, key, ClaimRegister(write_id=key, claim=claim)), Won):
            return
        self.ring(Claimed(of=of, claim=claim))
        self.starts[f"{start.job}/{start.attempt}/{start.replica}/{start.host}"] = start
        self._waiting.append(start)

    def _begin(self, start: Start) -> None:
        if self.fails_with is not None:
            self._waiting.remove(start)
            self.failed.append(start.job)
            self.end_as(_fact(start), self.fails_with)
            return
        if start.barrier:
            key = layout.go(start.project, start.job, start.attempt, start.nonce)
            try:
                go = look(self.store, key, GoRegister)
            except RecordError as error:
                self._waiting.remove(start)
                self.end_as(_fact(start), End(kind="lost", detail=error.message))
                return
            if go is None or not go.addresses:
                return
        self._waiting.remove(start)
        self.ran.append(f"{start.job}/{start.attempt}")
        self.ring(Started(of=_fact(start)))

    def _stop(self, stop: StopHost) -> None:
        """Stop a host: every process obeys a notice here and exits with 0."""
        of = HostFact(
            project=stop.project,
            job=stop.job,
            attempt=stop.attempt,
            nonce=stop.nonce,
            replica=stop.replica,
            host=stop.host,
        )
        never_began = [s for s in self._waiting if _fact(s) == of]
        self._waiting = [s for s in self._waiting if s not in never_began]
        codes = () if never_began else (0,)
        kind: Literal["revoked", "exited"] = "revoked" if never_began else "exited"
        self.end_as(of, End(kind=kind, codes=codes, notice=stop.reason))


def _fact(start: Start) -> HostFact:
    return HostFact(
        project=start.project,
        job=start.job,
        attempt=start.attempt,
        nonce=start.nonce,
        replica=start.replica,
        host=start.host,
    )


class Webhooks:
    """The notifications that webhooks received; `error` is raised instead of accepting one."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, dict[str, Any]]] = []
        """(id, body)"""
        self.urls: list[str] = []
        self.error: Exception | None = None

    def send(self, webhook: Webhook, body: bytes, identity: str) -> None:
        """Accept it, or raise `error`."""
        self.urls.append(webhook.url)
        if self.error is not None:
            raise self.error
        self.taken.append((identity, json.loads(body)))


class Rig:
    """
    One bucket and everything around it.

    Args:
        config: `config/bastion.toml`, or None for none.
        quota: The quota file, or None for none.
        spoil: Wraps the store as the leader sees it.
        provider: Opens a pool's provider; None: it is scripted, and its machines greet immediately.
    """

    def __init__(
        self,
        *,
        config: str | None = CONFIG,
        quota: str | None = QUOTA,
        spoil: Callable[[ObjectStore], ObjectStore] = lambda store: store,
        pace: Pace = PACE,
        provider: Callable[[Pool], Provider] | None = None,
    ) -> None:
        self.provider = provider
        self.clock = VirtualClock()
        self.bucket = MemoryStore(self.clock.wall)
        self.store = spoil(self.bucket)
        self.pace = pace
        self.agents: dict[str, Agent] = {}
        self.providers: dict[str, ScriptedProvider] = {}
        self.build: Build | None = None
        """The build that new machines install; None: they install nothing."""
        self.opened: list[Pool] = []
        """Each pool for which a provider was opened."""
        self.numbers = count(1)
        self.are_agents_up = True
        self.webhooks = Webhooks()
        self.journal = Journal("bastion", self.clock, out=None)
        if quota is not None:
            self.bucket.create(layout.QUOTA, quota.encode())
        if config is not None:
            self.bucket.create(layout.CONFIG, config.encode())
        self.leader = self.take()

    # Bastions

    def take(self, holder: str = "bastion", *, pid: int = 1) -> Leader:
        """Start a bastion that takes the lease; a predecessor of the same name counts as dead."""
        writer = RootWriter(self.store, self.clock)
        candidate = Candidate(
            holder=holder, host="vm", boot="b", pid=pid, pid_started=0.0, ttl_s=self.pace.ttl_s
        )
        election = Election(
            writer,
            self.clock,
            candidate,
            is_alive=lambda pid, started: False,
            nonce=self.nonce,
        )
        return Leader(
            election.try_once(),
            store=self.store,
            writer=writer,
            clock=self.clock,
            machines=Machines(
                self.clock, self.journal, self._open_pool, listing_s=self.pace.listing_s
            ),
            files=AdminFiles(self.store, self.store, self.clock, every_s=self.pace.files_s),
            publisher=Publisher(self.store, self.clock, every_s=self.pace.view_s),
            notifier=Notifier(self.clock, self.journal, InlineLane(), self.webhooks.send),
            lane=InlineLane(),
            spec_lane=InlineLane(),
            pace=self.pace,
            nonce=self.nonce,
            journal=self.journal,
        )

    def nonce(self) -> str:
        """Return a new name."""
        return f"n{next(self.numbers)}"

    def _open_pool(self, pool: Pool) -> OpenPool:
        self.opened.append(pool)

        def on_create(machine: Machine) -> None:
            if self.are_agents_up and machine.name not in self.agents:
                self.greet(machine.name, h100=machine.resources["h100"])

        if self.provider is not None:
            return OpenPool(pool=pool, provider=self.provider(pool), lane=InlineLane())
        provider = self.providers.setdefault(pool.name, ScriptedProvider(pool.name, on_create))
        return OpenPool(
            pool=pool, provider=provider, lane=InlineLane(), before_create=lambda: self.build
        )

    def greet(self, machine: str, *, h100: int) -> None:
        """Start the agent of a machine that has booted."""
        self.agents[machine] = Agent(self.bucket, machine, h100=h100)

    def turn(self, times: int = 1, *, seconds: float = 1.0) -> None:
        """Take turns; after each one all agents poll and `seconds` pass."""
        for _ in range(times):
            self.leader.turn()
            assert not (wrong := wrongly_carried(self.leader)), wrong
            for agent in self.agents.values():
                agent.poll()
            self.clock.advance(seconds)

    def until(self, condition: Callable[[], object], *, turns: int = 60) -> None:
        """Take turns until `condition` holds; fail after `turns`."""
        for _ in range(turns):
            if condition():
                return
            self.turn()
        assert condition(), "it never came true"

    def until_attempt(self, job: str, number: int) -> None:
        """Take turns until the `number`-th attempt of `job` runs."""
        self.until(lambda: self.phase(job) == "running" and self.job(job).attempts == number)

    # Users

    def ask(self, user: str, project: str, verb: str, body: Body | bytes) -> str:
        """Put a request into the inbox; return its ULID."""
        name = ulid.make(self.clock.wall(), next(self.numbers).to_bytes(10, "big"))
        data = body if isinstance(body, bytes) else encode(body)
        self.bucket.create(layout.request(project, user, name, verb), data)
        return name

    def launch(
        self,
        name: str = "train",
        *,
        user: str = "ann",
        project: str = "blue",
        h100: int = 1,
        jobs: tuple[Job, ...] = (),
        together: bool = True,
        when_busy: Literal["queue", "fail"] = "queue",
        after: Sequence[After | str] = (),
        notify: Sequence[Notify | str] = (),
        array: Array | None = None,
        code: CodeRef | None = None,
        where: Where = ANYWHERE,
        **job: Any,
    ) -> str:
        """Request a launch; return its ULID. `job` is its single job, unless `jobs` are given."""
        resources = Resources(h100=h100) if h100 else Resources()
        one = Job(processes=(Process(["true"], resources=resources),), **job)
        launch = Launch(
            name=name,
            jobs=jobs or (one,),
            together=together,
            when_busy=when_busy,
            after=after,
            notify=notify,
            array=array,
            code=code,
            where=where,
        )
        return self.ask(user, project, "launch", LaunchRequest(launch=launch))

    def submit(self, name: str = "train", **launch: Any) -> str:
        """Request a launch of one job and wait until it is absorbed; return the job's id."""
        user, project = str(launch.get("user", "ann")), str(launch.get("project", "blue"))
        asked = self.launch(name, **launch)
        self.turn()
        (job,) = self.answer(asked, user=user, project=project).jobs
        return job

    def start(self, name: str = "train", **launch: object) -> str:
        """Request a launch of one job and wait until it runs; return the job's id."""
        job = self.submit(name, **launch)
        self.until(lambda: self.phase(job) == "running")
        return job

    def verb(self, verb: str, *targets: str, user: str = "ann", project: str = "blue") -> str:
        """Request `verb` of `targets`; return its ULID."""
        return self.ask(user, project, verb, JobsRequest(targets=targets))

    def answer(self, asked: str, *, user: str = "ann", project: str = "blue") -> Answer:
        """Return the answer to a request, which must exist now or after the next turn."""
        key = f"{project}/{user}/{asked}"
        if key in self.root.answers:
            return self.root.answers[key]
        answer = self.read(layout.answer(project, user, asked), Answer)
        assert answer is not None, f"{asked} is not answered"
        return answer

    # State

    @property
    def root(self) -> Root:
        """Return root as the leader holds it."""
        return self.leader.held.root

    def job(self, job: str) -> JobRecord:
        """Return an active job."""
        return self.root.jobs[job]

    def phase(self, job: str) -> str:
        """Return the phase of a job, `gone` when it left root."""
        return self.root.jobs[job].phase.value if job in self.root.jobs else "gone"

    def result(self, job: str, project: str = "blue") -> Result | None:
        """Return the final record of a job."""
        return self.read(layout.result(project, job), Result)

    def ended(self, job: str, project: str = "blue") -> Result:
        """Take turns until `job` has left root; return its final record."""
        self.until(lambda: self.phase(job) == "gone")
        result = self.result(job, project)
        assert result is not None
        return result

    def ended_later(self, job: str, project: str = "blue") -> Result:
        """Take turns until the final record of `job` exists; the job may be unknown before."""
        self.until(lambda: self.result(job, project) is not None)
        return self.ended(job, project)

    def agent_of(self, job: str, *, replica: int = 0) -> Agent:
        """Return the agent of the machine on which a replica runs."""
        attempt = self.job(job).attempt
        assert attempt is not None
        return self.agents[attempt.placement[replica].hosts[0].machine]

    def read(self, key: str, kind: type[_T]) -> _T | None:
        """Return the record at `key`, or None."""
        try:
            found = self.bucket.read(key)
        except NotFoundError:
            return None
        assert found is not None
        return decode(kind, found.data, key=key)

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys in the bucket below `prefix`."""
        return [entry.key for entry in self.bucket.list(prefix, limit=100_000)]

    def history(self) -> list[Event]:
        """Return all events: sealed segments in the bucket, then those in root."""
        events: list[Event] = []
        sealed = {layout.events(segment.first): segment.events for segment in self.root.sealed}
        for key in sorted({*self.keys(layout.EVENTS), *sealed}):
            if key in sealed:
                events += sealed[key]
                continue
            found = self.bucket.read(key)
            assert found is not None
            events += [decode(Event, line, key=key) for line in found.data.splitlines()]
        return [*events, *self.root.events]

    def put(self, key: str, text: str) -> None:
        """Write a file as an admin."""
        try:
            found = self.bucket.read(key)
        except NotFoundError:
            self.bucket.create(key, text.encode())
            return
        assert found is not None
        self.bucket.swap(key, text.encode(), if_version=found.version)
