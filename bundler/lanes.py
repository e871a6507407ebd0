"""A bounded number of threads that process a list, with the results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_lanes(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, lanes: int
) -> Generator[_Result, None, None]:
    """
    Yield `work(item)` for every item, computed on `lanes` threads, in order.

    `items` is read in the calling thread, at most `2 * lanes` items ahead of the consumer, so
    memory is bounded. The first error ends the iteration: running items are awaited, and waiting
    ones dropped.
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
