"""The ports at which the hosts of a gang meet, given to attempts long before these listen there."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

_REMEMBERED = 1024
"""Ports that are not given again: more attempts than a machine has at once."""
_TRIES = 100


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as listening:
        listening.bind(("", 0))
        port: int = listening.getsockname()[1]
        return port


class Ports:
    """
    Ports that nothing uses, and that no other attempt was given lately.

    The kernel draws a free port at random: of 32 attempts that start together two would have the
    same one in three of a hundred cases.

    Args:
        free: Returns a free port.
    """

    def __init__(self, free: Callable[[], int] = free_port) -> None:
        self._free = free
        self._given: deque[int] = deque(maxlen=_REMEMBERED)

    def next(self) -> int:
        """Return a port for the next attempt."""
        port = self._free()
        for _ in range(_TRIES):
            if port not in self._given:
                break
            port = self._free()
        self._given.append(port)
        return port
