"""
Mutants: the product without one of its safeguards, to prove that the simulation detects this.

Each is a small subclass or a wrapped port that replaces the correct part. None changes a module of
the product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from bastion.array import task_over
from bastion.errors import ConflictError, FencedError, NotFoundError, StoreError
from bastion.job import End, JobRecord, Phase
from bastion.lifecycle import DependenciesEnded, DependencyEnded, HostEnded
from bastion.lifecycle.dependencies import waits_for
from bastion.machine import Pool
from bastion.monitor import Options
from bastion.pool import Delete, Seen
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.registers import GoRegister
from bastion.records.root import BACKOFF_S, Held, Root, RootWriter
from bastion.records.settings.notification import Notification
from bastion.records.settings.webhooks import Notifications
from bastion.service.act.machines import Machines
from bastion.service.act.notifications import Notifier
from bastion.service.act.webhook import DeliveryError
from bastion.service.draft.root_draft import Draft
from bastion.service.leader import Leader
from bastion.store.port import READ_LIMIT_BYTES, Object, ObjectStore, Version, Written
from tests.rigs.wrapped import Wrapped
from tests.simulation.cloud_mutants import CLOUD_MUTANTS
from tests.simulation.outside import OUTSIDE
from tests.simulation.processes import Parts


class ConflictIsMine(RootWriter):
    """Treats a 412 as an earlier try that landed."""

    def _read_back(self, root: Root, over: Held | None) -> Held | None:
        found = self._store.read(layout.ROOT)
        assert found is not None
        if over is not None and found.version == over.version:
            return None
        return Held(root=root, version=found.version, modified_at=found.modified_at)


class ConflictIsLost(Wrapped):
    """Treats a 412 on a register as another's write, without comparing the contents."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        found = super().read(key, unless=unless, limit_bytes=limit_bytes)
        if found is not None and key.endswith("/claim"):
            record = json.loads(found.data)
            record["write_id"] = "another's"
            if record.get("claim"):
                record["claim"]["machine"] = "another"
            return replace(found, data=json.dumps(record).encode())
        return found


class DeletesFirst(Wrapped):
    """Deletes a request as soon as it was read, before any commit."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        found = super().read(key, unless=unless, limit_bytes=limit_bytes)
        if found is not None and layout.parse_request(key) is not None:
            self._store.delete(key)
        return found


class ActsFirst(Leader):
    """Carries out a turn's actions before they are committed."""

    def _commit(self, draft: Draft, **changes: object) -> None:
        sound = self._writer
        self._writer = _Acting(self, sound)
        try:
            super()._commit(draft, **changes)
        finally:
            self._writer = sound


class _Acting(RootWriter):
    def __init__(self, leader: ActsFirst, sound: RootWriter) -> None:
        self._leader = leader
        self._sound = sound

    def commit(self, root: Root, *, over: Held | None) -> Held:
        """See `RootWriter`."""
        assert over is not None
        self._leader.held = replace(over, root=root)
        self._leader._working = tuple(Draft(root, root.now).working)
        self._leader._act()
        self._leader.held = over
        return self._sound.commit(root, over=over)


class NoClaims(Wrapped):
    """Agents start without winning the claim."""

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        try:
            return super().create(key, data)
        except ConflictError:
            if key.endswith("/claim"):
                return Written(version=Version("none"), modified_at=0.0)
            raise


class NoDedupe(Wrapped):
    """Does not check whether a request was answered before."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if key.startswith("results/"):
            raise NotFoundError(key)
        return super().read(key, unless=unless, limit_bytes=limit_bytes)


class FreesEarly(Leader):
    """Frees the devices of a stopped attempt as soon as the stop is committed."""

    def _watch(self, draft: Draft) -> None:
        super()._watch(draft)
        for job in list(draft.jobs.values()):
            attempt = job.attempt
            if job.phase is not Phase.STOPPING or attempt is None:
                continue
            for r, h, _, state in attempt.each_host():
                if state.end is None and draft.jobs[job.id].phase is Phase.STOPPING:
                    end = End(kind="revoked", notice=attempt.stop.reason if attempt.stop else "")
                    draft.apply(job.id, HostEnded(replica=r, host=h, end=end))


class LockThenWrite(RootWriter):
    """Overwrites root unconditionally, after a check of whose turn it is."""

    def commit(self, root: Root, *, over: Held | None) -> Held:
        """See `RootWriter`."""
        while over is not None:
            try:
                standing = self.read()
                assert standing is not None
                if standing.root.epoch > root.epoch:
                    raise FencedError(ours=root.epoch, theirs=standing.root.epoch)
                return self._overwrite(root)
            except StoreError:
                self._clock.sleep(BACKOFF_S)
        return super().commit(root, over=over)

    def _overwrite(self, root: Root) -> Held:
        """Swap until the version that was read is the current one: as good as no condition."""
        while True:
            found = self._store.read(layout.ROOT)
            assert found is not None
            try:
                written = self._store.swap(
                    layout.ROOT, self.encoded(root), if_version=found.version
                )
            except ConflictError:
                continue
            return Held(root=root, version=written.version, modified_at=written.modified_at)


class NaiveOrphans(Machines):
    """Deletes every listed machine that is not in our root, even a new one."""

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
        options: Options,
    ) -> str:
        """See `Machines`."""
        known = {
            pool: tuple(seen for seen in seens if seen.name in draft.machines)
            for pool, seens in fresh.items()
        }
        return super().reconcile(draft, pools, known, in_use, options)

    def act(self, root: Root, store_now: float) -> None:
        """See `Machines`."""
        for pool, seens in self._listings.items():
            for seen in seens:
                if seen.name not in root.machines and not seen.gone:
                    self._submit(self._pools[pool], Delete(machine=seen.name, pool=pool), root)
        super().act(root, store_now)


class NoRevocation(Wrapped):
    """Treats a stopped attempt without a claim as revoked, and writes nothing."""

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if key.endswith("/claim") and b'"claim"' not in data:
            return Written(version=Version("none"), modified_at=0.0)
        return super().create(key, data)


class NoBarrier(Wrapped):
    """Agents do not wait for `go`."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if key.startswith(layout.BARRIERS):
            go = encode(GoRegister(write_id="none", addresses=("nowhere",), port=1))
            return Object(data=go, version=Version("none"), modified_at=0.0)
        return super().read(key, unless=unless, limit_bytes=limit_bytes)


