"""The keeper's socket in its loop: connections are accepted, and served when they have data."""

from __future__ import annotations

import select

from bastion.agent.keeper.attempt.process import boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bastion.agent.keeper.poller import Poller
    from bastion.agent.keeper.socket.server import Connection, Server

_RETRY_S = 1.0
"""Pause after a connection that could not be accepted: a descriptor may be free by then."""


class Listener:
    """
    Accepts and serves the connections of `server`; standard library only.

    Args:
        wake: Takes the time of the next turn, on the boot clock.
    """

    def __init__(self, server: Server, poller: Poller, wake: Callable[[float], None]) -> None:
        self._server = server
        self._poller = poller
        self._wake = wake
        self._retry_at = float("inf")
        """When connections are accepted again; infinite while they are."""

    def listen(self) -> None:
        """Accept connections from now on."""
        self._retry_at = float("inf")
        self._poller.watch(self._server.listener.fileno(), self._accept)

    def turn(self, now: float) -> float:
        """Accept connections again after the pause; return when to call again, or infinity."""
        if now >= self._retry_at:
            self.listen()
        return self._retry_at

    def _accept(self) -> None:
        # Edge-triggered: room to write is reported too, without a second registration.
        events = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET
        try:
            connection = self._server.accept()
        except OSError:
            # The pending connection stays ready: without a pause the loop would spin.
            self._poller.unwatch(self._server.listener.fileno())
            self._retry_at = boot_time() + _RETRY_S
            self._wake(self._retry_at)
            return
        if connection is None:
            return
        try:
            self._poller.watch(connection.socket.fileno(), lambda: self._serve(connection), events)
        except OSError:
            self._server.close(connection)

    def _serve(self, connection: Connection) -> None:
        try:
            self._server.serve(connection)
        except OSError:
            self._poller.unwatch(connection.socket.fileno())
            self._server.close(connection)
