"""A site over a bucket in memory, served in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from bastion.clock import Clock, VirtualClock
from bastion.history.record import Record
from bastion.metrics.prometheus import PrometheusMeter
from bastion.store.memory import MemoryStore
from bastion.store.port import ObjectStore
from bastion.web.app import Site
from bastion.web.reading.bucket import Bucket
from bastion.web.record.kept_tables import KeptTables
from bastion.web.record.reader import Ask, RecordReader
from bastion.web.settings import WebSettings
from tests.rigs.busy_bucket import NOW, busy_root, write_bucket

OWN = "http://127.0.0.1"


def busy_store(*, machines: int = 4, running: int = 6, queued: int = 120) -> MemoryStore:
    """Return a bucket in memory with some jobs."""
    clock = VirtualClock(wall=NOW)
    store = MemoryStore(clock.wall)
    write_bucket(store, busy_root(machines=machines, running=running, queued=queued))
    return store


def asked_here(store: ObjectStore, clock: Clock) -> Ask:
    """Query the record of `store` in this process, like the program that does so."""
    tables = KeptTables(Record(store), clock)

    return tables.answer


@contextmanager
def site(
    store: ObjectStore,
    *,
    clock: VirtualClock | None = None,
    base: str = OWN,
    record: RecordReader | None = None,
    **settings: Any,
) -> Iterator[TestClient]:
    """Provide a client of the site over `store`; it follows no redirect."""
    clock = clock or VirtualClock(wall=NOW)
    told = WebSettings(root_url="memory:", **settings)
    record = record or RecordReader(asked_here(store, clock), clock, wait_s=60.0)
    bucket = Bucket(store, clock, record, read_every_s=1.0, use_every_s=1.0)
    try:
        with TestClient(
            Site(bucket, told, PrometheusMeter()).app(),
            base_url=base,
            follow_redirects=False,
            client=("127.0.0.1", 5000),
            raise_server_exceptions=False,
        ) as client:
            yield client
    finally:
        bucket.close()
