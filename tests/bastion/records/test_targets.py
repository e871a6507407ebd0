"""Jobs that wait for others, once the others' outcomes are known."""

from __future__ import annotations

import time
from dataclasses import replace

from bastion.job import Dependency, Outcome, OutcomeKind, Phase
from bastion.lifecycle.dependencies import Ended
from bastion.records.requests.targets import settled
from tests.rigs.job_records import T0, queued

CHAIN = 1_000


def test_a_long_chain_is_settled_at_once() -> None:
    """A thousand jobs in a chain end because of the first in one pass."""
    waits = [(f"j-{n}", Dependency(on=f"j-{n - 1}")) for n in range(1, CHAIN)]
    jobs = {name: replace(queued(after=(on,)), id=name, launch=name) for name, on in waits}
    bad = Outcome(kind=OutcomeKind.FAILED, text="exited with code 1", code=1)
    began = time.process_time()
    after, _ = settled(jobs, {}, [Ended(job="j-0", launch="j-0", outcome=bad)], T0)
    assert time.process_time() - began < 5.0, "of processor time; half a second is usual"
    assert {job.phase for job in after.values()} == {Phase.DONE}
    last = after[f"j-{CHAIN - 1}"].outcome
    assert last is not None
    assert last.text == f"its dependency j-{CHAIN - 2} was cancelled"