class NumbersLate(Wrapped):
    """Numbers an instruction when it is written: a try that failed leaves a gap."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._counts: Counter[str] = Counter()

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if not key.startswith(layout.INSTRUCTIONS):
            return super().create(key, data)
        folder = key.rpartition("/")[0]
        self._counts[folder] += 1
        machine, life = folder.split("/")[2:4]
        return super().create(layout.instructions(machine, int(life), self._counts[folder]), data)


class TellsAttempts(Leader):
    """Tells jobs that wait for a job when one attempt ends, although more will follow."""

    def _watch(self, draft: Draft) -> None:
        super()._watch(draft)
        for job in list(draft.jobs.values()):
            if job.phase is not Phase.QUEUED or job.last is None:
                continue
            over = DependencyEnded(job=job.id, launch=job.launch, outcome=job.last, is_last=True)
            for name in list(draft.dependents):
                told = DependenciesEnded(ends=(over,))
                if name in draft.jobs and waits_for(draft.jobs[name].after, told):
                    draft.apply(name, told)


class CountsLater(Leader):
    """Removes the record of an ended task from root a turn before its array counts it."""

    _uncounted: tuple[JobRecord, ...] = ()

    def _apply_results(self, draft: Draft) -> None:
        for job in self._uncounted:
            assert job.task is not None
            assert job.outcome is not None
            array = draft.arrays[job.launch]
            draft.put_array(task_over(array, job.task, job.outcome, draft.now))
        counted = dict(draft.arrays)
        super()._apply_results(draft)
        left = [job for job in self.held.root.jobs.values() if job.id not in draft.jobs]
        self._uncounted = tuple(job for job in left if job.task is not None)
        draft.arrays.update({job.launch: counted[job.launch] for job in self._uncounted})


class OutboxInMemory(Leader):
    """Keeps notifications in the leader's memory, not in root."""

    _outbox: tuple[Notification, ...] = ()

    def _commit(self, draft: Draft, **changes: object) -> None:
        self._outbox, draft.outbox = (*self._outbox, *draft.outbox), ()
        super()._commit(draft, **changes)

    def _act(self) -> None:
        sound = self.held
        self.held = replace(sound, root=replace(sound.root, outbox=self._outbox))
        try:
            super()._act()
        finally:
            self.held = sound


class SentIsTaken(Notifier):
    """Treats what was sent as delivered, whatever the webhook answered."""

    def _deliver(self, told: Notification, rules: Notifications) -> None:
        with suppress(DeliveryError):
            super()._deliver(told, rules)


MUTANTS: dict[str, Parts] = {
    "412 read as mine": Parts(writer=ConflictIsMine),
    "412 read as lost": Parts(agent_store=ConflictIsLost),
    "requests deleted before the commit": Parts(bastion_store=DeletesFirst),
    "acting before the commit": Parts(leader=ActsFirst),
    "no claim register": Parts(agent_store=NoClaims),
    "no request dedupe": Parts(bastion_store=NoDedupe),
    "devices freed before the end is known": Parts(leader=FreesEarly),
    "unconditional root write after a lock check": Parts(writer=LockThenWrite),
    "naive orphan deletion": Parts(machines=NaiveOrphans),
    "no revocation of an unclaimed attempt": Parts(bastion_store=NoRevocation),
    "no start barrier": Parts(agent_store=NoBarrier),
    "instruction numbers chosen when writing": Parts(bastion_store=NumbersLate),
    "ends of attempts told as ends of jobs": Parts(leader=TellsAttempts),
    "ended tasks counted in a later commit": Parts(leader=CountsLater),
    "notifications kept in memory": Parts(leader=OutboxInMemory),
    "what was sent is taken for told": Parts(notifier=SentIsTaken),
    **OUTSIDE,
    **CLOUD_MUTANTS,
}
"""The safeguards of the bucket, each removed."""
