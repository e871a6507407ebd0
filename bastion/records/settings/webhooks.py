"""
The webhooks in `config/bastion.toml`, as read by the bastion and by a client's dry run.

    [webhooks.team]
    url_file = "/etc/bastion/team-webhook"     # or url = "https://hooks.slack.com/services/..."
    kind = "slack"

    [notifications]
    allow_hosts = ["hooks.internal"]
    direct_urls = true

No text created here contains a URL, because a webhook's URL is usually a secret.
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
Networks that `ipaddress` considers public, at least in some versions, although they are local:
translators, site-local and IPv4-compatible addresses, protocol assignments, and the metadata
addresses of clouds. Source: RFC 8215, 3879, 4291, 6890; Azure, "What is IP address 168.63.129.16?";
Alibaba Cloud, "Instance metadata".
"""


@value
class Webhook:
    """
    The destination of notifications.

    A webhook from the configuration has a URL, or a file that holds it. It `may_be_near`, because
    admins wrote it.
    """

    url: str = ""
    url_file: str = ""
    """A file on the bastion's machine; read at every delivery."""
    kind: WebhookKind = "json"
    may_be_near: bool = False
    """Whether its address can be private: on this machine or its network."""


@value
class Notifications:
    """The webhooks of this bastion, and the rules for URLs from users."""

    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    allow_hosts: tuple[str, ...] = ()
    """Hosts in users' URLs that can have private addresses."""
    direct_urls: bool = True
    """Whether users can give URLs at all."""

    def webhook(self, to: str, kind: WebhookKind) -> Webhook | None:
        """Return the webhook with the name or URL `to`; None if there is none."""
        if to in self.webhooks:
            return self.webhooks[to]
        if not Notify(to).is_url or not self.direct_urls:
            return None
        host = urlsplit(to).hostname or ""
        return Webhook(url=to, kind=kind or "json", may_be_near=host in self.allow_hosts)

    def problems_of(self, asked: Iterable[Notify]) -> list[str]:
        """Return why notifications to `asked` can never be delivered, as far as known now."""
        return [text for each in asked for text in self._problems(each)]

    def _problems(self, notify: Notify) -> list[str]:
        there = (
            f"there are: {named}"
            if (named := ", ".join(sorted(self.webhooks)))
            else "there is none"
        )
        if not notify.is_url:
            if notify.to in self.webhooks:
                return []
            nearest = difflib.get_close_matches(notify.to, self.webhooks, n=1)
            meant = f"; did you mean {nearest[0]}?" if nearest else f"; {there}"
            return [f"notify: config/bastion.toml has no webhook {notify.to!r}{meant}"]
        if not self.direct_urls:
            return [f"notify: URLs are not allowed here; name a webhook, {there}"]
        host = urlsplit(notify.to).hostname or ""
        if (is_near(host) or host == "localhost") and host not in self.allow_hosts:
            return [
                f"notify: {host} is an address of the bastion's machine or a private network; an"
                " admin may allow it under [notifications] allow_hosts"
            ]
        return []


def is_near(host: str) -> bool:
    """Whether `host` is an address outside the public internet; False for a name."""
    try:
        address: _Address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return any(
        not each.is_global or each.is_multicast or any(each in network for network in _NEAR)
        for each in (address, *_inner(address))
    )


def _inner(address: _Address) -> list[_Address]:
    """Return the IPv4 addresses that an IPv6 address embeds."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


class WebhookTable(BaseModel):
    """One `[webhooks.NAME]` table, as written."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str = ""
    url_file: str = ""
    kind: Literal["json", "slack"] = "json"


class NotificationsTable(BaseModel):
    """The `[notifications]` table, as written."""

    model_config = ConfigDict(extra="forbid")

    allow_hosts: list[str] = Field(default_factory=list)
    direct_urls: bool = True


class WebhookTables(BaseModel):
    """All tables about webhooks."""

    webhooks: dict[str, WebhookTable] = Field(default_factory=dict)
    notifications: NotificationsTable = Field(default_factory=NotificationsTable)

    @field_validator("webhooks", mode="before")
    @classmethod
    def _tables(cls, written: object) -> object:
        """Raise problems before pydantic can show a URL in its own messages."""
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
        Return the notifications that the tables configure.

        Raises:
            SpecError: A webhook has no URL or cannot be used; every problem is listed.
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
    """Return the notifications of a configuration in force, which the bastion has checked."""
    return WebhookTables.model_validate(tomllib.loads(config_text)).notifications_made()
