"""A store whose calls are counted: how many, how long, and how they ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bastion.clock import Clock
from bastion.errors import (
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.metrics.meter import Meter
from bastion.store.date import Dated
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written

_T = TypeVar("_T")
_OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (NotFoundError, "not_found"),
    (ConflictError, "conflict"),
    (OversizeError, "too_large"),
    (StoreRefusedError, "refused"),
    (StoreError, "unreachable"),
)
"""Errors that are not faults come first; each with its value of the metric's label."""


class MeteredStore:
    """
    `store`, with every call reported to `meter`.

    Args:
        store: Does the work.
        meter: Gets the reports.
        clock: Measures the duration.
    """

    def __init__(self, store: ObjectStore, meter: Meter, clock: Clock) -> None:
        self._store = store
        self._meter = meter
        self._clock = clock

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """Read, as defined by the port."""
        return self._told(
            "read", lambda: self._store.read(key, unless=unless, limit_bytes=limit_bytes)
        )

    def create(self, key: str, data: bytes) -> Written:
        """Create, as defined by the port."""
        return self._told("create", lambda: self._store.create(key, data))

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """Swap, as defined by the port."""
        return self._told("swap", lambda: self._store.swap(key, data, if_version=if_version))

    def delete(self, key: str) -> None:
        """Delete, as defined by the port."""
        self._told("delete", lambda: self._store.delete(key))

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """List, as defined by the port."""
        return self._told(
            "list", lambda: self._store.list(prefix, start_after=start_after, limit=limit)
        )

    def date(self) -> float | None:
        """See `Dated`; it makes no call."""
        return self._store.date() if isinstance(self._store, Dated) else None

    def _told(self, operation: str, call: Callable[[], _T]) -> _T:
        began, outcome = self._clock.monotonic(), "failed"
        try:
            result = call()
            outcome = "ok"
        except Exception as error:
            outcome = next((word for kind, word in _OUTCOMES if isinstance(error, kind)), outcome)
            raise
        finally:
            self._meter.asked(operation, self._clock.monotonic() - began, outcome)
        return result
