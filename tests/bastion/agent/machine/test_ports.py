"""Attempts of one machine meet at ports of their own."""

from __future__ import annotations

import socket
from pathlib import Path

from bastion.agent.machine.ports import Ports, free_port


def test_a_port_is_not_given_twice() -> None:
    """What the kernel draws again is passed over; where it has one port alone that is given."""
    drawn = iter([5000, 5000, 5001, 5000, 5001, 5002, *[5002] * 200])
    ports = Ports(lambda: next(drawn))
    assert [ports.next() for _ in range(3)] == [5000, 5001, 5002]
    assert ports.next() == 5002


def test_a_port_is_free() -> None:
    """Something can listen there."""
    with socket.socket() as listening:
        listening.bind(("", free_port()))
        listening.listen()


def test_no_connection_takes_a_port_that_was_given() -> None:
    """A port is none that the kernel draws: a job may listen there long after it was given."""
    drawn = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert all(20_000 <= free_port() < int(drawn[0]) for _ in range(20))
