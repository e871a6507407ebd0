"""
What machines use now, kept fresh as the board is: read again when a page asks, by one thread.

A page never waits for it: the first look shows nothing of it where the bucket is slow. Use is a
report of agents, so its loss takes nothing else away.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import field
from threading import Lock

from bastion.client.look.usage import STALE_S, JobUse, LiveUse, job_use
from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.records.reports.usage import MachineUse
from bastion.store.port import ObjectStore
from bastion.value import value

FIRST_S = 2.0
"""How long the very first look waits."""
WAIT_S = 0.02
"""How long a later one waits before it takes what is known."""


@value
class Uses:
    """The use of each machine that tells of it, and when it did, in the store's seconds."""

    number: int = 0
    """Changes whenever any of them does."""
    told: Mapping[str, tuple[MachineUse, float]] = field(default_factory=dict)

    def of(self, machine: str, as_of: float) -> MachineUse | None:
        """What `machine` uses at `as_of`; None if it has told nothing lately."""
        use, at = self.told.get(machine, (None, 0.0))
        return use if use is not None and as_of - at <= STALE_S else None

    def of_job(self, project: str, job: str, as_of: float) -> JobUse | None:
        """What the hosts of a job use at `as_of`; None if none has told of it lately."""
        fresh = [(use, at) for use, at in self.told.values() if as_of - at <= STALE_S]
        return job_use(fresh, project, job)


class UseReader:
    """
    Reads the use of all machines of one bucket.

    Args:
        store: The bucket; asked once, without retries.
        clock: For pauses.
        every_s: Least time between two reads.
    """

    def __init__(self, store: ObjectStore, clock: Clock, *, every_s: float) -> None:
        self._live = LiveUse(store)
        self._clock = clock
        self._every_s = every_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="use")
        self._lock = Lock()
        self._reading: Future[None] | None = None
        self._tried_at = float("-inf")
        self._is_first = True
        self._uses = Uses()

    def look(self) -> Uses:
        """The newest use that is to be had soon."""
        reading = self._begin()
        if reading is not None:
            wait_for([reading], timeout=FIRST_S if self._is_first else WAIT_S)
            self._is_first = False
        return self._uses

    def close(self) -> None:
        """Read no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> Future[None] | None:
        with self._lock:
            if self._reading is not None and not self._reading.done():
                return self._reading
            if self._clock.monotonic() - self._tried_at < self._every_s:
                return None
            self._tried_at = self._clock.monotonic()
            self._reading = self._thread.submit(self._read)
            return self._reading

    def _read(self) -> None:
        try:
            told = self._live.read()
        except BastionError:
            return  # the board says that the bucket is away, and how old everything is
        if told != self._uses.told:
            self._uses = Uses(number=self._uses.number + 1, told=told)
