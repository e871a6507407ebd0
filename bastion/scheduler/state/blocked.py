"""
`Blocked`: the gangs that cannot start at the end of a cycle, by project.

If nothing was done for a project, all of its lines are blocked as the cycle found them, and what an
earlier cycle collected about them is still valid.

This module must not know why anything is blocked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from bastion.scheduler.queue.forms import Forms
from bastion.scheduler.queue.order import Line, place_of
from bastion.scheduler.state.draft import Draft
from quota.amounts import Amounts


class Blocked:
    """The blocked gangs of one cycle."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        found: dict[str, Forms] = {}
        touched = moved(draft)
        last, draft.memory.forms = draft.memory.forms, found
        for project, lines in draft.lines.items():
            if project not in touched:
                known = last.get(project)
                is_known = known is not None and known.lines is lines
                found[project] = known if known is not None and is_known else Forms(lines)
        self.by_project = {**found, **_forms_of(draft.blocked, touched)}
        """Unordered."""

    def waited_for(self) -> Mapping[str, Amounts]:
        """What gangs wait for that could each start within the share of their project."""
        draft = self.draft
        return {
            name: forms.waited_for(draft.shares.project(name).nominal, draft.asks)
            for name, forms in self.by_project.items()
        }

    def first_after(self, now: float, wait_s: float) -> float:
        """When one more head of a line, or any gang of a project, will have waited that long."""
        found = [inf]
        for project, forms in self.by_project.items():
            oldest = self.draft.backlogs[project].oldest + wait_s
            found.append(oldest if oldest > now else forms.first_after(now, wait_s))
        return min(found)


def moved(draft: Draft) -> Collection[str]:
    """The projects for which anything was, or was to be, done."""
    jobs = draft.snapshot.jobs
    named = [each.gang[0] for each in draft.snapshot.promises]
    named += [each.gang[0] for each in draft.snapshot.planned]
    found = {jobs[name].project for name in named if name in jobs}
    found |= {each.project for each in (*draft.closed, *draft.reservations.drained())}
    found |= {line.project for line in draft.taken_back}
    return found | draft.search.apart | draft.admitted_by.keys()


def _forms_of(lines: list[Line], projects: Collection[str]) -> Mapping[str, Forms]:
    found: dict[str, list[Line]] = {}
    for line in lines if projects else ():
        if line.project in projects:
            found.setdefault(line.project, []).append(line)
    # In the project's order, so that a form gets the reason of its first gang.
    return {
        name: Forms(sorted(lines, key=lambda line: place_of(line.first)))
        for name, lines in found.items()
    }
