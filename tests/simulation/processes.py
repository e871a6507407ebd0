"""The processes of the simulated world: how bastions, agents and users start, and what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bastion.agent.agent import Agent
from bastion.agent.home import FolderHome
from bastion.agent.keeper.port import KeeperError
from bastion.agent.keeper_life import begin_life
from bastion.agent.settings import AgentSettings, Tempo
from bastion.client.change.inbox import Inbox, RequestRef
from bastion.client.change.request_id import Ulids
from bastion.client.patience import Outage, PatientStore
from bastion.errors import BastionError, FencedError, LeaseHeldError, StoreError
from bastion.lane import InlineLane
from bastion.logs.pace import CLOUD as CLOUD_LOGS
from bastion.machine import Pool
from bastion.records.requests.answer import Answer
from bastion.records.requests.request import Body
from bastion.records.root import RootWriter
from bastion.service.act.machines import Machines, OpenPool
from bastion.service.act.notifications import Notifier
from bastion.service.config.admin_files import AdminFiles
from bastion.service.config.settings import Pace
from bastion.service.journal import Journal
from bastion.service.leader import Leader
from bastion.service.publish.views import Publisher
from bastion.service.run.election import Candidate, Election
from bastion.store.port import ObjectStore
from quota.amounts import Amounts
from tests.rigs.carried import wrongly_carried
from tests.simulation.baton import Baton, Crash, SimClock
from tests.simulation.machines import CalmHome, SimMachine, SimProvider
from tests.simulation.rights import AgentRights, of_pool
from tests.simulation.webhooks import SimWebhooks

PACE = Pace(
    busy_poll_s=2.0,
    idle_poll_s=5.0,
    settle_s=0.0,
    commit_s=1.1,
    ttl_s=30.0,
    files_s=60.0,
    listing_s=10.0,
    sweep_s=10.0,
    view_s=60.0,
)
"""A cloud's, with lists as frequent as sweeps, so that machines come and go in a short run."""
TEMPO = Tempo(busy_s=1.5, idle_s=4.0, retry_s=10.0, logs=CLOUD_LOGS)
RESTART_S = (0.5, 20.0)
"""How long a dead process lies before its supervisor restarts it."""
RETRY_S = 5.0
BUSY_FOR_S = 10.0
"""How long after a change a bastion turns faster."""
SELDOM_S = 175.0
"""Renewed so seldom, a lease fences nothing; a longer gap between commits is an outage."""
ANSWER_S = 100_000.0
"""A user waits for an answer without a limit."""


