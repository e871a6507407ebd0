"""The bucket, and the folder in it, that a root's URL names."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from bastion.errors import SpecError
from bastion.value import value


@value
class Place:
    """A folder in a bucket."""

    bucket: str
    folder: str
    """With a trailing slash; empty for the whole bucket."""
    settings: Mapping[str, str]
    """The parameters after `?`."""


def place_of(url: str, *, kind: str) -> Place:
    """
    Parse `url`, a root in a bucket of `kind` (gs or s3).

    Raises:
        SpecError: It is a root of another kind.
    """
    parts = urlsplit(url)
    if parts.scheme != kind or not parts.netloc:
        raise SpecError(
            f"root {url!r}: is not in such a bucket, must be {kind}://bucket/folder",
            hint="setup gcs is for gs://, setup s3 for s3://; a folder needs no setup",
        )
    folder = unquote(parts.path).strip("/")
    return Place(
        bucket=parts.netloc,
        folder=f"{folder}/" if folder else "",
        settings=dict(parse_qsl(parts.query)),
    )
