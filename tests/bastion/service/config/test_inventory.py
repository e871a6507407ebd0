"""Inventories: hosts with their labels in a file, and every error with its line."""

from __future__ import annotations

import re

import pytest

from bastion.clock import VirtualClock
from bastion.errors import SpecError
from bastion.records.keys import layout
from bastion.service.config.admin_files import AdminFiles, read_config
from bastion.service.config.inventory import parse_inventory, whole_config
from bastion.service.config.pool_config import Config, parse_config
from bastion.store.memory import MemoryStore
from tests.rigs.leader import QUOTA

POOL = '[pools.{name}]\nprovider = "ssh"\nhosts_file = "rack.hosts"\nresources = {{ h100 = 8 }}\n'
RACK = """\
# host       labels
gpu1         cluster=primary shard=rl   # the first
root@gpu2    shard=rl cluster=primary

gpu3         cluster=primary shard=eval
"""
KEY = "config/rack.hosts"


def pool(name: str, lines: str = "") -> str:
    """Return a pool of the inventory."""
    return POOL.format(name=name) + lines + "\n"


def made(text: str, inventory: str = RACK) -> Config:
    """Return a configuration with its inventory."""
    return parse_config(whole_config(text, {"rack.hosts": inventory}.__getitem__))


def refused(text: str, inventory: str = RACK) -> tuple[str, ...]:
    """Return why it is not in force."""
    with pytest.raises(SpecError) as caught:
        made(text, inventory)
    return tuple(re.sub(r"toml: line \d+: ", "toml: ", each) for each in caught.value.problems)


def test_pools_take_the_hosts_that_carry_their_labels() -> None:
    """Two pools of one file share its hosts, and have all labels of them."""
    both = pool("rl", 'shard = "rl"') + pool(
        "eval", 'labels = { shard = "eval" }\ncontainers = true'
    )
    pools = made(both).pools
    assert pools["rl"].zones == ("gpu1", "root@gpu2")
    assert (pools["rl"].max_machines, pools["rl"].machines_per_zone) == (2, 1)
    assert pools["rl"].labels == {"cluster": "primary", "shard": "rl"}
    assert pools["eval"].zones == ("gpu3",)
    assert pools["eval"].labels == {
        "cluster": "primary",
        "shard": "eval",
        "containers": "true",
    }


def test_every_mistake_of_an_inventory_is_told_with_its_line() -> None:
    """Each line is checked, however many errors precede it, and no pool of the file exists."""
    bad = "\n".join(
        (
            "gpu1 shard=rl",
            "[rack]",
            "-oProxyCommand=x",
            "gpu2 shard shard=a shard=b",
            "root@GPU1",
            "gpu4 ansible_host=10.0.0.1 containers=true",
        )
    )
    assert refused(pool("rl") + pool("more"), bad) == (
        f"{KEY} line 2: '[rack]': there are no sections; give each host its labels",
        f"{KEY} line 3: '-oProxyCommand=x' is not a name that OpenSSH takes, such as gpu1 or"
        " root@gpu1",
        f"{KEY} line 4: 'shard' is not a label; write LABEL=TEXT, such as shard=rl",
        f"{KEY} line 4: 'shard' is given twice",
        f"{KEY} line 5: 'root@GPU1' is on line 1 already",
        f"{KEY} line 6: 'ansible_host': users, ports and keys are those of ~/.ssh/config",
        f"{KEY} line 6: 'containers': is a key of the pool, not a label of a host",
    )
    assert refused(pool("rl"), "# none\n") == (
        f"{KEY}: names no host; write one per line, followed by its labels",
    )
    assert refused(pool("rl"), "- x\n" * 30)[-1].endswith(": 69 more mistakes")


