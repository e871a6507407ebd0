"""
The leader's turn, `Leader.turn`: read, apply, decide, commit, act.

A turn starts from the root that the leader holds and ends in at most one commit. No action starts
before the commit that requires it. A turn that fails is discarded, and the next one starts from the
same root. A lost swap of root means that another bastion leads, and this one stops immediately.

Each step calls the code in its own folder:

1. Read: `config/admin_files`, `intake/inbox`, `act/notifications`, `act/machines` for listings.
2. Apply: `intake/bells`, `monitors`, `intake/requests`, `draft/`, `bastion/pool`.
3. Decide: `decide/`, around `bastion/scheduler`.
4. Commit: `draft/root_draft` becomes root in `bastion/records/root`.
5. Act and publish: `act/`, `publish/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bastion.clock import Clock
from bastion.errors import BastionError, LeaseError, StoreError
from bastion.job import JobRecord
from bastion.lane import Lane
from bastion.metrics.meter import NO_METER, Meter
from bastion.monitor import Action
from bastion.pool import Seen
from bastion.records.keys import layout
from bastion.records.outlook import snapshot_of
from bastion.records.reports.history import Shares
from bastion.records.root import Held, RootWriter
from bastion.scheduler.plan import Plan
from bastion.service.act import actions as act
from bastion.service.act.absorbed_objects import AbsorbedObjects
from bastion.service.act.bucket_gc import GarbageCollector
from bastion.service.act.machines import Machines
from bastion.service.act.notifications import Notifier
from bastion.service.act.register_sweep import RegisterSweep
from bastion.service.act.root_copies import RootCopies
from bastion.service.compaction import Compaction
from bastion.service.config.admin_files import AdminFiles
from bastion.service.config.settings import Pace
from bastion.service.decide.applied_plan import apply_plan
from bastion.service.decide.cycles import Cycles
from bastion.service.decide.decayed_usage import accounts, accrued
from bastion.service.decide.schedulable_machines import digestible, without_gone
from bastion.service.draft.active_names import ActiveNames, Owners
from bastion.service.draft.dependencies import settle
from bastion.service.draft.machines.drained import drain_machines
from bastion.service.draft.machines.health import try_again
from bastion.service.draft.machines.upgraded import upgrade_machines
from bastion.service.draft.machines.warm import warmed
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.arrivals import Intake, apply_portion
from bastion.service.intake.bells import record_alive
from bastion.service.intake.inbox import InboxBatch, InboxReader, ReadRequest
from bastion.service.intake.proofs import Proofs
from bastion.service.intake.requests import general_problems, key_of_answer
from bastion.service.journal import Journal
from bastion.service.monitors import Monitors
from bastion.service.publish.views import Publisher
from bastion.service.python_gc import paused
from bastion.store import ObjectStore

SEAL_AT = 500
"""Events in one sealed segment: about 100 kB."""
DAY_S = 86400.0
SEAL_AFTER_S = 60.0
"""The longest time that events wait in root before they are sealed."""
_DELETE = "delete "
"""Prefix of the lane's key for a deletion from the inbox."""


