"""Settings of every test."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Generator, Sequence

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

from tests.rigs.real import is_real

TEARDOWN_S = 300.0
"""Only ends what hangs, with the stacks of all threads."""

# The time of an example depends on how busy the machine is; no test depends on it.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def pytest_configure() -> None:
    """Heed interrupts, which tests send: what a shell starts in the background does not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark tests that start servers or programs as `real`: `make quick` leaves them out."""
    for item in items:
        if is_real(item):
            item.add_marker("real")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """
    End this process if fixtures do not end: xdist then tells which test it was, and goes on.

    pytest-timeout limits a test and its fixtures together, once. Where a test has failed by it, or
    by anything else, pytest lifts its own limits too, and nothing would end a fixture that hangs.
    """
    # Another descriptor than 2, which is captured.
    file = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(TEARDOWN_S, file=file, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
