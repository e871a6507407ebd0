"""Attempts of one machine meet at ports of their own."""

from __future__ import annotations

import socket

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
