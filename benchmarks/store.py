"""
How long the operations of a store take: medians, in microseconds.

    python -m benchmarks.store                                a folder here, and the memory
    python -m benchmarks.store gs://bucket/scratch s3://...   any stores; they are left unchanged
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bastion.store import ObjectStore, open_store
from benchmarks.table import median_of, show

RUNS = 100
CROWD = 10_000
"""Entries in a crowded folder; a bucket gets a tenth of them."""
BODY = b"x" * 1000


def operations(store: ObjectStore) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the operations by name, each to be run repeatedly."""
    version = store.create("bench/root", BODY).version
    made, deleted = itertools.count(), itertools.count()

    def swap() -> None:
        nonlocal version
        version = store.swap("bench/root", BODY, if_version=version).version

    yield "create", lambda: store.create(f"bench/c/{next(made)}", BODY)
    yield "create in a new folder", lambda: store.create(f"bench/n/{next(made)}/x", BODY)
    yield "swap", swap
    yield "read", lambda: store.read("bench/root")
    yield "read, unchanged", lambda: store.read("bench/root", unless=version)
    yield "list an empty prefix", lambda: store.list("bench/nothing/")
    yield "list 100", lambda: store.list("bench/c/")
    yield "delete", lambda: store.delete(f"bench/c/{next(deleted)}")


def measure(url: str) -> dict[str, float]:
    """Return the medians of every operation of the store at `url`, which is then cleared."""
    store = open_store(url, makes_root=True)
    crowd = CROWD if url.startswith(("file:", "memory:")) else CROWD // 10
    try:
        table = {name: median_of(RUNS, run) * 1e6 for name, run in operations(store)}
        for n in range(crowd):
            store.create(f"bench/crowd/{n:06}", b"")
        table["list 20 of a crowd"] = (
            median_of(20, lambda: store.list("bench/crowd/", limit=20)) * 1e6
        )
        table["list 1,000 of it"] = median_of(20, lambda: store.list("bench/crowd/")) * 1e6
        return table
    finally:
        while entries := store.list("bench/"):
            for entry in entries:
                store.delete(entry.key)


def main() -> None:
    """Measure the stores that the command line names, one per column."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        urls = sys.argv[1:] or [f"file://{folder}", "memory:"]
        tables = {url: measure(url) for url in urls}
    names = next(iter(tables.values()))
    show([{"median_us": name} | {url: t[name] for url, t in tables.items()} for name in names])


if __name__ == "__main__":
    main()
