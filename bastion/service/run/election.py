"""
The election: one bastion takes over root and becomes the leader.

The lease is only for liveness. Safety under two bastions comes from the conditional write of root,
the registers and confirmed deletions. A standby compares no clocks: it takes over when root's
version has not changed for `PATIENCE` times the lease on its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bastion.bucket_name import drawn_bucket_name
from bastion.clock import Clock
from bastion.errors import FencedError, LeaseHeldError, NotFoundError, OutdatedError
from bastion.records.root import Held, Leader, Root, RootWriter, lost_root
from bastion.store import Version
from bastion.value import value

PATIENCE = 1.25
"""In leases. A leader renews after a third of the lease, so it has missed at least three."""
PATIENCE_AFTER_BOOT = 0.5
"""
The same for a leader with the candidate's own name and host but another boot: probably its own
past. But two machines may have both by mistake, and then each would keep taking the lead from the
other. A living leader renews visibly within this time.
"""


@value
class Candidate:
    """A bastion that wants to lead."""

    holder: str
    host: str
    boot: str
    pid: int
    pid_started: float
    ttl_s: float
    build: str = ""
    """Identifies this build of Bastion."""


class Election:
    """
    The election of a leader for one root, from one candidate's side.

    Args:
        is_alive: Whether the process with this pid and start time still runs on this host.
        old_name: For a bucket that is older than buckets' own names: the name on its machines.
        address: Address of the bucket.
        is_moved: An admin says that the bucket has moved here and is not a copy.
    """

    def __init__(
        self,
        writer: RootWriter,
        clock: Clock,
        candidate: Candidate,
        *,
        is_alive: Callable[[int, float], bool],
        nonce: Callable[[], str],
        old_name: str = "",
        address: str = "",
        is_moved: bool = False,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._candidate = candidate
        self._is_alive = is_alive
        self._nonce = nonce
        self._old_name = old_name
        self._address = address
        self._is_moved = is_moved
        self._seen: tuple[Version, float] | None = None
        self.moved_at = float("-inf")
        """When root was last seen to change under another leader, on our own clock."""

    def try_once(self) -> Held:
        """
        Take the lead, unless another bastion holds it.

        Raises:
            LeaseHeldError: Another bastion leads; try again.
            StoreError: Out of reach.
            RecordError: Root cannot be decoded, or was deleted; it is never overwritten.
            OutdatedError: The bucket is a copy of another one, which its machines obey.
        """
        try:
            held = self._writer.read()
        except NotFoundError:
            held = self._create_root()
        assert held is not None
        leader = held.root.leader
        if leader is not None and not self._may_take(held, leader):
            patience_s = self._patience_s(leader)
            hint = f"it is replaced once it has not committed for {patience_s:g} s"
            raise LeaseHeldError(_owner(leader), hint=hint)
        return self._take(held)

    def _may_take(self, held: Held, leader: Leader) -> bool:
        mine = self._candidate
        is_here = (leader.host, leader.boot) == (mine.host, mine.boot)
        if is_here and not self._is_alive(leader.pid, leader.pid_started):
            return True
        now = self._clock.monotonic()
        if self._seen is None or self._seen[0] != held.version:
            self.moved_at = self.moved_at if self._seen is None else now
            self._seen = (held.version, now)
            return False
        return now - self._seen[1] > self._patience_s(leader)

    def _patience_s(self, leader: Leader) -> float:
        mine = self._candidate
        is_alike = (leader.holder, leader.host) == (mine.holder, mine.host)
        has_booted = is_alike and leader.boot != mine.boot
        return leader.ttl_s * (PATIENCE_AFTER_BOOT if has_booted else PATIENCE)

    def _create_root(self) -> Held:
        """
        Create the first root, without a leader.

        It has no time: its first leader sets the store's time, since this machine's may be wrong.
        If a bastion has left any object there, a root existed before, and no number can start
        again.
        """
        if trace := self._writer.a_trace():
            return self._read_again(trace)
        bucket = drawn_bucket_name(self._nonce())
        mine = self._candidate.build
        root = Root(bucket=bucket, build=mine, epoch=0, seq=0, now=0.0, write_id=self._nonce())
        try:
            return self._writer.commit(root, over=None)
        except FencedError as error:
            raise LeaseHeldError("it took the lead first", hint="try again") from error

    def _read_again(self, trace: str) -> Held:
        """Read the root that another bastion may have created; without one, root is lost."""
        try:
            held = self._writer.read()
        except NotFoundError as error:
            raise lost_root(trace) from error
        assert held is not None
        return held

    def _refuse_copy(self, old: Root) -> None:
        """
        Refuse the lead of a copied bucket: it would delete machines that obey the original.

        Local machines do not count: they are found through their own folder, and end with it.
        """
        theirs = sorted(m.name for m in old.machines.values() if m.zone or m.permit_s)
        is_here = old.address in ("", self._address) or not self._address
        if is_here or self._is_moved or not theirs:
            return
        more = f" and {len(theirs) - 1} more" if len(theirs) > 1 else ""
        raise OutdatedError(
            f"this bucket, {self._address}, was last led as {old.address}, which machine"
            f" {theirs[0]}{more} may still obey",
            hint="start no bastion on a copy; where the bucket has moved and its machines have"
            " ended, or it is only named in another way: bastion serve --moved",
        )

    def _take(self, held: Held) -> Held:
        old = held.root
        self._refuse_copy(old)
        if old.build != self._candidate.build:
            self._writer.keep_as_read(held)
        now = max(old.now, held.modified_at)
        root = replace(
            old,
            bucket=old.bucket or self._old_name or drawn_bucket_name(self._nonce()),
            address=self._address or old.address,
            build=self._candidate.build,
            epoch=old.epoch + 1,
            seq=old.seq + 1,
            now=now,
            write_id=self._nonce(),
            prev_write_id=old.write_id,
            leader=self._leader(now),
        )
        try:
            taken = self._writer.commit(root, over=held)
        except FencedError as error:
            raise LeaseHeldError("it took the lead first", hint="try again") from error
        # The store's time of this commit is known only now: our next commit stores it.
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


def _owner(leader: Leader) -> str:
    return f"{leader.holder} on {leader.host} (process {leader.pid})"
