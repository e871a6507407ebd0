"""What a host does and checks before it takes jobs: a real agent on a real sshd."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bastion.machine import Machine, Pool
from bastion.provider.build import build_digest
from bastion.provider.own_hosts.ssh import SshProvider
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, BootFailed, Fact, Health, Hello
from bastion.store.folder.local import LocalStore
from quota.amounts import Amounts
from tests.end_to_end.programs import until
from tests.servers.sshd import hosts, needs_sshd

pytestmark = needs_sshd
FAKE = Path(__file__).parents[2] / "agent" / "begin" / "fake_nvml"
NAME = "own-1-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A host, its bucket, and what creates a machine on it."""

    folder: Path
    store: LocalStore
    make: Callable[..., SshProvider]

    def facts(self) -> list[Fact]:
        """Return what the machine has reported."""
        entries = sorted(self.store.list(layout.BELLS), key=lambda each: each.modified_at)
        keys = [entry.key for entry in entries]
        return [
            fact
            for key in keys
            for fact in decode(Bell, self.store.read(key).data, key=key).facts  # type: ignore[union-attr]
        ]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    """Provide a host with two GPUs of a fake driver library."""
    python = tmp_path / "python"
    file = tmp_path / "devices.json"
    python.write_text(
        f"#!/bin/sh\nPYTHONPATH=$PYTHONPATH:{shlex.quote(str(FAKE))}"
        f' BASTION_DEVICE_FILE={shlex.quote(str(file))} exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    made: list[SshProvider] = []
    with hosts(tmp_path, "one") as config:

        def make(**fields: Any) -> SshProvider:
            pool = Pool(
                name="own",
                provider="ssh",
                resources=Amounts({"h100": 2}),
                max_machines=1,
                zones=("one",),
                machines_per_zone=1,
                permit_s=600.0,
                options={"ssh_config": str(config), "python": str(python)},
                **fields,
            )
            made.append(
                SshProvider(f"file://{tmp_path}/root", pool, bucket="b", build=build_digest())
            )
            made[-1].create([Machine(name=NAME, pool="own", zone="one")], pool)
            return made[-1]

        yield Own(folder=tmp_path, store=LocalStore(tmp_path / "root", makes_root=True), make=make)
        for provider in made[-1:]:
            provider.delete(NAME)
            until(lambda: provider.list()[0].state == "gone", "it is gone")  # noqa: B023


def test_a_host_is_set_up_checked_and_left_to_its_foreign_processes(own: Own) -> None:
    """Commands run first, devices are compared, and the greeting reports a held one."""
    held = [{"index": 0}, {"index": 1, "processes": [{"pid": 77, "name": "py", "user": "eve"}]}]
    (own.folder / "devices.json").write_text(json.dumps(held))
    own.make(
        setup=(f"echo set up >> {own.folder}/done",),
        watches_devices=True,
        burn=f"echo burnt >> {own.folder}/done",
        respects_foreign=True,
    )
    until(lambda: any(isinstance(fact, Health) for fact in own.facts()), "it greets")
    assert (own.folder / "done").read_text() == "set up\nburnt\n"
    hello = next(fact for fact in own.facts() if isinstance(fact, Hello))
    health = next(fact for fact in own.facts() if isinstance(fact, Health))
    assert [step.name for step in hello.steps] == ["set up", "checked"]
    assert (health.bad_devices, health.unwell) == ({"h100": (1,)}, "")
    assert "process 77 (py) of user eve, which is not of this bastion, holds h100 1" in health.text


def test_a_host_that_cannot_be_set_up_says_why_and_is_not_tried_for_ever(own: Own) -> None:
    """The output of the failed command is reported once; new commands are a new attempt."""
    count = own.folder / "count"
    failing = (f"echo x >> {count}; echo no such package; exit 3",)
    provider = own.make(setup=failing)
    until(lambda: any(isinstance(fact, BootFailed) for fact in own.facts()), "it fails")
    until(lambda: provider.list()[0].state == "stopped", "its agent ended")
    own.make(setup=failing)
    (failed,) = (fact for fact in own.facts() if isinstance(fact, BootFailed))
    assert "command 1 of 1" in failed.text and "no such package" in failed.text
    own.make(setup=(f"echo y >> {count}",))
    until(lambda: any(isinstance(fact, Hello) for fact in own.facts()), "it greets")
    assert count.read_text() == "x\ny\n"
