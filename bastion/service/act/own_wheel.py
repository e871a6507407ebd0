"""The wheel of this program in the bucket, from which new machines install it."""

from __future__ import annotations

from bastion.machine import Build
from bastion.provider.boot import own_wheel
from bastion.records.code.wheel import ensure_wheel
from bastion.store import ObjectStore


class WheelUpload:
    """Writes the wheel once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._build: Build | None = None

    def ensure(self) -> Build:
        """
        Return the build of this program once its wheel is in the bucket.

        Raises:
            StoreError: The bucket is out of reach, or did not accept the wheel; call it again.
        """
        if self._build is None:
            wheel = own_wheel()
            key = ensure_wheel(self._store, wheel.digest, wheel.name, wheel.data)
            self._build = Build(wheel=key, digest=wheel.digest)
        return self._build
