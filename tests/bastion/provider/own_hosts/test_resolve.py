"""Several names of one host are one host, as OpenSSH resolves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.machine import Pool
from bastion.provider.own_hosts.resolve import hosts_named_twice
from quota.amounts import NOTHING

CONFIG = """
Host gpu1
    HostName 10.0.0.1
Host first root-of-gpu1
    HostName 10.0.0.1
    User root
Host other-port
    HostName 10.0.0.1
    Port 2222
Host behind
    HostName 10.0.0.1
    ProxyJump jump
Host behind-too
    HostName 10.0.0.1
    ProxyJump jump
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration of OpenSSH in which several names are one host."""
    path = tmp_path / "ssh_config"
    path.write_text(CONFIG)
    return path


def pools(config: Path, **named: tuple[str, ...]) -> dict[str, Pool]:
    """Return pools of these hosts."""
    return {
        name: Pool(
            name=name,
            provider="ssh",
            resources=NOTHING,
            max_machines=9,
            zones=zones,
            options={"ssh_config": str(config)},
        )
        for name, zones in named.items()
    }


def test_names_of_one_address_are_one_host(config: Path) -> None:
    """Two pools, or one, that reach a host by two names have both names in the error."""
    assert hosts_named_twice(pools(config, a=("gpu1", "gpu2"), b=("first",))) == (
        "config/bastion.toml: pools.b.hosts: 'first' is 'gpu1' of pool a: both are 10.0.0.1 port"
        " 22; a host can be in only one pool, once",
    )
    (told,) = hosts_named_twice(pools(config, a=("gpu1", "ada@10.0.0.1")))
    assert told.startswith(
        "config/bastion.toml: pools.a.hosts: 'ada@10.0.0.1' is 'gpu1' of this pool"
    )


def test_a_port_and_a_jump_make_another_host(config: Path) -> None:
    """An address behind a jump host, or at another port, is a separate host."""
    assert hosts_named_twice(pools(config, a=("gpu1", "other-port", "behind"))) == ()
    (told,) = hosts_named_twice(pools(config, a=("behind",), b=("behind-too",)))
    assert "'behind-too' is 'behind' of pool a" in told


def test_what_is_not_resolved_is_not_judged(config: Path, tmp_path: Path) -> None:
    """A configuration that OpenSSH refuses, or a missing OpenSSH, hides no other problem."""
    config.write_text("Nonsense yes\n")
    assert hosts_named_twice(pools(config, a=("x", "x"))) == ()
    assert hosts_named_twice(pools(config, a=("x", "x")), ssh=(str(tmp_path / "none"),)) == ()


def test_names_that_do_not_resolve_cost_a_turn_no_more_than_its_limit(
    config: Path, tmp_path: Path
) -> None:
    """After the limit, remaining names are not resolved: a lease would expire meanwhile."""
    begun, ssh = tmp_path / "begun", tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho >> {begun}\nexec sleep 60\n")
    ssh.chmod(0o755)
    named = pools(config, a=tuple(f"gpu{n}" for n in range(100)))
    assert hosts_named_twice(named, ssh=(str(ssh),), within_s=0.5) == ()
    assert len(begun.read_text().splitlines() if begun.exists() else ()) < 50
