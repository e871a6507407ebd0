"""
Views as the bastion published them, and whether a bastion leads.

A view is read again only when its version has changed. Text is parsed with the standard library: a
short command must not wait for a validator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from bastion.client.status.status_view import Signs, StatusView, status_of
from bastion.errors import BastionError, NotFoundError, RecordError
from bastion.records.keys import layout
from bastion.store.port import ObjectStore, Version
from bastion.value import replace

if TYPE_CHECKING:
    from typing import Self

    from bastion.client.status.own_log import LogLine

_T = TypeVar("_T")
_WRITTEN_AGAIN = "a bastion that leads writes it again within two minutes"
_GZIP = b"\x1f\x8b"
"""The first bytes of compressed data (RFC 1952); JSON never starts with them."""


class ViewReader:
    """
    The views of one bucket.

    Args:
        store: The bucket.
        wall: The date by the bucket's clock, to compute the age of views.
        place: The URL of the bucket, for messages.
    """

    def __init__(
        self, store: ObjectStore, wall: Callable[[], float], *, place: str = "URL"
    ) -> None:
        self._store = store
        self._wall = wall
        self._place = place
        self._known: dict[str, tuple[Version, Any]] = {}
        self._seen: set[str] | None = None
        """The views already read in one look; None: each query reads them again."""

    def through(self, store: ObjectStore) -> Self:
        """Return the same bucket, read through `store`; both readers share what they know."""
        return self.over(self, store)

    @classmethod
    def over(cls, views: ViewReader, store: ObjectStore | None = None) -> Self:
        """
        Return a reader of the same bucket, by default through the same store; both share their
        knowledge.
        """
        made = cls(store or views._store, views._wall, place=views._place)
        made._known = views._known
        return made

    def of_one_look(self) -> Self:
        """Return the same bucket as of now: each view is read at the first query, then kept."""
        other = self.through(self._store)
        other._seen = set()
        return other

    def status(self) -> StatusView:
        """
        Return the bastion as it last described itself.

        Raises:
            NotFoundError: Nothing was ever published here.
            StoreError: The bucket is unreachable.
        """
        view = status_of(self._view("status"), wall=self._wall())
        return view.judged_by(Signs(committed_at=self._committed_at())) if view.is_silent else view

    def explained(self, view: StatusView) -> StatusView:
        """Return `view` with the last warning of a leader that publishes nothing, if any."""
        if not (view.is_silent or view.is_behind):
            return view
        problems = (*view.problems, *self._damage_of_root())
        return replace(view, last_warning=self._last_warning(view), problems=problems)

    def signs(self, view: StatusView) -> Signs:
        """Return what the leader in `view` still does, to judge views of it later."""
        return Signs(committed_at=self._committed_at(), last_warning=self._last_warning(view))

    def published(self, name: str) -> tuple[Version, Mapping[str, Any]] | None:
        """
        Return the version and the contents of the view `name`; None if it is missing.

        Raises:
            RecordError: It is not JSON, or a newer bastion wrote it.
            StoreError: The bucket is unreachable.
        """
        found = self._json(layout.view(name))
        if found is None:
            return None
        self._check(name, found)
        return self._known[layout.view(name)][0], found

    def _committed_at(self) -> float:
        """Return when root last changed; 0 if it is missing or cannot be listed now."""
        try:
            found = self._store.list(layout.ROOT, limit=1)
        except BastionError:
            return 0.0
        return max((each.modified_at for each in found if each.key == layout.ROOT), default=0.0)

    def _damage_of_root(self) -> tuple[str, ...]:
        """Return why root cannot be read, which ends every bastion; nothing if it can be."""
        try:
            self._json(layout.ROOT)
        except RecordError as error:
            return (error.in_a_line,)
        except BastionError:  # the silence is worth more than its cause
            return ()
        return ()

    def _last_warning(self, view: StatusView) -> LogLine | None:
        from bastion.client.status.own_log import last_warning
        from bastion.records.coding.limits import LOG_TAIL_BYTES

        try:
            found = self._store.read(layout.bastion_log(view.leader), limit_bytes=LOG_TAIL_BYTES)
        except BastionError:  # the silence is worth more than its cause
            return None
        assert found is not None
        # The log has whole seconds; what was logged before the last status has another cause.
        return last_warning(found.data, since=float(int(view.as_of)))

    def is_prepared(self) -> bool:
        """
        Whether an admin or a bastion has written anything here that makes this a root.

        Raises:
            StoreError: The bucket is unreachable.
        """
        kept = (layout.QUOTA, layout.CONFIG, layout.ROOT)
        return any(self._bytes(key) is not None for key in kept)

    def _view(self, name: str) -> Any:
        found = self._json(layout.view(name))
        self._check(name, found)
        return found

    def _check(self, name: str, found: Any) -> None:
        """
        Check that the view `name` exists, in a schema that is known here.

        Raises:
            NotFoundError: It was deleted, or nothing was ever published here.
            RecordError: A newer bastion wrote it.
        """
        if found is None and name != "status" and self._json(layout.view("status")) is not None:
            raise NotFoundError(
                f"{layout.view(name)} is missing: it was deleted",
                hint=_WRITTEN_AGAIN,
            )
        if found is None:
            raise NotFoundError(
                "no bastion has published anything here yet",
                hint=f"start one: {command_to_start(self._place)}",
            )
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != 1:
            raise RecordError(
                f"{layout.view(name)}: schema {schema!r} is not known here",
                hint="upgrade: pip install --upgrade bastion-orchestrator",
            )

    def _json(self, key: str) -> Any:
        """Return the object at `key`, read as JSON; None if there is none."""
        return self._parsed(key, json.loads)

    def _parsed(self, key: str, parse: Callable[[bytes], _T]) -> _T | None:
        """Return the parsed object at `key`, from memory if unchanged; None if there is none."""
        known: _T | None
        version, known = self._known.get(key, (None, None))
        if version is not None and self._seen is not None and key in self._seen:
            return known
        try:
            found = self._store.read(key, unless=version)
        except NotFoundError:
            return None
        if found is not None:
            try:
                known = parse(_plain(key, found.data))
            except (ValueError, RecursionError) as error:
                raise not_json(key, error) from error
            self._known[key] = (found.version, known)
        if self._seen is not None:
            self._seen.add(key)
        return known

    def _bytes(self, key: str) -> bytes | None:
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return None if found is None else _plain(key, found.data)


def not_json(key: str, error: Exception) -> RecordError:
    """Return the error for root or a view at `key` that cannot be parsed."""
    hint = "bastion restore brings a copy back" if key == layout.ROOT else _WRITTEN_AGAIN
    return RecordError(f"{key}: not JSON, {error}", hint=hint)


def command_to_start(place: str) -> str:
    """Return the command that starts a bastion at `place`; on a folder, with local machines."""
    verb = "up" if place.startswith("file:") else "serve"
    return f"bastion {verb} --root={place}"


def _plain(key: str, data: bytes) -> bytes:
    """
    Return the contents of the object at `key`, unpacked if they are compressed.

    Raises:
        RecordError: They are damaged.
    """
    if not data.startswith(_GZIP):
        return data
    import gzip
    import zlib

    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"{key}: cannot be unpacked: {error}") from error
