"""Copies of root, once an hour, for disasters that no protocol foresees."""

from __future__ import annotations

import time

from bastion.records import layout
from bastion.records.register import create_same
from bastion.records.root import Root, RootWriter
from bastion.service.act import Lesson, Work, nothing
from bastion.store import ObjectStore

EVERY_S = 3600.0


class Copies:
    """Copies committed roots; a new leader makes one at once."""

    def __init__(self, store: ObjectStore, writer: RootWriter) -> None:
        self._store = store
        self._writer = writer
        self._copied_at = float("-inf")

    def work(self, root: Root) -> Work | None:
        """The work that copies the committed `root`, or None when it is not time."""
        if root.now - self._copied_at < EVERY_S:
            return None
        self._copied_at = root.now
        date = time.strftime("%Y-%m-%d", time.gmtime(root.now))
        data = self._writer.encoded(root)

        def work() -> Lesson:
            create_same(self._store, layout.snapshot(date, root.seq), data)
            return nothing

        return work
