"""Stores under the contract: each with one adapter, and how concurrent writers run on it."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest

from bastion.clock import SystemClock
from bastion.store.folder.local import LocalStore
from bastion.store.gcs import GcsStore
from bastion.store.memory import MemoryStore
from bastion.store.port import ObjectStore
from bastion.store.s3 import S3Store
from tests.rigs.limits import PATIENCE_S
from tests.servers.azurite import azure_store, azurite_server, make_container, needs_azurite
from tests.servers.ceph import ceph_server, needs_ceph
from tests.servers.gcs import GcsServer
from tests.servers.localstack import localstack_server
from tests.servers.s3 import credentials, make_bucket, moto_server, put_empty

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A fresh, empty store under test."""

    name: str
    store: ObjectStore
    processes: bool
    """Whether concurrent writers are processes, not threads."""
    is_folder: bool
    """Whether it refuses a key that is both an object and a folder."""
    is_doubtful: bool = False
    """Whether a swap that is concurrent with another call may get 500."""
    refuses: frozenset[str] = frozenset()
    """Keys that this store cannot keep."""
    fill: Callable[[Sequence[str]], None]
    """Creates empty objects in the fast way."""

    def race(self, contenders: int, work: Callable[[ObjectStore, int], T]) -> list[T]:
        """Run `work` once per contender, all at the same moment; return their results in order."""
        run = _in_processes if self.processes else _in_threads
        return run(contenders, lambda number: work(self.store, number))


def _in_threads(contenders: int, work: Callable[[int], T]) -> list[T]:
    gate = threading.Barrier(contenders)

    def contend(number: int) -> T:
        gate.wait(PATIENCE_S)
        return work(number)

    with ThreadPoolExecutor(contenders) as pool:
        return list(pool.map(contend, range(contenders)))


def _in_processes(contenders: int, work: Callable[[int], T]) -> list[T]:
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(contenders)
    pipes = [fork.Pipe(duplex=False) for _ in range(contenders)]

    def contend(number: int) -> None:
        gate.wait(PATIENCE_S)
        pipes[number][1].send(work(number))

    # A child of a process with threads may find one of their locks held forever, and then reports
    # nothing: daemons, because this process waits for any other child when it ends.
    processes = [fork.Process(target=contend, args=(n,), daemon=True) for n in range(contenders)]
    for process in processes:
        process.start()
    try:
        for number, (told, _) in enumerate(pipes):
            assert told.poll(PATIENCE_S), f"contender {number} of {contenders} tells nothing"
        return [told.recv() for told, _ in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join(PATIENCE_S)


def _create_all(store: ObjectStore) -> Callable[[Sequence[str]], None]:
    def fill(keys: Sequence[str]) -> None:
        for key in keys:
            store.create(key, b"")

    return fill


@contextmanager
def memory_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide the fake."""

    def place(folder: Path) -> Place:
        store = MemoryStore(SystemClock().wall)
        return Place(
            name="memory", store=store, processes=False, is_folder=True, fill=_create_all(store)
        )

    yield place


@contextmanager
def local_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide a folder, as in production."""

    def place(folder: Path) -> Place:
        store = LocalStore(folder / "root", makes_root=True)
        swift = LocalStore(folder / "root", durable=False, makes_root=True)
        return Place(
            name="local", store=store, processes=True, is_folder=True, fill=_create_all(swift)
        )

    yield place


@contextmanager
def gcs_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide Google Cloud Storage, as the test server imitates it."""
    with GcsServer("bucket") as server:

        def place(folder: Path) -> Place:
            prefix = f"some/{folder.name}"

            def fill(keys: Sequence[str]) -> None:
                server.api.put_empty("bucket", [f"{prefix}/{key}" for key in keys])

            store = GcsStore("bucket", prefix, credentials=None, endpoint=server.url)
            return Place(name="gcs", store=store, processes=False, is_folder=False, fill=fill)

        yield place


@contextmanager
def s3_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide Amazon S3, as moto imitates it."""
    with moto_server() as url, credentials():
        make_bucket("bucket")

        def fill(prefix: str, keys: Sequence[str]) -> None:
            put_empty("bucket", [f"{prefix}/{key}" for key in keys])

        yield _s3_place("s3", url, fill=fill)


@contextmanager
def localstack_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide Amazon S3, as localstack imitates it."""
    with TemporaryDirectory() as folder, localstack_server(Path(folder)) as url, credentials():
        yield _s3_place("localstack", url)


@contextmanager
def ceph_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide Ceph's gateway, with ETags without quotes."""
    with TemporaryDirectory() as folder, ceph_server(Path(folder)) as url, credentials():
        yield _s3_place("ceph", url, has_bare_etags=True)


@contextmanager
def azure_shop() -> Iterator[Callable[[Path], Place]]:
    """Provide Azure Blob Storage, as Azurite imitates it."""
    with TemporaryDirectory() as folder, azurite_server(Path(folder)) as url:
        make_container(url, "bucket")

        def place(folder: Path) -> Place:
            store = azure_store(url, "bucket", f"some/{folder.name}")
            return Place(
                name="azure",
                store=store,
                processes=False,
                is_folder=False,
                refuses=frozenset({"...", "back\\slash"}),
                fill=_create_all(store),
            )

        yield place


def _s3_place(
    name: str,
    url: str,
    *,
    fill: Callable[[str, Sequence[str]], None] | None = None,
    has_bare_etags: bool = False,
) -> Callable[[Path], Place]:
    def place(folder: Path) -> Place:
        prefix = f"some/{folder.name}"
        store = S3Store("bucket", prefix, endpoint_url=url, has_bare_etags=has_bare_etags)
        return Place(
            name=name,
            store=store,
            processes=False,
            is_folder=False,
            is_doubtful=name in PROVEN,
            fill=partial(fill, prefix) if fill else _create_all(store),
        )

    return place


SHOPS = {
    "memory": memory_shop,
    "local": local_shop,
    "gcs": gcs_shop,
    "s3": s3_shop,
    "azure": azure_shop,
    "localstack": localstack_shop,
    "ceph": ceph_shop,
}
"""Each starts what its places share, and then makes a place from a folder."""
PROVEN = {"localstack": [pytest.mark.prove], "ceph": needs_ceph, "azure": needs_azurite}
"""The adapters that start slowly, and the marks of their tests."""
