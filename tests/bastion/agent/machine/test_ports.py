"""The attempts on one machine use different ports."""

from __future__ import annotations

import socket
from pathlib import Path

from bastion.agent.machine.ports import Ports, free_port


def test_a_port_is_not_given_twice() -> None:
    """A repeated port from the kernel is skipped; if there is only one, it is used."""
    drawn = iter([5000, 5000, 5001, 5000, 5001, 5002, *[5002] * 200])
    ports = Ports(lambda: next(drawn))
    assert [ports.next() for _ in range(3)] == [5000, 5001, 5002]
    assert ports.next() == 5002


def test_a_port_is_free() -> None:
    """A program can listen on it."""
    with socket.socket() as listening:
        listening.bind(("", free_port()))
        listening.listen()


def test_no_connection_takes_a_port_that_was_given() -> None:
    """The kernel never draws such a port: a job may only start to listen much later."""
    drawn = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert all(20_000 <= free_port() < int(drawn[0]) for _ in range(20))
