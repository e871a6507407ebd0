"""
How long earlier runs took: a few numbers per kind of job, kept in root.

Jobs of one project and one user whose names differ only in numbers are of one kind, such as
`sweep-7-lr0.1` and `sweep-12-lr0.03`. The latest run times of each kind are kept in whole seconds,
so that equal histories give equal bytes.

No position in the order, share or promise depends on this. It predicts when a job will probably
end, and only estimates use it.

Source: a user's latest run times under a name predict better than the limits they ask for (Tsafrir,
Etsion and Feitelson 2007, on backfilling with predictions). Whole distributions, conditioned on how
long the job has already run: 3Sigma (Park et al., EuroSys 2018).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bastion.job import JobRecord, OutcomeKind
from bastion.value import value

MAX_LENGTHS = 16
"""Per kind: enough for quartiles, and few enough to follow changes of the code."""
MAX_KINDS_OF_USER = 24
"""Users with random names must only lose their own history."""
MAX_KINDS = 600
"""In root: at most about 70 kB of JSON, a tenth of 3,000 jobs."""

_NUMBER = re.compile(r"\d+")


@value
class Runs:
    """How long the latest runs of one kind took."""

    at: int
    """When the last of them ended, in whole seconds of the store's clock."""
    lengths: tuple[int, ...]
    """In whole seconds, oldest first."""


def kind_of(job: JobRecord) -> str:
    """Return `<project>/<user>/<name>`, with `#` for every number in the name."""
    return f"{job.project}/{job.user}/{_NUMBER.sub('#', job.name)}"


def with_end(runs: Mapping[str, Runs], job: JobRecord, now: float) -> Mapping[str, Runs]:
    """
    Return `runs` with the attempt of `job` that has just ended, or `runs` itself if it is no
    evidence.

    Only a success at the first attempt counts. A later attempt may have resumed from a checkpoint
    and be shorter than the work. A job that failed, was cancelled, was preempted or hit its limit
    only shows that the work takes longer, or was broken.
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
    """Drop the kind that ended longest ago, so that one more kind of `user` fits."""
    own = [name for name in runs if name.startswith(user)]
    if len(own) >= MAX_KINDS_OF_USER:
        del runs[_oldest(own, runs)]
    elif len(runs) >= MAX_KINDS:
        del runs[_oldest(runs, runs)]


def _oldest(names: Iterable[str], runs: Mapping[str, Runs]) -> str:
    return min(names, key=lambda name: (runs[name].at, name))
