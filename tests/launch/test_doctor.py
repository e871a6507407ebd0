"""`doctor`: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

from bastion.clock import SystemClock
from bastion.records import layout
from bastion.records.root import Root, RootWriter
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run

LOCAL = """
[pools.here]
provider = "local"
resources = { cpu = 1 }
count = 1
"""


def begin(bucket: Bucket, config: str) -> None:
    """Give `bucket` a root with a name, and a configuration."""
    root = Root(bucket="0123456789", epoch=1, seq=7, now=1.7e9, write_id="w")
    RootWriter(bucket.store, SystemClock()).commit(root, over=None)
    bucket.store.create(layout.CONFIG, config.encode())


def test_the_bastions_own_host_is_not_looked_at(run: Run, bucket: Bucket) -> None:
    """Listing a local pool acts on its machines, so the doctor says that it does not."""
    begin(bucket, LOCAL)
    ran = run("doctor")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == ("pool here: is not looked at; its machines are the bastion's own host\n")


def test_a_pool_that_does_not_answer_is_odd(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """A host that refuses the connection is told in the words of ssh, and the exit code is 1."""
    settings = tmp_path / "ssh_config"
    settings.write_text("Host gpu1\n  HostName 127.0.0.1\n  Port 1\n")
    begin(
        bucket,
        LOCAL.replace("here", "own")
        .replace('"local"', '"ssh"\nhosts = ["gpu1"]')
        .replace("count = 1", f'options = {{ ssh_config = "{settings}" }}'),
    )
    ran = run("doctor", "--json")
    assert ran.code == 1
    (odd,) = json.loads(ran.out)["odd"]
    assert (odd["pool"], odd["kind"]) == ("own", "unreachable")
    assert "gpu1" in odd["text"]
