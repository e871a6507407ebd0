"""Everything that pages read from one bucket, opened once."""

from __future__ import annotations

from bastion.client.status.view_reader import ViewReader
from bastion.clock import Clock
from bastion.store.date import date_of
from bastion.store.port import ObjectStore
from bastion.web.reading.board_reader import BoardReader
from bastion.web.reading.host_use import HostUseReader
from bastion.web.reading.job_page import Jobs
from bastion.web.reading.live_use import UseReader
from bastion.web.reading.trail import Trail
from bastion.web.record.reader import RecordReader


class Bucket:
    """
    One bucket, read for pages.

    Args:
        store: The bucket; called once for each object, without retries.
        clock: For ages and pauses.
        record: What has ended.
        read_every_s: Minimum time between two reads of the views.
        use_every_s: The same for what machines use.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        record: RecordReader,
        *,
        read_every_s: float,
        use_every_s: float,
    ) -> None:
        self.store = store
        self.clock = clock
        self.now = date_of(store, clock)
        views = ViewReader(store, self.now)
        self.boards = BoardReader(views, self.now, clock, every_s=read_every_s)
        self.uses = UseReader(store, clock, every_s=use_every_s)
        self.host_use = HostUseReader(store, clock)
        self.jobs = Jobs(store, self.now)
        self.trail = Trail(store)
        self.record = record

    def close(self) -> None:
        """Stop reading."""
        self.boards.close()
        self.uses.close()
        self.trail.close()
        self.record.close()
