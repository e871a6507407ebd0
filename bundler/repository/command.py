"""
Run git with a deadline, without prompts, and without the caller's settings.

The environment is built from scratch, so that a `GIT_DIR` of a hook or a desktop's password helper
cannot affect a call. A call that exceeds its deadline is killed with all its processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bundler.errors import BundleError, UnreachableError
from bundler.url import redacted

_KEPT = (
    "HOME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER", "SSL_CERT_FILE",
    "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY",
)  # fmt: skip
_SETTINGS = ("protocol.ext.allow=never", "core.fsmonitor=false", "core.hooksPath=/dev/null")
"""No program can be started by a repository or a url."""
_LAST_S = 2.0
"""For the output of a call that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a call."""

    code: int
    out: bytes
    errors: str
    """Its standard error, with credentials redacted."""


def run_git(
    arguments: Sequence[str],
    *,
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """
    Run `git` with `arguments` in `folder` (None: the current one), and return its answer.

    `environment` adds variables for this call alone.

    Raises:
        BundleError: There is no git on this machine.
        UnreachableError: It did not end within `timeout_s`.
    """
    command = ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *arguments]
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        if folder and not folder.is_dir():
            raise BundleError(f"no folder at {folder}") from None
        raise BundleError("no git on this machine", hint="install git") from None
    try:
        out, errors = process.communicate(timeout=timeout_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_LAST_S)  # a helper in another session may hold its pipes
        if isinstance(error, subprocess.TimeoutExpired):
            shown = redacted(" ".join(arguments[:3]))
            raise UnreachableError(f"git {shown} did not end within {timeout_s:g} s") from None
        raise
    return Answer(
        code=process.returncode, out=out, errors=redacted(errors.decode(errors="replace"))
    )


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    never = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "LC_ALL": "C"}
    return {**kept, **never, **more}
