"""
`open_store`: open a store from a URL; only this file chooses between adapters.

An adapter is imported only when it is chosen, so unused cloud SDKs are not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bastion.clock import Clock, SystemClock
from bastion.errors import SpecError, StoreRefusedError
from bastion.store.keys import PREFIX_BYTES, is_key
from bastion.store.port import ObjectStore
from bastion.store.reach import gcs_emulator
from quota.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from bastion.store.folder.watch import Watch

_KNOWN = (
    "file:///folder, gs://bucket/prefix, s3://bucket/prefix?endpoint_url=...,"
    " az://account/container/prefix, memory:"
)

_EXTRAS = {"gs": "gcp", "s3": "aws", "az": "azure"}
"""What must be installed with Bastion for a cloud's buckets."""

_ACCOUNT = pattern(r"[a-z0-9]{3,24}")
_CONTAINER = pattern(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")
"""Source: Azure, "Naming rules and restrictions for Azure resources" (Microsoft.Storage)."""


def open_store(url: str, *, makes_root: bool = False) -> ObjectStore:
    """
    Return the store at `url`; all keys are relative to it.

    `memory:` is a new, empty store each time. With `makes_root`, the missing folder of a `file://`
    root is created: only for a new bucket.

    Raises:
        SpecError: The URL is malformed, or of an unknown kind.
        StoreRefusedError: There can be no store at that place, or no library for it is installed.
    """
    if folder := _plain_folder(url):
        from bastion.store.folder.local import LocalStore

        return LocalStore(folder, makes_root=makes_root)
    parts = checked(url)
    try:
        return _open(parts, makes_root=makes_root)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(parts.scheme)
        if extra is None:
            raise
        raise StoreRefusedError(
            f"store {url!r}: Python has no module {error.name} here, which it needs",
            hint=f"pip install 'bastion-orchestrator[{extra}]';"
            f" in a clone: pip install '.[{extra}]'",
        ) from None


def _plain_folder(url: str) -> str:
    """
    Return the folder of a plain URL, without encoding or anything to normalize; else empty.

    Nearly all URLs are plain, and the parser for all others is slow to load.
    """
    path = url.removeprefix("file://")
    is_plain = path.startswith("/") and path.isprintable() and not set(path) & set("%?#")
    is_tidy = not path.endswith("/") and "//" not in path and "/." not in path
    return path if path != url and is_plain and is_tidy else ""


def checked(url: str) -> SplitResult:
    """
    Return the parts of `url` if there can be a store with that name; opens nothing.

    Raises:
        SpecError: The URL is malformed, or of an unknown kind.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SpecError(f"store {url!r}: {error}, must be one of {_KNOWN}") from None
    match parts.scheme:
        case "file":
            _check_folder(url, parts)
        case "memory":
            pass
        case "gs":
            if parts.query:
                raise SpecError(f"store {url!r}: gs:// takes no settings, found {parts.query!r}")
            _check_bucket(url, parts)
        case "s3":
            _check_s3_settings(url, parts)
            _check_bucket(url, parts)
        case "az":
            _check_azure(url, parts)
        case _:
            from pathlib import Path

            is_folder = not parts.scheme and (url.startswith("/") or Path(url).is_dir())
            hint = f"write {Path(url).absolute().as_uri()}" if is_folder else ""
            raise SpecError(f"store {url!r}: unknown, must be one of {_KNOWN}", hint=hint)
    return parts


def _check_folder(url: str, parts: SplitResult) -> None:
    from urllib.parse import unquote

    if parts.netloc or not unquote(parts.path).startswith("/") or parts.query or parts.fragment:
        raise SpecError(
            f"store {url!r}: must be file:// and an absolute path, as in file:///srv/bastion"
        )


def _check_s3_settings(url: str, parts: SplitResult) -> None:
    settings = _settings(parts)
    unknown = settings.keys() - {"endpoint_url", "region_name", "etags"}
    if unknown:
        raise SpecError(
            f"store {url!r}: unknown setting {min(unknown)!r}, must be endpoint_url, region_name"
            " or etags"
        )
    if settings.get("etags", "bare") != "bare":
        raise SpecError(f"store {url!r}: etags={settings['etags']!r}, must be bare or left out")
    _check_endpoint(url, settings)


def _check_azure(url: str, parts: SplitResult) -> None:
    settings, (container, _) = _settings(parts), azure_container(parts)
    if unknown := settings.keys() - {"endpoint_url"}:
        raise SpecError(f"store {url!r}: unknown setting {min(unknown)!r}, must be endpoint_url")
    _check_endpoint(url, settings)
    if not _ACCOUNT.fullmatch(parts.netloc) or not _CONTAINER.fullmatch(container):
        raise SpecError(
            f"store {url!r}: must be az://ACCOUNT/CONTAINER/FOLDER, with the names of a storage"
            " account and of a container in it"
        )
    _check_bucket(url, parts)


def azure_container(parts: SplitResult) -> tuple[str, str]:
    """Return the container of an `az://` URL, and the folder in it; empty for all of it."""
    container, _, folder = _prefix(parts).partition("/")
    return container, folder


def _check_endpoint(url: str, settings: Mapping[str, str]) -> None:
    endpoint_url = settings.get("endpoint_url", "")
    if endpoint_url and not endpoint_url.startswith(("http://", "https://")):
        raise SpecError(f"store {url!r}: endpoint_url must begin with http:// or https://")


def _check_bucket(url: str, parts: SplitResult) -> None:
    prefix = _prefix(parts)
    if not parts.netloc or (prefix and not is_key(prefix)) or parts.fragment:
        raise SpecError(f"store {url!r}: must name a bucket and a plain folder in it")
    if len(prefix.encode()) > PREFIX_BYTES:
        raise SpecError(
            f"store {url!r}: the folder in the bucket must be at most {PREFIX_BYTES} bytes long"
        )


def _open(parts: SplitResult, *, makes_root: bool) -> ObjectStore:
    match parts.scheme:
        case "file":
            return _open_local(parts, makes_root=makes_root)
        case "gs":
            return _open_gcs(parts)
        case "s3":
            return _open_s3(parts)
        case "az":
            return _open_azure(parts)
        case _:
            from bastion.store.memory import MemoryStore

            return MemoryStore(SystemClock().wall)


def address_of(url: str) -> str:
    """Return the place that `url` names, however it is written: one address per bucket."""
    import os
    from urllib.parse import unquote

    parts = checked(url)
    if parts.scheme == "file":
        return f"file://{os.path.realpath(unquote(parts.path))}"
    endpoint = _settings(parts).get("endpoint_url", "").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}/{_prefix(parts)}".rstrip("/") + (
        f" at {endpoint}" if endpoint else ""
    )


def open_watch(url: str, below: str, clock: Clock) -> Watch:
    """
    Return a watch of writes below the folder `below` of the store at `url`.

    Only a folder on this machine can be watched; anywhere else the watch is a pause.
    """
    from urllib.parse import unquote, urlsplit

    from bastion.store.folder.watch import FolderWatch, Pause

    parts = urlsplit(url)
    if parts.scheme != "file":
        return Pause(clock)
    return FolderWatch(f"{unquote(parts.path).rstrip('/')}/.tmp", below, clock=clock)


def _open_local(parts: SplitResult, *, makes_root: bool) -> ObjectStore:
    from pathlib import Path
    from urllib.parse import unquote

    from bastion.store.folder.local import LocalStore

    return LocalStore(Path(unquote(parts.path)), makes_root=makes_root)


def _open_gcs(parts: SplitResult) -> ObjectStore:
    from bastion.store.gcs import GcsStore, default_credentials

    emulator = gcs_emulator()
    if emulator:
        return GcsStore(parts.netloc, _prefix(parts), credentials=None, endpoint=emulator)
    return GcsStore(parts.netloc, _prefix(parts), credentials=default_credentials())


def _open_s3(parts: SplitResult) -> ObjectStore:
    from bastion.store.s3 import S3Store

    settings = _settings(parts)
    return S3Store(
        parts.netloc,
        _prefix(parts),
        endpoint_url=settings.get("endpoint_url", ""),
        region_name=settings.get("region_name", ""),
        has_bare_etags="etags" in settings,
    )


def _open_azure(parts: SplitResult) -> ObjectStore:
    from bastion.store.azure.blobs import AzureStore
    from bastion.store.azure.caller import default_caller

    container, folder = azure_container(parts)
    return AzureStore(
        parts.netloc,
        container,
        folder,
        caller=default_caller(parts.netloc),
        endpoint_url=_settings(parts).get("endpoint_url", ""),
    )


def _settings(parts: SplitResult) -> dict[str, str]:
    from urllib.parse import parse_qsl

    return dict(parse_qsl(parts.query))


def _prefix(parts: SplitResult) -> str:
    from urllib.parse import unquote

    return unquote(parts.path).strip("/")
