"""The address at which other machines reach this one."""

from __future__ import annotations

import socket


def own_address() -> str:
    """Return the address of the interface that leads out of this machine, or loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
