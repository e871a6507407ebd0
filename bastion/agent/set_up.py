"""
Setting a host up: its folders, its code, and what earlier attempts of its job kept.

The bundler brings the code, and is imported only where there is code to bring.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from bastion.agent.home import Folders, Home
from bastion.agent.output import restore
from bastion.errors import BastionError, ConflictError, NotFoundError
from bastion.records import layout
from bastion.records.facts import HostFact
from bastion.spec.code import BundleRef, Code, GitRef, ImageRef
from bastion.store.port import ObjectStore


class SetUpError(BastionError):
    """A job cannot be set up on this machine; the message is what its users read."""


def set_up(home: Home, store: ObjectStore, key: str, of: HostFact, code: Code | None) -> Folders:
    """
    The folders of a host, filled.

    Raises:
        SetUpError: It cannot be done, and trying again would not help.
        StoreError: The store is out of reach.
    """
    try:
        folders = home.folders(key)
        if code is not None:
            bring(code, store, cache=home.cache, directory=Path(folders.code))
        if of.attempt > 1:
            restore(store, of, Path(folders.output))
    except OSError as error:
        raise SetUpError(f"its folders cannot be written: {error}") from error
    return folders


class BundleBlobs:
    """The bundles of a bucket, as the bundler sees them."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, key: str) -> bytes | None:
        """See `bundler.blobs.Blobs`."""
        try:
            found = self._store.read(layout.BUNDLES + key)
        except NotFoundError:
            return None
        assert found is not None
        return found.data

    def create(self, key: str, data: bytes) -> bool:
        """See `bundler.blobs.Blobs`."""
        try:
            self._store.create(layout.BUNDLES + key, data)
        except ConflictError:
            return False
        return True

    def exists(self, key: str) -> bool:
        """See `bundler.blobs.Blobs`."""
        key = layout.BUNDLES + key
        return any(entry.key == key for entry in self._store.list(key, limit=1))


def bring(code: Code, store: ObjectStore, *, cache: Path, directory: Path) -> None:
    """
    Fill `directory`, an empty folder, with `code`.

    Raises:
        SetUpError: It cannot be had, and trying again would not help.
        StoreError: The store is out of reach.
    """
    from bundler.errors import BundleError

    try:
        match code:
            case BundleRef():
                _bring_bundle(code, store, cache, directory)
            case GitRef():
                raise SetUpError(f"{code.url} cannot be fetched yet")
            case ImageRef():
                raise SetUpError(
                    f"image {code.ref} cannot be run: this machine's agent runs no containers",
                    hint="submit the code as a bundle or a git repository",
                )
            case _:
                assert_never(code)
    except BundleError as error:
        raise SetUpError(str(error)) from error


def _bring_bundle(code: BundleRef, store: ObjectStore, cache: Path, directory: Path) -> None:
    from bundler.checkout import checkout
    from bundler.fetch import fetch

    checkout(fetch(code.digest, BundleBlobs(store), cache), directory)
