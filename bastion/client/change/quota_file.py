"""The quota file as users and admins handle it: read, checked, replaced."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bastion.errors import (
    ConflictError,
    InDoubtError,
    NotFoundError,
    SpecError,
    StoreError,
    StoreRefusedError,
)
from bastion.records.keys import layout
from bastion.store.port import Object, ObjectStore, Version

if TYPE_CHECKING:
    from quota.tree import Quota


class QuotaFile:
    """
    The quota file of one bucket.

    Args:
        store: The bucket.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._parsed: tuple[Version, Quota | None] | None = None

    def text(self) -> str:
        """
        Return its text.

        Raises:
            NotFoundError: There is no quota file.
            StoreError: The bucket is unreachable.
        """
        try:
            found = self._store.read(layout.QUOTA)
        except NotFoundError:
            raise NotFoundError(
                f"there is no quota file at {layout.QUOTA}",
                hint="bastion quota apply FILE; in a new folder, run bastion serve first, which"
                " creates the bucket",
            ) from None
        assert found is not None
        return _text_of(found)

    def quota(self) -> Quota:
        """
        Return its quota.

        Raises:
            NotFoundError: There is no quota file.
            SpecError: It is invalid; the error lists every problem with its line.
            StoreError: The bucket is unreachable.
        """
        return parsed_quota(self.text(), source="quota file of the bucket")

    def in_force(self) -> Quota | None:
        """
        Return the last good file, which the bastion uses; None if there never was one.

        Raises:
            StoreError: The bucket is unreachable.
        """
        text = self.text_in_force()
        return parsed_quota(text) if text else None

    def text_in_force(self) -> str:
        """
        Return the text of the last good file; empty if there never was one.

        Raises:
            StoreError: The bucket is unreachable.
        """
        try:
            found = self._store.read(layout.ROOT)
        except NotFoundError:
            return ""
        from bastion.records.root import quota_text_in  # it loads every record

        return quota_text_in(found.data) if found is not None else ""

    def known(self) -> Quota | None:
        """
        Return the quota in force, or None if it cannot be known here and the bastion decides.

        It is the quota of the file or, while the file is broken, of the last good one. An unchanged
        file is not parsed again, since a script may submit many launches.

        Raises:
            StoreError: The bucket is unreachable.
        """
        version = self._parsed[0] if self._parsed else None
        try:
            found = self._store.read(layout.QUOTA, unless=version)
        except NotFoundError:
            return None
        if found is not None:
            self._parsed = (found.version, _parsed_or_none(found.data) or self._last_good())
        return self.last

    @property
    def last(self) -> Quota | None:
        """Return the quota that `known` last read; None if it cannot be known here."""
        return self._parsed[1] if self._parsed else None

    def _last_good(self) -> Quota | None:
        try:
            return self.in_force()
        except (SpecError, ValueError):
            return None

    def apply(self, text: str, *, replacing: str | None = None) -> Quota:
        """
        Check `text`, and replace the file with it.

        Args:
            text: The new file.
            replacing: The text that was read before the change; None replaces any text.

        Raises:
            SpecError: It is invalid; the error lists every problem with its line. Nothing was
                written.
            ConflictError: Someone else changed the file in the meantime; nothing was written.
            InDoubtError: The store did not answer the write, which may have arrived.
            StoreError: The bucket is unreachable; nothing was written.
        """
        quota, data = checked_quota(text), text.encode()
        standing = self._standing()
        if standing is not None and standing.data == data:
            return quota
        if replacing is not None and (standing is None or _text_of(standing) != replacing):
            raise _changed_meanwhile()
        try:
            if standing is None:
                self._store.create(layout.QUOTA, data)
            else:
                self._store.swap(layout.QUOTA, data, if_version=standing.version)
        except ConflictError:
            # Perhaps with our own write, which the network repeated or whose answer was lost.
            standing = self._standing()
            if standing is None or standing.data != data:
                raise _changed_meanwhile() from None
        except StoreRefusedError:
            raise
        except StoreError as error:
            raise InDoubtError(
                f"it is unknown whether the quota file was written: {error}",
                hint="bastion quota show prints what is in force; applying it again does no harm",
            ) from error
        return quota

    def _standing(self) -> Object | None:
        try:
            return self._store.read(layout.QUOTA)
        except NotFoundError:
            return None


def _text_of(found: Object) -> str:
    return found.data.decode("utf-8-sig", errors="replace")


def _changed_meanwhile() -> ConflictError:
    return ConflictError(
        "the quota file was changed by someone else after it was read; nothing was written",
        hint="read it again, and make the change again",
    )


def unknown_pools(quota: Quota, pools: Collection[str]) -> list[str]:
    """Return pools that maintenance windows name but `pools` lacks; these close nothing."""
    from quota.choice import choose

    return [
        f"maintenance: no pool {pool!r} here ({window}), {choose(pool, pools)}"
        for window in quota.maintenance
        for pool in window.pools
        if pool not in pools
    ]


def _parsed_or_none(data: bytes) -> Quota | None:
    try:
        return parsed_quota(data.decode("utf-8-sig", errors="replace"))
    except SpecError:
        return None


def parsed_quota(text: str, *, source: str = "quota file") -> Quota:
    """
    Return the quota that `text` describes; errors start with `source`.

    Raises:
        SpecError: It is invalid; the error lists every problem with its line.
    """
    from quota.file.config import parse

    with _told_of(source):
        return parse(text)


def checked_quota(text: str, *, source: str = "quota file") -> Quota:
    """
    Return `parsed_quota(text)` of a file that is to be put in force.

    Raises:
        SpecError: As there, or the bastion would not put it in force.
    """
    from bastion.records.settings.slow_pattern import refuse_slow_patterns

    found = parsed_quota(text, source=source)
    with _told_of(source):
        refuse_slow_patterns(found)
    return found


@contextmanager
def _told_of(source: str) -> Iterator[None]:
    from quota.file.errors import QuotaError

    try:
        yield
    except QuotaError as error:
        raise SpecError(
            *(f"{source}: {problem}" for problem in error.problems),
            hint="bastion help quota-file describes every key",
        ) from None
