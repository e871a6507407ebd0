"""The time of a region: it passes on a thread, as in a real region."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.rigs.limits import joined, on_thread
from tests.servers.aws.ec2 import Ec2World


@contextmanager
def ticking(world: Ec2World) -> Iterator[None]:
    """Let time pass in the region, on a thread."""
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(0.2):
            world.tick()

    thread = on_thread(tick)
    try:
        yield
    finally:
        is_over.set()
        joined(thread)
