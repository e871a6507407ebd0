"""
`Memory`: what follows from single records, kept from one cycle to the next.

Most records are the same values as in the cycle before, so what was worked out of each alone (its
shape, its place in a line, what it holds) still holds, and so does how they are sorted. A caller
that decides again and again hands the same memory in each time; to forget it costs time and changes
nothing else.

Rules: what is kept follows from one record and the quota file alone; it is used only for the very
same record, under the very same quota. Nothing here is true by being here.

It must not know what else runs or waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from bastion.job import JobRecord
from bastion.scheduler.queue.lines import Lines
from bastion.scheduler.queue.order import Standing
from bastion.scheduler.queue.shape import Shapes
from bastion.scheduler.state.running import Running
from quota.tree import Quota


class Memory:
    """What earlier cycles found out about records. Not for two threads at once."""

    def __init__(self) -> None:
        self.ready: dict[str, Standing] = {}
        """Jobs that waited on their own in the last cycle, held back by nothing."""
        self.running: dict[str, Running] = {}
        """Jobs that hold devices and belong to no gang, by id."""
        self.lines = Lines()
        """Who waits, in order."""
        self._shapes: Shapes | None = None
        self._quota: Quota | None = None
        self._policy: object = None
        self._now = 0.0

    def recall(self, quota: Quota, policy: object, jobs: Collection[str], now: float) -> Shapes:
        """
        The shapes to use in a cycle; with them everything that may not be used in it is forgotten.

        Args:
            quota: In force now.
            policy: The order policy that entries were made with.
            jobs: Of this cycle; shapes that nobody asks for any more are not kept for ever.
            now: An earlier time than before begins from nothing: some may wait again.
        """
        shapes = self._shapes
        is_same = quota is self._quota and policy is self._policy and now >= self._now
        if shapes is None or not is_same or len(shapes) > 2 * len(jobs) + 1_000:
            shapes = self._shapes = Shapes(quota)
            self.ready, self.running, self.lines = {}, {}, Lines()
        shapes.forget_records()
        self._quota, self._policy, self._now = quota, policy, now
        return shapes

    def recognise(
        self, jobs: Mapping[str, JobRecord]
    ) -> tuple[list[Standing], Mapping[str, JobRecord]]:
        """Those of `jobs` that are `ready` and unchanged; all others by name."""
        if not self.ready:
            return [], jobs
        known, others = [], {}
        for name, job in jobs.items():
            standing = self.ready.get(name)
            if standing is not None and standing[0] is job:
                known.append(standing)
            else:
                others[name] = job
        return known, others

    def keep_ready(self, standing: Sequence[Standing], *, new: Iterable[Standing]) -> None:
        """Keep those of `new` that wait on their own; of all others those that are `standing`."""
        if len(self.ready) > 2 * len(standing) + 1_000:  # many have gone
            self.ready, new = {}, standing
        for each in new:
            if not each[0].gang:
                self.ready[each[0].id] = each

    def keep_running(self, found: Sequence[Running]) -> None:
        """Keep those of `found` whose charge follows from their record alone."""
        if len(self.running) > 2 * len(found) + 1_000:
            self.running = {}
        for each in found:
            is_alone = not each.jobs[0].gang
            if is_alone and not each.shape.takes_whole:
                self.running[each.name] = each
