"""
Places: how much of root a job takes, in jobs of the usual size.

Root is one object, and each commit writes all of it. So a job with thousands of characters of
hosts, labels, secrets or dependencies counts as several in the queue of its user, and also while it
runs. So does an array whose tasks are in thousands of ranges.
"""

from __future__ import annotations

from bastion.array import ArrayRecord
from bastion.job import JobRecord, Phase

PLACE_CHARACTERS = 1024
"""What fits into one place besides the record of a plain job, which is half as long."""
PLACE_RANGES = 128
"""Ranges of tasks that fit into one place: six to fourteen characters each."""
MOST_AT_ONCE = 256
"""Tasks of an array that are counted beyond its own place: root has the admitted ones."""


def places_of(job: JobRecord) -> int:
    """Return the places that `job` takes; for a task, its array counts."""
    if job.task is not None or job.phase is Phase.DONE:
        return 0
    return (job.phase is Phase.QUEUED) + _more_of(job)


def places_of_array(array: ArrayRecord) -> int:
    """Return the places that `array` takes, including those that its admitted tasks may take."""
    if array.ended_at is not None:
        return 0
    own = min(len(array.tasks), MOST_AT_ONCE) * _more_of(array.each)
    return bool(array.waiting) + own + _ranges_of(array) // PLACE_RANGES


def _ranges_of(array: ArrayRecord) -> int:
    """Return how many ranges root writes for it: thousands if every other task was cancelled."""
    sets = (array.tasks, array.waiting, array.held, *array.ended.values())
    return sum(each.ranges for each in sets)


def _more_of(job: JobRecord) -> int:
    """Return how many places it takes besides that of a plain job."""
    where = job.request.where
    texts = [*where.hostnames, *where.labels, *where.labels.values()]
    texts += [each.on for each in job.after]
    texts += [each.name + each.source for each in job.secrets]
    return sum(map(len, texts)) // PLACE_CHARACTERS
