"""
How long the operations of a store take: a table of medians, with the machine they were taken on.

    python -m benchmarks.store                                a folder here, and the memory
    python -m benchmarks.store gs://bucket/scratch s3://...   any stores; they are left as found
"""

from __future__ import annotations

import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bastion.store import ObjectStore, open_store

ROUNDS = 200
CROWD = 10_000
"""Entries in the crowded folder; a bucket gets a tenth of them."""
BODY = b"x" * 1000


def median_us(operation: Callable[[int], object], rounds: int = ROUNDS) -> float:
    """The median time of one call, in microseconds."""
    times = []
    for n in range(rounds):
        begin = time.perf_counter()
        operation(n)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def measure(store: ObjectStore, crowd: int) -> dict[str, float]:
    """Medians of every operation, by name."""
    version = store.create("bench/root", BODY).version

    def swap(n: int) -> None:
        nonlocal version
        version = store.swap("bench/root", BODY, if_version=version).version

    table = {
        "create": median_us(lambda n: store.create(f"bench/c/{n}", BODY)),
        "create in a new folder": median_us(lambda n: store.create(f"bench/n/{n}/x", BODY)),
        "swap": median_us(swap),
        "read": median_us(lambda n: store.read("bench/root")),
        "read, unchanged": median_us(lambda n: store.read("bench/root", unless=version)),
        "list an empty prefix": median_us(lambda n: store.list("bench/nothing/")),
        f"list {ROUNDS}": median_us(lambda n: store.list("bench/c/"), 20),
        "delete": median_us(lambda n: store.delete(f"bench/c/{n}")),
    }
    for n in range(crowd):
        store.create(f"bench/crowd/{n:06}", b"")
    table[f"list 20 of {crowd:,}"] = median_us(lambda n: store.list("bench/crowd/", limit=20), 20)
    table[f"list 1,000 of {crowd:,}"] = median_us(lambda n: store.list("bench/crowd/"), 20)
    return table


def clear(store: ObjectStore) -> None:
    """Delete what was written."""
    while entries := store.list("bench/"):
        for entry in entries:
            store.delete(entry.key)


def show(url: str) -> None:
    """Measure the store at `url` and print its table."""
    store = open_store(url)
    try:
        table = measure(store, CROWD if url.startswith(("file:", "memory:")) else CROWD // 10)
    finally:
        clear(store)
    print(f"\n{url}")
    for name, us in table.items():
        print(f"  {name:<28}{us:>12,.0f} us")


def main() -> None:
    """Measure the stores that the command line names."""
    print(f"{platform.node()}, {platform.machine()}, Linux {platform.release()}, medians")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for url in sys.argv[1:] or [f"file://{folder}", "memory:"]:
            show(url)


if __name__ == "__main__":
    main()
