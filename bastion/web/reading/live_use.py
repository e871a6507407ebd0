"""
What machines use now, kept fresh like the board: one thread reads it again when a page needs it.

A page never waits for it: if the bucket is slow, the first look omits it. Use is reported by
agents, so its loss affects nothing else.
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
"""How long a later one waits before it uses what is known."""


@value
class Uses:
    """The use of each machine that reports it, and the time of the report, on the store's clock."""

    number: int = 0
    """Changes whenever any of them does."""
    told: Mapping[str, tuple[MachineUse, float]] = field(default_factory=dict)

    def of(self, machine: str, as_of: float) -> MachineUse | None:
        """Return what `machine` uses at `as_of`; None if it has reported nothing recently."""
        use, at = self.told.get(machine, (None, 0.0))
        return use if use is not None and as_of - at <= STALE_S else None

    def of_job(self, project: str, job: str, as_of: float) -> JobUse | None:
        """Return what the hosts of a job use at `as_of`; None if none has reported recently."""
        fresh = [(use, at) for use, at in self.told.values() if as_of - at <= STALE_S]
        return job_use(fresh, project, job)


class UseReader:
    """
    Reads the use of all machines of one bucket.

    Args:
        store: The bucket; called once per read, without retries.
        clock: For pauses.
        every_s: Minimum time between two reads.
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
        """Return the newest use that is available soon."""
        reading = self._begin()
        if reading is not None:
            wait_for([reading], timeout=FIRST_S if self._is_first else WAIT_S)
            self._is_first = False
        return self._uses

    def close(self) -> None:
        """Stop reading."""
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
            return  # the board says that the bucket is unreachable, and how old everything is
        if told != self._uses.told:
            self._uses = Uses(number=self._uses.number + 1, told=told)
