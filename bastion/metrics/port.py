"""Where a bastion answers Prometheus: its own port, by default on loopback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from prometheus_client import start_http_server

from bastion.metrics.prometheus import PrometheusMeter


def open_port(meter: PrometheusMeter, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """
    Answer on `port` of `host` (0: any free port), on its own threads.

    Returns:
        The port, and a function that closes it; the end of the process closes it, too.

    Raises:
        OSError: The port is not available.
    """
    server, thread = start_http_server(port, addr=host, registry=meter.registry)

    def close() -> None:
        with suppress(OSError):
            server.shutdown()
            server.server_close()
        thread.join(timeout=1.0)

    return server.server_port, close
