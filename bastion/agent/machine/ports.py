"""The ports at which the hosts of a gang meet, given to attempts long before these listen there."""

from __future__ import annotations

import secrets
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from bastion.agent.machine.stray_processes import read

_REMEMBERED = 1024
"""Ports that are not given again: more attempts than a machine has at once."""
_TRIES = 100
_LEAST = 20_000
"""Lower ports are those of known services."""
_DRAWN = "/proc/sys/net/ipv4/ip_local_port_range"
"""The ports that the kernel gives to connections. Source: Linux, networking/ip-sysctl.rst."""


def free_port() -> int:
    """
    Return a port on which nothing listens now, and that no connection is given by the kernel.

    Where there is none below those, it is one of them: a connection of any process may then take
    it before the attempt listens there.
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
    Ports that nothing uses, and that no other attempt was given lately.

    A free port is drawn at random: of 32 attempts that start together two would have the same one
    in four of a hundred cases.

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
