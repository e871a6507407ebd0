"""
Access to git repositories, and the meaning of refusals.

Hosts are checked strictly, and no prompt is ever shown. Only this file matches the output of git
and ssh, and turns it into errors with hints.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from bundler.errors import BundleError, UnreachableError
from bundler.repository.command import Answer
from bundler.url import is_reached_by_ssh, redacted

KEY_VARIABLE, HOSTS_VARIABLE = "BASTION_GIT_KEY_FILE", "BASTION_GIT_KNOWN_HOSTS"
"""The variables that name the files to use, for submissions and for agents."""

_CONNECT_S = 15
"""A reachable host answers within seconds; ssh's own default is minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The key and the known hosts to use; None: the user's own."""

    key_file: Path | None = None
    known_hosts_file: Path | None = None
    timeout_s: float = 600.0
    """Timeout of one call of git; fetching a large repository takes minutes."""

    @classmethod
    def here(cls) -> Access:
        """Return the access with the files that the environment names, else ssh's own."""
        key, hosts = os.environ.get(KEY_VARIABLE), os.environ.get(HOSTS_VARIABLE)
        return cls(
            key_file=Path(key) if key else None, known_hosts_file=Path(hosts) if hosts else None
        )

    def environment(self, url: str) -> dict[str, str]:
        """
        Return the variables for git to access the repository at `url`.

        Raises:
            BundleError: It is reached by ssh, and a file for that does not exist.
        """
        files = (("key", self.key_file), ("known hosts", self.known_hosts_file))
        for name, path in files if is_reached_by_ssh(url) else ():
            if path and not path.is_file():
                raise BundleError(
                    f"no {name} file for git at {path}", hint="put it there, or correct the setting"
                )
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", f"ConnectTimeout={_CONNECT_S}"]
        words = ["ssh"]
        if self.known_hosts_file:
            options += [_quoted("UserKnownHostsFile", self.known_hosts_file)]
            options += ["GlobalKnownHostsFile=/dev/null"]
        if self.key_file:
            words += ["-F", "/dev/null", "-i", str(self.key_file)]
            options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
        words += [word for option in options for word in ("-o", option)]
        return {"GIT_SSH_COMMAND": shlex.join(words), "GIT_LFS_SKIP_SMUDGE": "1"}


_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the host of {url} presents another key than the known one",
        "do not continue until the host's owner confirms the new key; then update known_hosts",
    ),
    (
        r"host key is known for|Host key verification failed",
        "the host of {url} is not among the known hosts",
        "add its key to the known_hosts file, after comparing it with what the host publishes",
    ),
    (
        r"UNPROTECTED PRIVATE KEY FILE|bad permissions",
        "ssh refuses the key for {url}: others may read the file",
        "chmod 600 the key file",
    ),
    (
        r"Identity file .* not accessible",
        "there is no key file for a host that {url} leads to",
        "put the key where the setting says, or correct it",
    ),
    (
        r"Permission denied \(|Load key",
        "the host of {url} refused our key",
        "add the key's public half to the repository's deploy keys",
    ),
    (
        r"Authentication failed|could not read Username|could not read Password|error: 40[13]",
        "{url} requires a login, or does not exist",
        "use an ssh url and a deploy key, or a repository that needs none",
    ),
    (
        r"[Rr]epository .*not found|does not appear to be a git repository|does not exist"
        r"|error: 404|not a git repository",
        "there is no repository at {url}",
        "correct the url, or give this machine's key access to it",
    ),
)
_AWAY = re.compile(
    r"Could not resolve host|[Cc]onnection (?:refused|reset|closed|timed out)|timed out"
    r"|Failed to connect|unable to access|No route to host|Network is unreachable|early EOF"
    r"|hung up unexpectedly|error: 5\d\d"
)


def refusal(answer: Answer, url: str) -> BundleError:
    """Return the error for a failed call, from its output."""
    shown = redacted(url)
    for pattern, meaning, hint in _MEANINGS:
        if re.search(pattern, answer.errors):
            return BundleError(meaning.format(url=shown), hint=hint)
    lines = [line.strip() for line in answer.errors.splitlines() if line.strip()]
    away = next((line for line in lines if _AWAY.search(line)), None)
    if away:
        return UnreachableError(
            f"{shown} cannot be reached: {away}", hint="try again, or check the url and the network"
        )
    last = next(
        (line for line in reversed(lines) if "fatal:" in line), (lines or ["no reason"])[-1]
    )
    return BundleError(f"git failed on {shown}: {last}")


def _quoted(option: str, path: Path) -> str:
    """Quote an option's value: ssh splits it at blanks otherwise."""
    return f'{option}="{path}"'
