"""An agent's bucket, written and read as a bastion would, and the agent on a virtual clock."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bastion.agent.agent import Agent
from bastion.agent.attempt_key import key_of
from bastion.agent.begin.begin import NOTHING_BEGUN, Begun
from bastion.agent.cloud.metadata import Metadata
from bastion.agent.home import FolderHome
from bastion.agent.host.claim import claim_key, end_key
from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Script
from bastion.agent.keeper.port import KeeperGoneError, ProcessStart
from bastion.agent.keeper_life import begin_life
from bastion.agent.settings import AgentSettings
from bastion.agent.usage.port import Sampler
from bastion.clock import VirtualClock
from bastion.job import Claim, End
from bastion.lane import InlineLane, Lane
from bastion.machine import Batch, Instruction, Start, StopHost
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.facts import Bell, Fact, HostFact
from bastion.records.reports.registers import ClaimRegister, EndRegister, GoRegister
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import CodeRef, Job, Launch, Process, PythonEnv
from bastion.store.folder.watch import Watch
from bastion.store.memory import Fault, FaultyStore, MemoryStore, Operation
from bastion.store.port import ObjectStore
from quota.amounts import Amounts

MACHINE = "pool-1-0"
OF = HostFact(project="vision", job="train-abc", attempt=1, nonce="n1", replica=0, host=0)


class Bucket:
    """The bastion's side of a bucket."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._batches = itertools.count(1)

    def spec(
        self,
        job: Job,
        *,
        launch: str = "launch-abc",
        code: CodeRef | None = None,
        python: PythonEnv | None = None,
    ) -> None:
        """Write the spec of a launch of one job."""
        record = SpecRecord(
            id=launch,
            project="vision",
            user="ada",
            ulid="0" * 26,
            launch=Launch(name="launch", jobs=(job,), project="vision", code=code, python=python),
        )
        self.store.create(layout.spec("vision", launch), encode(record))

    def instruct(self, *instructions: Instruction, life: int = 1, number: int = 0) -> None:
        """Write the next batch."""
        batch = Batch(number=number or next(self._batches), life=life, instructions=instructions)
        self.store.create(layout.instructions(MACHINE, life, batch.number), encode(batch))

    def facts(self) -> tuple[Fact, ...]:
        """Return all facts reported so far, in order."""
        told: list[Fact] = []
        for entry in self.store.list(layout.BELLS):
            found = self.store.read(entry.key)
            assert found is not None
            told.extend(decode(Bell, found.data, key=entry.key).facts)
        return tuple(told)

    def told(self, of: HostFact = OF) -> tuple[str, ...]:
        """Return the kinds of facts about one host, in order."""
        return tuple(fact.kind for fact in self.facts() if getattr(fact, "of", None) == of)

    def claim(self, of: HostFact = OF) -> Claim | None:
        """Return the claim of a host."""
        key = claim_key(of, MACHINE)
        found = look(self.store, key, ClaimRegister)
        return found.claim if found else None

    def put_claim(self, claim: Claim | None, of: HostFact = OF) -> None:
        """Claim a host for another agent, or revoke it."""
        key = claim_key(of, MACHINE)
        self.store.create(key, encode(ClaimRegister(write_id="other", claim=claim)))

    def end(self, of: HostFact = OF) -> End | None:
        """Return the end of a host."""
        key = end_key(of, MACHINE)
        found = look(self.store, key, EndRegister)
        return found.end if found else None

    def put_end(self, end: End, of: HostFact = OF) -> None:
        """Write an end before the agent does."""
        key = end_key(of, MACHINE)
        self.store.create(key, encode(EndRegister(write_id="other", end=end)))

    def go(self, *addresses: str, port: int = 29500, of: HostFact = OF) -> None:
        """Open the barrier, or revoke it if no address is given."""
        key = layout.go(of.project, of.job, of.attempt, of.nonce)
        self.store.create(key, encode(GoRegister(write_id="go", addresses=addresses, port=port)))

    def log(self, process: int = 0, of: HostFact = OF) -> bytes:
        """Return the whole log of a process; fail on a gap or an overlap."""
        prefix = layout.log(
            of.project, of.job, of.attempt, replica=of.replica, host=of.host, process=process
        )
        whole = b""
        for entry in self.store.list(prefix):
            assert entry.key == f"{prefix}{layout.padded(len(whole))}.log", entry.key
            found = self.store.read(entry.key)
            assert found is not None
            whole += found.data
        return whole


