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

# The time of an example depends on the load of the machine; no test depends on it.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def pytest_configure() -> None:
    """Handle interrupts, which tests send: a program in a shell's background ignores them."""
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
    End this process if fixtures do not end: xdist then names the test, and continues.

    pytest-timeout limits a test and its fixtures together, once. If a test has failed because of
    it, or for another reason, pytest removes its own limits too, and nothing would end a hanging
    fixture.
    """
    # A descriptor other than 2, which is captured.
    file = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(TEARDOWN_S, file=file, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
