"""
The metadata servers of clouds: what a machine can read about itself without credentials.

A Slurm job and a Kubernetes pod have none. Their first process writes what it is told into the
folder of the machine.

`GCE_METADATA_HOST`, `AWS_EC2_METADATA_SERVICE_ENDPOINT` and `AZURE_POD_IDENTITY_AUTHORITY_HOST`
name other servers, as for the vendors' libraries. Source: cloud.google.com/compute/docs/metadata;
Amazon EC2 User Guide, "IMDS"; Azure Virtual Machines, "Azure Instance Metadata Service".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from bastion.agent.settings import Cloud
from bastion.errors import BastionError

_CALL_S = 2.0
"""A metadata server is part of the machine's host; if it takes longer, the query is repeated."""
_MOST_BYTES = 1 << 20
_TOKEN_S = 21600
"""Maximum lifetime of a token of EC2's metadata server."""


class MetadataError(BastionError):
    """The metadata server did not answer; try again."""


class Metadata(Protocol):
    """A metadata server."""

    def read(self, name: str) -> str:
        """
        Return the value of `name`; empty if there is none.

        Raises:
            MetadataError: It did not answer.
        """
        ...


def metadata_of(cloud: Cloud, environ: Mapping[str, str]) -> Metadata | None:
    """Return the metadata server of a machine in `cloud`; None if it has none."""
    if cloud == "gce":
        return GceMetadata(environ.get("GCE_METADATA_HOST", "metadata.google.internal"))
    if cloud == "ec2":
        named = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
        return Ec2Metadata(named.rstrip("/"))
    if cloud == "azure":
        named = environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254")
        return AzureMetadata(named.rstrip("/"))
    if cloud in ("slurm", "kubernetes"):
        return FolderMetadata(Path(environ.get("BASTION_BOOT_DIR", ".")))
    return None


class GceMetadata:
    """Compute Engine's server, which TPU VMs have too; names are below `computeMetadata/v1/`."""

    def __init__(self, host: str) -> None:
        self._base = f"http://{host}/computeMetadata/v1/"

    def read(self, name: str) -> str:
        """See `Metadata`."""
        return _asked(self._base + name, {"Metadata-Flavor": "Google"}).strip()


class Ec2Metadata:
    """EC2's server, with tokens of its version 2; names are below `latest/meta-data/`."""

    def __init__(self, endpoint: str) -> None:
        self._base = f"{endpoint}/latest/"
        self._token = ""

    def read(self, name: str) -> str:
        """See `Metadata`."""
        for _ in range(2):
            if not self._token:
                lasts = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_S)}
                self._token = _asked(f"{self._base}api/token", lasts, method="PUT")
            try:
                return _asked(
                    f"{self._base}meta-data/{name}", {"X-aws-ec2-metadata-token": self._token}
                )
            except _TokenError:
                self._token = ""
        raise MetadataError(f"metadata {name}: its tokens are refused")


class AzureMetadata:
    """Azure's server; names are below `metadata/`, with the version of the API."""

    def __init__(self, endpoint: str) -> None:
        self._base = f"{endpoint}/metadata/"

    def read(self, name: str) -> str:
        """See `Metadata`."""
        return _asked(self._base + name, {"Metadata": "true"}).strip()


class FolderMetadata:
    """The files that the first process of a machine writes into its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> str:
        """See `Metadata`."""
        try:
            return (self._folder / name).read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise MetadataError(f"{self._folder / name} cannot be read: {error}") from error


class _TokenError(MetadataError):
    """401: the token is too old."""


def _asked(url: str, headers: Mapping[str, str], *, method: str = "GET") -> str:
    # Never through a proxy, which would answer for its own machine.
    opener = build_opener(ProxyHandler({}))
    request = Request(url, headers=dict(headers), method=method)  # noqa: S310 - always http
    try:
        with opener.open(request, timeout=_CALL_S) as answer:
            return bytes(answer.read(_MOST_BYTES)).decode(errors="replace")
    except HTTPError as error:
        error.close()
        if error.code == 404:
            return ""
        kind = _TokenError if error.code == 401 else MetadataError
        raise kind(f"metadata {url}: {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise MetadataError(f"metadata {url} did not answer: {error}") from error


def json_of(text: str) -> Mapping[str, Any]:
    """Return a metadata server's JSON; empty if the text is empty or invalid."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
