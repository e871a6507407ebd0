"""The bucket, and the folder in it, that a root's URL names."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from bastion.errors import SpecError
from bastion.store.open import checked
from bastion.value import value


@value
class Place:
    """A folder in a bucket."""

    bucket: str
    """In Azure, the account and the container, with a slash between them."""
    folder: str
    """With a trailing slash; empty for the whole bucket."""
    settings: Mapping[str, str]
    """The parameters after `?`."""


def place_of(url: str, *, kind: str) -> Place:
    """
    Parse `url`, a root in a bucket of `kind` (gs, s3 or az).

    Raises:
        SpecError: It is a root of another kind, or names no bucket.
    """
    parts = urlsplit(url)
    if parts.scheme != kind or not parts.netloc:
        raise SpecError(
            f"root {url!r}: is not in such a bucket, must be {kind}://bucket/folder",
            hint="setup gcs is for gs://, s3 for s3://, azure for az://; a folder needs no setup",
        )
    checked(url)
    bucket, folder = parts.netloc, unquote(parts.path).strip("/")
    if kind == "az":
        container, _, folder = folder.partition("/")
        bucket = f"{bucket}/{container}"
    return Place(
        bucket=bucket,
        folder=f"{folder}/" if folder else "",
        settings=dict(parse_qsl(parts.query)),
    )
