"""Hourly copies of root, from which `bastion restore` can bring it back."""

from __future__ import annotations

import time

from bastion.records.keys import layout
from bastion.records.register import create_same
from bastion.records.root import Root, RootWriter
from bastion.service.act.actions import DraftUpdate, Work
from bastion.store import ObjectStore

EVERY_S = 3600.0
RETRY_S = 60.0
"""After a copy that failed or whose result is unknown."""


class RootCopies:
    """Copies committed roots. A new leader makes a copy immediately."""

    def __init__(self, store: ObjectStore, writer: RootWriter) -> None:
        self._store = store
        self._writer = writer
        self._next_at = float("-inf")

    def work(self, root: Root) -> Work | None:
        """Return the work that copies the committed `root`, or None if no copy is due."""
        if root.now < self._next_at:
            return None
        self._next_at = root.now + RETRY_S
        date = time.strftime("%Y-%m-%d", time.gmtime(root.now))
        data = self._writer.encoded(root)

        def work() -> DraftUpdate:
            create_same(self._store, layout.snapshot(date, root.seq), data)
            return lambda _: self._record_copy(root.now)

        return work

    def _record_copy(self, at: float) -> None:
        self._next_at = at + EVERY_S
