"""
The loop of one bastion: it waits for the lead, leads, and gives the lead up.

The loop holds no state that a restart would need. SIGTERM and SIGINT end it after the current turn,
with a last commit that lets another bastion lead immediately.

The loop starts after the store has answered once. From then on no refusal by the store ends it: a
permission that is being changed, or a full disk, is logged as a problem and retried.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.clock import Clock
from bastion.errors import (
    BastionError,
    FencedError,
    LeaseHeldError,
    StoreError,
    StoreRefusedError,
)
from bastion.metrics.meter import NO_METER, Meter
from bastion.records.root import Held
from bastion.service.config.settings import Pace
from bastion.service.journal import Journal
from bastion.service.kept_log import KeptLog
from bastion.service.leader import Leader
from bastion.service.run.election import Election
from bastion.store.folder.watch import REMOVED_S, Pause, Watch

BUSY_FOR_S = 2.0
"""How long after a change the leader polls at its busy pace."""
SLICE_S = 0.2
"""The longest sleep between two checks for a stop."""
STORE = "store"
"""Names the problem that keeps a whole turn, or the election, from the bucket."""
_TURN = "turn"
"""Names the problem that turns take too long."""
STORE_RETRY_S = 1.0
MOST_FAILURES = 20
"""Consecutive turns that can fail because of a bug before the process ends, to be restarted."""


class Service:
    """
    Leads one root whenever it holds the lease.

    Args:
        lead: Returns the leader of a root that was just taken over.
        log: Keeps the lines of `journal` in the bucket, also when no turn succeeds.
        is_stopping: Whether the process was asked to stop.
        is_over: Whether the time to stop has run out: then the lead is not given up.
        standby: Wait for the lead without a time limit, and again after losing it.
        watch: Ends the pause between two turns when the inbox has something new.
    """

    def __init__(
        self,
        election: Election,
        lead: Callable[[Held], Leader],
        clock: Clock,
        journal: Journal,
        log: KeptLog,
        *,
        pace: Pace,
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool] = lambda: False,
        standby: bool,
        meter: Meter = NO_METER,
        watch: Watch | None = None,
    ) -> None:
        self._watch = watch or Pause(clock)
        self._election = election
        self._lead = lead
        self._clock = clock
        self._journal = journal
        self._log = log
        self._pace = pace
        self._is_stopping = is_stopping
        self._is_over = is_over
        self._standby = standby
        self._meter = meter
        self._removed_at: float | None = None

    def run(self) -> int:
        """
        Lead until asked to stop, and return the exit code.

        It is 0 after a requested stop, and 1 if another bastion leads or took over.

        Raises:
            OutdatedError: Root is older than the machines that exist.
            RecordError: Root cannot be decoded; nothing was changed.
            StoreRefusedError: The folder of the bucket was deleted.
        """
        try:
            return self._run()
        finally:
            self._log.close()

    def _run(self) -> int:
        while not self._is_stopping():
            leader = self._wait_for_lead()
            if leader is None:
                return 0 if self._is_stopping() else 1
            try:
                self._loop(leader)
            except FencedError as error:
                self._journal.note(f"{error}; another bastion took over, this one stops acting")
                if not self._standby:
                    return 1
            else:
                return self._give_up(leader)
            finally:
                leader.close()
                self._meter.rested()
        return 0

    def once(self) -> int:
        """Take the lead, run one turn, give the lead up, and return the exit code."""
        try:
            leader = self._wait_for_lead()
            if leader is None:
                return 1
            leader.turn()
            return self._give_up(leader)
        finally:
            self._log.close()

    def _wait_for_lead(self) -> Leader | None:
        """Take the lead; None if asked to stop, or if another bastion leads and we do not wait."""
        logged = ""
        began = self._clock.monotonic()
        while not self._is_stopping():
            self._log.flush()
            try:
                held = self._election.try_once()
            except LeaseHeldError as error:
                if str(error) != logged:
                    logged = str(error)
                    self._journal.note(f"{error}; waiting ({error.hint})")
                # A leader that is stopping commits once more, so one change is no sign of life.
                if not self._standby and self._election.moved_at - began > self._pace.ttl_s / 2:
                    self._journal.note("it is running; start with --standby to wait until it ends")
                    return None
            except StoreError as error:
                self._journal.problem(STORE, error)
            else:
                epoch = held.root.epoch
                active = len(held.root.jobs)
                jobs = "1 active job" if active == 1 else f"{active} active jobs"
                first = ", the first of this bucket," if epoch == 1 else ""
                self._journal.note(f"leads epoch {epoch}{first} with {jobs}")
                return self._lead(held)
            self._sleep(min(self._pace.ttl_s / 6, STORE_RETRY_S))
        return None

    def _loop(self, leader: Leader) -> None:
        moved_at = self._clock.monotonic()
        failures = 0
        while not self._is_stopping():
            self._log.flush()
            try:
                began = self._clock.monotonic()
                moved = leader.turn()
                self._turned(self._clock.monotonic() - began, moved=moved)
                failures = 0
            except StoreError as error:
                self._journal.problem(STORE, error)
                self._refuse_removed()
                self._sleep(STORE_RETRY_S)
                continue
            except BastionError:
                raise
            except Exception as error:
                failures += 1
                if failures >= MOST_FAILURES:
                    raise
                self._journal.failure("a turn failed and is discarded", error)
                self._sleep(STORE_RETRY_S)
                continue
            if moved:
                leader.settle(self._pace.settle_s)
            now = self._clock.monotonic()
            moved_at = now if moved else moved_at
            is_told, busy = self._watch.fileno() >= 0, now - moved_at < BUSY_FOR_S
            self._await_news(leader, leader.wait_s(moved=moved, busy=busy, is_told=is_told))

    def _turned(self, took_s: float, *, moved: bool) -> None:
        """Record a turn that succeeded, and report one that outlasted the lease."""
        self._meter.turned(took_s, moved=moved)
        self._journal.solved(STORE)
        if took_s <= self._pace.ttl_s:
            self._journal.solved(_TURN)
            return
        lease = f"the lease of {self._pace.ttl_s:g}s"
        why = "the bucket answers slowly, or this machine is overloaded"
        self._journal.problem(_TURN, StoreError(f"takes longer than {lease}: {why}"))

    def _refuse_removed(self) -> None:
        """
        End a bastion whose bucket was deleted: a new one in its place is another bucket.

        Raises:
            StoreRefusedError: The bucket's folder was deleted, a minute ago or more.
        """
        self._watch.has_news()
        now = self._clock.monotonic()
        if not self._watch.is_removed():
            self._removed_at = None
        elif self._removed_at is None:
            self._removed_at = now
        elif now >= self._removed_at + REMOVED_S:
            raise StoreRefusedError(
                "the bucket's folder was deleted: this bastion ends",
                hint="bastion down ends its machines too",
            )

    def _give_up(self, leader: Leader) -> int:
        leader.settle(self._pace.settle_s)
        if self._is_over():
            # A commit of the last turn may be in doubt, and a second one would look the same.
            self._journal.note("no time to give up the lead; the next bastion waits for the lease")
            return 1
        try:
            leader.give_up()
        except (FencedError, StoreError) as error:
            self._journal.problem("giving up the lead", error)
            return 1
        self._journal.note("gave up the lead; running jobs continue, the queue waits for a bastion")
        return 0

    def _await_news(self, leader: Leader, seconds: float) -> None:
        """Sleep for `seconds`, or until there is something to do or the process must stop."""
        until = self._clock.monotonic() + seconds
        while not self._is_stopping():
            left = until - self._clock.monotonic()
            if left <= 0 or leader.has_refusals() or self._watch.wait(min(left, SLICE_S)):
                return

    def _sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the process is asked to stop."""
        until = self._clock.monotonic() + seconds
        while not self._is_stopping():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.sleep(min(left, SLICE_S))
