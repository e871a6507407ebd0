"""Places to run the contract of a store in: one adapter each, and how contenders meet there."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bastion.clock import SystemClock
from bastion.store.local import LocalStore
from bastion.store.memory import MemoryStore
from bastion.store.port import ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A fresh, empty store under test."""

    name: str
    store: ObjectStore
    processes: bool
    """Whether contenders are processes, not threads."""
    is_folder: bool
    """Whether it sees that a key is both an object and a folder of others."""

    def race(self, contenders: int, work: Callable[[ObjectStore, int], T]) -> list[T]:
        """Run `work` once for each contender, all let go at one moment; their results in order."""
        run = _in_processes if self.processes else _in_threads
        return run(contenders, lambda number: work(self.store, number))


def _in_threads(contenders: int, work: Callable[[int], T]) -> list[T]:
    gate = threading.Barrier(contenders)

    def contend(number: int) -> T:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(contenders) as pool:
        return list(pool.map(contend, range(contenders)))


def _in_processes(contenders: int, work: Callable[[int], T]) -> list[T]:
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(contenders)
    results = fork.SimpleQueue()

    def contend(number: int) -> None:
        gate.wait()
        results.put((number, work(number)))

    processes = [fork.Process(target=contend, args=(n,)) for n in range(contenders)]
    for process in processes:
        process.start()
    found = dict(results.get() for _ in processes)
    for process in processes:
        process.join()
    return [found[n] for n in range(contenders)]


@contextmanager
def memory_place(folder: Path) -> Iterator[Place]:
    """The fake."""
    store = MemoryStore(SystemClock().wall)
    yield Place(name="memory", store=store, processes=False, is_folder=True)


@contextmanager
def local_place(folder: Path) -> Iterator[Place]:
    """A folder, as in production."""
    yield Place(name="local", store=LocalStore(folder / "root"), processes=True, is_folder=True)


PLACES = {"memory": memory_place, "local": local_place}
