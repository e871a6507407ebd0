"""
The distance to a store, which decides how often it is polled.

If the URL does not name a server, the environment does, exactly as for the adapters.
"""

from __future__ import annotations

import os
from enum import Enum

from quota.pattern import pattern

_LOOPBACK = pattern(r"127(\.\d+){3}")


class Reach(Enum):
    """The distance to a store."""

    FOLDER = "folder"
    """A poll is a system call."""
    LOOPBACK = "loopback"
    """A server on this machine, such as MinIO or an emulator: a poll costs time but no money."""
    CLOUD = "cloud"
    """A poll is billed, and one object accepts one write per second."""


def reach_of(url: str) -> Reach:
    """Return the distance to the store at `url`: `CLOUD` unless it is known to be nearer."""
    if url.startswith("file://"):
        return Reach.FOLDER
    from urllib.parse import parse_qs, urlsplit

    parts = urlsplit(url)
    match parts.scheme:
        case "file" | "memory":
            return Reach.FOLDER
        case "gs":
            endpoint = gcs_emulator()
        case "s3":
            endpoint = parse_qs(parts.query).get("endpoint_url", [""])[0] or _s3_endpoint()
        case "az":
            endpoint = parse_qs(parts.query).get("endpoint_url", [""])[0]
        case _:
            endpoint = ""
    return Reach.LOOPBACK if _is_loopback(endpoint) else Reach.CLOUD


def gcs_emulator() -> str:
    """Return the URL of the emulator that the environment names in place of Google's servers."""
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return host if "://" in host or not host else f"http://{host}"


def _s3_endpoint() -> str:
    """
    Return the server that boto3 uses if a URL names none.

    Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints".
    """
    environ = os.environ
    return environ.get("AWS_ENDPOINT_URL_S3", "") or environ.get("AWS_ENDPOINT_URL", "")


def _is_loopback(endpoint: str) -> bool:
    from urllib.parse import urlsplit

    host = urlsplit(endpoint).hostname or ""
    return host in ("localhost", "::1") or bool(_LOOPBACK.fullmatch(host))
