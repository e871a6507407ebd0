"""
Logins to registries, from the configuration of docker's client: `docker login` is enough.

`$DOCKER_CONFIG/config.json` (else `~/.docker/config.json`) has them, or names a credential helper,
as clouds' registries provide. Source: docs.docker.com/reference/cli/docker/login, "Credential
helper protocol".
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundler.errors import BundleError
from bundler.images.reference import HUB

_HUB_KEY = "https://index.docker.io/v1/"
"""Key of docker.io in that file. Source: github.com/docker/cli, `registry.IndexServer`."""

_ASKED_S = 30.0
"""Timeout of a credential helper: it may ask a cloud for a new token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Registry credentials: user and password, or one token."""

    server: str
    user: str = ""
    password: str = ""
    token: str = ""

    @property
    def header(self) -> str:
        """Return the `X-Registry-Auth` header for the engine."""
        said = {"username": self.user, "password": self.password}
        said = {"identitytoken": self.token} if self.token else said
        text = json.dumps({**said, "serveraddress": self.server})
        return base64.urlsafe_b64encode(text.encode()).decode()


def login_for(registry: str) -> Login | None:
    """
    Return the login for `registry`, or None if docker has none.

    Raises:
        BundleError: The file is malformed, or the credential helper fails.
    """
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_bytes())
        server = _HUB_KEY if registry == HUB else registry
        store = config.get("credHelpers", {}).get(server) or config.get("credsStore")
        if store:
            return _ask(str(store), server)
        return _written(config.get("auths", {}), server)
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, OSError) as error:
        hint = "run docker login to write it again"
        raise BundleError(f"{path} cannot be understood: {error}", hint=hint) from error


def _ask(store: str, server: str) -> Login | None:
    program = f"docker-credential-{store}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=_ASKED_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BundleError(f"{program}, which has the login to {server}, fails: {error}") from None
    if done.returncode:
        if "credentials not found" in done.stdout:
            return None
        why = (done.stdout + done.stderr).strip().splitlines() or [f"code {done.returncode}"]
        raise BundleError(f"{program}, which has the login to {server}, fails: {why[0]}")
    said = json.loads(done.stdout)
    if said["Username"] == "<token>":
        return Login(server=server, token=said["Secret"])
    return Login(server=server, user=said["Username"], password=said["Secret"])


def _written(auths: dict[str, Any], server: str) -> Login | None:
    for name in (server, f"https://{server}", f"https://{server}/v1/", f"https://{server}/v2/"):
        if entry := auths.get(name):
            if token := entry.get("identitytoken"):
                return Login(server=server, token=token)
            try:
                user, _, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
            except binascii.Error as error:
                raise ValueError(f"auths.{name}.auth: {error}") from None
            if user:
                return Login(server=server, user=user, password=password)
    return None
