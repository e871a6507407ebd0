"""
How the cluster is called: by `kubectl`, one request at a time, and what its failures mean.

It supports every way to log in, with each cloud's own programs, and has the admin's configuration.

Source: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go and pkg/rawhttp of Kubernetes 1.32;
k8s.io/apimachinery, `StatusReason`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)

CALL_S = 90.0
"""A program that logs in may need a minute."""
_REQUEST_S = 30
_PAGE = 500
_NOISE = re.compile(r"[EIWF]\d{4} |Warning: ")
"""Prefixes of lines that are not failures."""
_SERVER = re.compile(r"Error from server \((\w+)\): (.*)", re.DOTALL)
_DENIED = re.compile(r'admission webhook ".*?" denied the request.*')
"""
A policy of the cluster, such as Kyverno's. Its own code may give no reason, or a whole sentence.
"""
_INVALID = re.compile(r"The \S+ \S+ is invalid")
_REFUSALS = frozenset(
    (
        *("Forbidden", "NotFound", "BadRequest", "Invalid", "Unauthorized", "MethodNotAllowed"),
        *("NotAcceptable", "UnsupportedMediaType", "RequestEntityTooLarge"),
    )
)
_SETTINGS = (
    *("context", "cluster", "auth info", "error loading config", "no configuration has been"),
    *("stat ", "invalid configuration", "unable to read", "open ", "unknown flag"),
)
"""Prefixes of kubectl's own errors if its configuration is wrong."""
_NO_CONFIG = "localhost:8080"
"""The server that kubectl calls if it has no configuration at all."""
_HINT = "docs/guides/run-on-kubernetes.md has the Role that the bastion's account needs"

Json = dict[str, Any]


class TakenError(ProviderUnavailableError):
    """An object with that name exists."""


class ChangedError(ProviderUnavailableError):
    """The existing object is not the expected one, or another request came between: look again."""


class MissingError(ProviderRefusedError):
    """There is no such object, or no such namespace."""


class Kubectl:
    """
    `kubectl`, as this user runs it.

    Args:
        options: Of a pool: `kubeconfig` and `context` say which cluster is called, by which
            account.
        environ: The bastion's own variables, which programs that log in need.
    """

    def __init__(self, options: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._env = {"PATH": os.defpath, **environ}
        flags = {name: options.get(name, "") for name in ("kubeconfig", "context")}
        if file := flags["kubeconfig"]:
            flags["kubeconfig"] = str(Path(file).expanduser())
        self._given = [f"--{name}={text}" for name, text in flags.items() if text]

    def items(self, path: str, asked: Mapping[str, str], *, about: str) -> Iterator[Json]:
        """
        Yield the items of a list, page by page.

        Raises:
            ProviderError: See `ask`.
        """
        following = ""
        while True:
            more = {"continue": following} if following else {}
            said = {**asked, "limit": str(_PAGE), **more}
            page = self.ask("get", f"{path}?{urlencode(said)}", about=about)
            yield from page.get("items") or ()
            following = page.get("metadata", {}).get("continue", "")
            if not following:
                return

    def ask(self, verb: str, path: str, body: Json | None = None, *, about: str) -> Json:
        """
        Make one request, and return the cluster's answer.

        Args:
            verb: `get`, `create`, `replace` or `delete`.
            path: With its parameters.
            body: The object that is sent.
            about: What is being done, for errors.

        Raises:
            NoCapacityError: A quota of the namespace is reached.
            MissingError: There is no such object.
            ProviderRefusedError: Permissions are missing, a setting is wrong, or there is no
                kubectl.
            TakenError: An object has the name already.
            ChangedError: The object has changed, or is a different one.
            ProviderUnavailableError: The cluster does not answer; the outcome is unknown.
        """
        argv = ["kubectl", verb, f"--request-timeout={_REQUEST_S}s", *self._given, "--raw", path]
        if body is not None:
            argv += ["-f", "-"]
        if verb == "replace":
            argv.append("--validate=false")  # the server validates it
        try:
            done = self.call(argv, "" if body is None else json.dumps(body))
        except FileNotFoundError as error:
            raise ProviderRefusedError(
                "kubectl is not installed here; a pool of provider kubernetes calls it",
                hint="install kubectl on the bastion's host, and the program by which it logs in",
            ) from error
        except subprocess.TimeoutExpired as error:
            told = f"{about}: kubectl has not answered within {CALL_S:g} s"
            raise ProviderUnavailableError(told) from error
        except OSError as error:
            raise ProviderUnavailableError(f"kubectl cannot be run: {error}") from error
        if done.returncode != 0:
            raise failure(about, done.stderr or done.stdout)
        try:
            said = json.loads(done.stdout)
        except ValueError as error:
            told = f"{about}: kubectl's answer is not JSON: {done.stdout[:200]!r}"
            raise ProviderUnavailableError(told) from error
        return said if isinstance(said, dict) else {}

    def call(self, argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        """
        Run a program to its end. If it hangs, kill it and the program that logs in for it.

        Raises:
            OSError: It cannot be run.
            subprocess.TimeoutExpired: It has not ended.
        """
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=self._env,
            process_group=0,
        ) as process:
            try:
                out, error = process.communicate(text, timeout=CALL_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(argv, process.returncode, out, error)


def failure(about: str, said: str) -> ProviderError:
    """Return what kubectl's error text about a failed request means."""
    lines = [line for line in said.strip().splitlines() if not _NOISE.match(line)]
    plain = " ".join(" ".join(lines).split())[:700]
    found = _SERVER.search(plain)
    reason, words = (found[1], found[2]) if found else ("", plain.removeprefix("error: "))
    told = f"{about}: {words or 'kubectl printed nothing'}"
    if _INVALID.search(plain) or "must be logged in to the server" in plain:
        return ProviderRefusedError(told)
    if denied := _DENIED.search(words):
        return ProviderRefusedError(f"{about}: {denied[0]}")
    if reason == "Forbidden" and "exceeded quota" in words:
        return NoCapacityError(told, is_limit=True)
    if reason == "Forbidden" and " cannot " in words:
        return ProviderRefusedError(told, hint=_HINT)
    if reason == "AlreadyExists":
        return TakenError(told)
    if reason == "Conflict":
        return ChangedError(told)
    if reason == "NotFound":
        return MissingError(told)
    if reason in _REFUSALS or (not reason and _is_setting(words)):
        return ProviderRefusedError(told)
    return ProviderUnavailableError(told)


def _is_setting(words: str) -> bool:
    is_program = "executable" in words and "not found" in words
    return words.startswith(_SETTINGS) or is_program or _NO_CONFIG in words
