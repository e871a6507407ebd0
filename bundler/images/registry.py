"""
Resolve a tag to a digest by asking its registry, without docker.

Source: github.com/opencontainers/distribution-spec, "Pulling manifests"; distribution.github.io,
"Token Authentication Specification".
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import urllib.error
import urllib.request
from urllib.parse import urlencode

from bundler.code import ImageRef
from bundler.errors import BundleError, UnreachableError
from bundler.images.login import Login, login_for
from bundler.images.reference import HUB, Reference, split_reference

_HUB_HOST = "registry-1.docker.io"
"""Source: github.com/moby/moby, `registry/config.go`, `DefaultV2Registry`."""

_ANSWER_S = 15.0
"""Timeout of one answer: a person waits for it."""

_KINDS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)

_LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?\Z")
"""Registries that docker contacts without TLS if they have none."""

_CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"')
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def resolve_image(ref: str) -> ImageRef:
    """
    Return the image that `ref` names at this moment, by digest.

    Raises:
        BundleError: The registry has no such image.
        UnreachableError: The registry cannot be reached, or refuses this user.
    """
    parts = split_reference(ref)
    if parts.digest:
        return ImageRef(ref=parts.exact)
    try:
        digest = _digest(parts, login_for(parts.registry))
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UnreachableError(f"{parts.registry} does not say what {ref} is: {why}") from error
    return ImageRef(ref=f"{parts.name}@{digest}")


def _digest(parts: Reference, login: Login | None) -> str:
    host = _HUB_HOST if parts.registry == HUB else parts.registry
    path = f"/v2/{parts.repository}/manifests/{parts.tag}"
    try:
        return _ask(f"https://{host}{path}", parts, login)
    except urllib.error.HTTPError:
        raise
    except OSError:
        if not _LOOPBACK.match(parts.registry):
            raise
        return _ask(f"http://{host}{path}", parts, login)


def _ask(url: str, parts: Reference, login: Login | None) -> str:
    try:
        try:
            return _head(url)
        except urllib.error.HTTPError as error:
            if error.code != http.client.UNAUTHORIZED:
                raise
            return _head(url, _authorization(error.headers["WWW-Authenticate"] or "", login))
    except urllib.error.HTTPError as error:
        if error.code == http.client.NOT_FOUND:
            raise BundleError(
                f"{parts.registry} has no image {parts.exact}",
                hint="check its name and tag, and that it was pushed",
            ) from None
        raise


def _head(url: str, authorization: str = "") -> str:
    head = {"Accept": _KINDS}
    # Not sent to a redirect's target: the credentials are for the registry alone.
    request = urllib.request.Request(url, headers=head, method="HEAD")  # noqa: S310 - https, or loopback
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
        digest: str = answer.headers.get("Docker-Content-Digest", "")
    if not _DIGEST.match(digest):
        raise ValueError(f"its answer has no digest but {digest!r}")
    return digest


def _authorization(challenge: str, login: Login | None) -> str:
    """Return the header that answers a registry's challenge."""
    basic = ""
    if login is not None and login.user:
        basic = "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    if not challenge.lower().startswith("bearer"):
        if not basic:
            raise PermissionError("it requires a login, and docker has none")
        return basic
    said = dict(_CHALLENGE.findall(challenge))
    query = urlencode({name: said[name] for name in ("service", "scope") if name in said})
    realm = said["realm"]
    if not realm.startswith("https://") and not _LOOPBACK.match(realm[7:].partition("/")[0]):
        raise ValueError(f"it sends one to {realm!r} for a token, which is not https")
    request = urllib.request.Request(f"{realm}?{query}")  # noqa: S310 - checked above
    if basic:
        request.add_unredirected_header("Authorization", basic)
    with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
        token = json.load(answer)
    return f"Bearer {token.get('token') or token['access_token']}"
