"""
One bastion from start to stop: stand for the lead, lead, give it up.

The loop holds nothing that a restart would need. SIGTERM and SIGINT end it after the turn that is
under way, with a last commit that lets another bastion lead at once.

A bastion comes here once its store has answered. From then on no refusal of the store ends it: a
binding that is being changed, or a full disk, is a problem that is told and tried again.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.clock import Clock
from bastion.errors import BastionError, FencedError, LeaseHeldError, StoreError
from bastion.records.root import Held
from bastion.service.config.settings import Pace
from bastion.service.journal import Journal
from bastion.service.leader import Leader
from bastion.service.run.election import Election

BUSY_FOR_S = 2.0
"""How long after something moved the next thing is expected soon."""
SLICE_S = 0.2
"""Longest sleep between looks at whether to stop."""
STORE_RETRY_S = 1.0
MOST_FAILURES = 20
"""Turns in a row that a mistake in Bastion may spoil: after them a fresh process may do better."""


class Service:
    """
    Leads one root whenever it may.

    Args:
        lead: Makes the leader of a root that was just taken.
        is_stopping: Whether it was told to stop.
        is_over: Whether the time to stop is up: a lead that was not given up is kept.
        standby: Wait for the lead as long as it takes, and again when it was lost.
    """

    def __init__(
        self,
        election: Election,
        lead: Callable[[Held], Leader],
        clock: Clock,
        journal: Journal,
        *,
        pace: Pace,
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool] = lambda: False,
        standby: bool,
    ) -> None:
        self._election = election
        self._lead = lead
        self._clock = clock
        self._journal = journal
        self._pace = pace
        self._is_stopping = is_stopping
        self._is_over = is_over
        self._standby = standby

    def run(self) -> int:
        """
        Lead until told to stop; the exit code.

        0 after a stop that was asked for, 1 when another bastion leads or took over.

        Raises:
            OutdatedError: Root is older than the machines there are.
            RecordError: Root cannot be understood; nothing was changed.
        """
        while not self._is_stopping():
            leader = self._stand()
            if leader is None:
                return 0 if self._is_stopping() else 1
            try:
                self._loop(leader)
            except FencedError as error:
                self._journal.note(f"{error}; another bastion took over, this one stops acting")
                if not self._standby:
                    return 1
            else:
                return self._rest(leader)
            finally:
                leader.close()
        return 0

    def once(self) -> int:
        """Take the lead, do one turn, give it up; the exit code."""
        leader = self._stand()
        if leader is None:
            return 1
        leader.turn()
        return self._rest(leader)

    def _stand(self) -> Leader | None:
        """Stand for the lead; None when told to stop, or when another leads and we do not wait."""
        told = ""
        began = self._clock.monotonic()
        while not self._is_stopping():
            try:
                held = self._election.try_once()
            except LeaseHeldError as error:
                if str(error) != told:
                    told = str(error)
                    self._journal.note(f"{error}; waiting ({error.hint})")
                # A leader that is just stopping commits once more: that is no sign of life to come.
                if not self._standby and self._election.moved_at - began > self._pace.ttl_s / 2:
                    self._journal.note("it is alive; start with --standby to wait for its end")
                    return None
            except StoreError as error:
                self._journal.problem("store", error)
            else:
                epoch = held.root.epoch
                active = len(held.root.jobs)
                jobs = "1 active job" if active == 1 else f"{active} active jobs"
                first = ", the first of this bucket," if epoch == 1 else ""
                self._journal.note(f"leads epoch {epoch}{first} with {jobs}")
                return self._lead(held)
            self._nap(min(self._pace.ttl_s / 6, STORE_RETRY_S))
        return None

    def _loop(self, leader: Leader) -> None:
        moved_at = self._clock.monotonic()
        failures = 0
        while not self._is_stopping():
            try:
                moved = leader.turn()
                failures = 0
            except StoreError as error:
                self._journal.problem("store", error)
                self._nap(STORE_RETRY_S)
                continue
            except BastionError:
                raise
            except Exception as error:
                failures += 1
                if failures >= MOST_FAILURES:
                    raise
                self._journal.failure("a turn is thrown away", error)
                self._nap(STORE_RETRY_S)
                continue
            if moved:
                leader.settle(self._pace.settle_s)
            now = self._clock.monotonic()
            moved_at = now if moved else moved_at
            self._nap(leader.wait_s(moved=moved, busy=now - moved_at < BUSY_FOR_S))

    def _rest(self, leader: Leader) -> int:
        leader.settle(self._pace.settle_s)
        if self._is_over():
            # A commit of the last turn may be in doubt: another one would not be told from it.
            self._journal.note("had no time to give up the lead; another waits out the lease")
            return 1
        try:
            leader.give_up()
        except (FencedError, StoreError) as error:
            self._journal.problem("giving up the lead", error)
            return 1
        self._journal.note("gave up the lead; jobs go on, and wait for the next bastion")
        return 0

    def _nap(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._is_stopping():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.sleep(min(left, SLICE_S))