def _same(store: ObjectStore) -> ObjectStore:
    return store


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What bastions and agents are made of; a mutant replaces one part."""

    writer: type[RootWriter] = RootWriter
    leader: type[Leader] = Leader
    machines: type[Machines] = Machines
    notifier: type[Notifier] = Notifier
    bastion_store: Callable[[ObjectStore], ObjectStore] = _same
    agent_store: Callable[[ObjectStore], ObjectStore] = _same
    agent_rights: AgentRights = of_pool
    machine_clock: type[SimClock] = SimClock
    bastion_clock: type[SimClock] = SimClock
    home: Callable[[Path], FolderHome] = CalmHome
    """The homes of machines with real files, in the worlds that have them."""


SOUND = Parts()
"""The product."""


class Bastion:
    """
    One bastion as its supervisor sees it: restarted whenever it dies or is fenced.

    Args:
        has_lease: Without it, it does not wait for another's lease to expire, and renews seldom.
    """

    def __init__(
        self,
        name: str,
        *,
        baton: Baton,
        store: ObjectStore,
        provider: SimProvider,
        webhooks: SimWebhooks,
        has_lease: bool = True,
        parts: Parts = SOUND,
    ) -> None:
        self._webhooks = webhooks
        self.name = name
        self._baton = baton
        self._store = store
        self._provider = provider
        self._pace = PACE if has_lease else replace(PACE, ttl_s=SELDOM_S)
        self._ttl_s = PACE.ttl_s if has_lease else 0.0
        self._parts = parts
        self.clock = parts.bastion_clock(baton, skew_s=baton.chance.uniform(-30.0, 30.0))
        self._starts = 0
        self.problems: list[str] = []

    def run(self) -> None:
        """Serve forever, dying now and then."""
        while True:
            try:
                self._serve()
            except Crash:
                self._baton.note("dies", self.name)
            except FencedError as error:
                self._baton.note("is fenced", str(error))
            self._baton.sleep(self._baton.chance.uniform(*RESTART_S))

    def _serve(self) -> None:
        self._starts += 1
        parts, clock = self._parts, self.clock
        store = parts.bastion_store(self._store)
        writer = parts.writer(store, clock)
        journal = Journal(self.name, clock, out=None)
        election = Election(
            writer,
            clock,
            Candidate(
                holder=self.name,
                host=f"host-of-{self.name}",
                boot="1",
                pid=self._starts,
                pid_started=self._baton.now,
                ttl_s=self._ttl_s,
            ),
            is_alive=lambda pid, started: pid == self._starts,
            nonce=self._nonce,
        )
        while True:
            try:
                held = election.try_once()
                break
            except (LeaseHeldError, StoreError):
                clock.sleep(RETRY_S)
        leader = parts.leader(
            held,
            store=store,
            writer=writer,
            clock=clock,
            machines=parts.machines(clock, journal, self._open_pool, listing_s=PACE.listing_s),
            files=AdminFiles(store, store, clock, every_s=PACE.files_s),
            publisher=Publisher(store, clock, every_s=PACE.view_s),
            notifier=parts.notifier(clock, journal, InlineLane(), self._webhooks.send),
            lane=InlineLane(),
            spec_lane=InlineLane(),
            pace=self._pace,
            nonce=self._nonce,
            journal=journal,
        )
        self._lead(leader, journal)

    def _lead(self, leader: Leader, journal: Journal) -> None:
        moved_at = self.clock.monotonic()
        while True:
            try:
                moved = leader.turn()
            except StoreError as error:
                journal.problem("store", error)
                moved = False
            now = self.clock.monotonic()
            moved_at = now if moved else moved_at
            self.problems += [p for p in journal.problems if "internal error" in p]
            self.problems += [wrong] if (wrong := wrongly_carried(leader)) else []
            if self.problems:
                self._baton.fail("no bug is met", self.problems[0])
            self.clock.sleep(leader.wait_s(moved=moved, busy=now - moved_at < BUSY_FOR_S))

    def _open_pool(self, pool: Pool) -> OpenPool:
        return OpenPool(pool=pool, provider=self._provider, lane=InlineLane())

    def _nonce(self) -> str:
        return f"{self._baton.chance.getrandbits(64):016x}"


def run_agent(machine: SimMachine, *, baton: Baton, store: ObjectStore, resources: Amounts) -> None:
    """Be the agent of `machine` as long as that exists, dying now and then."""

    def nonce() -> str:
        return f"{baton.chance.getrandbits(64):016x}"

    settings = AgentSettings(
        machine=machine.name,
        pool=machine.pool,
        resources=resources,
        address=f"address-of-{machine.name}",
        hostname=machine.name,
        tempo=TEMPO,
        permit_s=machine.permit_s,
        heartbeat_s=machine.heartbeat_s,
        cloud=machine.cloud,
    )
    while not machine.is_dead():
        try:
            keeper = begin_life(
                store,
                machine.name,
                boot_id="1",
                nonce=nonce,
                connect=machine.connect,
                spawn=machine.spawn,
            )
            Agent(
                store,
                keeper,
                machine.clock,
                settings,
                InlineLane(),
                nonce,
                home=machine.folders,
                ports=lambda: 4711,
                metadata=machine.metadata,
                say=lambda line: baton.note("says", line),
            ).run()
            baton.sleep(baton.chance.uniform(*RESTART_S))  # a newer life has taken over
        except (StoreError, KeeperError):
            baton.sleep(baton.chance.uniform(0.1, 5.0))
        except (Crash, OSError):
            if machine.is_dead():
                return
            machine.note("agent dies")
            _lie_dead(machine, baton)


def _lie_dead(machine: SimMachine, baton: Baton) -> None:
    """Wait until a supervisor on the machine restarts the agent, or a create asks for it."""
    while machine.is_forsaken:
        baton.sleep(1e9)
    if baton.chance.random() < 0.5 or machine.state != "running":
        baton.sleep(baton.chance.uniform(*RESTART_S))
        return
    machine.state = "stopped"
    while machine.state == "stopped":
        baton.sleep(1e9)


@dataclass(kw_only=True)
class Wish:
    """What a user will ask, and the answer."""

    at_s: float
    user: str
    project: str
    verb: str
    body: Callable[[dict[str, Answer]], Body | None]
    """Made from the answers that this user has; None: not yet."""
    name: str = ""
    asked: RequestRef | None = None
    is_acknowledged: bool = False
    answer: Answer | None = field(default=None)


def run_user(wishes: list[Wish], *, baton: Baton, store: ObjectStore) -> None:
    """Be a user who sends `wishes` one after the other, and waits for every answer."""
    clock = SimClock(baton, skew_s=baton.chance.uniform(-300.0, 300.0))
    outage = Outage(clock, say=lambda _: None)
    inbox = Inbox(PatientStore(store, outage, clock), clock, poll_s=5.0, outage=outage)
    ulids = Ulids(clock.wall, baton.chance.getrandbits)
    answers: dict[str, Answer] = {}
    for wish in wishes:
        if wish.at_s > baton.now:
            baton.sleep(wish.at_s - baton.now)
        body = wish.body(answers)
        if body is None:
            continue
        asked = RequestRef(project=wish.project, user=wish.user, ulid=ulids.new(), verb=wish.verb)
        wish.asked = asked
        while not wish.is_acknowledged:
            try:
                inbox.post(asked, body)
                wish.is_acknowledged = True
            except StoreError:
                baton.sleep(RETRY_S)
        wish.answer = _answer(inbox, asked)
        answers[wish.name] = wish.answer


def _answer(inbox: Inbox, asked: RequestRef) -> Answer:
    while True:
        try:
            return inbox.wait(asked, timeout_s=ANSWER_S)
        except BastionError:
            continue
