"""
Notifications of a launch: the name or the URL of a webhook, and the occasions.

Whether a URL may be called is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from bastion.errors import SpecError
from bastion.spec.names import check_name
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.spec.values.written import once_each
from bastion.value import field
from quota.pattern import pattern

Occasion: TypeAlias = Literal["started", "idle", "preempted", "retried", "ended", "failed"]
"""
`started`: an attempt started to run. `idle`: it looks hung, or left its devices idle for the time
set by its pool. `preempted`: it was preempted and is requeued. `retried`: an attempt failed or lost
its machine, and the job is requeued. `ended`: the job has ended, with any outcome. `failed`: it has
ended and did not succeed.
"""
WebhookKind: TypeAlias = Literal["", "json", "slack"]

USUAL: tuple[Occasion, ...] = ("idle", "preempted", "retried", "ended")
"""The occasions if a launch names none."""
MAX_NOTIFY = 10
"""Per launch: root holds all of them for each of its jobs."""
MAX_URL_CHARACTERS = 2048
_URL = pattern(
    r"https?://(?P<user>[^/?#@]*@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,9}))?"
    r"(?:[/?][!-~]*)?"
)


@value
class Notify:
    """
    A webhook, and the occasions on which it is notified.

    `to` is the name of a webhook in `config/bastion.toml`, or an http(s) URL. A URL is stored in
    the bucket with the spec: if it is a secret, like Slack's, have an admin configure it. `kind` is
    the format that a URL takes, by default `json`; a named webhook has its own.
    """

    to: str = field(kw_only=False)
    on: Sequence[Occasion] = USUAL
    kind: WebhookKind = ""

    def __post_init__(self) -> None:
        check_types(self, prefix="notify.")
        object.__setattr__(self, "on", tuple(dict.fromkeys(self.on)))
        problems = url_problems("notify.to", self.to) if self.is_url else []
        if not self.is_url:
            problems += check_name("notify.to", self.to)
        if self.kind and not self.is_url:
            problems.append(
                f"notify.kind: {self.to} is the name of a webhook, whose kind admins set"
            )
        if not self.on:
            problems.append("notify.on: empty; leave it out for the default events")
        if problems:
            raise SpecError(*problems)

    @property
    def is_url(self) -> bool:
        """Whether `to` is a URL and not a name."""
        return "/" in self.to or ":" in self.to


def url_problems(field_name: str, url: str) -> list[str]:
    """Return why `url` cannot be called; no problem reveals any part of it."""
    found = _URL.fullmatch(url)
    if len(url) > MAX_URL_CHARACTERS:
        return [f"{field_name}: longer than {MAX_URL_CHARACTERS} characters"]
    if found is None:
        return [f"{field_name}: not a usable URL; write https://HOST/PATH in printable ASCII"]
    if found["user"]:
        return [f"{field_name}: carries a user or a password; remove them"]
    if found["port"] and not 1 <= int(found["port"]) <= 65535:
        return [f"{field_name}: {found['port']} is not a port; 1 to 65535"]
    return []


def notifies(written: Iterable[Notify | str]) -> tuple[Notify, ...]:
    """
    Return the notifications as values, without duplicates.

    Raises:
        SpecError: One is malformed, or there are too many; the error lists every problem.
    """
    return once_each("notify", written, Notify, most=MAX_NOTIFY)
