"""A bucket in a folder for tests of the command line, and a scripted bastion that answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bastion.records import layout
from bastion.store.local import LocalStore
from tests.rigs.scripted_bastion import QUOTA, Clock, ScriptedBastion, publish, row

JOB = "train-0123456789"


class Bucket:
    """
    A folder that is a bucket.

    Args:
        folder: Where.
    """

    def __init__(self, folder: Path) -> None:
        self.url = folder.as_uri()
        self.store = LocalStore(folder, makes_root=True)
        self.store.create(layout.QUOTA, QUOTA.encode())
        publish(self.store, "queue", {"jobs": [row(JOB, state="running")]})

    @contextmanager
    def bastion(self) -> Iterator[ScriptedBastion]:
        """Somebody who answers requests until the end."""
        answering = ScriptedBastion(self.store, Clock())
        over = threading.Event()

        def answer() -> None:
            while not over.wait(0.005):
                answering.turn()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield answering
        finally:
            over.set()
            thread.join()
