"""
What must hold in every run: the invariants of the bucket, each a check with a name.

They check every committed root when it lands, every start on a machine, every requested deletion,
and the end. Their input is the world's own knowledge, never an actor's. They check promises, not
the way the code keeps them: none knows how the leader works.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from bastion.agent.attempt_key import host_of, key_of
from bastion.agent.keeper.port import AttemptStart
from bastion.client.look.published import Published
from bastion.errors import NotFoundError, RecordError
from bastion.job import UNTOUCHED, JobRecord, Phase
from bastion.lifecycle.step import DRAIN_S
from bastion.machine import MachinePhase
from bastion.records.coding.codec import decode, plain
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import ClaimRegister, EndRegister, GoRegister
from bastion.records.requests.result import Result
from bastion.records.root import Event, Root, decode_root
from bastion.service.intake.registers import Seat, seat_of
from bastion.store.memory import MemoryStore
from tests.simulation.capacity import ALONE, CAPACITY, Capacity
from tests.simulation.machines import SimMachine, SimProvider
from tests.simulation.order import AFTER, Order
from tests.simulation.processes import Wish
from tests.simulation.tasks import TASKS, Tasks
from tests.simulation.webhooks import SimWebhooks

SUBMITTED = "1: every acknowledged request is in inbox, root or results"
ONCE = "2: a host of an attempt executes at most once"
CHAIN = "5: seq, write ids, epoch and time are one chain"
APPLIED = "6: each request is applied once"
CANCELLED = "7: nothing starts after a committed cancel"
WANTED = "8: no machine is deleted that committed state wants"
HISTORY = "9: committed events are never rewritten, without gap or repeat"
TABLE = "10: phases move only as the table says"
ENDS = "11: everything ends, the inbox is empty, no machine is left"
ACCOUNTS = "12: accounted usage covers what really runs"
BARRIER = "13: no process of a gang runs before all its hosts are ready"
LOGS = "14: every log byte named in `end` is in the bucket when the result is"

CLOSED = "closed: nothing is placed on a machine that was cordoned before"
RIGHTS = "rights: no program of ours asks for more than `setup` grants it"
OUTCOMES = "outcomes: every job ends as its program and its users say"
SET_ASIDE = "unreadable: what cannot be read is set aside after three turns, and delays nothing"
PRIVATE = "files: what a job puts into its folders reaches no file of another, and ends no agent"
STRICT = "views: whatever is published decodes as strict JSON"
TOLD = "notifications: what was to be told was told at least once"

NAMES = (
    SUBMITTED,
    ONCE,
    ALONE,
    CAPACITY,
    CHAIN,
    APPLIED,
    CANCELLED,
    WANTED,
    HISTORY,
    TABLE,
    ENDS,
    ACCOUNTS,
    BARRIER,
    LOGS,
    AFTER,
    TASKS,
    TOLD,
    CLOSED,
    RIGHTS,
    PRIVATE,
    OUTCOMES,
    SET_ASIDE,
    STRICT,
)

_NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.QUEUED: frozenset({Phase.STARTING, Phase.DONE}),
    Phase.STARTING: frozenset({Phase.QUEUED, Phase.RUNNING, Phase.STOPPING, Phase.DRAINING}),
    Phase.RUNNING: frozenset({Phase.STOPPING, Phase.DRAINING}),
    Phase.STOPPING: frozenset({Phase.DRAINING}),
    Phase.DRAINING: frozenset({Phase.QUEUED, Phase.DONE}),
    Phase.DONE: frozenset(),
}
"""The diagram in `bastion.lifecycle.step`, written down a second time."""


def _is_untouched(job: JobRecord) -> bool:
    """Whether no agent can know of its attempt, so it may be removed as if it had never existed."""
    hosts = job.attempt.each_host() if job.attempt is not None else ()
    return job.phase is Phase.STARTING and all(state == UNTOUCHED for *_, state in hosts)


def reachable(phase: Phase) -> frozenset[Phase]:
    """Return the phases to which one commit may bring a job from `phase`, including itself."""
    found = {phase}
    while more := {after for each in found for after in _NEXT[each]} - found:
        found |= more
    return frozenset(found)


_REACHABLE = {phase: reachable(phase) for phase in Phase}


class Invariants:
    """
    All checks of one run.

    Args:
        store: The bucket, read without the actors' knowledge.
        provider: The machines as they really are.
        fail: Called with the name of a broken invariant and what was seen.
    """

    def __init__(
        self,
        store: MemoryStore,
        provider: SimProvider,
        wishes: list[Wish],
        webhooks: SimWebhooks,
        *,
        fail: Callable[[str, str], None],
    ) -> None:
        self._store = store
        self._provider = provider
        self._wishes = wishes
        self._webhooks = webhooks
        self._fail = fail
        self.distrusted = ""
        """A pool whose machines may do anything to its own jobs."""
        self.distrusted_project = ""
        """The only project with jobs in that pool; its machines decide whether and how they end."""
        self.root: Root | None = None
        self.commits = 0
        self._started: dict[str, SimMachine] = {}
        self._devices: dict[str, tuple[str, ...]] = {}
        self._events: list[Event] = []
        self._ever: dict[str, JobRecord] = {}
        self._order = Order(store, fail)
        self._tasks = Tasks(store, fail)
        self._capacity = Capacity(fail)
        self._draining: dict[str, float] = {}
        """Nonce of an attempt -> the store's time of the commit that recorded its last end."""
        self.waited_for_in_vain: set[str] = set()
        """Hosts, by their keys, whose logs did not arrive within `DRAIN_S`."""

    @property
    def events(self) -> list[Event]:
        """Return every event that was committed."""
        return self._events

    # What the world reports.

    def wrote(self, operation: str, key: str, data: bytes) -> None:
        """Check a write that landed in the bucket."""
        if key == layout.ROOT:
            self._committed(decode_root(data))
        elif operation == "create" and key.startswith(layout.RESULTS):
            self._resulted(decode(Result, data, key=key))

    def started(self, machine: SimMachine, attempt: AttemptStart) -> None:
        """Check the start of an attempt's host by a keeper."""
        of = host_of(attempt.key)
        assert of is not None
        if machine.pool == self.distrusted:
            return
        if attempt.key in self._started:
            self._fail(ONCE, f"{attempt.key} on {machine.name} was started before")
        self._started[attempt.key] = machine
        seen = (process.env["CUDA_VISIBLE_DEVICES"] for process in attempt.processes)
        self._devices[attempt.key] = tuple(i for each in seen for i in each.split(",") if i)
        self._check_alone(machine, attempt.key, of)
        self._check_ready(attempt.key, of)
        self._check_accounts()

    def deletes(self, name: str) -> None:
        """Check the deletion of a machine that an actor requested."""
        assert self.root is not None
        machine = self.root.machines.get(name)
        if machine is not None and machine.pool == self.distrusted:
            return
        if machine is not None and machine.phase is not MachinePhase.DELETING:
            self._fail(WANTED, f"{name} is {machine.phase}")
        in_use = {name for _, name in _places(self.root.jobs.values())}
        # A machine that never greeted was never told to start anything, and may be given up. So may
        # one whose agent is permanently dead; a living agent, however slow, keeps its machine.
        made = self._provider.machines.get(name)
        is_forsaken = made is not None and made.is_forsaken
        if name in in_use and machine is not None and machine.life and not is_forsaken:
            self._fail(WANTED, f"{name} is named by an attempt that has not drained")

    def at_end(self) -> None:
        """Check the end of the run, which has no more faults."""
        root = self.root
        if root is None:
            self._fail(ENDS, "there was never a root")
            return
        for wish in self._wishes:
            if wish.asked is not None and wish.answer is None:
                self._fail(ENDS, f"{wish.name} has no answer")
        for job in self._ever.values():
            ended = f"{job.id}.{job.attempts}.ended.0"
            if any("ended" in each.on for each in job.notify) and not self._webhooks.taken[ended]:
                self._fail(TOLD, f"no webhook was told of {ended}")
        seen = [event.number for event in Published(self._store, lambda: root.now).events()]
        if seen != list(range(root.next_event)):
            self._fail(HISTORY, f"a reader of the history sees {seen} of {root.next_event}")

    def is_quiet(self) -> bool:
        """Whether nothing is left to do: the state that (11) promises."""
        root = self.root
        if root is None or root.answers or root.outbox:
            return False
        left = [
            *(job.id for job in root.jobs.values() if job.project != self.distrusted_project),
            *(a.id for a in root.arrays.values() if a.each.project != self.distrusted_project),
            *(each.name for each in root.machines.values() if each.pool != self.distrusted),
            *(
                each.name
                for each in self._provider.standing.values()
                if each.pool != self.distrusted
            ),
        ]
        return not left and not self._waiting()

    def _waiting(self) -> list[str]:
        """Return the contents of the inbox, except those of the distrusted."""
        keys = [entry.key for entry in self._store.list(layout.INBOX)]
        theirs = (f"inbox/{self.distrusted_project}/", f"{layout.BELLS}{self.distrusted}/")
        return [key for key in keys if not (self.distrusted and key.startswith(theirs))]

    def left(self) -> str:
        """Return what is left to do."""
        root = self.root
        if root is None:
            return "there is no root"
        inbox = [entry.key for entry in self._store.list(layout.INBOX)]
        jobs = [f"{job.id} {job.phase} {job.attempt}" for job in root.jobs.values()]
        machines = [f"{m.name} {m.phase} batches={m.batches}" for m in root.machines.values()]
        standing = [f"{m.name} {m.state}" for m in self._provider.standing.values()]
        return f"jobs {jobs}, machines {machines}, standing {standing}, inbox {inbox}"

    # Every commit.

    def _committed(self, root: Root) -> None:
        self.commits += 1
        before, self.root = self.root, root
        if before is not None:
            self._check_chain(before, root)
            self._check_kept(before, root)
            self._check_closed(before, root)
        self._check_events(root)
        self._check_requests(root)
        for job in root.jobs.values():
            self._check_job(root, before.jobs.get(job.id) if before is not None else None, job)
        self._order.check(root, before, self._ever)
        self._tasks.check(root, before)
        if before is not None:
            for job_id in before.jobs:
                if job_id not in root.jobs and not self._exists(
                    layout.result(before.jobs[job_id].project, job_id)
                ):
                    self._fail(APPLIED, f"{job_id} left root without a result")
        self._capacity.committed(before, root)
        self._check_accounts()

    def _check_chain(self, before: Root, root: Root) -> None:
        if root.seq != before.seq + 1 or root.prev_write_id != before.write_id:
            self._fail(CHAIN, f"seq {before.seq} -> {root.seq}, over {root.prev_write_id}")
        if root.epoch < before.epoch or root.now < before.now:
            self._fail(
                CHAIN, f"epoch {before.epoch} -> {root.epoch}, now {before.now} -> {root.now}"
            )

    def _check_closed(self, before: Root, root: Root) -> None:
        closed = {name for name, each in before.machines.items() if each.cordoned}
        closed &= {name for name, each in root.machines.items() if each.cordoned}
        for job in root.jobs.values() if closed else ():
            known = before.jobs.get(job.id)
            known_attempt = known.attempt if known is not None else None
            if job.attempt is None or (
                known_attempt is not None and known_attempt.nonce == job.attempt.nonce
            ):
                continue
            for _, name in _places([job]):
                if name in closed:
                    self._fail(CLOSED, f"{job.id} is placed on {name}")

    def _check_events(self, root: Root) -> None:
        held = [*(event for segment in root.sealed for event in segment.events), *root.events]
        for event in held:
            if event.n < len(self._events):
                if self._events[event.n] != event:
                    self._fail(HISTORY, f"event {event.n} was {self._events[event.n]}: {event}")
            elif event.n == len(self._events):
                self._events.append(event)
            else:
                self._fail(HISTORY, f"events {len(self._events)} to {event.n} are missing")
        if root.next_event != len(self._events):
            self._fail(HISTORY, f"next is {root.next_event}, seen are {len(self._events)}")

    def _check_requests(self, root: Root) -> None:
        in_root = {job.ulid for job in root.jobs.values()}
        in_root |= {array.each.ulid for array in root.arrays.values()}
        for wish in self._wishes:
            asked = wish.asked
            if asked is None or not wish.is_acknowledged or asked.ulid in in_root:
                continue
            answer = f"{asked.project}/{asked.user}/{asked.ulid}"
            if answer in root.answers or self._exists(asked.answer_key):
                continue
            if not self._exists(asked.key):
                self._fail(SUBMITTED, f"{wish.name} ({asked.key}) is nowhere")

    def _check_job(self, root: Root, before: JobRecord | None, job: JobRecord) -> None:
        known = self._ever.get(job.id)
        if known is None and self._exists(layout.result(job.project, job.id)):
            self._fail(APPLIED, f"{job.id} enters root with a result")
        if known is None and job.attempts > 1:
            self._fail(TABLE, f"{job.id} enters root with {job.attempts} attempts")
        if known is not None and before is None:
            self._fail(APPLIED, f"{job.id} is in root for a second time")
        if before is None:
            before = job if known is None else known
        self._ever[job.id] = job
        self._check_drained(root, before, job)
        if job.phase not in _REACHABLE[before.phase]:
            self._fail(TABLE, f"{job.id}: {before.phase} -> {job.phase}")
        if job.attempts not in range(before.attempts - _is_untouched(before), before.attempts + 2):
            self._fail(TABLE, f"{job.id}: attempts {before.attempts} -> {job.attempts}")
        if job.attempts > before.attempts:
            if before.cancelled_by:
                self._fail(CANCELLED, f"{job.id} was cancelled by {before.cancelled_by}")
            if job.phase is not Phase.STARTING:
                self._fail(TABLE, f"{job.id}: a new attempt is {job.phase}")

    def _check_drained(self, root: Root, before: JobRecord, job: JobRecord) -> None:
        """A host left behind without its logs was waited for as long as promised."""
        now, left = job.attempt, before.attempt
        if now is not None and job.phase is Phase.DRAINING:
            self._draining.setdefault(now.nonce, root.now)
        if left is None or (now is not None and now.nonce == left.nonce):
            return
        if root.now >= self._draining.get(left.nonce, root.now) + DRAIN_S:
            for r, h, _, state in left.each_host():
                if not state.drained:
                    fact = HostFact(
                        project=job.project,
                        job=job.id,
                        attempt=left.number,
                        nonce=left.nonce,
                        replica=r,
                        host=h,
                    )
                    self.waited_for_in_vain.add(key_of(fact))

    # What really runs.

    def _living(self) -> Iterator[tuple[str, SimMachine]]:
        for machine in self._provider.machines.values():
            if machine.pool == self.distrusted:
                continue
            for key in machine.living():
                yield key, machine

    def _check_alone(self, machine: SimMachine, key: str, of: HostFact) -> None:
        devices = self._devices[key]
        for other, place in self._living():
            if other == key:
                continue
            there = host_of(other)
            assert there is not None
            if there.job == of.job and there.nonce != of.nonce:
                self._fail(ALONE, f"{key} starts while {other} lives on {place.name}")
            shared = [i for i in self._devices[other] if i in devices] if place is machine else []
            if shared:
                self._fail(
                    ALONE, f"{key} starts on {shared} of {machine.name}, where {other} lives"
                )

    def _check_accounts(self) -> None:
        root = self.root
        assert root is not None
        for key, machine in self._living():
            of = host_of(key)
            assert of is not None
            job = root.jobs.get(of.job)
            attempt = job.attempt if job is not None else None
            if (
                job is None
                or attempt is None
                or not job.is_admitted
                or attempt.nonce != of.nonce
                or attempt.hosts[of.replica][of.host].end is not None
            ):
                self._fail(
                    ACCOUNTS, f"{key} lives on {machine.name}, its devices are free on the books"
                )

    def _check_ready(self, key: str, of: HostFact) -> None:
        root = self.root
        assert root is not None
        job = root.jobs.get(of.job)
        attempt = job.attempt if job is not None else None
        if job is None or attempt is None or attempt.nonce != of.nonce:
            return
        hosts = list(attempt.each_host())
        if len(hosts) == 1:
            return
        go = look(self._store, layout.go(of.project, of.job, of.attempt, of.nonce), GoRegister)
        if go is None or not go.addresses:
            self._fail(BARRIER, f"{key} starts without go")
        for r, h, _, _ in hosts:
            claim = seat_of(job, r, h).claim_key
            found = look(self._store, claim, ClaimRegister)
            if found is None or found.claim is None:
                self._fail(BARRIER, f"{key} starts, but {claim} is not claimed")

    # What is kept.

    def _check_kept(self, before: Root, root: Root) -> None:
        """A range of events leaves root only when its segment exists, as it was committed."""
        still = {segment.first for segment in root.sealed}
        for segment in before.sealed:
            if segment.first in still:
                continue
            lines = self._bytes(layout.events(segment.first)).splitlines()
            if [json.loads(line) for line in lines] != [plain(event) for event in segment.events]:
                self._fail(HISTORY, f"{layout.events(segment.first)} is not what root let go")

    def _resulted(self, result: Result) -> None:
        """Every log byte that an `end` names exists, except of hosts waited for in vain."""
        for key in self._started:
            of = host_of(key)
            assert of is not None
            if of.job != result.id or key in self.waited_for_in_vain:
                continue
            place = Seat(of=of, machine=self._started[key].name).end_key
            try:
                end = look(self._store, place, EndRegister)
            except RecordError:
                continue  # it was spoilt: it names nothing
            if end is None:
                self._fail(LOGS, f"{result.id} has a result, but {place} is not written")
                return
            for process, size in enumerate(end.end.sizes):
                stored = self._log_bytes(of, process)
                if stored != size:
                    self._fail(LOGS, f"{key} p{process}: {stored} of {size} bytes are stored")

    def _log_bytes(self, of: HostFact, process: int) -> int:
        prefix = layout.log(
            of.project, of.job, of.attempt, replica=of.replica, host=of.host, process=process
        )
        at = 0
        for entry in self._store.list(prefix):
            if int(entry.key.removeprefix(prefix).removesuffix(".log")) == at:
                at += entry.size
        return at

    def _bytes(self, key: str) -> bytes:
        """Return the bytes at `key`; empty if there are none."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return b""
        assert found is not None
        return found.data

    def _exists(self, key: str) -> bool:
        try:
            self._store.read(key)
        except NotFoundError:
            return False
        return True


def _places(jobs: Iterable[JobRecord]) -> Iterator[tuple[str, str]]:
    for job in jobs:
        if job.attempt is not None:
            for _, _, place, state in job.attempt.each_host():
                if not state.drained:
                    yield job.id, place.machine
