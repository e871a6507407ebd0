"""Where a bastion answers Prometheus: a port of its own, on loopback unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from prometheus_client import start_http_server

from bastion.metrics.prometheus import PrometheusMeter


def open_port(meter: PrometheusMeter, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """
    Answer on `port` of `host` (0: any that is free), on threads of its own.

    Returns:
        The port, and what closes it; the end of the process closes it, too.

    Raises:
        OSError: The port cannot be had.
    """
    server, thread = start_http_server(port, addr=host, registry=meter.registry)

    def close() -> None:
        with suppress(OSError):
            server.shutdown()
            server.server_close()
        thread.join(timeout=1.0)

    return server.server_port, close
