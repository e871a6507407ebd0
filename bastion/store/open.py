"""
`open_store`: from a URL to a store; the only place that chooses between adapters.

Adapters are imported here, when they are chosen, so that nobody pays for a cloud he does not use.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from bastion.clock import SystemClock
from bastion.errors import SpecError
from bastion.store.port import ObjectStore

_KNOWN = "file:///folder, gs://bucket/prefix, s3://bucket/prefix?endpoint_url=..., memory:"


def open_store(url: str) -> ObjectStore:
    """
    The store at `url`; all keys are relative to it.

    `memory:` is a new, empty store each time.

    Raises:
        SpecError: The URL is malformed, or of an unknown kind.
        StoreRefusedError: There can be no store at that place.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "file":
            return _open_local(url, parts)
        case "memory":
            from bastion.store.memory import MemoryStore

            return MemoryStore(SystemClock().wall)
        case _:
            hint = f"write file://{url}" if url.startswith("/") else ""
            raise SpecError(f"store {url!r}: unknown, must be one of {_KNOWN}", hint=hint)


def _open_local(url: str, parts: SplitResult) -> ObjectStore:
    from bastion.store.local import LocalStore

    path = Path(unquote(parts.path))
    if parts.netloc or not path.is_absolute() or parts.query or parts.fragment:
        raise SpecError(
            f"store {url!r}: must be file:// and an absolute path, as in file:///srv/bastion"
        )
    return LocalStore(path)
