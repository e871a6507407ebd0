"""The route to a host: jump hosts, and keys that differ from the known ones."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.errors import ProviderUnavailableError
from bastion.machine import Pool
from bastion.provider.build import build_digest
from bastion.provider.own_hosts.host_key import key_problem
from bastion.provider.own_hosts.ssh import SshProvider
from quota.amounts import Amounts
from tests.servers.sshd import OwnHosts, needs_sshd

POOL = Pool(
    name="own",
    provider="ssh",
    resources=Amounts({"cpu": 1}),
    max_machines=1,
    zones=("gpu1",),
    machines_per_zone=1,
    permit_s=600.0,
)


def own(hosts: OwnHosts) -> SshProvider:
    """Return the pool of these hosts."""
    options = {"ssh_config": str(hosts.path), "python": sys.executable}
    pool = replace(POOL, options=options)
    return SshProvider("file:///nonexistent", pool, bucket="b", build=build_digest())


@needs_sshd
def test_a_host_is_reached_through_a_jump_host(tmp_path: Path) -> None:
    """The route in the user's configuration is the only one."""
    hosts = OwnHosts(tmp_path)
    with ExitStack() as jump, hosts.add("gpu1", over="ProxyJump door"):
        jump.enter_context(hosts.add("door"))
        assert own(hosts).list() == ()
        assert (tmp_path / "gpu1/.bastion/builds" / build_digest() / "whole").exists()
        assert not (tmp_path / "door/.bastion").exists()
        jump.close()
        with pytest.raises(ProviderUnavailableError, match="host gpu1: "):
            own(hosts).list()


@needs_sshd
@pytest.mark.parametrize("lax", ["", "StrictHostKeyChecking no"])
def test_a_host_with_another_key_is_refused(tmp_path: Path, lax: str) -> None:
    """Nothing is sent there, whatever the user's configuration allows, and the error explains."""
    hosts = OwnHosts(tmp_path)
    with hosts.add("gpu1", over=lax) as server:
        name = f"[127.0.0.1]:{server.port}"
        hosts.known.write_text(server.known_as("stranger"))
        with pytest.raises(ProviderUnavailableError) as changed:
            own(hosts).list()
        said = changed.value.message
        assert said.startswith(f"host gpu1: the key of {name} has changed to ED25519 SHA256:")
        assert said.endswith(
            "so nothing was sent; if the host was reinstalled, compare the key, remove line 1 of"
            f" {hosts.known}, then run once manually: ssh -F {hosts.path} gpu1 true"
        )
        hosts.known.write_text("")
        with pytest.raises(ProviderUnavailableError) as unknown:
            own(hosts).list()
        assert unknown.value.message == (
            f"host gpu1: the key of {name} is not in known_hosts, so nothing was sent; compare the"
            f" key, then run once manually: ssh -F {hosts.path} gpu1 true"
        )
        assert not (tmp_path / "gpu1/.bastion").exists()


def test_an_older_openssh_is_understood_as_far_as_it_goes() -> None:
    """If its output lacks names, keys and files, the message is shorter."""
    failed = "Host key verification failed."
    assert key_problem("ssh gpu1", "Permission denied (publickey).") == ""
    assert key_problem("ssh gpu1", failed).startswith("its key is not in known_hosts, so nothing")
    changed = f"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n{failed}"
    assert key_problem("ssh gpu1", changed) == (
        "its key has changed, so nothing was sent; if the host was reinstalled, compare the key,"
        " remove the old key, then run once manually: ssh gpu1 true"
    )
