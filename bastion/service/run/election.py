"""
Who leads: taking root over, keeping it, giving it up.

The lease is for liveness only: what keeps two bastions from harming anything is root's swap, the
registers and confirmed deletions. A standby compares no clocks. It takes over when root's version
has not moved for `PATIENCE` times the lease on its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bastion.clock import Clock
from bastion.errors import FencedError, LeaseHeldError, NotFoundError
from bastion.records.root import Event, Held, Leader, Root, RootWriter, lost_root
from bastion.store import Version
from bastion.value import value

PATIENCE = 1.25
"""Of the lease: a leader renews at a third of it, so it has missed three renewals and more."""


@value
class Candidate:
    """A bastion that wants to lead."""

    holder: str
    host: str
    boot: str
    pid: int
    pid_started: float
    ttl_s: float


class Election:
    """
    The way to the lead of one root.

    Args:
        is_alive: Whether the process of this pid and start time still runs on this host.
    """

    def __init__(
        self,
        writer: RootWriter,
        clock: Clock,
        candidate: Candidate,
        *,
        is_alive: Callable[[int, float], bool],
        nonce: Callable[[], str],
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._candidate = candidate
        self._is_alive = is_alive
        self._nonce = nonce
        self._seen: tuple[Version, float] | None = None
        self.moved_at = float("-inf")
        """When root was last seen to move under another leader, on our own clock."""

    def try_once(self) -> Held:
        """
        Lead, if nobody else does.

        Raises:
            LeaseHeldError: Another bastion leads; ask again.
            StoreError: Out of reach.
            RecordError: Root cannot be understood, or was deleted; it is never overwritten.
        """
        try:
            held = self._writer.read()
        except NotFoundError:
            held = self._found()
        assert held is not None
        leader = held.root.leader
        if leader is not None and not self._may_take(held, leader):
            raise LeaseHeldError(_owner(leader), hint=_hint(leader))
        return self._take(held)

    def _may_take(self, held: Held, leader: Leader) -> bool:
        mine = self._candidate
        if (leader.host, leader.boot) == (mine.host, mine.boot):
            if not self._is_alive(leader.pid, leader.pid_started):
                return True
        elif leader.holder == mine.holder and leader.host == mine.host:
            return True
        now = self._clock.monotonic()
        if self._seen is None or self._seen[0] != held.version:
            self.moved_at = self.moved_at if self._seen is None else now
            self._seen = (held.version, now)
            return False
        return now - self._seen[1] > PATIENCE * leader.ttl_s

    def _found(self) -> Held:
        """
        A first root that nobody leads.

        It names no time: its first leader takes the store's, and this machine's may be wrong.
        Where a bastion has left anything there was one before, and no number may begin anew.
        """
        if trace := self._writer.a_trace():
            return self._founded_meanwhile(trace)
        root = Root(epoch=0, seq=0, now=0.0, write_id=self._nonce())
        try:
            return self._writer.commit(root, over=None)
        except FencedError as error:
            raise LeaseHeldError("someone who was faster", hint="ask again") from error

    def _founded_meanwhile(self, trace: str) -> Held:
        try:
            held = self._writer.read()
        except NotFoundError as error:
            raise lost_root(trace) from error
        assert held is not None
        return held

    def _take(self, held: Held) -> Held:
        old = held.root
        now = max(old.now, held.modified_at)
        root = replace(
            old,
            epoch=old.epoch + 1,
            seq=old.seq + 1,
            now=now,
            write_id=self._nonce(),
            prev_write_id=old.write_id,
            leader=self._leader(now),
        )
        try:
            taken = self._writer.commit(self._told(root), over=held)
        except FencedError as error:
            raise LeaseHeldError("someone who was faster", hint="ask again") from error
        # Only the store knows when that was, and only now: our next commit carries it.
        leader = self._leader(max(now, taken.modified_at))
        return replace(taken, root=replace(taken.root, leader=leader))

    def _leader(self, since: float) -> Leader:
        mine = self._candidate
        return Leader(
            holder=mine.holder,
            host=mine.host,
            boot=mine.boot,
            pid=mine.pid,
            pid_started=mine.pid_started,
            since=since,
            ttl_s=mine.ttl_s,
        )

    def _told(self, root: Root) -> Root:
        mine = self._candidate
        text = f"{mine.holder} on {mine.host}, epoch {root.epoch}"
        event = Event(n=root.next_event, at=root.now, what="leads", text=text)
        return replace(root, events=(*root.events, event), next_event=root.next_event + 1)


def _owner(leader: Leader) -> str:
    return f"{leader.holder} on {leader.host} (process {leader.pid})"


def _hint(leader: Leader) -> str:
    return f"it is taken for dead when it has been silent for {PATIENCE * leader.ttl_s:g} s"
