"""
URLs of git repositories: which are allowed, and how they are shown.

The bucket would show a password or token in a url to everyone who can read specs, so it is refused
here, and redacted wherever a url is shown.
"""

from __future__ import annotations

import re

from quota.pattern import pattern

_SCP = pattern(r"(?P<user>[\w.-]+)@(?P<host>\w[\w.-]*|\[[0-9a-fA-F:]+\]):(?P<path>[^:\s][^\s]*)\Z")
"""`git@host:path`. Source: git-clone(1), "GIT URLS"."""
MAX_URL_CHARACTERS = 2048
"""Per URL: the limit of browsers and servers."""
_CREDENTIALS = pattern(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,15}://)[^/\s]*@")
"""It matches in linear time: a scheme is bounded, and the credentials end at the next `/`."""
_ALLOWED = "https://host/path, git@host:path, ssh://host/path or file:///path"
_HOST = pattern(r"[\w:][\w.:-]*\Z")
"""Never a leading `-`: ssh would read it as an option."""


def url_problems(url: str) -> list[str]:
    """Return the problems of `url`."""
    if not isinstance(url, str) or not url:
        return [f"is empty; use {_ALLOWED}"]
    if len(url) > MAX_URL_CHARACTERS:
        return [f"is {len(url)} characters long; at most {MAX_URL_CHARACTERS}"]
    if re.search(r"[\x00-\x20\x7f]", url) or url.startswith("-"):
        return [f"{redacted(url)!r} has blanks or begins with '-'; use {_ALLOWED}"]
    if _SCP.match(url):
        return []
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        return [f"{redacted(url)!r} is not a URL ({error}); use {_ALLOWED}"]
    return _scheme_problems(url, scheme=parts.scheme, host=host, path=parts.path) or (
        _credential_problems(url, scheme=parts.scheme, user=user, password=password)
    )


def is_reached_by_ssh(url: str) -> bool:
    """Whether git uses ssh for `url`, which is well formed."""
    return url.startswith("ssh://") or _SCP.match(url) is not None


def _scheme_problems(url: str, *, scheme: str, host: str, path: str) -> list[str]:
    if scheme == "file":
        return (
            [] if not host and path.startswith("/") else [f"{url!r} names no path; use {_ALLOWED}"]
        )
    if scheme not in ("https", "http", "ssh"):
        return [f"{redacted(url)!r} is not of a supported kind; use {_ALLOWED}"]
    if scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        return [f"{redacted(url)!r} is not encrypted; use {_ALLOWED}"]
    if not _HOST.match(host) or not path.strip("/"):
        return [f"{redacted(url)!r} names no repository; use {_ALLOWED}"]
    return []


def _credential_problems(
    url: str, *, scheme: str, user: str | None, password: str | None
) -> list[str]:
    if password is not None or (user is not None and scheme != "ssh"):
        return [
            f"{redacted(url)!r} holds credentials, which everyone who reads the spec would see; "
            "use an ssh url and the key of the machine, or a repository that needs none"
        ]
    if user is not None and user.startswith("-"):
        return [f"{redacted(url)!r} has a user that begins with '-'"]
    return []


def redacted(text: str) -> str:
    """Return `text` with the credentials of every url in it redacted."""
    return _CREDENTIALS.sub(_without, text)


def _without(found: re.Match[str]) -> str:
    secret = found[0][len(found["scheme"]) : -1]
    keep = found["scheme"] == "ssh://" and ":" not in secret and "@" not in secret
    return found[0] if keep else f"{found['scheme']}***@"
