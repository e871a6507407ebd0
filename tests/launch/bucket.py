"""A bucket in a folder for tests of the command line, and a scripted bastion that answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bastion.records.keys import layout
from bastion.store.folder.local import LocalStore
from tests.rigs.limits import joined, on_thread
from tests.rigs.scripted_bastion import QUOTA, Clock, ScriptedBastion, lead, publish, row

_AHEAD_S = 3600.0
"""The status is of the future, so a slow test machine never considers its bastion silent."""
JOB = "train-0123456789"


class Bucket:
    """
    A folder that is a bucket.

    Args:
        folder: Its path.
    """

    def __init__(self, folder: Path) -> None:
        self.url = folder.as_uri()
        self.store = LocalStore(folder, makes_root=True)
        self.store.create(layout.QUOTA, QUOTA.encode())
        lead(self.store, now=time.time() + _AHEAD_S)
        publish(self.store, "queue", {"jobs": [row(JOB, state="running")]})

    @contextmanager
    def bastion(self) -> Iterator[ScriptedBastion]:
        """Run a bastion that answers requests until the end."""
        answering = ScriptedBastion(self.store, Clock())
        over = threading.Event()

        def answer() -> None:
            while not over.wait(0.005):
                answering.turn()

        thread = on_thread(answer)
        try:
            yield answering
        finally:
            over.set()
            joined(thread)
