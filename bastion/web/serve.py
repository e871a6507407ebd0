"""One page server as a process: opened, served until a signal, closed."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bastion.clock import SystemClock
from bastion.errors import BastionError, SpecError
from bastion.metrics.metered_store import MeteredStore
from bastion.metrics.prometheus import PrometheusMeter
from bastion.store.open import open_store
from bastion.web.app import Site
from bastion.web.reading.bucket import Bucket
from bastion.web.record.asker import RecordChild
from bastion.web.record.reader import RecordReader
from bastion.web.settings import WebSettings

BACKLOG = 256
CONNECTIONS = 400
"""Simultaneous connections, including followers; further ones are told to retry (503)."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
NICE = 10
"""
Added to the priority value of this process and its children: a bastion on the same machine comes
first, so readers never delay its turns.
"""
STOP_S = 3
"""How long open answers may take after a signal; followed pages never end on their own."""


def serve(settings: WebSettings, *, opened: Callable[[str], None]) -> int:
    """
    Serve the pages of one bucket until SIGTERM or SIGINT, and return the exit code.

    Args:
        settings: What to serve, where, and to whom.
        opened: Called with the address once it can be opened.

    Raises:
        SpecError: The URL is malformed, or the host is not an address of this machine.
        BastionError: The port is in use, or there can be no store at that place.
    """
    os.nice(NICE)
    clock = SystemClock()
    meter = PrometheusMeter()
    store = MeteredStore(open_store(settings.root_url), meter, clock)
    child = RecordChild(settings.root_url, clock)
    record = RecordReader(child.ask, clock)
    bucket = Bucket(
        store,
        clock,
        record,
        read_every_s=settings.read_every_s,
        use_every_s=settings.use_every_s,
    )
    try:
        with _listening(settings) as listener:
            opened(address_of(settings, listener.getsockname()[1]))
            _run(Site(bucket, settings, meter), listener)
    finally:
        bucket.close()
        child.close()
    return 0


def address_of(settings: WebSettings, port: int) -> str:
    """Return the address to open, with the token if one is required."""
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    name = "localhost" if name in ("127.0.0.1", "[::1]") else name
    token = f"?token={settings.token}" if settings.token else ""
    return f"http://{name}:{port}/{token}"


def _listening(settings: WebSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL or (error.errno or 0) < 0:  # of getaddrinfo
            raise SpecError(
                f"--host: {settings.host!r} is not an address of this machine",
                hint="use one of its addresses; 127.0.0.1 serves only programs on this machine,"
                " 0.0.0.0 everyone",
            ) from None
        # Python appends the address, which is already in the message.
        why = os.strerror(error.errno) if error.errno else str(error)
        raise BastionError(
            f"port {settings.port} of {settings.host}: {why}",
            hint="--port=0 takes any that is free",
        ) from None


def _run(site: Site, listener: socket.socket) -> None:
    config = uvicorn.Config(
        site.app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
        lifespan="off",
        ws="none",
        http=_Awaited,
    )
    _Server(config).run(sockets=[listener])


class _Awaited(H11Protocol):
    """A connection that is closed if no request begins; many clients vanish without closing it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request as long as for a later one."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )


class _Server(uvicorn.Server):
    """A server that a signal ends cleanly; uvicorn's own sends the signal on to itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT inside the block."""
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)
