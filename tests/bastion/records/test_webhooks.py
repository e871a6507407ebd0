"""Webhooks in `config/bastion.toml`: errors are reported without any URL."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.records.settings.webhooks import Webhook, is_near
from bastion.service.config.pool_config import parse_config

SECRET = "https://hooks.slack.com/services/verysecret"


def test_tables_as_they_are_written() -> None:
    """A table has a URL or the file that contains it, a kind, and what users may do."""
    made = parse_config(
        f"""
        [webhooks.team]
        url = "{SECRET}"
        kind = "slack"
        [webhooks.ops]
        url_file = "/etc/bastion/ops"
        [notifications]
        allow_hosts = ["a.internal"]
        direct_urls = false
        """
    ).notifications
    assert made.webhooks == {
        "team": Webhook(url=SECRET, kind="slack", may_be_near=True),
        "ops": Webhook(url_file="/etc/bastion/ops", may_be_near=True),
    }
    assert (made.allow_hosts, made.direct_urls) == (("a.internal",), False)
    assert made.webhook("https://example.com", "") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f'webhooks.team = "{SECRET}"', "team is not a table; write [webhooks.team] with url"),
        (f'webhooks = ["{SECRET}"]', "not a table; write [webhooks.NAME] with url and kind"),
        (f'[webhooks.team]\nurl = ["{SECRET}"]', "team: url, url_file and kind are text"),
        (f'[webhooks.team]\nurl = "{SECRET} "', "webhooks.team.url: not a usable URL"),
        ('[webhooks.team]\nurl = "ftp://verysecret"', "webhooks.team.url: not a usable URL"),
        ('[webhooks.team]\nurl = "https://a:verysecret@h"', "carries a user or a password"),
        ('[webhooks.team]\nurl = "https://h:99999/verysecret"', "99999 is not a port"),
        ("[webhooks.team]", "webhooks.team.url: give either url or url_file"),
        (
            f'[webhooks.team]\nurl = "{SECRET}"\nurl_file = "/x"',
            "webhooks.team.url: give either url or url_file",
        ),
        ('[webhooks.team]\nurl_file = "x"', "url_file: 'x' is not a whole path"),
        (f'[webhooks."a b"]\nurl = "{SECRET}"', "webhooks.a b.name: 'a b' is not a name"),
        (f'[webhooks.team]\nurl = "{SECRET}"\nkind = "teams"', "kind: input should be 'json' or"),
        (f'[webhooks.team]\nurl = "{SECRET}"\nkid = "x"', "webhooks.team.kid: unknown field"),
        ("[notifications]\nallow_hosts = 3", "notifications.allow_hosts: input should be a valid"),
    ],
)
def test_what_is_wrong_is_told_without_the_url(text: str, problem: str) -> None:
    """Problems are shown in the status and the log, which must not contain secrets."""
    with pytest.raises(SpecError) as caught:
        parse_config(text)
    told = "; ".join(caught.value.problems)
    assert problem in told
    assert told.startswith("config/bastion.toml: ")
    assert "verysecret" not in told


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "64:ff9b:1::a9fe:a9fe",
        "fec0::1",
        "::169.254.169.254",
        "::a01:203",
        "192.0.0.192",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
    ],
)
def test_addresses_of_our_own_networks_are_near(address: str) -> None:
    """This machine, its link, private networks, and notations that hide one of them."""
    assert is_near(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "a.b"])
def test_addresses_of_the_world_are_not(address: str) -> None:
    """Public addresses are allowed; a name is no address."""
    assert not is_near(address)
