"""
Gets or puts one object of the bucket with only the standard library, as the machine's identity.

It is part of the program that `bootstrap` describes, and also runs on Python 3.7.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener, urlopen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from urllib.parse import SplitResult

METADATA = build_opener(ProxyHandler({}))
"""Connects to a metadata server, which is part of the machine and never behind a proxy."""


def send(root: str, method: str, key: str, data: bytes | None = None) -> bytes:
    """Get or put one object of the bucket; return its bytes."""
    parts = urlsplit(root)
    prefix = unquote(parts.path).strip("/")
    name = "%s/%s" % (prefix, key) if prefix else key
    if parts.scheme == "file":
        folder = unquote(parts.path)
        path = os.path.join(folder, key)
        if data is None:
            with open(path, "rb") as file:
                return file.read()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # As the folder store does: next to its object, the temporary file would be listed.
        keep(path, data.decode(), "%s/.tmp/%s.boot.tmp" % (folder, os.urandom(8).hex()))
        return b""
    request = REQUESTS[parts.scheme](parts, name, method, data)
    request.data = data
    with urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def of_gcs(parts: SplitResult, name: str, method: str, _data: bytes | None) -> Request:
    """Return a request to Google, as the identity of this machine."""
    server, bucket = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/"), parts.netloc
    headers = {}
    if not server:
        server = "https://storage.googleapis.com"
        token = json.loads(
            metadata(
                "http://%s/computeMetadata/v1/instance/service-accounts/default/token"
                % os.environ.get("GCE_METADATA_HOST", "metadata.google.internal"),
                {"Metadata-Flavor": "Google"},
            )
        )
        headers["Authorization"] = "Bearer " + token["access_token"]
    elif "://" not in server:
        server = "http://" + server
    if method == "GET":
        url = "%s/storage/v1/b/%s/o/%s?alt=media" % (server, bucket, quote(name, safe=""))
        return Request(url, headers=headers)
    headers["Content-Type"] = "application/json"
    name = quote(name, safe="")
    where = "/upload/storage/v1/b/%s/o?uploadType=media&ifGenerationMatch=0&name=" % bucket
    return Request(server + where + name, headers=headers, method="POST")


def of_s3(parts: SplitResult, name: str, method: str, data: bytes | None) -> Request:
    """
    Return a signed request to Amazon, as the identity of this machine.

    Source: AWS General Reference, "Signature Version 4 signing process".
    """
    env, asked = os.environ, dict(parse_qsl(parts.query))
    server = asked.get("endpoint_url") or env.get("AWS_ENDPOINT_URL_S3")
    server = (server or env.get("AWS_ENDPOINT_URL") or "").rstrip("/")
    region = asked.get("region_name") or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    token = env.get("AWS_SESSION_TOKEN")
    region = region or imds()("placement/region")
    if not key:
        key, secret, token = ROLES[-1](region)
    assert secret
    if server:
        url = "%s/%s/%s" % (server, parts.netloc, quote(name))
    else:
        url = "https://%s.s3.%s.amazonaws.com/%s" % (parts.netloc, region, quote(name))
        if "." in parts.netloc:  # the server's certificate would not match such a host
            url = "https://s3.%s.amazonaws.com/%s/%s" % (region, parts.netloc, quote(name))
    body = hashlib.sha256(data or b"").hexdigest()
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")  # noqa: UP017 - Python 3.7
    place = urlsplit(url)
    headers = {"host": place.netloc, "x-amz-content-sha256": body, "x-amz-date": now}
    if token:
        headers["x-amz-security-token"] = token
    if data is not None:
        headers["if-none-match"] = "*"
        headers["content-type"] = "application/json"
    names = ";".join(sorted(headers))
    lines = ["%s:%s" % (each, headers[each]) for each in sorted(headers)]
    canonical = "\n".join([method, place.path, "", *lines, "", names, body])
    scope = "%s/%s/s3/aws4_request" % (now[:8], region)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signed = "AWS4-HMAC-SHA256\n%s\n%s\n%s" % (now, scope, digest)
    made = ("AWS4" + secret).encode()
    for each in (*scope.split("/"), signed):
        made = hmac.new(made, each.encode(), "sha256").digest()
    headers["authorization"] = (
        "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s"
        % (key, scope, names, made.hex())
    )
    return Request(url, headers=headers, method=method)


def of_instance(_region: str) -> Sequence[str]:
    """Return the key, the secret and the token of an instance's role."""
    ask, role = imds(), "iam/security-credentials/"
    given = json.loads(ask(role + ask(role).split()[0]))
    return [given[name] for name in ("AccessKeyId", "SecretAccessKey", "Token")]


REQUESTS: dict[str, Callable[[SplitResult, str, str, bytes | None], Request]] = {
    "gs": of_gcs,
    "s3": of_s3,
}
"""By the kind of a bucket, how to make a request: the part for Azure adds its own."""

ROLES: list[Callable[[str], Sequence[str]]] = [of_instance]
"""The last one provides credentials, given a region: the part for pods adds its own."""


def imds() -> Callable[[str], str]:
    """
    Return how to query the metadata server of an EC2 instance, with a token of its version 2.

    Source: Amazon EC2 User Guide, "Use the Instance Metadata Service".
    """
    place = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
    place = place.rstrip("/") + "/latest/"
    lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    token = metadata(place + "api/token", lasts, "PUT")
    return lambda name: metadata(place + "meta-data/" + name, {"X-aws-ec2-metadata-token": token})


def metadata(url: str, headers: Mapping[str, str], method: str = "GET") -> str:
    """Return the answer of a metadata server."""
    with METADATA.open(Request(url, headers=headers, method=method), timeout=10) as answer:
        return bytes(answer.read()).decode()


def keep(path: str, said: str, temp: str = "") -> None:
    """Replace a file by way of `temp`; a reader sees either the old text or the new text."""
    temp = temp or path + ".tmp"
    with open(temp, "w") as file:
        file.write(said)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path)
