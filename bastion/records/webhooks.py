"""
The webhooks in `config/bastion.toml`, as read by the bastion and by a client's dry run.

    [webhooks.team]
    url_file = "/etc/bastion/team-webhook"     # or url = "https://hooks.slack.com/services/..."
    kind = "slack"

    [notifications]
    allow_hosts = ["hooks.internal"]
    direct_urls = true

No text that is made here holds a URL: in practice they are secrets.
"""

from __future__ import annotations

import difflib
import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bastion.errors import SpecError
from bastion.spec import check_name
from bastion.spec.notify import Notify, WebhookKind, url_problems
from bastion.value import value

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses of IPv4 hosts behind a translator. Source: RFC 6052."""
_NEAR = tuple(
    ipaddress.ip_network(each)
    for each in (
        "64:ff9b:1::/48",
        "fec0::/10",
        "::/96",
        "192.0.0.0/24",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "100.100.100.200/32",
    )
)
"""
What `ipaddress` takes for public, at least in some of its versions, and is of one's own network: a
local translator, site-local and IPv4-compatible addresses, protocol assignments, and addresses at
which clouds answer their own machines. Source: RFC 8215, 3879, 4291, 6890; Azure, "What is IP
address 168.63.129.16?"; Alibaba Cloud, "Instance metadata".
"""


@value
class Webhook:
    """
    Where notifications go.

    One from the configuration holds its URL, or the file that holds it; it `may_be_near`, because
    admins wrote it.
    """

    url: str = ""
    url_file: str = ""
    """On the bastion's machine; read whenever something is sent."""
    kind: WebhookKind = "json"
    may_be_near: bool = False
    """Whether its address may be private, of this machine, or of this network."""


@value
class Notifications:
    """The webhooks of this bastion, and which others may be told anything."""

    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    allow_hosts: tuple[str, ...] = ()
    """Hosts of URLs from users that may be private."""
    direct_urls: bool = True
    """Whether users may give URLs at all."""

    def webhook(self, to: str, kind: WebhookKind) -> Webhook | None:
        """The webhook called `to`, or the one at the URL `to`; None where there is none."""
        if to in self.webhooks:
            return self.webhooks[to]
        if not Notify(to).is_url or not self.direct_urls:
            return None
        host = urlsplit(to).hostname or ""
        return Webhook(url=to, kind=kind or "json", may_be_near=host in self.allow_hosts)

    def problems_of(self, asked: Iterable[Notify]) -> list[str]:
        """Why `asked` could never be told anything, as far as that is known at once."""
        return [text for each in asked for text in self._problems(each)]

    def _problems(self, notify: Notify) -> list[str]:
        there = ", ".join(sorted(self.webhooks)) or "none"
        if not notify.is_url:
            if notify.to in self.webhooks:
                return []
            nearest = difflib.get_close_matches(notify.to, self.webhooks, n=1)
            meant = f"; did you mean {nearest[0]}?" if nearest else f"; there are: {there}"
            return [f"notify: config/bastion.toml has no webhook {notify.to!r}{meant}"]
        if not self.direct_urls:
            return [f"notify: URLs are not allowed here; name a webhook, there are: {there}"]
        host = urlsplit(notify.to).hostname or ""
        if (is_near(host) or host == "localhost") and host not in self.allow_hosts:
            return [
                f"notify: {host} is an address of the bastion's machine or a private network; an"
                " admin may allow it under [notifications] allow_hosts"
            ]
        return []


def is_near(host: str) -> bool:
    """Whether `host` is an address that is not one of the public internet; a name is none."""
    try:
        address: _Address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return any(
        not each.is_global or each.is_multicast or any(each in network for network in _NEAR)
        for each in (address, *_inner(address))
    )


def _inner(address: _Address) -> list[_Address]:
    """Addresses of the older protocol that one of the newer stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


class WebhookTable(BaseModel):
    """One `[webhooks.NAME]` table, as it is written."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str = ""
    url_file: str = ""
    kind: Literal["json", "slack"] = "json"


class NotificationsTable(BaseModel):
    """The `[notifications]` table, as it is written."""

    model_config = ConfigDict(extra="forbid")

    allow_hosts: list[str] = Field(default_factory=list)
    direct_urls: bool = True


class WebhookTables(BaseModel):
    """All tables that are about webhooks."""

    webhooks: dict[str, WebhookTable] = Field(default_factory=dict)
    notifications: NotificationsTable = Field(default_factory=NotificationsTable)

    @field_validator("webhooks", mode="before")
    @classmethod
    def _tables(cls, written: object) -> object:
        """What is wrong is told before anything could show a URL."""
        if not isinstance(written, dict):
            raise ValueError("not a table; write [webhooks.NAME] with url and kind")
        for name, table in written.items():
            if not isinstance(table, dict):
                raise ValueError(f"{name} is not a table; write [webhooks.{name}] with url, kind")
            if not all(isinstance(table.get(key, ""), str) for key in ("url", "url_file", "kind")):
                raise ValueError(f"{name}: url, url_file and kind are text")
        return written

    def notifications_made(self) -> Notifications:
        """
        What the tables say.

        Raises:
            SpecError: A webhook without a URL, or one that cannot be used: every problem.
        """
        problems: list[str] = []
        for name, table in self.webhooks.items():
            wrong = check_name("name", name)
            if bool(table.url) == bool(table.url_file):
                wrong.append("url: give either url or url_file")
            elif table.url:
                wrong += url_problems("url", table.url)
            elif not table.url_file.startswith("/"):
                wrong.append(f"url_file: {table.url_file!r} is not a whole path")
            problems += [f"webhooks.{name}.{text}" for text in wrong]
        if problems:
            raise SpecError(*problems)
        return Notifications(
            webhooks={
                name: Webhook(
                    url=table.url, url_file=table.url_file, kind=table.kind, may_be_near=True
                )
                for name, table in self.webhooks.items()
            },
            allow_hosts=tuple(host.lower() for host in self.notifications.allow_hosts),
            direct_urls=self.notifications.direct_urls,
        )


def notifications_in(config_text: str) -> Notifications:
    """What a configuration in force says: the bastion has checked it."""
    return WebhookTables.model_validate(tomllib.loads(config_text)).notifications_made()
