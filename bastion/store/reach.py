"""
How far away a store is, which decides how often it is polled.

The environment says where a bucket is where its URL does not, exactly as it does to the adapters.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from urllib.parse import parse_qs, urlsplit

_LOOPBACK = re.compile(r"127(\.\d+){3}")


class Reach(Enum):
    """How far a store is."""

    FOLDER = "folder"
    """A look is a system call."""
    LOOPBACK = "loopback"
    """A server on this machine, as MinIO or an emulator: a look costs time and no money."""
    CLOUD = "cloud"
    """A look is billed, and one object takes one write a second."""


def reach_of(url: str) -> Reach:
    """How far the store at `url` is; a cloud's unless it is seen to be nearer."""
    parts = urlsplit(url)
    match parts.scheme:
        case "file" | "memory":
            return Reach.FOLDER
        case "gs":
            endpoint = gcs_emulator()
        case "s3":
            endpoint = parse_qs(parts.query).get("endpoint_url", [""])[0] or _s3_endpoint()
        case _:
            endpoint = ""
    return Reach.LOOPBACK if _is_loopback(endpoint) else Reach.CLOUD


def gcs_emulator() -> str:
    """The URL of the server that stands in for Google's, as all of Google's tools are told."""
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return host if "://" in host or not host else f"http://{host}"


def _s3_endpoint() -> str:
    """
    The server that boto3 asks when a URL names none.

    Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints".
    """
    environ = os.environ
    return environ.get("AWS_ENDPOINT_URL_S3", "") or environ.get("AWS_ENDPOINT_URL", "")


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host in ("localhost", "::1") or bool(_LOOPBACK.fullmatch(host))
