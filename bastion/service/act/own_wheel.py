"""The wheel of this program in the bucket: new machines install it from there."""

from __future__ import annotations

from contextlib import suppress

from bastion.errors import ConflictError
from bastion.provider.boot import own_wheel
from bastion.records import layout
from bastion.store import ObjectStore


class WheelUpload:
    """Writes the wheel once; it is named by its digest, so writing it twice changes nothing."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._is_there = False

    def ensure(self) -> None:
        """
        Return once the wheel is in the bucket.

        Raises:
            StoreError: The bucket is out of reach, or did not take it; call it again.
        """
        if self._is_there:
            return
        wheel = own_wheel()
        key = layout.wheel(wheel.digest, wheel.name)
        if not any(entry.key == key for entry in self._store.list(layout.folder_of(key), limit=1)):
            with suppress(ConflictError):  # another bastion of this build wrote the same bytes
                self._store.create(key, wheel.data)
        self._is_there = True
