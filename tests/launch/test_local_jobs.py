"""`bastion down` reads root, not a view, to find jobs on the machines that it would end."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from bastion.clock import VirtualClock
from bastion.job import JobRecord
from bastion.records.keys import layout
from bastion.records.root import Root, RootWriter
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.rigs import job_records
from tests.rigs.scripted_bastion import lead, publish, put

RUNNING, QUEUED = job_records.running(), job_records.queued()


@pytest.mark.parametrize(
    ("job", "machine", "told"),
    [
        (RUNNING, "m0-0", "error: 1 job would be stopped, and starts again after bastion up"),
        (RUNNING, "m0-7", ""),
        (QUEUED, "m0-0", ""),
    ],
)
def test_a_job_that_no_view_tells_of_yet_is_counted(
    job: JobRecord, machine: str, told: str, run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """It started since the last view; waiting jobs and those elsewhere are not stopped."""
    lead(bucket.store, now=time.time(), leader=None, host=socket.gethostname(), counts={})
    publish(bucket.store, "queue", {"jobs": []})
    root = Root(epoch=1, seq=1, now=1.5, write_id="w", jobs={job.id: job})
    put(bucket.store, layout.ROOT, RootWriter(bucket.store, VirtualClock()).encoded(root))
    folder = tmp_path / "machines" / "0123456789" / "m0" / machine
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "ended").touch()  # so nothing has to be started to end it
    (folder / "machine").write_text("m0")
    (folder / "root").write_text(bucket.url)
    ran = run("down", f"--machines_dir={tmp_path / 'machines'}")
    assert ran.code == (2 if told else 0), ran.err
    assert ran.err.startswith(told)
    assert (folder / "gone").exists() is not bool(told)
    sure = run("down", "--yes", f"--machines_dir={tmp_path / 'machines'}")
    assert sure.code == 0
    assert ("1 stopped job starts again after" in sure.err) is bool(told)
