"""
How long earlier runs took: the few numbers of each kind of job that root keeps.

Jobs of one kind are those of one project and one user whose names are the same but for numbers:
`sweep-7-lr0.1` and `sweep-12-lr0.03` are. Of each kind the latest lengths are kept, in whole
seconds, so that equal histories give equal bytes.

Rules: no place in the order, share or promise follows from this. It tells when a job will
likely end, and only estimates ask.

Source: what a user ran last under a name tells more than what they ask for (Tsafrir, Etsion and
Feitelson 2007, on backfilling with predictions); whole distributions of it, cut at what a job has
run already: 3Sigma (Park et al., EuroSys 2018).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bastion.job import JobRecord, OutcomeKind
from bastion.value import value

MAX_LENGTHS = 16
"""Of one kind: enough for quartiles, and few enough to follow a change of the code."""
MAX_KINDS_OF_USER = 24
"""Names made of letters at random must cost the history of their own user only."""
MAX_KINDS = 600
"""In root: about 70 kB of JSON at most, a tenth of what 3,000 jobs are."""

_NUMBER = re.compile(r"\d+")


@value
class Runs:
    """How long the latest runs of one kind took."""

    at: int
    """When the last of them ended, in whole store's seconds."""
    lengths: tuple[int, ...]
    """Whole seconds, the oldest first."""


def kind_of(job: JobRecord) -> str:
    """`<project>/<user>/<name>` with a `#` for every number of the name."""
    return f"{job.project}/{job.user}/{_NUMBER.sub('#', job.name)}"


def with_end(runs: Mapping[str, Runs], job: JobRecord, now: float) -> Mapping[str, Runs]:
    """
    `runs` with that of `job`, whose attempt has just ended; `runs` itself where it tells nothing.

    What succeeded at the first attempt counts. A later attempt may have gone on from a checkpoint
    and be shorter than the work. What failed, was cancelled, preempted or cut off by a limit says
    of the work only that it takes longer, or that it was broken.
    """
    attempt, last = job.attempt, job.last
    if attempt is None or last is None or last.kind is not OutcomeKind.SUCCEEDED:
        return runs
    if attempt.number > 1 or attempt.started_at is None:
        return runs
    kind = kind_of(job)
    known = runs[kind].lengths if kind in runs else ()
    length = max(0, round(now - attempt.started_at))
    made = {name: each for name, each in runs.items() if name != kind}
    _make_room(made, f"{job.project}/{job.user}/")
    made[kind] = Runs(at=int(now), lengths=(*known, length)[-MAX_LENGTHS:])
    return made


def _make_room(runs: dict[str, Runs], user: str) -> None:
    """Forget what ended longest ago, so that one more kind of `user` fits."""
    own = [name for name in runs if name.startswith(user)]
    if len(own) >= MAX_KINDS_OF_USER:
        del runs[_oldest(own, runs)]
    elif len(runs) >= MAX_KINDS:
        del runs[_oldest(runs, runs)]


def _oldest(names: Iterable[str], runs: Mapping[str, Runs]) -> str:
    return min(names, key=lambda name: (runs[name].at, name))
