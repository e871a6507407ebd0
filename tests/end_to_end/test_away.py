"""A bucket's folder is away for seconds: nothing is written in its place, nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bastion import Job, Launch, Process, Resources
from tests.end_to_end.programs import Programs, until

pytestmark = pytest.mark.end_to_end

LINES = "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 0.3; done"


@contextmanager
def away(programs: Programs) -> Iterator[Path]:
    """Move the bucket's folder away, and back at the end, if the bucket is a folder."""
    if not programs.place.url.startswith("file://"):
        pytest.skip("only a folder can be moved")
    root = Path(programs.place.url.removeprefix("file://"))
    gone = root.with_name("away")
    root.rename(gone)
    try:
        yield root
    finally:
        assert not root.exists(), "something was written where the bucket had been"
        gone.rename(root)


def test_a_job_that_ends_while_the_bucket_is_away_is_recorded_when_it_is_back(
    programs: Programs,
) -> None:
    """The end of the job and every line of its log are in the bucket afterwards."""
    process = Process(LINES, shell=True, resources=Resources(h100=1))
    handle = programs.client.launch(Launch(name="steps", jobs=[Job(processes=[process])]))
    (job,) = handle.jobs
    until(lambda: "line 2" in programs.printed(job), "it prints")
    with away(programs):
        time.sleep(4.0)  # real programs, and a job that ends in the meantime
    ended = programs.wait(job)
    assert ended.state == "succeeded"
    assert programs.printed(job) == "".join(f"line {n}\n" for n in range(1, 9))
    assert programs.served.count("the first of this bucket") <= 1
    assert "intact" in programs.run("fsck").stderr
    assert programs.follow("--", "echo", "next")[1] == "next\n"