class Leader:
    """
    The one bastion that acts, from the moment it holds root.

    Args:
        notifier: Delivers notifications to webhooks.
        lane: Runs actions on the store; inline in the simulation.
        spec_lane: Reads the inbox, and writes specs before a commit names them.
        nonce: Returns fresh names for commits and attempts.
        compaction: Compacts the history; None: the history stays in the log.
    """

    def __init__(
        self,
        held: Held,
        *,
        store: ObjectStore,
        writer: RootWriter,
        clock: Clock,
        machines: Machines,
        files: AdminFiles,
        publisher: Publisher,
        notifier: Notifier,
        lane: Lane,
        spec_lane: Lane,
        pace: Pace,
        nonce: Callable[[], str],
        journal: Journal,
        meter: Meter = NO_METER,
        compaction: Compaction | None = None,
    ) -> None:
        self.held = held
        self._store = store
        self._writer = writer
        self._clock = clock
        self._machines = machines
        self._files = files
        self._publisher = publisher
        self._notifier = notifier
        self._lane = lane
        self._spec_lane = spec_lane
        self._pace = pace
        self._nonce = nonce
        self._journal = journal
        self._meter = meter
        self._compaction = compaction
        self._inbox_reader = InboxReader(store, spec_lane, clock)
        self._intake = Intake(store, spec_lane, journal)
        self._monitors = Monitors(self._guarded)
        self._sweep = RegisterSweep(store)
        self._copies = RootCopies(store, writer)
        self._garbage = GarbageCollector(store)
        self._sweep_at = 0.0
        self._synced_at = clock.monotonic()
        self._absorbed = AbsorbedObjects(store, clock)
        standing = Draft(held.root, held.root.now)
        self._know(standing)
        self._cycles = Cycles(pace.ttl_s, journal)
        self._plan: Plan | None = None
        self._must_decide = True
        self._is_told = False
        """Whether the history says that this bastion leads: only a commit has the store's time."""
        files.adopt(held.root)
        self._charges_by = files.quota
        """The quota file of the last commit, by which usage since then is charged."""

    @property
    def now(self) -> float:
        """The store's time: that of our last write plus the time since; never before root's."""
        return self.held.time_after(self._clock.monotonic() - self._synced_at)

    @paused()
    def turn(self) -> bool:
        """
        Take one turn; return True if something changed. Python's garbage collector is paused.

        Raises:
            FencedError: Another bastion leads now.
            OutdatedError: Root is older than the machines that exist.
            StoreError: The store is out of reach; try again later.
        """
        # 1. Read what is new: the admins' files, the inbox, results of earlier actions, listings.
        self._read_files()
        inbox = self._read_inbox()
        draft = Draft(
            self.held.root,
            self.now,
            working=self._working,
            dependents=self._dependents,
            queued=self._queued,
            pools=self._files.config.pools,
        )
        if not self._is_told and (mine := self.held.root.leader) is not None:
            text = f"{mine.holder} on {mine.host}, epoch {self.held.root.epoch}"
            draft.tell(what="leads", text=text)
        self._apply_results(draft)
        listings = self._machines.collect(draft.now)

        # 2. Apply it to a draft of the next root: bells, requests, listings, and what follows.
        self._apply_bells(draft, inbox)
        self._watch(draft)
        absorbed = self._apply_requests(draft, inbox)
        self._settle_dependencies(draft)
        self._guarded("machines", self._reconcile, draft, listings)
        self._guarded("unwell machines", try_again, draft)
        self._guarded("drained machines", drain_machines, draft, self._files.rules.options)

        # 3. Decide which jobs run next; their instructions belong to the same commit.
        plan, has_moves = self._schedule(draft, absorbed)
        self._watch(draft)
        self._settle_dependencies(draft)
        self._guarded("upgrades", self._upgrade, draft)

        # 4. Commit, if there is anything to commit or the lease is due.
        self._guarded("shares", self._tell_shares, draft)
        draft.seal(at_most=SEAL_AT, older_than=draft.now - SEAL_AFTER_S)
        # A bell counts too: one without news for this leader may be news to the next one.
        if draft.is_changed or inbox.bells or self._is_lease_due():
            self._commit(draft)
            self._is_told = True
        if plan is not None:
            self._plan, self._must_decide = plan, has_moves

        # 5. Act, on committed state only; publish; delete from the inbox what it has absorbed.
        self._act()
        self._publish()
        self._clear(inbox, absorbed)
        return draft.is_changed or inbox.is_looked_on

    def give_up(self) -> None:
        """
        Let another bastion lead immediately: the last commit of a graceful stop.

        Raises:
            FencedError: Another bastion leads already.
            StoreError: Out of reach.
        """
        draft = Draft(self.held.root, self.now)
        draft.tell(what="rests", text=self._journal.name)
        self._commit(draft, leader=None)
        try:
            self._publisher.publish_last(self.held.root, self._plan, self._files, ())
        except StoreError as error:
            self._journal.problem("views", error)  # readers notice the missing updates

    def close(self) -> None:
        """Start no more actions: those that are not under way are left to the next leader."""
        self._lane.close()
        self._spec_lane.close()
        self._notifier.close()
        if self._compaction is not None:
            self._compaction.close()
        self._machines.close()

    def settle(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for actions under way: their results probably change something."""
        self._lane.settle(timeout_s)

    def has_refusals(self) -> bool:
        """Whether a turn could act on a provider's refusal now, by placing the jobs elsewhere."""
        since_commit_s = self._clock.monotonic() - self._synced_at
        return since_commit_s >= self._pace.commit_s and self._machines.is_refused()

    def wait_s(self, *, moved: bool, busy: bool, is_told: bool = False) -> float:
        """
        Return how long to wait before the next turn.

        Args:
            moved: The last turn changed something.
            busy: Something changed recently.
            is_told: News ends the wait, so only actions under way are worth a poll.
        """
        is_polling = busy and (not is_told or self._lane.has_work())
        poll_s = self._pace.busy_poll_s if is_polling else self._pace.idle_poll_s
        since_commit_s = self._clock.monotonic() - self._synced_at
        return max(0.0 if moved else poll_s, self._pace.commit_s - since_commit_s)

    def _read_files(self) -> None:
        """Read the admins' files again if it is time, and report what is wrong with them."""
        if self._files.refresh():
            self._must_decide = True
            if problem := self._files.quota_problem:
                self._journal.note(f"quota file not in force: {problem}")
            elif (quota := self._files.quota) is not None:
                self._journal.note(f"quota file in force: projects {', '.join(quota.projects)}")
            if problem := self._files.config_problem:
                self._journal.note(f"configuration not in force: {problem}")
            else:
                pools = ", ".join(sorted(self._files.config.pools)) or "none"
                self._journal.note(f"configuration in force: pools {pools}")
        for key, trouble in self._files.troubles.items():
            self._journal.met(key, trouble)

    def _read_inbox(self) -> InboxBatch:
        """Read the new requests and bells, except for requests that are refused by name."""
        rules, owners = self._files.rules, Owners(self.held.root)
        inbox = self._inbox_reader.read(
            skip=self._is_absorbed,
            is_active=ActiveNames(self.held.root).__contains__,
            is_job=ActiveNames(self.held.root).is_job,
            refusal=lambda waiting: "; ".join(general_problems(waiting, rules, owners.owns)),
            prove=Proofs(self._store, self.held.root).of,
        )
        for key, failure in inbox.failures:
            self._journal.failure(key, failure)
        for key, error in inbox.unread[:1]:
            self._journal.problem("inbox", StoreError(f"{key} is not read: {error.message}"))
        if not inbox.unread:
            self._journal.solved("inbox")
        return inbox

    def _is_absorbed(self, key: str) -> bool:
        """
        Whether committed state has absorbed the object of the inbox at `key`.

        An earlier leader's commit may have answered a request that is still there. It is read only
        once that answer is in the bucket: if it were read before and applied after, it would count
        twice.
        """
        name = layout.parse_request(key)
        answered = name is not None and key_of_answer(name) in self.held.root.answers
        return answered or key in self._absorbed

    def _apply_results(self, draft: Draft) -> None:
        """Apply the results of the actions that have ended since the last turn."""
        for done in self._lane.collect():
            deleted = done.key.removeprefix(_DELETE)
            self._intake.written(done.key, done.error, at=self.held.root.now)
            kind = act.kind_of(done.key)
            if done.error is not None:
                is_alike = isinstance(done.error, StoreError)
                self._journal.problem(kind if is_alike else done.key, done.error, of=done.key)
                self._absorbed.failed(deleted, done.error)
                if done.key == "views":
                    self._publisher.failed(done.error)
                continue
            self._journal.solved(kind, done.key, of=done.key)
            self._absorbed.deleted(deleted)
            if callable(done.result):
                self._guarded(done.key, done.result, draft)
        self._guarded("notifications", self._notifier.collect, draft)

    def _apply_bells(self, draft: Draft, inbox: InboxBatch) -> None:
        """Apply the bells: facts from machines."""
        for ringing in inbox.listed_bells:
            record_alive(draft, ringing)
        for read_bell in inbox.bells:
            self._intake.apply_bell(draft, read_bell, self._files.config.pools)

    def _apply_requests(self, draft: Draft, inbox: InboxBatch) -> list[ReadRequest]:
        """Apply a portion of the requests, and return those that need not wait."""
        apply = partial(self._intake.apply_request, draft, rules=self._files.rules)
        most = self._pace.turn_jobs
        return apply_portion(inbox.requests, apply, most_jobs=most, named=draft.by_launch.named)

    def _settle_dependencies(self, draft: Draft) -> None:
        """Tell jobs that wait for others how these ended."""
        self._guarded("dependencies", settle, draft)

    def _watch(self, draft: Draft) -> None:
        """Apply the events that the monitor derives for every admitted job, until none follows."""
        self._monitors.watch(draft, self._files.rules.options)

    def _reconcile(self, draft: Draft, listings: Mapping[str, tuple[Seen, ...]]) -> None:
        pools = warmed(draft, self._files.config.pools)
        self._machines.open_pools(self._files.config.pools, draft.machines)
        listings = {**listings, **self._machines.first_listings(draft.now)}
        options = self._files.rules.options
        stale = self._machines.reconcile(draft, pools, listings, draft.machines_in_use(), options)
        if stale:
            raise self._writer.overtaken(self.held, by=stale)

    def _upgrade(self, draft: Draft) -> None:
        if builds := self._machines.builds:
            upgrade_machines(draft, builds, draft.machines_in_use())

    def _schedule(self, draft: Draft, absorbed: list[ReadRequest]) -> tuple[Plan | None, bool]:
        """
        Apply a new plan to `draft` if one is due; return it, and whether it changes anything.

        The specs of the launches in `absorbed` that are not refused are written.
        """
        wake_at = self._plan.wake_at if self._plan is not None else None
        is_due = wake_at is not None and draft.now >= wake_at
        if not (self._must_decide or draft.is_scheduling or is_due):
            self._intake.write_specs(draft, absorbed)
            return None, False
        self._must_decide = True
        self._cycles.begin_turn()
        plan = self._decided(draft)
        while (plan is not None and self._intake.judge(draft, absorbed, plan)) or (
            self._intake.write_specs(draft, absorbed)
        ):
            plan = self._decided(draft)
        return plan, plan is not None and apply_plan(draft, plan, self._nonce)

    def _decided(self, draft: Draft) -> Plan | None:
        """Ask the scheduler for a plan; None without a quota file, or if the scheduler fails."""
        quota = self._files.quota
        if quota is None:
            return None
        pools = self._machines.offered(self._files.config.pools, draft.now)
        machines, wrong = digestible(draft.machines, pools)
        for name, why in wrong.items():
            self._journal.problem(f"machine {name}", BastionError(f"gets no new jobs: it {why}"))
        snapshot = snapshot_of(
            accrued(draft.root, self._charges_by, draft.now, self._working),
            quota,
            now=draft.now,
            pools=pools,
            jobs=draft.jobs,
            arrays=draft.arrays,
            machines=without_gone(machines, self._machines.gone()),
            quota_problem=self._files.quota_problem,
            stockouts=self._machines.stockouts(draft.now),
            runs=draft.runs,
            considered=self._plan.considered if self._plan is not None else frozenset(),
        )
        return self._cycles.plan(snapshot, draft.now)

    def _tell_shares(self, draft: Draft) -> None:
        """Record in the history what projects own: when the quota file changed, and once a day."""
        root, quota = draft.root, self._files.quota
        is_new_day = root.now // DAY_S != draft.now // DAY_S
        if quota is not None and (is_new_day or self._files.quota_text != root.quota_text):
            nominal = {name: dict(each.nominal.items()) for name, each in quota.projects.items()}
            draft.tell(what="shares", record=Shares(nominal=nominal, file=self._files.quota_text))

    def _is_lease_due(self) -> bool:
        return self._clock.monotonic() - self._synced_at > self._pace.ttl_s / 3

    def _commit(self, draft: Draft, **changes: object) -> None:
        charged = accrued(draft.root, self._charges_by, draft.now, self._working)
        root = draft.finish(
            write_id=self._nonce(),
            cycles=self._cycles.times,
            quota_text=self._files.quota_text,
            config_text=self._files.config_text,
            **accounts(charged),
            **changes,
        )
        first = self.held.root.next_event
        self.held = self._writer.commit(root, over=self.held)
        new = [event for event in root.events if event.n >= first]
        if new:
            self._cycles.times.clear()
        self._journal.tell_events(new)
        self._meter.committed(new, root.jobs)
        self._know(draft)
        self._synced_at = self._clock.monotonic()
        self._charges_by = self._files.quota

    def _know(self, draft: Draft) -> None:
        """Keep what `draft` knows about the jobs that are now committed, to avoid a new search."""
        self._working, self._dependents = tuple(draft.working), tuple(draft.dependents)
        self._queued = +draft.queued

    def _act(self) -> None:
        root = self.held.root
        self._monitors.act(root, self._working, self._act_for)
        for array in root.arrays.values():
            if array.ended_at is not None:
                self._lane.submit(f"array {array.id}", act.array_work(self._store, array))
        for machine in root.machines.values():
            for batch in machine.outgoing:
                key = f"batch {machine.name}/{batch.life}/{batch.number}"
                work = act.batch_work(self._store, machine, batch)
                self._lane.submit(key, work, is_urgent=True)
        self._machines.act(root, self.now)
        self._meter.strangers(self._machines.strangers)
        self._guarded("notifications", self._notifier.act, root, self._files.config.notifications)
        for key, answer in root.answers.items():
            work = act.answer_work(self._store, key, answer)
            self._lane.submit(f"answer {key}", work, is_urgent=True)
        self._intake.write_again(self._lane)
        for segment in root.sealed:
            self._lane.submit(f"events {segment.first}", act.segment_work(self._store, segment))
        if self._compaction is not None:
            self._guarded("history", self._compaction.act, root)
        if self._clock.monotonic() >= self._sweep_at:
            self._sweep_at = self._clock.monotonic() + self._pace.sweep_s
            for key, work in self._sweep.works(root):
                self._lane.submit(key, work)

    def _act_for(self, job: JobRecord, action: Action) -> None:
        work = act.job_work(self._store, self.held.root, job, action)
        self._lane.submit(act.action_key(job, action), work)

    def _publish(self) -> None:
        problems = tuple(dict.fromkeys((*self._journal.problems, *self._notifier.problems)))
        root = self.held.root
        works: dict[str, Callable[[], Callable[[], object] | None]] = {
            "views": lambda: self._publisher.works(
                root, self._plan, self._files, problems, self._machines.shortages(self.now)
            ),
            "copy": lambda: self._copies.work(root),
            "garbage": lambda: self._garbage.work(root, self._files.config.keep),
        }
        for key, make in works.items():
            self._guarded(key, self._submit, key, make)

    def _submit(self, key: str, make: Callable[[], Callable[[], object] | None]) -> None:
        if (work := make()) is not None:
            self._lane.submit(key, work, is_urgent=key == "views")

    def _clear(self, inbox: InboxBatch, absorbed: list[ReadRequest]) -> None:
        """Delete from the inbox what committed state has absorbed, once its answer is written."""
        self._absorbed.add(absorbed, inbox.bells, inbox.misplaced)
        self._intake.forget(absorbed)
        for arrived in absorbed:
            self._inbox_reader.forget(arrived.waiting.entry.key)
        for misplaced in inbox.misplaced:
            self._journal.note(f"{misplaced.entry.key} is set aside: {misplaced.why}")
        for key, work in self._absorbed.works(self.held.root.answers):
            self._lane.submit(f"{_DELETE}{key}", work)

    def _guarded(self, what: str, work: Callable[..., object], *arguments: object) -> None:
        """Do `work`; if it fails, the rest of the turn continues."""
        try:
            work(*arguments)
        except (StoreError, LeaseError):
            raise
        except BastionError as error:
            self._journal.problem(what, error)
        except Exception as error:  # noqa: BLE001 - a bug in one thing must not stop the rest
            self._journal.failure(what, error)
