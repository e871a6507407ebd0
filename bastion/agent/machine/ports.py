"""The ports at which the hosts of a gang meet, assigned long before an attempt listens there."""

from __future__ import annotations

import secrets
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from bastion.agent.machine.stray_processes import read

_REMEMBERED = 1024
"""Ports that are not assigned again: more than the attempts on a machine."""
_TRIES = 100
_LEAST = 20_000
"""Lower ports belong to well-known services."""
_DRAWN = "/proc/sys/net/ipv4/ip_local_port_range"
"""The ports that the kernel assigns to connections. Source: Linux, networking/ip-sysctl.rst."""


def free_port() -> int:
    """
    Return a port on which nothing listens, outside the range that the kernel assigns to
    connections.

    If there is none below that range, it is a port within it: a connection of any process may then
    take it before the attempt listens there.
    """
    below = _first_drawn() - _LEAST
    for _ in range(_TRIES if below > 0 else 0):
        with suppress(OSError), socket.socket() as listening:
            listening.bind(("", _LEAST + secrets.randbelow(below)))
            return _port_of(listening)
    with socket.socket() as listening:
        listening.bind(("", 0))
        return _port_of(listening)


def _port_of(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def _first_drawn() -> int:
    try:
        return int(read(_DRAWN, 64).split()[0])
    except (OSError, ValueError, IndexError):
        return 0


class Ports:
    """
    Ports that nothing uses, and that no other attempt received recently.

    A free port is drawn at random: of 32 attempts that start together, two would get the same one
    in 4 of 100 cases.

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