def test_lines_are_counted_as_editors_do() -> None:
    """Windows line endings, byte order marks and odd spaces do not shift line numbers."""
    found = parse_inventory("rack.hosts", "\ufeffgpu1\r\n\x0b\r\ngpu3\tshard=rl\r\n")
    assert [(each.number, each.host, dict(each.labels)) for each in found] == [
        (1, "gpu1", {}),
        (3, "gpu3", {"shard": "rl"}),
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            pool("all"),
            "hosts_file: hosts of a pool have the same labels, but in config/rack.hosts 'gpu1' has"
            " cluster=primary shard=rl (line 2) and 'gpu3' has cluster=primary shard=eval (line 5);"
            " make a pool for each set of labels",
        ),
        (
            pool("all", 'shard = "dev"'),
            "hosts_file: no host of config/rack.hosts has shard=dev",
        ),
        (pool("all", 'hosts = ["a"]'), "hosts_file: give either hosts or hosts_file"),
        (
            pool("all").replace("rack.hosts", "../rack"),
            "hosts_file: '../rack' is not the name of a file beside this one that ends in .hosts,"
            " such as rack.hosts",
        ),
        (
            pool("all").replace('"ssh"', '"local"'),
            "hosts_file: only a pool of provider ssh has hosts",
        ),
    ],
)
def test_what_is_wrong_with_a_pool_of_an_inventory_is_told(text: str, wrong: str) -> None:
    """Labels that differ or match no host, two sources of hosts, and names of other places."""
    assert refused(text) == (f"config/bastion.toml: pools.all.{wrong}",)


def test_hosts_of_two_files_are_of_one_pool() -> None:
    """A host named by an inventory and another pool is refused; one without a pool is reported."""
    listed = pool("rl", 'shard = "rl"')
    own = '[pools.own]\nprovider = "ssh"\nhosts = ["gpu2"]\nresources = { h100 = 8 }\n'
    assert refused(listed + own) == (
        "config/bastion.toml: pools.own.hosts: 'gpu2' is in pool rl too, as 'root@gpu2'",
    )
    assert made(listed).spare_hosts == (f"{KEY} line 5: 'gpu3' is in no pool",)


def test_the_table_of_inventories_is_the_bastions() -> None:
    """A configuration that contains the table is refused, with what to do."""
    assert refused(pool("rl") + '[host_files]\n"rack.hosts" = "gpu9"\n') == (
        "config/bastion.toml: host_files: is written by the bastion; leave it out",
    )


def test_an_inventory_is_read_again_when_it_changes() -> None:
    """It is detected, checked, put in force and replaced without a change of the configuration."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.QUOTA, QUOTA.encode())
    store.create(layout.CONFIG, pool("rl", 'shard = "rl"').encode())
    files = AdminFiles(store, store, VirtualClock(), every_s=0.0)
    files.refresh()
    files.refresh()
    assert list(files.problems) == [f"there is none at {KEY}"]
    first = store.create(KEY, b"gpu1 shard=rl\n")
    assert files.refresh()
    assert list(files.problems) == []
    assert list(files.config.pools["rl"].zones) == ["gpu1"]
    bad = store.swap(KEY, b"gpu1 rl\n", if_version=first.version)
    files.refresh()
    assert files.config_problem.startswith(f"{KEY} line 1: 'rl' is not a label")
    assert list(files.config.pools["rl"].zones) == ["gpu1"]
    store.swap(KEY, b"gpu1 shard=rl\ngpu2 shard=rl\n", if_version=bad.version)
    assert files.refresh()
    assert list(files.config.pools["rl"].zones) == ["gpu1", "gpu2"]
    assert not files.refresh()
    assert read_config(store).pools == files.config.pools
    store.delete(KEY)
    files.refresh()
    assert files.config_problem == f"there is none at {KEY}"
    store.create(KEY, b"gpu1 shard=rl\ngpu2 shard=rl\n")
    files.refresh()
    assert list(files.problems) == [], "what comes back is judged again"


def test_a_configuration_in_force_holds_its_inventories() -> None:
    """A bastion that starts while the file is away continues with the hosts in force."""
    whole = whole_config(pool("rl", 'shard = "rl"'), lambda _: 'gpu1 shard=rl # "\\\x7f\x00é\n')
    assert parse_config(whole).pools["rl"].zones == ("gpu1",)
