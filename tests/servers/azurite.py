"""Azurite, Microsoft's own emulator of Azure Storage, on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from bastion.store.azure.blobs import AzureStore
from bastion.store.azure.caller import SharedKey
from bastion.store.exchange import Exchange

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The only account of the emulator, and its key, which are published."""

_PROGRAM = "azurite-blob"

needs_azurite = [
    pytest.mark.real,
    pytest.mark.skipif(
        not shutil.which(_PROGRAM), reason="needs azurite-blob (npm install --global azurite)"
    ),
]


@contextmanager
def azurite_server(folder: Path, *options: str) -> Iterator[str]:
    """Run a server, and give its account's endpoint; `folder` is for its use alone."""
    server = subprocess.Popen(
        (
            _PROGRAM,
            "--blobPort=0",
            "--inMemoryPersistence",
            "--disableTelemetry",
            "--silent",
            *options,
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        assert server.stdout is not None
        said = ""
        for line in server.stdout:
            said += line
            if found := re.search(r"successfully list\w+ (?:at|on) (https?://[\d.:]+)", line):
                yield f"{found[1]}/{ACCOUNT}"
                return
        raise AssertionError(f"{_PROGRAM} ended: {said}")
    finally:
        server.kill()
        server.wait(timeout=30)


def make_container(endpoint_url: str, container: str) -> None:
    """Create a container."""
    headers = {"x-ms-version": "2026-02-06", "Content-Length": "0"}
    url = f"{endpoint_url}/{container}?restype=container"
    signed = SharedKey(ACCOUNT, KEY).signed("PUT", url, headers)
    answer = Exchange("azurite", endpoint_url, 60.0).send("PUT", *signed, b"")
    assert answer.status == 201, answer


def azure_store(endpoint_url: str, container: str, prefix: str = "") -> AzureStore:
    """Return a store with all rights."""
    key = SharedKey(ACCOUNT, KEY)
    return AzureStore(ACCOUNT, container, prefix, caller=key, endpoint_url=endpoint_url)


def shared_access(rights: str, *, until: str = "2099-01-01") -> str:
    """
    Return a shared access signature for the account, with `rights` such as `rl`.

    Source: Azure Storage REST API, "Create an account SAS".
    """
    version, services, types = "2021-12-02", "b", "co"
    fields = (ACCOUNT, rights, services, types, "", until, "", "", version, "", "")
    mac = hmac.new(base64.b64decode(KEY), "\n".join(fields).encode(), hashlib.sha256).digest()
    return urlencode(
        {
            "sv": version,
            "ss": services,
            "srt": types,
            "sp": rights,
            "se": until,
            "sig": base64.b64encode(mac).decode(),
        }
    )


def access_token(*, lasts_s: int = 3600) -> str:
    """Return a token as Microsoft Entra makes it; the emulator does not check who signed it."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + lasts_s,
    }
    parts = [json.dumps(each).encode() for each in ({"alg": "RS256", "typ": "JWT"}, claims)]
    parts.append(b"signature")
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
