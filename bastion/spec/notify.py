"""
Notifications of a launch: a webhook, by the name that admins gave it or by its URL, and when.

What a webhook's URL leads to is not for this file to know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from bastion.errors import SpecError
from bastion.spec.names import check_name
from bastion.spec.typed import check_types
from bastion.spec.written import once_each
from bastion.value import value

Occasion: TypeAlias = Literal["started", "preempted", "retried", "ended", "failed"]
"""
`started`: an attempt began to run. `preempted`: it was stopped for another job, and waits again.
`retried`: an attempt failed or lost its machine, and it waits again. `ended`: it is over, whatever
the outcome. `failed`: it is over, and did not succeed.
"""
WebhookKind: TypeAlias = Literal["", "json", "slack"]

USUAL: tuple[Occasion, ...] = ("preempted", "retried", "ended")
"""The occasions when a launch names none."""
MAX_NOTIFY = 10
"""Of one launch: each lies in root with every one of its jobs."""
MAX_URL_CHARACTERS = 2048
_URL = re.compile(
    r"https?://(?P<user>[^/?#@]*@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,9}))?"
    r"(?:[/?][!-~]*)?"
)


@value
class Notify:
    """
    A webhook, and what it is told.

    `to` is the name of a webhook in `config/bastion.toml`, or an http(s) URL. A URL is stored in
    the bucket with the spec: where it is a secret, as Slack's are, let an admin name it. `kind`
    says what a URL takes, `json` if nothing is said; a named webhook has its own.
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
            problems.append(f"notify.kind: {self.to} is a name, and admins say what it takes")
        if not self.on:
            problems.append("notify.on: empty; leave it out to hear of the usual")
        if problems:
            raise SpecError(*problems)

    @property
    def is_url(self) -> bool:
        """Whether `to` is a URL and no name."""
        return "/" in self.to or ":" in self.to


def url_problems(field_name: str, url: str) -> list[str]:
    """Why nothing can be sent to `url`; none of them shows any of it."""
    found = _URL.fullmatch(url)
    if len(url) > MAX_URL_CHARACTERS:
        return [f"{field_name}: longer than {MAX_URL_CHARACTERS} characters"]
    if found is None:
        return [f"{field_name}: no URL that can be used; as https://HOST/PATH, in printable ASCII"]
    if found["user"]:
        return [f"{field_name}: carries a user or a password; they belong in no URL"]
    if found["port"] and not 1 <= int(found["port"]) <= 65535:
        return [f"{field_name}: port {found['port']} is none; 1 to 65535"]
    return []


def notifies(written: Iterable[Notify | str]) -> tuple[Notify, ...]:
    """
    What was written, as values, each once.

    Raises:
        SpecError: One of them is not well formed, or they are too many: every problem.
    """
    return once_each("notify", written, Notify, most=MAX_NOTIFY)
