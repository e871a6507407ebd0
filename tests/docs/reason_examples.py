"""
One example of every reason, as the pages in docs/reasons quote it.

`python -m tests.docs.reason_examples` writes the sentences into the pages again, after the words
of a reason have changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from bastion.scheduler.reasons import held_back, holding, reason
from bastion.scheduler.reasons.never_fits import NeverFits
from bastion.scheduler.reasons.outage import Outage
from bastion.scheduler.reasons.reason import Reason
from quota.amounts import Amounts
from tests.docs.pages import REPOSITORY

NOW = 1_000_000.0
FOLDER = REPOSITORY / "docs" / "reasons"
_SENTENCE = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)


def _h100(number: int) -> Amounts:
    return Amounts({"h100": number})


_WINDOW = "gpu from 2026-03-02 08:00 to 2026-03-02 10:00 UTC: new drivers"

EXAMPLES: tuple[Reason, ...] = (
    NeverFits(asked=_h100(16), most=_h100(8), of="replica", pools=(("gpu", 4),)),
    reason.NotMember(user="alice", project="vision"),
    reason.UnknownProject(project="vison"),
    reason.QuotaFileInvalid(
        problem="line 7: project_resources.vision.h100: 1.2 is above 1",
        otherwise=reason.NotMember(user="alice", project="vision"),
    ),
    reason.OverCeiling(project="vision", asked=_h100(8), held=_h100(12), ceiling=_h100(16)),
    reason.OverUserLimit(
        project="vision", user="alice", limit="h100", asked=8, held=12, ahead=0, most=16
    ),
    reason.BudgetSpent(of="vision", hours=_h100(5000), period="month", until=NOW + 3 * 86_400),
    reason.BeyondShare(
        project="vision",
        asked=_h100(32),
        share=_h100(16),
        held=_h100(0),
        others=_h100(40),
        total=_h100(64),
    ),
    reason.ShareInUse(project="vision", asked=_h100(8), held=_h100(12), share=_h100(16)),
    reason.Behind(jobs=2, units=_h100(24), first=("eval-x7k2m4n8p1", "train-9d3f5h7j2k")),
    reason.WaitingForCapacity(
        asked=_h100(16),
        short=_h100(8),
        holders=(("speech", _h100(32)), ("vision", _h100(16))),
        replicas=2,
        replica=_h100(8),
    ),
    reason.Promised(deadline=NOW + 120, stopping=("eval-x7k2m4n8p1",)),
    reason.Planned(at=NOW + 5400, waiting_for=("train-9d3f5h7j2k",)),
    reason.PlannedForOther(other="train-9d3f5h7j2k", at=NOW + 1800, units=_h100(16)),
    reason.Fragmented(
        asked=_h100(16), free=_h100(20), fitting=1, replicas=2, to_end=("eval-x7k2m4n8p1",)
    ),
    reason.Maintenance(window=_WINDOW, at=NOW + 3600, until=NOW + 10_800, over_by=NOW + 3600 - 930),
    reason.CapacityLost(
        asked=_h100(16),
        lost=_h100(8),
        of=_h100(32),
        machines=("gpu-12-0",),
        outages=(Outage(machine="gpu-12-0", cause="cordoned", why="xid 79"),),
    ),
    reason.NoMachineMatches(filter="shard=rl", machines=8),
    reason.ProviderStockout(
        pool="gpu", until=NOW + 45, said="ZONE_RESOURCE_POOL_EXHAUSTED in us-central1-a"
    ),
    reason.OverLoad(load=1.31, limit=1.2, alone=0.25),
    held_back.Backoff(until=NOW + 60, after="lost"),
    held_back.AtOnce(limit=10),
    held_back.Dependency(on=("learner-4h2j6k8m1n",), state="queued"),
    held_back.WaitsFor(on=(("prepare-2b4d6f8h1j", "ok", "running"),)),
    held_back.Held(by="alice"),
    held_back.Cancelled(by="alice"),
    held_back.NotYetConsidered(),
    holding.WithinShare(project="vision", held=_h100(12), nominal=_h100(16)),
    holding.Borrowing(project="vision", held=_h100(24), nominal=_h100(16), safe_until=NOW + 300),
    holding.Ending(cause="preempted", deadline=NOW + 30),
    holding.ToBePreempted(by="train-9d3f5h7j2k", at=NOW + 600),
    holding.Reclaimed(by="train-9d3f5h7j2k", project="speech", units=_h100(8)),
    holding.Outranked(by="train-9d3f5h7j2k", priority=3, theirs=1),
    holding.Rotated(by="train-9d3f5h7j2k", borrowed_s=25_200, slice_s=21_600),
    holding.Resized(replicas=4, fits=8),
    holding.Shrunk(by="train-9d3f5h7j2k", replicas=8, least=2, user="alice"),
    holding.Vacated(window=_WINDOW, at=NOW + 30),
    holding.Yielded(by="train-9d3f5h7j2k", order="las"),
)


def page(example: Reason) -> Path:
    """Return the page of a reason."""
    return FOLDER / f"{example.kind}.md"


def with_sentence(text: str, example: Reason) -> str:
    """Return the text of a page that quotes `example` as `bastion why` prints it."""
    sentence = f"```text\n{example.words(NOW)}\n```"
    return _SENTENCE.sub(lambda _: sentence, text, count=1)


if __name__ == "__main__":
    for each in EXAMPLES:
        page(each).write_text(with_sentence(page(each).read_text(), each))