def start(of: HostFact = OF, **fields: Any) -> Start:
    """Return the instruction that starts a host."""
    return Start(
        project=of.project,
        job=of.job,
        launch="launch-abc",
        index=0,
        attempt=of.attempt,
        nonce=of.nonce,
        replica=of.replica,
        host=of.host,
        **{"devices": {}, **fields},
    )


def stop(of: HostFact = OF, reason: str = "cancel", grace_s: float = 5.0) -> StopHost:
    """Return the instruction that stops a host."""
    return StopHost(
        project=of.project,
        job=of.job,
        attempt=of.attempt,
        nonce=of.nonce,
        replica=of.replica,
        host=of.host,
        reason=reason,
        by="ada",
        grace_s=grace_s,
    )


def job(*commands: str, **fields: Any) -> Job:
    """Return a job with one process per command."""
    lines = commands or ("true",)
    return Job(name="train", processes=tuple(Process([line]) for line in lines), **fields)


class Rig:
    """One machine on a virtual clock: a scripted keeper and the real agent."""

    def __init__(
        self,
        scripts: Callable[[ProcessStart], Script] = lambda _: Script(),
        *,
        settings: AgentSettings | None = None,
        faults: Callable[[Operation, str], Fault | None] = lambda _operation, _key: None,
        metadata: Metadata | None = None,
        begun: Begun = NOTHING_BEGUN,
        sampler: Sampler | None = None,
        watch: Watch | None = None,
        long_lane: Lane | None = None,
    ) -> None:
        self.long_lane = long_lane
        self.sampler = sampler
        self.watch = watch
        self.metadata = metadata
        self.begun = begun
        self.clock = VirtualClock()
        self.memory = MemoryStore(self.clock.wall)
        self.bucket = Bucket(self.memory)
        self.store = FaultyStore(self.memory, faults)
        self.scripts = scripts
        self.settings = settings or AgentSettings(machine=MACHINE, resources=Amounts({"h100": 8}))
        self.keeper_home = FakeHome()
        self.folder = tempfile.TemporaryDirectory()
        self.home_folder = Path(self.folder.name)
        self.home = FolderHome(self.home_folder)
        self.said: list[str] = []
        self._keeper: FakeKeeper | None = None
        self._nonces = (f"w{n}" for n in itertools.count())
        self.agent = self.restart()

    def restart(self) -> Agent:
        """Start a new agent, as after kill -9; and a new keeper life if the keeper is dead."""
        begin_life(
            self.store,
            self.settings.machine,
            boot_id="boot",
            nonce=lambda: next(self._nonces),
            connect=self._connect,
            spawn=self._spawn,
        )
        self.agent = Agent(
            self.store,
            self.keeper,
            self.clock,
            self.settings,
            InlineLane(),
            lambda: next(self._nonces),
            home=self.home,
            ports=lambda: 29500,
            say=self.said.append,
            metadata=self.metadata,
            begun=self.begun,
            sampler=self.sampler,
            watch=self.watch,
            long_lane=self.long_lane,
        )
        return self.agent

    @property
    def keeper(self) -> FakeKeeper:
        """Return the newest keeper, which may have crashed."""
        assert self._keeper is not None
        return self._keeper

    def is_finished(self) -> bool:
        """Whether the agent is done."""
        return self.agent.is_finished

    def pass_s(self, seconds: float, *, step_s: float = 0.02) -> None:
        """Let time pass while the agent takes turns."""
        deadline = self.clock.monotonic() + seconds
        while self.clock.monotonic() < deadline:
            while self.agent.turn():
                pass
            self.clock.advance(step_s)
        while self.agent.turn():
            pass

    def executions(self, of: HostFact = OF) -> int:
        """Return how often a host was started."""
        return self.keeper_home.executed.count(key_of(of))

    def _connect(self) -> FakeKeeper:
        if self._keeper is None:
            raise KeeperGoneError("none yet")
        self._keeper.attempts()
        return self._keeper

    def _spawn(self, life: int) -> FakeKeeper:
        self._keeper = FakeKeeper(
            self.keeper_home, self.clock, self.scripts, life=life, permit_s=self.settings.permit_s
        )
        return self._keeper
