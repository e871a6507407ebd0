"""A bounded number of threads that work through a list while its results are taken in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_lanes(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, lanes: int
) -> Iterator[_Result]:
    """
    `work(item)` for every item, on `lanes` threads, in the order of the items.

    `items` is drawn from in the calling thread and never more than `2 * lanes` ahead of what was
    taken, so memory is bounded. The first error ends it: what runs is waited for, what waits is
    dropped.
    """
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_workers=lanes, thread_name_prefix="bundler") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * lanes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
